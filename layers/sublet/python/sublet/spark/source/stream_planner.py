"""The driver's part for one stream of a query: looks into the stream, and turns planning's decisions into the stream's
part of the next offset, and into its tasks.

What a planner remembers only saves calls, except for the targets of an available-now run, which Spark sets once at each
start of the query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.errors import StreamError, StreamNotFound
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import NOT_DESCRIBED
from sublet.settings import HashRangeFilter
from sublet.spark.plan.gaps import may_be_trimmed, never_read, shards_to_ask_about
from sublet.spark.plan.lag import ShardLook, looks_of
from sublet.spark.plan.offsets import (
    Ended,
    ReadTo,
    ShardOffset,
    StreamOffset,
    Unread,
)
from sublet.spark.plan.planning import (
    Begin,
    ShardPeek,
    ShardRange,
    begin_of,
    check_application,
    check_identity,
    next_offset,
    plan_ranges,
)
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.read.peeks import Peeker
from sublet.spark.read.reading import ReadTask
from sublet.spark.source.at_once import at_once
from sublet.spark.source.data_loss import Losses
from sublet.spark.source.descriptions import Descriptions
from sublet.spark.source.portion import Portion, QueriedStream

ASK_AGAIN = timedelta(seconds=5)
"""How long Kinesis is not asked again whether it has an unlisted shard. That is a GetShardIterator, of which all the
consumers of a shard may together make five a second.
"""


class StreamPlan(NamedTuple):
    """Where the next batch ends in a stream: at its start if there is nothing to read. `looks`: what was found in each
    shard.
    """

    end: StreamOffset
    looks: Mapping[str, ShardLook]


class StreamLook(NamedTuple):
    """What a plan has found in a stream so far.

    start      where the batch begins
    shards     of `start` and of `beginning`, those that the batch begins to read
    gone       shards of `start` that the stream no longer has
    peeks      of the shards that were looked into
    at         the time of the look
    """

    start: StreamOffset
    shards: Mapping[str, ShardOffset]
    beginning: Mapping[str, ShardOffset]
    gone: Collection[str]
    peeks: Mapping[str, ShardPeek]
    at: datetime


class StreamPlanner:
    """Plans the batches of one stream of a query. Only one thread at a time may call it."""

    def __init__(self, stream: QueriedStream, portion: Portion) -> None:
        access, options = stream.access, stream.options
        self._queried = stream
        self._access = access
        self._stream = access.stream
        self._options = options
        self._portion = portion
        self._filters = options.hash_range_filter is HashRangeFilter.KCL
        self._peeker = Peeker(access, filters=self._filters)
        self._blocked_peeker = Peeker(access, filters=self._filters, to_last_record=True)
        self._blocked = frozenset[str]()
        """Shards of the last look that may only be read to their last record."""
        self._described = Descriptions(
            access.stream, access.clock, lambda: portion.placement(stream), filters=self._filters
        )
        self._placement = NOT_DESCRIBED
        self._shards: dict[str, Shard] = {}
        self._list_at = access.clock.steady()
        self._targets: Mapping[str, ShardPeek] | None = None
        self._targets_at = access.clock.now()
        self._losses = Losses(access.log, options, self._peeker, self._described)
        self._peeked: Mapping[tuple[str, str | None], ShardPeek] = {}
        """What the last plan found, by the shard and the batch's end in the shard."""
        self._called: Sequence[str] = ()
        """Shards whose tasks' first calls were counted when they were planned."""
        self._known_until: dict[str, datetime] = {}
        """Unlisted shards that Kinesis has, and when to ask again."""

    @property
    def throttled(self) -> Mapping[str, int]:
        """How many of this process' calls on each shard were throttled."""
        return {shard_id: count for shard_id, count in self._access.pace.throttled.items() if count}

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

    def has_shard(self, shard_id: str) -> bool:
        """Asks Kinesis. False if it does not know the shard any more."""
        return self._stream.has_shard(shard_id)

    def initial_offset(self) -> StreamOffset:
        """The offset before the first plan."""
        return StreamOffset(self._options.stream, self._described.last.identity, application=self._portion.application)

    def set_targets(self, start: StreamOffset | None) -> None:
        """From now on, plans nothing beyond what is available now. `start`: how far the query has read, if known."""
        self._list()
        if start is not None:
            self._check(start)  # a position of another stream is not looked up in this one
        shards = self._shards
        self._targets_at = self._access.clock.now()
        self._targets = at_once(lambda key: self._peeker.tip(shards[key], *_place(start, key)), shards)

    def begin(self, committed: StreamOffset | None) -> StreamOffset:
        """Returns where the next batch begins: at what Spark has committed, or (None) before everything. Raises
        OffsetMalformed and StreamRecreated if the checkpoint is not this query's.
        """
        for shard_id in self._called:
            self._access.pace.date_last_call(shard_id)
        self._called = ()
        start = self.initial_offset() if committed is None else committed
        self._check(start)
        return start

    def look(self, start: StreamOffset, limit: BatchShare) -> StreamLook:
        """Looks into the stream. `limit`: of its part of the batch. Raises StreamRecreated, DataGap, and what Stream
        raises.
        """
        is_due = self._access.clock.steady() >= self._list_at
        if is_due or not start.shards or self._portion.is_unlisted(self._queried.key, self._shards):
            self._list()
        self._placement = self._described.placement(start.placement)
        self._check(start)  # the listing may have shown that the stream is another one
        now = self._access.clock.now()
        denied = self._denied(start)
        beginning = self._beginning(start, denied, now)
        shards = {**start.shards, **beginning}
        gone = start.shards.keys() & denied
        self._tell_of_unread_shards(start, beginning, gone)
        unfinished = {key: shard for key, shard in shards.items() if key not in gone and not _is_ended(shard)}
        return StreamLook(start, shards, beginning, gone, self._peek_all(unfinished, limit), now)

    def look_further(self, look: StreamLook, limit: BatchShare, more: Mapping[str, int]) -> StreamLook:
        """Admits more of some shards. `limit`: says what is counted; `more`: how much of it, by shard. Leaves out
        shards of other streams.
        """
        again = sorted(more.keys() & look.peeks.keys())
        peeks = at_once(lambda key: self._look_further(key, limit.and_more(look.peeks[key], more[key])), again)
        return look._replace(peeks={**look.peeks, **peeks})

    def plan(self, look: StreamLook) -> StreamPlan:
        """Plans the stream's part of a batch."""
        start, shards, peeks = look.start, look.shards, look.peeks
        if not shards:
            return StreamPlan(start, {})
        self._tell_of_idle_shards(shards, peeks, look.at)
        if any(isinstance(peek.end, Ended) for peek in peeks.values()):
            self._list_at = self._access.clock.steady()  # its children are needed next
        self._peeked = {
            (shard_id, peek.end.sequence_number if isinstance(peek.end, ReadTo) else None): peek
            for shard_id, peek in peeks.items()
        }
        looked_at = look.at if self._targets is None else self._targets_at
        end = next_offset(start, look.beginning, peeks, look.gone, looked_at=looked_at, placement=self._placement)
        return StreamPlan(end, looks_of(shards, peeks, looked_at))

    def ranges(self, start: StreamOffset, end: StreamOffset) -> Sequence[ShardRange]:
        """All ranges of the stream's part of a batch, whether they must still be read or not."""
        if not end.shards.keys() <= self._shards.keys():
            self._list()
        self._check(end)
        ranges = {}
        if self._filters:
            ranges = {shard_id: shard.hash_key_range for shard_id, shard in self._shards.items()}
        return plan_ranges(start, end, ranges, self._access.clock.now())

    def tasks(self, ranges: Sequence[ShardRange], start: StreamOffset, end: StreamOffset) -> list[ReadTask]:
        """The tasks that read these ranges. Waits until their first calls may be made."""
        planned = self._verified(ranges, start, end)
        pace = self._access.pace
        for each in planned:
            pace.wait_for_call(each.shard_id)
        self._called = [each.shard_id for each in planned]
        return [self._task(each, end) for each in planned]

    def _task(self, one: ShardRange, end: StreamOffset) -> ReadTask:
        found = self._peeked.get((one.shard_id, one.end), ShardPeek(None))
        return ReadTask(
            end.stream,
            one,
            self._options.fail_on_data_loss,
            debt=self._access.pace.debt(one.shard_id),
            first_call_waited=True,
            expected=found.records,
            placement=end.placement,
            stream_arn=self._options.stream_arn,
            record_bytes=found.record_bytes,
        )

    def _list(self) -> Iterable[Shard]:
        before = self._shards
        self._shards = {shard.shard_id: shard for shard in self._stream.list_shards()}
        self._described.note_listing(before, self._shards)
        self._list_at = self._access.clock.steady() + self._options.list_interval
        return self._shards.values()

    def _check(self, offset: StreamOffset) -> None:
        check_identity(offset, self._options.stream, self._described.last.identity)
        check_application(offset, self._portion.application)

    def _denied(self, start: StreamOffset) -> frozenset[str]:
        """The shards that matter to this plan, but are not listed and not known to the service."""
        now = self._access.clock.steady()
        self._known_until = {shard_id: until for shard_id, until in self._known_until.items() if until > now}
        asked = {
            shard_id
            for shard_id in shards_to_ask_about(start, self._shards)
            if shard_id not in self._known_until and (shard_id in start.shards or self._portion.is_ours(shard_id))
        }
        denied = frozenset(shard_id for shard_id, is_known in at_once(self.has_shard, asked).items() if not is_known)
        self._known_until |= dict.fromkeys(asked - denied, now + ASK_AGAIN)
        return denied

    def _beginning(self, start: StreamOffset, denied: Collection[str], now: datetime) -> dict[str, ShardOffset]:
        """Returns the shards that the batch begins. Until the targets are read, these are only shards that were listed
        then, and those that were already gone.
        """
        fresh = self._portion.beginning(self._queried, start, self._shards, denied, self._list, now)
        later = frozenset[str]() if self._targets is None else self._shards.keys() - self._targets.keys()
        return {shard_id: shard for shard_id, shard in fresh.items() if shard_id not in later}

    def _tell_of_unread_shards(
        self, start: StreamOffset, beginning: Mapping[str, ShardOffset], gone: Collection[str]
    ) -> None:
        for shard_id in sorted(gone):
            position = start.shards[shard_id].position
            if not isinstance(position, Ended) and self._portion.is_ours(shard_id):
                self._losses.gone(shard_id, position)
        for child, parents in never_read(beginning, start, self._shards).items():
            if all(map(self._portion.is_ours, parents)):
                self._losses.never_read(parents, child)

    def _tell_of_idle_shards(
        self, shards: Mapping[str, ShardOffset], peeks: Mapping[str, ShardPeek], now: datetime
    ) -> None:
        """Checks shards that have nothing to read now for records that were lost."""
        idle = {
            shard_id: shards[shard_id]
            for shard_id, peek in peeks.items()
            if peek.end is None and peek.caught_up and may_be_trimmed(shards[shard_id], now)
        }
        self._losses.look(idle, self._shards, now)

    def _verified(self, ranges: Iterable[ShardRange], start: StreamOffset, end: StreamOffset) -> list[ShardRange]:
        """Checks the ranges from a shard's beginning. For other ranges, the task itself sees whether the record before
        them still exists."""
        checked = {each.shard_id for each in ranges if each.verify and isinstance(each.begin, Unread)}
        begins = {shard_id: begin for shard_id in sorted(checked) if (begin := begin_of(shard_id, start, end))}
        self._losses.look(begins, self._shards, self._access.clock.now())
        return [replace(each, verify=False) if each.shard_id in checked else each for each in ranges]

    def _peek_all(self, places: Mapping[str, ShardOffset], limit: BatchShare) -> dict[str, ShardPeek]:
        """Looks into every unfinished shard that is listed and ours to read, many at once."""
        listed = sorted(places.keys() & self._shards.keys())
        shards = {shard_id: self._shards[shard_id] for shard_id in listed if self._portion.is_ours(shard_id)}
        share = BatchShare(_part(limit.records, len(shards)), _part(limit.bytes, len(shards)), limit.span)
        self._blocked = self._portion.blocked(shards.values(), self._shards)
        return at_once(lambda shard_id: self._peek(shards[shard_id], places[shard_id], share), shards)

    def _look(self, shard: Shard, place: ShardOffset, share: BatchShare) -> ShardPeek:
        assert not isinstance(place.position, Ended), "an ended shard is not looked into"
        peeker = self._peeker_of(shard.shard_id)
        return peeker.look(shard, place.position, share, self._placement, place.quiet_until)

    def _peeker_of(self, shard_id: str) -> Peeker:
        return self._blocked_peeker if shard_id in self._blocked else self._peeker

    def _peek(self, shard: Shard, place: ShardOffset, share: BatchShare) -> ShardPeek:
        if self._targets is None:
            return self._look(shard, place, share)
        target = self._targets.get(shard.shard_id, ShardPeek(None))
        if target.end is None:
            return target
        assert not isinstance(place.position, Ended), "an ended shard is not looked into"
        if _has_reached(place.position, target.end):
            return ShardPeek(None, caught_up=True)
        if share == NO_LIMIT and not (isinstance(target.end, Ended) and shard.shard_id in self._blocked):
            return ShardPeek(target.end, caught_up=True)
        return _up_to(self._look(shard, place, share), target.end)

    def _look_further(self, shard_id: str, share: BatchShare) -> ShardPeek:
        peek = self._peeker_of(shard_id).look_further(self._shards[shard_id], share, self._placement)
        target = None if self._targets is None else self._targets[shard_id].end
        return peek if target is None else _up_to(peek, target)


def _is_ended(shard: ShardOffset) -> bool:
    return isinstance(shard.position, Ended)


def _place(start: StreamOffset | None, shard_id: str) -> tuple[Begin, datetime | None]:
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


def _up_to(peek: ShardPeek, target: ReadTo | Ended) -> ShardPeek:
    """The look, ended at the target if that comes first."""
    if peek.end is None or isinstance(target, Ended):
        return peek
    is_before = isinstance(peek.end, ReadTo) and int(peek.end.sequence_number) < int(target.sequence_number)
    return peek if is_before else replace(peek, end=target, waiting=0)
