"""How each shard of an application stands: by the lease rows, by what ticks remember, and by the shards themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.lease_history import History, histories_after, waiting_times
from sublet.decisions.liveness import Sighting, is_expired, observe
from sublet.decisions.shard_verdict import TimeStanding, standing_of
from sublet.decisions.unread_shards import Probes
from sublet.engine.manager.probing import Probing
from sublet.ports import Ports, Remembered
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.settings import Settings

PROBE_PAUSE = timedelta(seconds=1)
"""Between two reads of a shard: its readers share five a second."""


@dataclass(frozen=True, slots=True)
class ShardStanding:
    """`is_expired`: its owner has not written for longer than failover_time."""

    lease: Lease
    standing: TimeStanding
    is_expired: bool


@dataclass(frozen=True, slots=True)
class ApplicationStanding:
    """`at`: when it was looked at. `malformed`: rows that are no leases, and need an operator."""

    at: datetime
    shards: tuple[ShardStanding, ...]
    malformed: tuple[MalformedRow, ...]


@dataclass(slots=True)
class Watch:
    """Looks at an application again and again, and remembers what it saw: a trend needs several looks.

    probes  ask each shard too, which needs the stream
    """

    ports: Ports
    settings: Settings
    probes: bool
    _histories: Mapping[str, History] = field(default_factory=dict, init=False)
    _sightings: Mapping[str, Sighting] = field(default_factory=dict, init=False)

    def look(self, retention: timedelta | None) -> ApplicationStanding:
        """Raises what LeaseTable and Stream raise."""
        scan, remembered = self.ports.table.scan(), self.ports.sightings.load()
        now = self.ports.clock.now()
        waiting = self._waiting(scan, remembered)
        self._histories = histories_after(self._histories, scan.leases, self._sightings, waiting, now)
        self._sightings = observe(self._sightings, scan.leases, now)
        unfinished = {lease.shard_id for lease in scan.leases if not lease.is_ended}
        shards = tuple(
            ShardStanding(
                lease,
                standing_of(
                    lease,
                    self._histories.get(lease.lease_key, ()),
                    now,
                    waiting=waiting.get(lease.lease_key),
                    waits_since=_waits_since(lease, remembered),
                    waits_for=unfinished & lease.parent_shard_ids,
                    retention=retention,
                ),
                is_expired(lease, remembered.sightings, now, self.settings.failover_time),
            )
            for lease in sorted(scan.leases, key=lambda lease: lease.shard_id)
        )
        return ApplicationStanding(now, shards, tuple(scan.malformed))

    def _waiting(self, scan: LeaseScan, remembered: Remembered) -> Mapping[str, timedelta | None]:
        if not self.probes:
            return {}
        unfinished = {lease.shard_id for lease in scan.leases if not lease.is_ended}
        asked = [
            lease
            for lease in scan.leases
            if not lease.is_ended and unfinished.isdisjoint(lease.parent_shard_ids)
        ]
        probing = Probing(self.ports, self.settings, scan.leases, remembered.unread, PROBE_PAUSE)
        return waiting_times(probing.look_into(Probes(tuple(asked))))


def _waits_since(lease: Lease, remembered: Remembered) -> datetime | None:
    """As ticks have found it."""
    unread = remembered.unread.get(lease.lease_key)
    stands = unread is not None and unread.checkpoint == str(lease.checkpoint)
    return unread.since if unread is not None and stands else None
