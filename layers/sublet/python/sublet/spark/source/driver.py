"""The driver side of a streaming query of one stream or of several. Each stream has a planner; they share the batch,
its limit, and the leases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from sublet.errors import SettingsError, StreamError, StreamNotFound, TransientError
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.settings import StartPosition
from sublet.spark.options import Options
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.limit_shares import Admitted, parts, shared_rest, unread_shards
from sublet.spark.plan.offsets import Ended, Offset, StreamOffset, as_of_one, as_of_several
from sublet.spark.plan.planning import ShardRange
from sublet.spark.read.connection import StreamsAccess, of_stream
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.read.peeks import LOOKBACK
from sublet.spark.read.reading import ReadTask
from sublet.spark.source.data_loss import tell_of_gap
from sublet.spark.source.discovery import Starts, StreamDiscovery
from sublet.spark.source.portion import Portion, QueriedStream
from sublet.spark.source.stream_planner import StreamLook, StreamPlanner

AT_ONCE = 16
"""How many streams to ask at the same time. Each looks into several of its shards at once."""

ROUNDS = 3
"""How often the rest of a limit is given out. Each round finds out whether as much waited as it seemed."""

T = TypeVar("T")


class QueryDriver:
    """Answers what Spark asks a streaming source, in our own values. There is one object per query, in one process,
    called by one thread.

    A query of one stream has it under the key None, and its shards by their own ids. Of several, a stream that the
    option no longer names, or that is gone, keeps its part of the offset, and continues from there when it is back.
    """

    def __init__(self, access: StreamsAccess, options: Options, portion: Portion) -> None:
        self._access = access
        self._options = options
        self._portion = portion
        self._discovery = StreamDiscovery(access, options)
        self._planners: dict[StreamKey | None, StreamPlanner] = {}
        self._planners = self._planners_of(self._discovery.starts)
        self._as_ours = as_of_one if options.streams is None else as_of_several
        self._looks: Mapping[str, ShardLook] = {}
        """What the last plan found in each shard, by lease key."""
        self._is_waiting: set[StreamKey | None] = set()
        """Streams of the offset that are not read, and for which that has been logged."""
        self._has_planned = False
        self.has_targets = False

    @property
    def lag(self) -> Mapping[str, timedelta]:
        """How far each shard's last planned end was behind its tip, by lease key."""
        return {key: look.found.lag for key, look in self._looks.items()}

    @property
    def counted_bytes(self) -> Mapping[str, int]:
        """The bytes of each shard in the last planned batch, by lease key, as far as a limit had them counted."""
        return {key: look.found.bytes for key, look in self._looks.items() if look.found.bytes is not None}

    @property
    def throttled(self) -> Mapping[str, int]:
        """How many of the driver's calls on each shard were throttled since the query started, by lease key."""
        return {key: count for planner in self._planners.values() for key, count in planner.throttled.items()}

    @property
    def leaves_more(self) -> bool:
        """True if the last planned batch ends well before what is available: because of a limit, or because children
        follow.
        """
        found = [look.found for look in self._looks.values()]
        return any(isinstance(peek.end, Ended) or peek.lag > LOOKBACK for peek in found)

    def initial_offset(self) -> Offset:
        """The offset before the first plan. Spark calls it again when it repeats planning batch 0."""
        if self._options.streams is not None:
            return Offset()
        return Offset({None: self._planners[None].initial_offset()})

    def set_targets(self, start: Offset | None = None) -> None:
        """From now on, plans nothing beyond what is available now. Streams that appear later are for the next run.
        `start`: how far the query has read, if known.
        """
        before = Offset() if start is None else self._as_ours(start)
        self._portion.settle()
        self._of_each(self._look(), lambda key, planner: planner.set_targets(before.streams.get(key)))
        self.has_targets = True

    def latest_offset(self, start: Offset, limit: BatchShare = NO_LIMIT) -> Offset:
        """Where a batch that begins at `start` ends: `start` itself if there is nothing to read in any stream.

        limit: of the whole batch. Raises OffsetMalformed, StreamRecreated, DataGap, and what Stream raises.
        """
        before = self._as_ours(start)
        end = self._plan(before, limit)
        if end is None and self.has_targets and self._portion.settles_again(before):
            end = self._plan(before, limit)
        return start if end is None else end

    def _plan(self, before: Offset, limit: BatchShare) -> Offset | None:
        """Where the batch ends; None if there is nothing to read."""
        planners = self._look()
        self._tell_of_waiting(before)
        self._tell_of_start(before)
        # A checkpoint that is not this query's is refused before the keeper writes it to the leases.
        begins = self._of_each(planners, lambda key, planner: planner.begin(before.streams.get(key)))
        self._portion.committed(before)
        shares = self._shares(planners, before, limit)
        looks = self._of_each(
            {key: planners[key] for key in begins}, lambda key, planner: planner.look(begins[key], shares[key])
        )
        looks = self._look_further(planners, looks, limit)
        plans = self._of_each({key: planners[key] for key in looks}, lambda key, planner: planner.plan(looks[key]))
        self._looks = {key: look for plan in plans.values() for key, look in plan.looks.items()}
        self._portion.looked(self._looks)
        ends = {key: plan.end for key, plan in plans.items() if plan.end.shards}
        end = Offset({**before.streams, **ends})
        self._portion.wait_for_leases([name for each in planners.values() for name in each.listed])
        if all(before.streams.get(key) is part for key, part in ends.items()):
            self._portion.planned_nothing()
            return None
        self._portion.planned(end)
        return end

    def tasks(self, start: Offset, end: Offset) -> list[ReadTask]:
        """The tasks that read the batch. Spark also calls this without `latest_offset` before it, to repeat a logged
        batch, which may have streams that are no longer read.
        """
        before, after = self._as_ours(start), self._as_ours(end)
        moved = {key: part for key, part in after.streams.items() if part != before.streams.get(key)}
        if not moved:
            return []
        starts = {key: before.streams.get(key) or _nothing_of(part) for key, part in moved.items()}
        planners = {key: self._planner(key, part.identity.arn) for key, part in moved.items()}
        found = self._of_each(planners, lambda key, planner: planner.ranges(starts[key], moved[key]))
        self._lose(moved, found)
        self._check_leased(found)
        ranges = [each for of_stream in found.values() for each in of_stream]
        left = _by_stream(
            self._portion.resume(ranges, before, after, lambda key: planners[stream_key_of(key)].has_shard(key))
        )
        made = self._of_each(
            {key: planners[key] for key in left},
            lambda key, planner: planner.tasks(left[key], starts[key], moved[key]),
        )
        self._lose({key: moved[key] for key in left}, made)
        return [task for tasks in made.values() for task in tasks]

    def _look(self) -> Mapping[StreamKey | None, StreamPlanner]:
        """Looks for the streams, and returns the planners of those that there are. Streams that appear once the targets
        are set have no target, and are not looked for.
        """
        if not self.has_targets:
            self._planners = self._planners_of(self._discovery.look())
        return {key: self._planners[key] for key in self._discovery.starts}

    def _planners_of(self, starts: Starts) -> dict[StreamKey | None, StreamPlanner]:
        return {key: self._planner(key, self._arn(key), start) for key, start in starts.items()}

    def _arn(self, key: StreamKey | None) -> str | None:
        streams = self._access.streams
        return self._options.stream_arn if key is None or streams is None else streams.arn(key)

    def _planner(self, key: StreamKey | None, arn: str | None, start: StartPosition | None = None) -> StreamPlanner:
        if key in self._planners:
            return self._planners[key]
        own = self._options.of_stream(key, arn, start)
        return StreamPlanner(QueriedStream(key, of_stream(self._access.connect(own), key), own), self._portion)

    def _shares(
        self, streams: Iterable[StreamKey | None], before: Offset, limit: BatchShare
    ) -> Mapping[StreamKey | None, BatchShare]:
        weights = unread_shards(before, streams, self._portion.is_ours)
        records, sizes = parts(limit.records, weights), parts(limit.bytes, weights)
        return {key: BatchShare(records[key], sizes[key], limit.span) for key in weights}

    def _look_further(
        self,
        planners: Mapping[StreamKey | None, StreamPlanner],
        looks: dict[StreamKey | None, StreamLook],
        limit: BatchShare,
    ) -> dict[StreamKey | None, StreamLook]:
        """Gives what idle shards leave of the limit to shards that have more, in a few rounds, because only a look
        shows how much that is.
        """
        total = limit.records or limit.bytes
        for _ in range(ROUNDS if total else 0):
            peeks = {shard_id: peek for look in looks.values() for shard_id, peek in look.peeks.items()}
            found = {shard_id: Admitted(limit.used_by(peek), peek.waiting) for shard_id, peek in peeks.items()}
            more = shared_rest(total or 0, found)
            asked = {key: planners[key] for key, look in looks.items() if more.keys() & look.peeks.keys()}
            if not asked:
                break
            again = self._of_each(asked, lambda key, planner: planner.look_further(looks[key], limit, more))  # noqa: B023 - called right here
            looks = {**{key: look for key, look in looks.items() if key not in asked}, **again}
        return looks

    def _of_each(
        self,
        planners: Mapping[StreamKey | None, StreamPlanner],
        call: Callable[[StreamKey | None, StreamPlanner], T],
    ) -> dict[StreamKey | None, T]:
        """Calls a function for each stream, many at once. Leaves out the streams that are not there."""
        with ThreadPoolExecutor(min(AT_ONCE, len(planners) or 1)) as pool:
            answers = dict(
                zip(planners, pool.map(lambda key: self._asked(key, planners[key], call), planners), strict=True)
            )
        for key, answer in answers.items():
            if isinstance(answer, StreamError):
                self._discovery.is_gone(key, answer)
        return {key: answer for key, answer in answers.items() if not isinstance(answer, StreamError)}

    def _asked(
        self, key: StreamKey | None, planner: StreamPlanner, call: Callable[[StreamKey | None, StreamPlanner], T]
    ) -> T | StreamError:
        """Calls a function for one stream. Returns the error if the stream is one of several and is not there: Kinesis
        does not describe it any more, or is creating or deleting it. A query whose only stream is not there fails.
        """
        try:
            return call(key, planner)
        except TransientError:
            raise
        except StreamError as problem:
            if key is None or (not isinstance(problem, StreamNotFound) and planner.has_stream()):
                raise
            return problem

    def _check_leased(self, streams: Iterable[StreamKey | None]) -> None:
        """Raises SettingsError if a batch that is to be repeated needs leases that the query does not take."""
        if self._portion.application is None:
            return
        self._look()
        if unnamed := sorted(filter(None, set(streams) - self._discovery.starts.keys())):
            raise SettingsError(
                "stream",
                self._options.stream,
                f"also {', '.join(key.stream for key in unnamed)}, until the batch is committed that was planned "
                "last: it has to be repeated, and has records of it",
            )

    def _tell_of_start(self, before: Offset) -> None:
        """Says once that a start position has no effect, because the query goes on from its checkpoint."""
        if not self._has_planned and self._options.gives_start and before.shards:
            self._access.log.warning(
                "startPosition has no effect: it is for the first run with a checkpointLocation, and this one goes on "
                "from its checkpoint. To start there, give the query a new checkpointLocation and a new output",
                startPosition=str(self._options.start_position),
            )
        self._has_planned = True

    def _tell_of_waiting(self, before: Offset) -> None:
        waiting = before.streams.keys() - self._discovery.starts.keys()
        for key in sorted(filter(None, waiting - self._is_waiting)):
            self._access.log.warning(
                "a stream of the checkpoint is not read: it is gone, or the option stream does not name it. Its "
                "positions wait",
                stream=str(key),
            )
        self._is_waiting = set(waiting)

    def _lose(self, wanted: Mapping[StreamKey | None, StreamOffset], found: Collection[StreamKey | None]) -> None:
        """Reports streams that were deleted between the plan of a batch and its reading."""
        for key, part in wanted.items():
            if key not in found:
                tell_of_gap(
                    self._access.log,
                    self._options,
                    part.stream,
                    f"it is gone ({key}), and a batch that must be read has records of it",
                )


def _nothing_of(part: StreamOffset) -> StreamOffset:
    return StreamOffset(part.stream, part.identity, application=part.application)


def _by_stream(ranges: Iterable[ShardRange]) -> dict[StreamKey | None, list[ShardRange]]:
    found: dict[StreamKey | None, list[ShardRange]] = defaultdict(list)
    for each in ranges:
        found[stream_key_of(each.shard_id)].append(each)
    return found
