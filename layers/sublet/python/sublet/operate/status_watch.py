"""Looks at how each shard of an application stands: by the lease rows, by what ticks remember, and by the shards
themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sublet.decisions.manager.liveness import Sighting, observe, with_own
from sublet.decisions.manager.unread_shards import ProbeSelection, may_be_read
from sublet.decisions.status.fleet_status import FleetFindings, FleetStatus, fleet_status
from sublet.decisions.status.lease_history import History, histories_after, last_word, waiting_times
from sublet.decisions.streams.stream_status import gone_streams
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.probing import BOUNDS as PROBED_BY_TICKS
from sublet.engine.manager.probing import TickProbes
from sublet.engine.manager.side_by_side import ReadBounds
from sublet.ports import Ports, Remembered
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan, lease_key_of
from sublet.protocol.shard import Shard
from sublet.settings import Settings

BOUNDS = replace(PROBED_BY_TICKS, pages=10, pause=timedelta(seconds=1))
"""Bounds of a probe. Between two reads of a shard it pauses, because the shard's readers share five a second."""


@dataclass(slots=True)
class Watch:
    """Looks at an application again and again, and remembers what it saw: a trend needs several looks.

    probes  ask each shard whose row does not say its lag, or said it too long ago, which needs the stream
    bounds  of these probes
    """

    ports: Ports
    settings: Settings
    probes: bool
    bounds: ReadBounds = BOUNDS
    _histories: Mapping[str, History] = field(default_factory=dict, init=False)
    _sightings: Mapping[str, Sighting] = field(default_factory=dict, init=False)
    _control: ControlWatch = field(init=False)

    def __post_init__(self) -> None:
        self._control = ControlWatch(self.ports)

    def look(self, retention: timedelta | None) -> FleetStatus:
        """Raises what LeaseTable and Stream raise."""
        scan, remembered = self.ports.table.scan(), self.ports.sightings.load()
        now = self.ports.clock.now()
        waiting, failover_time = self._waiting(scan, remembered, now), self.settings.failover_time
        self._histories = histories_after(self._histories, scan.leases, self._sightings, waiting, now, failover_time)
        self._sightings = observe(self._sightings, scan.leases, now)
        known = FleetFindings(
            sightings=with_own(remembered.sightings, self._sightings, scan.leases, now, failover_time),
            unread=remembered.unread,
            histories=self._histories,
            waiting=waiting,
            retention=retention,
            paused=self._control.pauses(scan.leases),
            gone=gone_streams(remembered.streams),
        )
        return fleet_status(scan, now, self.settings, known)

    def _waiting(self, scan: LeaseScan, remembered: Remembered, now: datetime) -> Mapping[str, timedelta | None]:
        if not self.probes:
            return {}
        unfinished = {lease.shard_id for lease in scan.leases if not lease.is_ended}
        asked = [
            lease
            for lease in scan.leases
            if may_be_read(lease, unfinished) and _is_silent(lease, now, self.settings.failover_time)
        ]
        probing = TickProbes(self.ports, self.settings, scan.leases, remembered.unread, bounds=self.bounds)
        probes = probing.look_into(ProbeSelection(tuple(asked)))
        ended = [probe.lease for probe in probes if probe.is_ended and probe.waiting is None]
        return {**waiting_times(probes), **self._waiting_behind(ended, scan, probing)}

    def _waiting_behind(
        self, ended: Sequence[Lease], scan: LeaseScan, probing: TickProbes
    ) -> Mapping[str, timedelta | None]:
        """What waits behind shards of which nothing is left but their end: in their children, which have no lease until
        a worker comes to that end. Without one, nobody else would ever show the records there.
        """
        if not ended:
            return {}
        known = {lease.lease_key for lease in scan.leases}.union(row.lease_key for row in scan.malformed)
        shards = [shard for shard in self.ports.stream.list_shards() if lease_key_of(shard.shard_id) not in known]
        behind = {lease.lease_key: _descendants(lease.shard_id, shards) for lease in ended}
        asked = {
            shard_id: Lease(lease_key_of(shard_id), TRIM_HORIZON) for found in behind.values() for shard_id in found
        }
        waiting = waiting_times(probing.look_into(ProbeSelection(tuple(asked.values()))))
        return {
            key: _longest([waiting.get(asked[shard_id].lease_key) for shard_id in found])
            for key, found in behind.items()
            if found
        }


def _descendants(shard_id: str, shards: Collection[Shard]) -> Collection[str]:
    """Its children among these shards, their children, and so on."""
    found, last = set[str](), {shard_id}
    while last:
        last = {shard.shard_id for shard in shards if shard.parent_shard_ids & last} - found
        found |= last
    return sorted(found)


def _longest(waiting: Sequence[timedelta | None]) -> timedelta | None:
    """None if nothing is known to wait, and one of them is not known."""
    known = [each for each in waiting if each is not None]
    longest = max(known, default=None)
    return longest if longest or len(known) == len(waiting) else None


def _is_silent(lease: Lease, now: datetime, silent_after: timedelta) -> bool:
    """Whether its row does not say how far it is behind, as a Java KCL's does not, or said it too long ago: its owner
    may be gone since.
    """
    if lease.lag_report is None or lease.lag_report.lag is None:
        return True
    said = last_word(lease)
    return said is None or now - said > silent_after
