"""Decides where the next micro-batch ends, and what its tasks read. Pure: listings and peeks in, an offset or ranges
out.

A batch's range is fixed here before any of it is read, and goes into Spark's own offset log, so a repeated batch gives
the same rows. A batch always ends at a stream record that exists, or at the end of a closed shard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sublet.decisions.manager.shard_sync import plan_shard_sync
from sublet.decisions.session.read_position import SHORTEST_RETENTION
from sublet.errors import OffsetMalformed, StreamRecreated, StreamUnavailable
from sublet.protocol.shard import HashKeyRange, Shard, children_by_parent
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.settings import StartKind, StartPosition
from sublet.spark.plan.gaps import (
    has_ended,
    may_be_trimmed,
    parents_known,
    unread_since,
)
from sublet.spark.plan.offsets import Ended, ReadTo, ShardOffset, StreamOffset, Unread, to_millis

CONFIRM_AFTER = SHORTEST_RETENTION / 2
"""At least this often, an idle shard's offset notes that nothing is unread, for a restart after a quiet day."""

WALKED_AGAIN = 10
"""How many calls a restart may repeat: a batch without rows costs more than walking this far again."""

Begin = Unread | ReadTo


@dataclass(frozen=True, slots=True)
class ShardPeek:
    """What a look into a shard found.

    end          a record beyond the position, or the end of the closed shard; None: there is nothing to read now
    caught_up    the look reached the tip: nothing is unread, or nothing beyond the end
    lag          how far the end is behind the shard's tip, if known
    records      the least number of stream records up to the end; None: not known, so read in large pages
    rows, bytes  the number of user records and bytes up to the end; None unless a limit had them counted
    quiet_until  nothing beyond the position arrived before this time; only if there is nothing to read now
    walked       how many calls it took to prove that
    record_bytes  the size of the stream records that were looked at, if any were
    waiting      about how many more rows, or bytes, a higher limit would admit
    """

    end: ReadTo | Ended | None
    caught_up: bool = False
    lag: timedelta = timedelta(0)
    records: int | None = None
    quiet_until: datetime | None = None
    walked: int = 0
    rows: int | None = None
    bytes: int | None = None
    record_bytes: int | None = None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class ShardRange:
    """What one task reads: everything beyond `begin` up to and including `end` (None: to the end of the shard).

    verify                   records after `begin` may be past retention: look for evidence that they are not
    end_arrived              when the record at `end` arrived, if known
    end_sub_sequence_number  read only the user records of the record at `end` up to this one (None: all)
    quiet_until              nothing beyond `begin` arrived before this time
    since, until             read only records that arrived from the first time on and before the second; with `until`,
                             `end` may be the tip
    """

    shard_id: str
    hash_key_range: HashKeyRange | None
    begin: Begin
    end: str | None
    verify: bool = False
    end_arrived: datetime | None = None
    end_sub_sequence_number: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    quiet_until: datetime | None = None


def check_identity(offset: StreamOffset, stream: str, found: StreamIdentity) -> None:
    """Raises an error if the checkpoint is for another stream."""
    if offset.stream != stream:
        raise StreamRecreated(
            f"the checkpoint is for stream {offset.stream}, but the query reads {stream}: give it a new "
            "checkpointLocation"
        )
    if not offset.identity.is_same_as(found):
        raise StreamRecreated(
            f"stream {stream} is not the one of the checkpoint: that was {offset.identity}; this is {found}. "
            "Start the query with a new checkpointLocation"
        )


def check_application(offset: StreamOffset, application: str | None) -> None:
    """Refuses a checkpoint written with other leases, because its positions cover only the shards that the query
    held.
    """
    if offset.shards and offset.application != application:
        written, now = (
            "without leases" if whose is None else f"with the leases of {whose}"
            for whose in (offset.application, application)
        )
        raise OffsetMalformed(
            f"the query's checkpoint was written {written}, but the query runs {now}: give it a new checkpointLocation"
        )


def first_positions(
    listed: Sequence[Shard], open_at_start: Sequence[Shard], start: StartPosition, now: datetime
) -> dict[str, ShardOffset]:
    """The first offset's shards: those open at the start position, and, as ended, those closed before it.

    Descendants of the first are in neither: they begin when their parents have ended. LATEST becomes the time `now`.
    Raises StreamUnavailable if the listing leaves hash keys out: those shards would begin too late.
    """
    plan = plan_shard_sync((), (), open_at_start, start)
    if plan.holes:
        raise StreamUnavailable(f"the listing of shards leaves out hash keys {plan.holes}; list again")
    at = now if start.kind is StartKind.LATEST else start.at
    first = {new.lease.shard_id for new in plan.create}
    later = descendants(first, listed)
    ended = {s.shard_id: ShardOffset(Ended()) for s in listed if s.shard_id not in first | later}
    nothing_before = now if start.kind is StartKind.LATEST else None
    begins = ShardOffset(Unread(at), began=Unread(at), caught_up_at=nothing_before)
    return ended | dict.fromkeys(first, begins)


def descendants(of: Collection[str], listed: Iterable[Shard]) -> set[str]:
    """Shard ids of the listed children, grandchildren and so on."""
    children = children_by_parent(listed)
    found: set[str] = set()
    stack = list(of)
    while stack:
        fresh = children.get(stack.pop(), frozenset()) - found
        found |= fresh
        stack += fresh
    return found


def other_listed_parents(of: Iterable[str], listed: Mapping[str, Shard]) -> dict[str, frozenset[str]]:
    """For each of these shards, the other parents of its children, after a merge, as far as all are listed."""
    children = children_by_parent(listed.values())
    return {
        shard_id: frozenset(
            parent
            for child in children.get(shard_id, ())
            for parent in listed[child].parent_shard_ids & listed.keys()
            if parent != shard_id
        )
        for shard_id in of
    }


def beginning_shards(start: StreamOffset, listed: Sequence[Shard], denied: Collection[str]) -> dict[str, ShardOffset]:
    """Shards that the offset lacks, and whose parents have all ended in it, or are denied and were never in it.

    Checks against the offset that the batch starts from, not the one being planned, so that a child's first batch comes
    after its parents' last one.
    """
    return {
        shard.shard_id: ShardOffset(Unread(), began=Unread(), caught_up_at=parents_known(start, shard))
        for shard in listed
        if shard.shard_id not in start.shards
        and all(
            parent in denied if parent not in start.shards else has_ended(start, parent)
            for parent in shard.parent_shard_ids
        )
    }


def next_offset(
    start: StreamOffset,
    beginning: Mapping[str, ShardOffset],
    peeks: Mapping[str, ShardPeek],
    gone: Collection[str],
    looked_at: datetime,
    placement: Placement = NOT_DESCRIBED,
) -> StreamOffset:
    """The offset at which the next batch ends, or `start` itself if there is nothing new.

    gone        shards of `start` that the stream no longer has: unread ones count as ended, ended ones are dropped
    looked_at   the time of a peek's `caught_up`
    placement   who places the stream's records. If Kinesis does, the offset keeps that, because it may be switched off
                while records that it placed are unread
    """
    is_news = placement.is_auto and not start.placement.is_auto
    moved = not start.shards or bool(beginning) or bool(gone) or is_news
    shards: dict[str, ShardOffset] = {}
    for shard_id, before in {**start.shards, **beginning}.items():
        after = _after(before, shard_id in beginning, peeks.get(shard_id), looked_at)
        moved = moved or after.position != before.position or _needs_confirming(before, after, looked_at)
        moved = moved or _is_worth_a_batch(before, peeks.get(shard_id))
        shards[shard_id] = after
    for shard_id in gone:
        if isinstance(shards[shard_id].position, Ended):
            del shards[shard_id]
        else:
            shards[shard_id] = ShardOffset(Ended(), caught_up_at=unread_since(start.shards[shard_id]))
    return replace(start, shards=shards, placement=placement) if moved else start


def _after(before: ShardOffset, begins: bool, peek: ShardPeek | None, looked_at: datetime) -> ShardOffset:
    """Returns the shard's part of the next offset. In the batch that begins the shard, it keeps the `c` of the shard's
    beginning, which shows whether the whole batch can be read again.
    """
    caught_up_at = looked_at if peek is not None and peek.caught_up else before.caught_up_at
    began = before.began if begins else None
    if isinstance(before.position, Ended):
        return replace(before, began=None)
    if peek is None or peek.end is None:
        quiet_until = before.quiet_until if peek is None else peek.quiet_until or before.quiet_until
        return ShardOffset(before.position, began, caught_up_at, quiet_until)
    if isinstance(peek.end, Ended):
        return ShardOffset(peek.end, began, unread_since(before))
    return ShardOffset(peek.end, began, before.caught_up_at if begins else caught_up_at)


def _is_worth_a_batch(before: ShardOffset, peek: ShardPeek | None) -> bool:
    """True if so much of an idle shard was walked that the next process should not repeat it."""
    if peek is None or peek.quiet_until is None or peek.walked <= WALKED_AGAIN:
        return False
    return before.quiet_until is None or to_millis(before.quiet_until) < to_millis(peek.quiet_until)


def _needs_confirming(before: ShardOffset, after: ShardOffset, looked_at: datetime) -> bool:
    if after.caught_up_at != looked_at or isinstance(before.position, Ended):
        return False
    known = unread_since(before)
    return known is None or looked_at - known >= CONFIRM_AFTER


def plan_ranges(
    start: StreamOffset, end: StreamOffset, hash_key_ranges: Mapping[str, HashKeyRange], now: datetime
) -> list[ShardRange]:
    """Returns what the batch from `start` to `end` reads. The same offsets give the same ranges, except for
    `verify`.
    """
    ranges = []
    for shard_id, after in sorted(end.shards.items()):
        begin = begin_of(shard_id, start, end)
        if begin is None or isinstance(begin.position, Ended) or isinstance(after.position, Unread):
            continue
        if begin.position == after.position:
            continue  # the position may be in mid-aggregate, and the rest of that is not in this batch
        last = after.position if isinstance(after.position, ReadTo) else None
        if last is not None and _has_read(begin.position, last.sequence_number):
            continue
        ranges.append(
            ShardRange(
                shard_id,
                hash_key_ranges.get(shard_id),
                begin.position,
                last.sequence_number if last is not None else None,
                may_be_trimmed(begin, now),
                last.arrived if last is not None else None,
                quiet_until=begin.quiet_until,
            )
        )
    return ranges


def begin_of(shard_id: str, start: StreamOffset, end: StreamOffset) -> ShardOffset | None:
    """Where the batch begins the shard, and what is known of that place."""
    before, after = start.shards.get(shard_id), end.shards[shard_id]
    if after.began is not None:
        return ShardOffset(after.began, caught_up_at=after.caught_up_at)
    return before


def _has_read(position: Begin, sequence_number: str) -> bool:
    return isinstance(position, ReadTo) and not position.is_before(sequence_number)
