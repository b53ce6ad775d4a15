"""A streaming query's driver side: looks into the stream, and the next offset and its tasks from what planning decides.

One object a query, in one process, called by one thread. What it remembers only saves calls, but for the targets of an
available-now run: Spark asks for those once at each start of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from sublet.errors import DataGap
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.settings import HashRangeFilter
from sublet.spark.options import Options
from sublet.spark.plan.offsets import (
    Ended,
    Offset,
    Position,
    ReadTo,
    ShardOffset,
    Unread,
)
from sublet.spark.plan.planning import (
    Begin,
    Peek,
    ShardRange,
    check_application,
    check_identity,
    next_offset,
    plan_ranges,
)
from sublet.spark.read.connection import Connection
from sublet.spark.read.peeks import LOOKBACK, NO_LIMIT, Peeker, Share
from sublet.spark.read.reading import Task

LOOKS_AT_ONCE = 32


class Portion(Protocol):
    """What of the stream is the query's to read: `whole_stream`, `leased_shards`.

    application   whose leases it goes by; None: nobody's
    """

    @property
    def application(self) -> str | None: ...

    def settle(self) -> None:
        """Before the targets of an available-now run are set."""

    def committed(self, start: Offset) -> None:
        """Spark has committed everything up to `start`. Before each plan."""

    def planned(self, end: Offset) -> None:
        """A batch up to there is about to be run."""

    def is_ours(self, shard_id: str) -> bool: ...

    def is_unlisted(self, listed: Mapping[str, Shard]) -> bool:
        """Whether something is ours to read that is not in the listing."""

    def beginning(
        self,
        start: Offset,
        listed: Mapping[str, Shard],
        list_again: Callable[[], Iterable[Shard]],
        now: datetime,
    ) -> Mapping[str, ShardOffset]:
        """The shards that a batch from `start` begins with anew, and where."""

    def blocked(self, shards: Iterable[Shard], listed: Mapping[str, Shard]) -> frozenset[str]:
        """Those of the closed shards that may not be read to their end yet, only to their last record."""

    def resume(self, ranges: Sequence[ShardRange], start: Offset, end: Offset) -> Sequence[ShardRange]:
        """What is left to read of a batch that may be one of the log, to be done again."""


class QueryDriver:
    """What Spark asks of a streaming source, in our own values."""

    def __init__(self, connection: Connection, options: Options, portion: Portion) -> None:
        self._connection = connection
        self._portion = portion
        self._stream = connection.stream
        self._options = options
        self._peeker = Peeker(connection)
        self._shards: dict[str, Shard] = {}
        self._list_at = connection.clock.steady()
        self._identity: StreamIdentity | None = None
        self._targets: Mapping[str, ReadTo | Ended | None] | None = None
        self._called: Sequence[str] = ()
        """Shards whose tasks' first calls were counted when they were planned."""
        self.lag: Mapping[str, timedelta] = {}
        """How far each shard's last planned end was behind its tip, by shard id."""
        self.leaves_more = False
        """Whether the last planned batch ends well before what is there does: by a limit, or because children follow."""

    def initial_offset(self) -> Offset:
        """Before the first plan. Spark asks again when it plans batch 0 again."""
        return Offset(self._options.stream, self._stream.identity(), application=self._portion.application)

    @property
    def has_targets(self) -> bool:
        return self._targets is not None

    def set_targets(self) -> None:
        """From now on nothing is planned beyond what is there now."""
        self._portion.settle()
        self._list()
        shards = list(self._shards.values())
        with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
            tips = pool.map(lambda shard: self._peeker.tip(shard, Unread()).end, shards)
            self._targets = {shard.shard_id: tip for shard, tip in zip(shards, tips, strict=True)}

    def latest_offset(self, start: Offset, limit: Share = NO_LIMIT) -> Offset:
        """Where a batch that begins at `start` ends: `start` itself when there is nothing to read.

        limit: of the whole batch. Raises StreamRecreated, DataGap, and what Stream raises.
        """
        for shard_id in self._called:
            self._connection.pace.date_last_call(shard_id)
        self._called = ()
        self._check(start)
        self._portion.committed(start)
        clock = self._connection.clock
        is_due = clock.steady() >= self._list_at
        listed_now = is_due or not start.shards or self._portion.is_unlisted(self._shards)
        if listed_now:
            self._list()
            self._check(start)
        now = clock.now()
        beginning = self._beginning(start, now)
        if not start.shards and not beginning:
            return start
        gone = self._gone(start) if listed_now else []
        peeks = self._peek_all(
            _unfinished(start, gone) | _unfinished(replace(start, shards=beginning)), limit
        )
        if any(isinstance(peek.end, Ended) for peek in peeks.values()):
            self._list_at = clock.steady()  # its children are wanted next
        self.lag = {shard_id: peek.lag for shard_id, peek in peeks.items()}
        self.leaves_more = any(isinstance(p.end, Ended) or p.lag > LOOKBACK for p in peeks.values())
        end = next_offset(start, beginning, peeks, gone, now)
        if end is not start:
            self._portion.planned(end)
        return end

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        """What the batch reads. Also called without `latest_offset` before it, to do a batch of the log again."""
        if not end.shards.keys() <= self._shards.keys():
            self._list()
        self._check(end)
        ranges = {}
        if self._options.hash_range_filter is HashRangeFilter.KCL:
            ranges = {shard_id: shard.hash_key_range for shard_id, shard in self._shards.items()}
        whole = plan_ranges(start, end, ranges, self._connection.clock.now())
        planned = self._portion.resume(whole, start, end)
        pace = self._connection.pace
        for each in planned:
            pace.wait_for_call(each.shard_id)
        self._called = [each.shard_id for each in planned]
        loss = self._options.fail_on_data_loss
        return [
            Task(end.stream, each, loss, pace.debt(each.shard_id), first_call_waited=True) for each in planned
        ]

    def _list(self) -> Iterable[Shard]:
        self._shards = {shard.shard_id: shard for shard in self._stream.list_shards()}
        self._identity = self._stream.identity()
        self._list_at = self._connection.clock.steady() + self._options.list_interval
        return self._shards.values()

    def _check(self, offset: Offset) -> None:
        if self._identity is None:
            self._identity = self._stream.identity()
        check_identity(offset, self._options.stream, self._identity)
        check_application(offset, self._portion.application)

    def _beginning(self, start: Offset, now: datetime) -> dict[str, ShardOffset]:
        fresh = self._portion.beginning(start, self._shards, self._list, now)
        return {s: o for s, o in fresh.items() if self._targets is None or s in self._targets}

    def _gone(self, start: Offset) -> list[str]:
        """Shards of the offset that the service denies. Unread ones are lost records, unless they are another's to read."""
        unlisted = sorted(start.shards.keys() - self._shards.keys())
        gone = [shard_id for shard_id in unlisted if not self._stream.has_shard(shard_id)]
        for shard_id in gone:
            position = start.shards[shard_id].position
            if not isinstance(position, Ended) and self._portion.is_ours(shard_id):
                self._lost(shard_id, position)
        return gone

    def _lost(self, shard_id: str, position: Position) -> None:
        message = (
            f"stream {self._options.stream}: shard {shard_id}, read up to {position}, is gone: it was closed, and what was left "
            "of it is past retention"
        )
        if self._options.fail_on_data_loss:
            raise DataGap(f"{message}. Set failOnDataLoss to false to go on with the shards that are left")
        self._connection.log.warning("data gap", what=message)

    def _peek_all(self, positions: Mapping[str, Begin], limit: Share) -> dict[str, Peek]:
        """A look into every unfinished shard that is listed, and ours to read, many at once."""
        listed = sorted(positions.keys() & self._shards.keys())
        shards = [self._shards[shard_id] for shard_id in listed if self._portion.is_ours(shard_id)]
        share = Share(_part(limit.records, len(shards)), _part(limit.bytes, len(shards)), limit.span)
        blocked = self._portion.blocked(shards, self._shards)
        with ThreadPoolExecutor(min(LOOKS_AT_ONCE, len(shards) or 1)) as pool:
            peeks = pool.map(
                lambda shard: (
                    self._peek_blocked(shard, positions[shard.shard_id])
                    if shard.shard_id in blocked
                    else self._peek(shard, positions[shard.shard_id], share)
                ),
                shards,
            )
            return {shard.shard_id: peek for shard, peek in zip(shards, peeks, strict=True)}

    def _peek_blocked(self, shard: Shard, position: Begin) -> Peek:
        peek = self._peeker.look(replace(shard, is_open=True), position)
        return Peek(None, caught_up=True) if isinstance(peek.end, Ended) else peek

    def _peek(self, shard: Shard, position: Begin, share: Share) -> Peek:
        if self._targets is None:
            return self._peeker.look(shard, position, share)
        target = self._targets.get(shard.shard_id)
        if target is None or _has_reached(position, target):
            return Peek(None)
        if share == NO_LIMIT:
            return Peek(target)
        peek = self._peeker.look(shard, position, share)
        return replace(peek, end=_earlier(peek.end, target))


def _unfinished(offset: Offset, gone: Sequence[str] = ()) -> dict[str, Begin]:
    return {
        shard_id: shard.position
        for shard_id, shard in offset.shards.items()
        if not isinstance(shard.position, Ended) and shard_id not in gone
    }


def _part(total: int | None, parts: int) -> int | None:
    return None if total is None else max(1, total // max(1, parts))


def _has_reached(position: Begin, target: ReadTo | Ended) -> bool:
    """Whether nothing up to the target is unread. A shard that begins after the target arrived has nothing either."""
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
