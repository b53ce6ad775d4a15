"""The driver side of a streaming query: looks into the stream, and turns planning's decisions into the next offset and
its tasks.

There is one object per query, in one process, called by one thread. What it remembers only saves calls, except for the
targets of an available-now run, which Spark sets once at each start of the query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

from sublet.errors import StreamError, StreamNotFound
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import NOT_DESCRIBED
from sublet.settings import HashRangeFilter
from sublet.spark.options import Options
from sublet.spark.plan.gaps import may_be_trimmed, never_read, shards_to_ask_about
from sublet.spark.plan.lag import looks_of
from sublet.spark.plan.offsets import (
    Ended,
    Offset,
    ReadTo,
    ShardOffset,
    Unread,
)
from sublet.spark.plan.offsets_of_several import AnyOffset, as_of_one
from sublet.spark.plan.planning import (
    Begin,
    Peek,
    ShardRange,
    begin_of,
    check_application,
    check_identity,
    next_offset,
    plan_ranges,
)
from sublet.spark.read.connection import StreamAccess
from sublet.spark.read.counting import NO_LIMIT, Share
from sublet.spark.read.peeks import LOOKBACK, Peeker
from sublet.spark.read.reading import ReadTask
from sublet.spark.source.descriptions import Descriptions
from sublet.spark.source.losses import Losses
from sublet.spark.source.portion import Portion

LOOKS_AT_ONCE = 32


class QueryDriver:
    """Answers what Spark asks a streaming source, in our own values."""

    def __init__(self, connection: StreamAccess, options: Options, portion: Portion) -> None:
        self._connection = connection
        self._portion = portion
        self._stream = connection.stream
        self._options = options
        self._filters = options.hash_range_filter is HashRangeFilter.KCL
        self._peeker = Peeker(connection, filters=self._filters)
        self._described = Descriptions(self._stream, connection.clock, portion.placement, filters=self._filters)
        self._placement = NOT_DESCRIBED
        self._shards: dict[str, Shard] = {}
        self._list_at = connection.clock.steady()
        self._targets: Mapping[str, Peek] | None = None
        self._targets_at = connection.clock.now()
        self._losses = Losses(connection, options, self._peeker)
        self._counted: Mapping[tuple[str, str | None], int] = {}
        """How many stream records the last plan found, by the shard and the batch's end in the shard."""
        self._called: Sequence[str] = ()
        """Shards whose tasks' first calls were counted when they were planned."""
        self.lag: Mapping[str, timedelta] = {}
        """How far each shard's last planned end was behind its tip, by shard id."""
        self.leaves_more = False
        """True if the last planned batch ends well before what is available: because of a limit, or because children
        follow."""

    def initial_offset(self) -> Offset:
        """The offset before the first plan. Spark calls it again when it repeats planning batch 0."""
        return Offset(self._options.stream, self._described.identity, application=self._portion.application)

    @property
    def listed(self) -> Collection[str]:
        """The shards of the last listing."""
        return self._shards.keys()

    def has_stream(self) -> bool:
        """Asks Kinesis. False only if it says that there is no such stream."""
        try:
            self._stream.describe()
        except StreamNotFound:
            return False
        except StreamError:
            return True
        return True

    @property
    def has_targets(self) -> bool:
        return self._targets is not None

    def set_targets(self, start: AnyOffset | None = None) -> None:
        """From now on, plans nothing beyond what is available now. `start`: how far the query has read, if known."""
        start = None if start is None else as_of_one(start)
        self._portion.settle()
        self._list()
        if start is not None:
            self._check(start)  # a position of another stream is not looked up in this one
        shards = list(self._shards.values())
        self._targets_at = self._connection.clock.now()
        with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
            tips = pool.map(lambda shard: self._peeker.tip(shard, *_place(start, shard.shard_id)), shards)
            self._targets = {shard.shard_id: tip for shard, tip in zip(shards, tips, strict=True)}

    def latest_offset(self, start: AnyOffset, limit: Share = NO_LIMIT) -> Offset:
        """Where a batch that begins at `start` ends: `start` itself if there is nothing to read.

        limit: of the whole batch. Raises StreamRecreated, DataGap, and what Stream raises.
        """
        start = as_of_one(start)
        for shard_id in self._called:
            self._connection.pace.date_last_call(shard_id)
        self._called = ()
        self._check(start)
        self._portion.committed(start)
        clock = self._connection.clock
        is_due = clock.steady() >= self._list_at
        if is_due or not start.shards or self._portion.is_unlisted(self._shards):
            self._list()
        self._placement = self._described.placement(start.placement)
        self._check(start)
        now = clock.now()
        denied = self._denied(start)
        beginning = self._beginning(start, denied, now)
        if not start.shards and not beginning:
            return start
        self._tell_of_unread_shards(start, beginning, denied)
        gone = start.shards.keys() & denied
        unfinished = {**start.shards, **beginning}
        unfinished = {key: each for key, each in unfinished.items() if key not in gone and not _is_ended(each)}
        peeks = self._peek_all(unfinished, limit)
        self._tell_of_idle_shards({**start.shards, **beginning}, peeks, now)
        if any(isinstance(peek.end, Ended) for peek in peeks.values()):
            self._list_at = clock.steady()  # its children are needed next
        self._counted = {
            (shard_id, peek.end.sequence_number if isinstance(peek.end, ReadTo) else None): peek.records
            for shard_id, peek in peeks.items()
            if peek.records is not None
        }
        self.lag = {shard_id: peek.lag for shard_id, peek in peeks.items()}
        self.leaves_more = any(isinstance(p.end, Ended) or p.lag > LOOKBACK for p in peeks.values())
        looked_at = now if self._targets is None else self._targets_at
        self._portion.looked(looks_of({**start.shards, **beginning}, peeks, looked_at))
        end = next_offset(start, beginning, peeks, gone, looked_at, self._placement)
        if end is not start:
            self._portion.planned(end)
        return end

    def tasks(self, start: AnyOffset, end: AnyOffset) -> list[ReadTask]:
        """The tasks that read the batch. Spark also calls this without `latest_offset` before it, to repeat a logged
        batch.
        """
        start, end = as_of_one(start), as_of_one(end)
        return self.tasks_of(self._portion.resume(self.ranges(start, end), start, end), start, end)

    def ranges(self, start: Offset, end: Offset) -> Sequence[ShardRange]:
        """All ranges of the batch, whether they must still be read or not."""
        if not end.shards.keys() <= self._shards.keys():
            self._list()
        self._check(end)
        ranges = {}
        if self._filters:
            ranges = {shard_id: shard.hash_key_range for shard_id, shard in self._shards.items()}
        return plan_ranges(start, end, ranges, self._connection.clock.now())

    def tasks_of(self, ranges: Iterable[ShardRange], start: Offset, end: Offset) -> list[ReadTask]:
        """The tasks that read these ranges. Waits until their first calls may be made."""
        now = self._connection.clock.now()
        planned = [self._verified(each, start, end, now) for each in ranges]
        pace = self._connection.pace
        for each in planned:
            pace.wait_for_call(each.shard_id)
        self._called = [each.shard_id for each in planned]
        loss, counted = self._options.fail_on_data_loss, self._counted
        return [
            ReadTask(
                end.stream,
                each,
                loss,
                pace.debt(each.shard_id),
                True,
                counted.get((each.shard_id, each.end)),
                end.placement,
                self._options.stream_arn,
            )
            for each in planned
        ]

    def _list(self) -> Iterable[Shard]:
        before = self._shards
        self._shards = {shard.shard_id: shard for shard in self._stream.list_shards()}
        self._described.note_listing(before, self._shards)
        self._list_at = self._connection.clock.steady() + self._options.list_interval
        return self._shards.values()

    def _check(self, offset: Offset) -> None:
        check_identity(offset, self._options.stream, self._described.identity)
        check_application(offset, self._portion.application)

    def _denied(self, start: Offset) -> frozenset[str]:
        """The shards that matter to this plan, but are not listed and not known to the service."""
        return frozenset(
            shard_id
            for shard_id in shards_to_ask_about(start, self._shards)
            if (shard_id in start.shards or self._portion.is_ours(shard_id)) and not self._stream.has_shard(shard_id)
        )

    def _beginning(self, start: Offset, denied: Collection[str], now: datetime) -> dict[str, ShardOffset]:
        """Returns the shards that the batch begins. Until the targets are read, these are only shards that were listed
        then, and those that were already gone.
        """
        fresh = self._portion.beginning(start, self._shards, denied, self._list, now)
        later = frozenset[str]() if self._targets is None else self._shards.keys() - self._targets.keys()
        return {shard_id: shard for shard_id, shard in fresh.items() if shard_id not in later}

    def _tell_of_unread_shards(
        self, start: Offset, beginning: Mapping[str, ShardOffset], denied: Collection[str]
    ) -> None:
        for shard_id in sorted(start.shards.keys() & denied):
            position = start.shards[shard_id].position
            if not isinstance(position, Ended) and self._portion.is_ours(shard_id):
                self._losses.gone(shard_id, position)
        for child, parents in never_read(beginning, start, self._shards).items():
            if all(map(self._portion.is_ours, parents)):
                self._losses.never_read(parents, child)

    def _tell_of_idle_shards(self, shards: Mapping[str, ShardOffset], peeks: Mapping[str, Peek], now: datetime) -> None:
        """Checks shards that have nothing to read now for records that were lost."""
        for shard_id, peek in peeks.items():
            if peek.end is None and peek.caught_up and may_be_trimmed(shards[shard_id], now):
                self._losses.look(shard_id, shards[shard_id], self._shards, now)

    def _verified(self, one: ShardRange, start: Offset, end: Offset, now: datetime) -> ShardRange:
        """Checks a range from a shard's beginning. For other ranges, the task itself sees whether the record before
        them still exists."""
        if not one.verify or isinstance(one.begin, ReadTo):
            return one
        if (begin := begin_of(one.shard_id, start, end)) is not None:
            self._losses.look(one.shard_id, begin, self._shards, now)
        return replace(one, verify=False)

    def _peek_all(self, places: Mapping[str, ShardOffset], limit: Share) -> dict[str, Peek]:
        """Looks into every unfinished shard that is listed and ours to read, many at once."""
        listed = sorted(places.keys() & self._shards.keys())
        shards = [self._shards[shard_id] for shard_id in listed if self._portion.is_ours(shard_id)]
        share = Share(_part(limit.records, len(shards)), _part(limit.bytes, len(shards)), limit.span)
        blocked = self._portion.blocked(shards, self._shards)
        with ThreadPoolExecutor(min(LOOKS_AT_ONCE, len(shards) or 1)) as pool:
            peeks = pool.map(
                lambda shard: (
                    self._peek_blocked(shard, places[shard.shard_id])
                    if shard.shard_id in blocked
                    else self._peek(shard, places[shard.shard_id], share)
                ),
                shards,
            )
            return {shard.shard_id: peek for shard, peek in zip(shards, peeks, strict=True)}

    def _peek_blocked(self, shard: Shard, place: ShardOffset) -> Peek:
        peek = self._look(replace(shard, is_open=True), place, NO_LIMIT)
        return Peek(None, caught_up=True) if isinstance(peek.end, Ended) else peek

    def _look(self, shard: Shard, place: ShardOffset, share: Share) -> Peek:
        assert not isinstance(place.position, Ended), "an ended shard is not looked into"
        return self._peeker.look(shard, place.position, share, self._placement, place.quiet_until)

    def _peek(self, shard: Shard, place: ShardOffset, share: Share) -> Peek:
        if self._targets is None:
            return self._look(shard, place, share)
        target = self._targets.get(shard.shard_id, Peek(None))
        if target.end is None:
            return target
        assert not isinstance(place.position, Ended), "an ended shard is not looked into"
        if _has_reached(place.position, target.end):
            return Peek(None, caught_up=True)
        if share == NO_LIMIT:
            return Peek(target.end, caught_up=True)
        peek = self._look(shard, place, share)
        return replace(peek, end=_earlier(peek.end, target.end))


def _is_ended(shard: ShardOffset) -> bool:
    return isinstance(shard.position, Ended)


def _place(start: Offset | None, shard_id: str) -> tuple[Begin, datetime | None]:
    """How far the shard is read, and until when nothing beyond that arrived, if known."""
    shard = None if start is None else start.shards.get(shard_id)
    if shard is None or isinstance(shard.position, Ended):
        return Unread(), None
    return shard.position, shard.quiet_until


def _part(total: int | None, parts: int) -> int | None:
    return None if total is None else max(1, total // max(1, parts))


def _has_reached(position: Begin, target: ReadTo | Ended) -> bool:
    """True if nothing up to the target is unread. That includes a shard that begins after the target arrived."""
    if isinstance(target, Ended):
        return False
    if isinstance(position, ReadTo):
        return not position.is_before(target.sequence_number)
    return position.at is not None and target.arrived is not None and target.arrived < position.at


def _earlier(end: ReadTo | Ended | None, target: ReadTo | Ended) -> ReadTo | Ended | None:
    if end is None or isinstance(target, Ended):
        return end
    if isinstance(end, Ended):
        return target
    return end if int(end.sequence_number) < int(target.sequence_number) else target
