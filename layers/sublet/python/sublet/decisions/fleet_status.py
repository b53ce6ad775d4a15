"""The state of an application: of its leases, by the lease table and the sightings, and optionally of its shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from sublet.decisions.liveness import Sighting, idle_time, is_expired
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.records import Page


class ShardState(StrEnum):
    """The state of a shard that has a lease."""

    HELD = "held"
    MOVING = "moving"
    """Its owner drains it for another worker (KCL 3.x)."""
    UNOWNED = "unowned"
    """Released or never held: the next tick sends a worker if one is wanted."""
    EXPIRED = "expired"
    """Its owner is gone and did not release it."""
    ENDED = "ended"


class HandledPosition(NamedTuple):
    """How far a shard is handled, in time.

    handled_to  when the last handled record arrived; None if none is handled, or it is past retention
    lag         how far the handled records are behind the shard's newest; zero if all are handled
    """

    handled_to: datetime | None
    lag: timedelta


def position_of(lease: Lease, page: Page, now: datetime) -> HandledPosition:
    """From a page of one record, read from the lease's position. That is the checkpointed record, if there is one."""
    behind = timedelta(milliseconds=page.millis_behind_latest)
    if not page.records:
        return HandledPosition(None, behind)
    (first, *_) = page.records
    arrived = first.approximate_arrival_timestamp
    if first.sequence_number == lease.checkpoint.sequence_number:
        return HandledPosition(arrived, behind)
    return HandledPosition(None, max(now - arrived, behind, timedelta(0)))


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One shard and its lease.

    owner         the worker id that consumes it; None if there is none
    checkpoint    how far it is handled
    caught_up_at  a time at which the shard held nothing after the checkpoint; None if not known
    idle          for how long no write to the lease was seen; None if none ever was
    crashes       owners that have died since the last checkpoint
    kbps          how fast it is read, in KB a second, by its owner's last report (KCL 3.x); None without a report
    moved_at      when it was first seen with another owner; None if that was not lately
    position      its position in time; None if the shard was not asked, did not answer, or has ended
    """

    shard_id: str
    state: ShardState
    owner: str | None
    checkpoint: Checkpoint
    caught_up_at: datetime | None
    idle: timedelta | None
    crashes: int
    kbps: float | None = None
    moved_at: datetime | None = None
    position: HandledPosition | None = None

    @property
    def consumer(self) -> str | None:
        """Its owner, if that worker is alive."""
        return self.owner if self.state in (ShardState.HELD, ShardState.MOVING) else None


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """`at`: the time of the scan. `shards`: in order of shard id. `malformed`: rows that are no leases and need an operator."""

    at: datetime
    shards: tuple[ShardStatus, ...]
    malformed: tuple[MalformedRow, ...] = ()

    @property
    def workers(self) -> Mapping[str, int]:
        """How many shards each live worker has."""
        return Counter(shard.consumer for shard in self.shards if shard.consumer is not None)

    @property
    def lag(self) -> timedelta | None:
        """The largest lag of any shard; None if no shard was asked."""
        return max((shard.position.lag for shard in self.shards if shard.position is not None), default=None)

    @property
    def states(self) -> Mapping[ShardState, int]:
        """The number of shards in each state; only states that occur."""
        return Counter(shard.state for shard in self.shards)


def fleet_status(
    scan: LeaseScan,
    sightings: Mapping[str, Sighting],
    now: datetime,
    failover_time: timedelta,
    positions: Mapping[str, HandledPosition] = MappingProxyType({}),
) -> FleetStatus:
    """`positions`: by lease key.

    Liveness is judged by stored sightings, as a lease manager does it: an owner without a sighting counts as alive.
    """
    leases = sorted(scan.leases, key=lambda lease: lease.shard_id)
    shards = tuple(
        _status(lease, sightings, now, failover_time, positions.get(lease.lease_key)) for lease in leases
    )
    return FleetStatus(now, shards, tuple(scan.malformed))


def _status(
    lease: Lease,
    sightings: Mapping[str, Sighting],
    now: datetime,
    failover_time: timedelta,
    position: HandledPosition | None,
) -> ShardStatus:
    idle = idle_time(lease, sightings, now)
    return ShardStatus(
        lease.shard_id,
        _state(lease, is_expired(lease, sightings, now, failover_time)),
        lease.actual_owner,
        lease.checkpoint,
        lease.caught_up_at,
        None if idle == timedelta.max else idle,
        lease.crashes,
        lease.throughput_kbps,
        sighting.moved_at if (sighting := sightings.get(lease.lease_key)) is not None else None,
        position,
    )


def _state(lease: Lease, has_expired: bool) -> ShardState:
    if lease.is_ended:
        return ShardState.ENDED
    if lease.actual_owner is None:
        return ShardState.UNOWNED
    if has_expired:
        return ShardState.EXPIRED
    return ShardState.HELD if lease.checkpoint_owner is None else ShardState.MOVING
