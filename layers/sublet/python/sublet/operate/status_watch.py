"""Looks at how each shard of an application stands: by the lease rows, by what ticks remember, and by the shards
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from sublet.ports import Ports, Remembered
from sublet.protocol.lease import Lease, LeaseScan
from sublet.settings import Settings

BOUNDS = replace(PROBED_BY_TICKS, pages=10, pause=timedelta(seconds=1))
"""Bounds of a probe. Between two reads of a shard it pauses, because the shard's readers share five a second."""


@dataclass(slots=True)
class Watch:
    """Looks at an application again and again, and remembers what it saw: a trend needs several looks.

    probes  ask each shard whose row does not say its lag, or said it too long ago, which needs the stream
    """

    ports: Ports
    settings: Settings
    probes: bool
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
        probing = TickProbes(self.ports, self.settings, scan.leases, remembered.unread, bounds=BOUNDS)
        return waiting_times(probing.look_into(ProbeSelection(tuple(asked))))


def _is_silent(lease: Lease, now: datetime, silent_after: timedelta) -> bool:
    """Whether its row does not say how far it is behind, as a Java KCL's does not, or said it too long ago: its owner
    may be gone since.
    """
    if lease.lag_report is None or lease.lag_report.lag is None:
        return True
    said = last_word(lease)
    return said is None or now - said > silent_after
