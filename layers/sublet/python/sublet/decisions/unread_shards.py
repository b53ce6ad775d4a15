"""Shards that nobody reads, and how long there have been records for nobody.

A worker tells of the shards that it reads. Nobody tells of one whose lease nobody holds, or whose holders all fail before their
first page. The lease manager asks Kinesis about some of those in each tick: is there a record after the checkpoint?
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from msgspec import Struct

from sublet.decisions.chance import Chance
from sublet.decisions.liveness import Sighting, is_expired
from sublet.decisions.read_position import ReadPosition, after, read_position
from sublet.protocol.checkpoint import LATEST
from sublet.protocol.lease import Lease
from sublet.settings import Settings

PROBES_MAX = 10
"""In one tick, two calls each. An alarm is on the worst: of many shards that stand still it is enough to know some."""

CAUGHT_UP_LATELY = timedelta(minutes=5)


class Unread(Struct, frozen=True):
    """A shard that had records after this checkpoint, and at `since` already."""

    checkpoint: str
    since: datetime


class Probed(Struct, frozen=True):
    """What Kinesis said: for how long the oldest record after the checkpoint has been there. None: there is none."""

    lease: Lease
    waiting: timedelta | None


class StandsStill(Struct, frozen=True):
    """A shard with records to come, unmoved for so long as is known for certain."""

    lease: Lease
    waiting: timedelta
    age: timedelta


NONE_UNREAD: Mapping[str, Unread] = MappingProxyType({})


def choose_probes(
    leases: Sequence[Lease],
    sightings: Mapping[str, Sighting],
    unread: Mapping[str, Unread],
    now: datetime,
    chance: Chance,
    settings: Settings,
    waits_for: Iterable[str] = (),
) -> tuple[Lease, ...]:
    """Those known to be unread first, then those not heard of for longest. None that a living owner holds, who tells of it, that
    was read to its tip a moment ago, or that waits for a parent. `waits_for`: shards whose rows are unreadable.
    """
    unfinished = {lease.shard_id for lease in leases if not lease.is_ended}.union(waits_for)
    candidates = [
        lease
        for lease in leases
        if _may_be_read(lease, unfinished)
        and (lease.actual_owner is None or is_expired(lease, sightings, now, settings.failover_time))
        and (lease.caught_up_at is None or abs(now - lease.caught_up_at) >= CAUGHT_UP_LATELY)
    ]
    if len(candidates) > PROBES_MAX:
        chance.shuffle(candidates)
    long_ago = datetime.min.replace(tzinfo=now.tzinfo)
    candidates.sort(key=lambda lease: (lease.lease_key not in unread, lease.caught_up_at or long_ago))
    return tuple(candidates[:PROBES_MAX])


def _may_be_read(lease: Lease, unfinished: set[str]) -> bool:
    is_pinned = lease.checkpoint != LATEST or lease.start_at is not None  # before that nothing is to come yet
    return not lease.is_ended and is_pinned and unfinished.isdisjoint(lease.parent_shard_ids)


def probe_position(lease: Lease) -> ReadPosition | None:
    """Behind what is handled. The rest of an aggregate that is half handled is not seen, only what follows it."""
    if lease.checkpoint.is_sequence_number:
        return after(lease.checkpoint.sequence_number)
    return read_position(lease)


def stand_still(
    probed: Iterable[Probed], unread: Mapping[str, Unread], now: datetime
) -> tuple[StandsStill, ...]:
    """Of a shard that moved since the last look, or had no records then, nothing is known but that it has some now."""
    found = []
    for one in probed:
        if one.waiting is None:
            continue
        before = unread.get(one.lease.lease_key)
        is_known = before is not None and before.checkpoint == str(one.lease.checkpoint)
        known_for = now - before.since if before is not None and is_known else timedelta(0)
        found.append(StandsStill(one.lease, one.waiting, max(min(known_for, one.waiting), timedelta(0))))
    return tuple(found)


def remembered(
    standing: Iterable[StandsStill], unanswered: Iterable[Lease], unread: Mapping[str, Unread], now: datetime
) -> Mapping[str, Unread]:
    """For the next tick. Of whom Kinesis gave no answer, what was known stays true as long as the checkpoint stands."""
    kept = {
        lease.lease_key: unread[lease.lease_key]
        for lease in unanswered
        if lease.lease_key in unread and unread[lease.lease_key].checkpoint == str(lease.checkpoint)
    }
    return {
        **kept,
        **{one.lease.lease_key: Unread(str(one.lease.checkpoint), now - one.age) for one in standing},
    }
