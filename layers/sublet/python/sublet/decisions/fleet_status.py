"""How an application stands, as its lease table and the sightings tell it, and its shards where they are asked."""

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
    """Of a shard that has a lease."""

    HELD = "held"
    MOVING = "moving"
    """Its owner drains it for another (KCL 3.x)."""
    UNOWNED = "unowned"
    """Released or never had: the next tick sends somebody, where somebody is wanted."""
    EXPIRED = "expired"
    """Its owner is gone, and did not release it."""
    ENDED = "ended"


class Position(NamedTuple):
    """handled_to  when the last handled record arrived; None where none is handled, or that one is past retention
    lag         how far behind the shard's newest record the handled ones end; zero where all is handled
    """

    handled_to: datetime | None
    lag: timedelta


def position_of(lease: Lease, page: Page, now: datetime) -> Position:
    """By a page of one record, read from where the lease would be read on. That is the checkpointed record, where one is."""
    behind = timedelta(milliseconds=page.millis_behind_latest)
    if not page.records:
        return Position(None, behind)
    (first, *_) = page.records
    arrived = first.approximate_arrival_timestamp
    if first.sequence_number == lease.checkpoint.sequence_number:
        return Position(arrived, behind)
    return Position(None, max(now - arrived, behind, timedelta(0)))


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """owner         who consumes it; None if nobody does
    checkpoint    what is handled
    caught_up_at  a moment at which nothing after the checkpoint was in the shard; None where that is not known
    idle          how long nobody is known to have written to its lease; None where nobody ever has
    crashes       owners that have gone since the last checkpoint
    kbps          how fast it is read, KB a second, as its owner told last (KCL 3.x); None where none did
    moved_at      when it was first seen with another owner than the one before; None where that was not lately
    position      where it stands as a moment; None where the shard was not asked, did not answer, or has ended
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
    position: Position | None = None

    @property
    def consumer(self) -> str | None:
        """Its owner, if that one lives."""
        return self.owner if self.state in (ShardState.HELD, ShardState.MOVING) else None


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """`at`: when it was looked. `shards`: by shard id. `malformed`: rows that are no leases, which wait for a hand."""

    at: datetime
    shards: tuple[ShardStatus, ...]
    malformed: tuple[MalformedRow, ...] = ()

    @property
    def workers(self) -> Mapping[str, int]:
        """How many shards each living worker has."""
        return Counter(shard.consumer for shard in self.shards if shard.consumer is not None)

    @property
    def lag(self) -> timedelta | None:
        """Of the shard that is furthest behind; None where none was asked."""
        return max((shard.position.lag for shard in self.shards if shard.position is not None), default=None)

    @property
    def states(self) -> Mapping[ShardState, int]:
        """How many shards are in each state that any is in."""
        return Counter(shard.state for shard in self.shards)


def fleet_status(
    scan: LeaseScan,
    sightings: Mapping[str, Sighting],
    now: datetime,
    failover_time: timedelta,
    positions: Mapping[str, Position] = MappingProxyType({}),
) -> FleetStatus:
    """`positions`: by lease key.

    Liveness is judged by stored sightings, as a lease manager judges it: an owner whom nobody has watched yet is alive.
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
    position: Position | None,
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
