"""The status of an application: the one value that commands, the console, the demo and `Consumer.info()` show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.load.shard_load import reading_rate
from sublet.decisions.manager.group_balance import group_of
from sublet.decisions.manager.liveness import VERY_OLD, Sighting, is_expired
from sublet.decisions.manager.unread_shards import REMEMBERED_EVERY, UnreadShard, known_of
from sublet.decisions.session.handled_position import HandledPosition
from sublet.decisions.status.lease_history import History, seen_by_owners, shown_idle
from sublet.decisions.status.shard_status import ShardState, ShardStatus
from sublet.decisions.status.status_rules import Status, TimeStanding, standing_of
from sublet.decisions.status.work_distribution import WorkDistribution, work_distribution
from sublet.protocol.control import Pause
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow, Position
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.settings import Settings

FOUND_QUIET_LATELY = REMEMBERED_EVERY + timedelta(minutes=2)
"""A tick that finds a free shard quiet sends no worker there, and not every tick stores what it found."""


@dataclass(frozen=True, slots=True)
class FleetFindings:
    """What is known about an application beside its rows. Each mapping is by lease key; what is not known is left out.

    sightings, unread  what lease managers remember
    histories          the last observations by a watching command; the owners' own observations count if there are more
    waiting            how long the next record of each shard that was asked has waited; None: its pages did not show it
    positions          how far each shard that was asked for its checkpointed record is handled
    retention          the stream's
    paused             leases that an operator has paused
    gone               deleted streams, in an application of several
    """

    sightings: Mapping[str, Sighting] = field(default_factory=dict)
    unread: Mapping[str, UnreadShard] = field(default_factory=dict)
    histories: Mapping[str, History] = field(default_factory=dict)
    waiting: Mapping[str, timedelta | None] = field(default_factory=dict)
    positions: Mapping[str, HandledPosition] = field(default_factory=dict)
    retention: timedelta | None = None
    paused: Mapping[str, Pause] = field(default_factory=dict)
    gone: frozenset[StreamKey] = frozenset()


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """`at`: the time of the scan. `shards`: in order of shard id. `malformed`: rows that are not leases and need an
    operator.

    distribution  the load of each worker and group of workers, beside the fair share
    retention     for how long the stream keeps records; None if not known
    multi_stream  how many leases of a multi-stream KCL there are, which belong to several streams and are not shown
    of_gone       how many leases of deleted streams there are, which are not shown: no worker can read these streams
    """

    at: datetime
    shards: tuple[ShardStatus, ...]
    malformed: tuple[MalformedRow, ...]
    distribution: WorkDistribution
    retention: timedelta | None = None
    multi_stream: int = 0
    of_gone: int = 0

    @property
    def workers(self) -> Mapping[str, int]:
        """How many unfinished shards each live worker has."""
        return {worker.worker_id: worker.leases for worker in self.distribution.workers}

    @property
    def lag(self) -> timedelta | None:
        """The largest lag of any shard; None if none is known."""
        return max((shard.lag for shard in self.shards if shard.lag is not None), default=None)

    @property
    def lag_is_at_least(self) -> bool:
        """Whether the largest lag is a lower bound."""
        largest = self.lag
        return any(shard.lag_is_at_least for shard in self.shards if shard.lag == largest)

    @property
    def oldest_unhandled(self) -> datetime | None:
        """When the oldest unhandled record arrived; None if none waits, or the time is not known."""
        return self.at - self.lag if self.lag else None

    @property
    def retention_left(self) -> timedelta | None:
        """How long until the oldest unhandled record is trimmed; None if none waits, or it is not known."""
        return self.retention - self.lag if self.lag and self.retention is not None else None

    @property
    def kbps(self) -> float | None:
        """KB a second of all measured shards; None if none is measured."""
        known = [shard.kbps for shard in self.shards if shard.kbps is not None]
        return sum(known) if known else None

    @property
    def earlier_lags(self) -> Sequence[tuple[datetime, timedelta]]:
        """The earlier lags of all shards, from the last observations of each; in no order."""
        return [(seen.at, seen.behind) for shard in self.shards for seen in shard.history if seen.behind is not None]

    @property
    def statuses(self) -> Mapping[Status, int]:
        """The number of shards with each status; only statuses that occur."""
        return Counter(shard.status for shard in self.shards)

    @property
    def words(self) -> Mapping[Status, int]:
        """`statuses`, by its name in 0.2."""
        return self.statuses

    @property
    def states(self) -> Mapping[ShardState, int]:
        """The number of shards in each state; only states that occur."""
        return Counter(shard.state for shard in self.shards)

    @property
    def is_bad(self) -> bool:
        """Whether an operator should look at it."""
        return bool(self.malformed) or any(shard.is_bad for shard in self.shards)


def fleet_status(scan: LeaseScan, now: datetime, settings: Settings, known: FleetFindings | None = None) -> FleetStatus:
    """Judges which owners are alive by stored sightings, as a lease manager does, and by what owners of ours last wrote
    to their rows. An owner counts as alive if neither is known.
    """
    known = known or FleetFindings()
    leases = [lease for lease in scan.leases if stream_key_of(lease.lease_key) not in known.gone]
    unfinished = frozenset(lease.shard_id for lease in leases if not lease.is_ended)
    unfinished |= {row.lease_key for row in scan.malformed}
    shards = tuple(
        _shard_status(lease, unfinished & lease.parent_shard_ids, now, settings, known)
        for lease in sorted(leases, key=lambda lease: lease.shard_id)
    )
    return FleetStatus(
        now,
        shards,
        tuple(scan.malformed),
        work_distribution(shards, now, settings),
        known.retention,
        len(scan.multi_stream),
        len(scan.leases) - len(leases),
    )


def _shard_status(
    lease: Lease, waits_for: frozenset[str], now: datetime, settings: Settings, known: FleetFindings
) -> ShardStatus:
    history, here = _history(lease, known)
    standing = _standing(lease, history, here, waits_for, now, settings, known)
    position = known.positions.get(lease.lease_key)
    sighting, idle = known.sightings.get(lease.lease_key), shown_idle(lease, known.sightings, now)
    owner, is_gone = lease.actual_owner, _is_owner_gone(lease, known.sightings, now, settings.failover_time)
    rate = reading_rate(lease, now, is_owner_gone=is_gone)
    return ShardStatus(
        shard_id=lease.shard_id,
        status=standing.verdict.status,
        because=standing.verdict.because,
        since=standing.verdict.since,
        lag=standing.behind,
        lag_is_at_least=standing.is_at_least,
        trend=standing.trend,
        caught_up_in=standing.caught_up_in,
        lost=standing.lost,
        state=_state(lease, is_gone),
        owner=owner,
        group=None if owner is None else group_of(owner, settings),
        idle=idle,
        crashes=lease.crashes,
        attempts=max(lease.attempts, 0 if lease.failing is None else lease.failing.attempt),
        failing=lease.failing,
        kbps=None if rate is None else rate.bytes_per_second / 1024,
        records_per_second=None if rate is None else rate.records_per_second,
        moved_at=None if sighting is None else sighting.moved_at,
        checkpoint=lease.checkpoint,
        start_at=lease.position.start_at,
        handled_to=_handled_to(lease, position),
        caught_up_at=lease.caught_up_at,
        hash_key_range=lease.hash_key_range,
        parents=lease.parent_shard_ids,
        children=lease.child_shard_ids,
        waits_for=frozenset() if lease.is_ended else waits_for,
        pause=known.paused.get(lease.lease_key),
        history=history,
    )


def _history(lease: Lease, known: FleetFindings) -> tuple[History, Position]:
    """The longer of two histories, what this command has watched and what owners have left; and where the lease stands
    in it.
    """
    watched = known.histories.get(lease.lease_key, ())
    by_owners, here = seen_by_owners(lease)
    return (watched, lease.position) if len(watched) >= len(by_owners) else (by_owners, here)


def _standing(
    lease: Lease,
    history: History,
    here: Position,
    waits_for: frozenset[str],
    now: datetime,
    settings: Settings,
    known: FleetFindings,
) -> TimeStanding:
    key = lease.lease_key
    return standing_of(
        lease,
        history,
        now,
        waiting=_waiting(lease, now, known),
        waits_since=None if (unread := known_of(lease, known.unread)) is None else unread.since,
        waits_for=waits_for,
        retention=known.retention,
        pause=known.paused.get(key),
        here=here,
        silent_after=settings.failover_time,
        gone_since=_gone_since(lease, known.sightings, now, settings.failover_time),
    )


def _waiting(lease: Lease, now: datetime, known: FleetFindings) -> timedelta | None:
    """What the shard has answered now or, if it was not asked, what the last ticks of a catch-up have found."""
    asked = known.positions.get(lease.lease_key)
    if asked is not None:
        return asked.lag
    if lease.lease_key in known.waiting:
        return known.waiting[lease.lease_key]
    found = known_of(lease, known.unread)
    if lease.actual_owner is not None or found is None or found.since is not None or found.quiet_until is None:
        return None
    return timedelta(0) if abs(now - found.quiet_until) < FOUND_QUIET_LATELY else None


def _handled_to(lease: Lease, asked: HandledPosition | None) -> datetime | None:
    if asked is not None and asked.handled_to is not None:
        return asked.handled_to
    return None if lease.lag_report is None else lease.lag_report.arrived_at


def _gone_since(
    lease: Lease, sightings: Mapping[str, Sighting], now: datetime, failover_time: timedelta
) -> datetime | None:
    """When the owner last wrote, if it is gone and others would have taken the lease by now: as long as KCL waits
    before it takes a lease regardless of the fair share.
    """
    idle = shown_idle(lease, sightings, now)
    is_gone = _is_owner_gone(lease, sightings, now, failover_time)
    return now - idle if is_gone and idle is not None and idle > VERY_OLD * failover_time else None


def _is_owner_gone(lease: Lease, sightings: Mapping[str, Sighting], now: datetime, failover_time: timedelta) -> bool:
    """Judges by sightings, and by the last note of an owner of ours, unless a lease manager has seen another write
    since.
    """
    if is_expired(lease, sightings, now, failover_time):
        return True
    sighting, idle = sightings.get(lease.lease_key), shown_idle(lease, sightings, now)
    is_seen_lately = sighting is not None and now - sighting.seen_at <= failover_time
    return lease.held_by is not None and idle is not None and idle > failover_time and not is_seen_lately


def _state(lease: Lease, has_expired: bool) -> ShardState:
    if lease.is_ended:
        return ShardState.ENDED
    if lease.actual_owner is None:
        return ShardState.UNOWNED
    if has_expired:
        return ShardState.EXPIRED
    return ShardState.HELD if lease.checkpoint_owner is None else ShardState.MOVING
