"""The driver side of a streaming query of several streams. Each stream has a driver, as if the query read it alone;
they share the batch, its limit, and the leases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

from sublet.errors import SettingsError, StreamError, TransientError
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.spark.options import Options
from sublet.spark.plan.offsets import Offset
from sublet.spark.plan.offsets_of_several import AnyOffset, OffsetOfSeveral, as_of_several
from sublet.spark.plan.planning import ShardRange
from sublet.spark.plan.sharing import parts, unread_shards
from sublet.spark.read.connection import StreamsAccess, of_stream
from sublet.spark.read.counting import NO_LIMIT, Share
from sublet.spark.read.reading import ReadTask
from sublet.spark.source.driver import QueryDriver
from sublet.spark.source.losses import tell_of_gap
from sublet.spark.source.portion import Portions
from sublet.spark.source.streams_read import StreamsRead

AT_ONCE = 16
"""How many streams to ask at the same time. Each looks into several of its shards at once."""

T = TypeVar("T")


class DriverOfSeveral:
    """Answers what Spark asks a streaming source of several streams, in our own values; see QueryDriver. A stream that
    the option no longer names, or that is gone, keeps its part of the offset, and continues from there when it is back.
    """

    def __init__(self, access: StreamsAccess, options: Options, portions: Portions) -> None:
        self._access = access
        self._options = options
        self._portions = portions
        self._streams = StreamsRead(access, options)
        self._drivers: dict[StreamKey, QueryDriver] = {}
        self._is_waiting: set[StreamKey] = set()
        """Streams of the offset that are not read, and for which that has been logged."""
        self.has_targets = False

    @property
    def lag(self) -> Mapping[str, timedelta]:
        """How far each shard's last planned end was behind its tip, by stream and shard."""
        return {name: lag for driver in self._read.values() for name, lag in driver.lag.items()}

    @property
    def leaves_more(self) -> bool:
        return any(driver.leaves_more for driver in self._read.values())

    @property
    def _read(self) -> Mapping[StreamKey, QueryDriver]:
        return {key: self._drivers[key] for key in self._streams.starts if key in self._drivers}

    def initial_offset(self) -> OffsetOfSeveral:
        return OffsetOfSeveral()

    def set_targets(self, start: AnyOffset) -> None:
        """From now on, plans nothing beyond what is available now. Streams that appear later are for the next run."""
        self._portions.settle()
        self._look()
        before = as_of_several(start).streams
        self._of_each(self._read, lambda key, driver: driver.set_targets(before.get(key)))
        self.has_targets = True

    def latest_offset(self, start: AnyOffset, limit: Share = NO_LIMIT) -> AnyOffset:
        """Where a batch that begins at `start` ends: `start` itself if there is nothing to read in any stream."""
        before = as_of_several(start)
        self._portions.committed(before)
        self._look()
        self._tell_of_waiting(before)
        shares = self._shares(before, limit)
        found = self._of_each(
            self._read,
            lambda key, driver: driver.latest_offset(before.streams.get(key) or driver.initial_offset(), shares[key]),
        )
        ends = {key: end for key, end in found.items() if end.shards}
        self._portions.looked_over(before, ends, [name for each in self._read.values() for name in each.listed])
        if all(before.streams.get(key) is end for key, end in ends.items()):
            return start
        end = OffsetOfSeveral({**before.streams, **ends})
        self._portions.planned(end)
        return end

    def tasks(self, start: AnyOffset, end: AnyOffset) -> list[ReadTask]:
        """Returns the tasks. They include streams that are no longer read, if they are in a logged batch that is to be
        repeated.
        """
        before, after = as_of_several(start), as_of_several(end)
        moved = {key: part for key, part in after.streams.items() if part != before.streams.get(key)}
        starts = {key: before.streams.get(key) or _nothing_of(part) for key, part in moved.items()}
        drivers = {key: self._driver(key, part.identity.arn) for key, part in sorted(moved.items())}
        found = self._of_each(drivers, lambda key, driver: driver.ranges(starts[key], moved[key]))
        for key in moved.keys() - found.keys():
            self._lose(key)
        self._check_leased(found)
        ranges = [each for of_stream in found.values() for each in of_stream]
        left = _by_stream(self._portions.resume(ranges, before, after))
        made = self._of_each(
            {key: drivers[key] for key in left},
            lambda key, driver: driver.tasks_of(left[key], starts[key], moved[key]),
        )
        for key in left.keys() - made.keys():
            self._lose(key)
        return [task for tasks in made.values() for task in tasks]

    def _check_leased(self, streams: Iterable[StreamKey]) -> None:
        """Raises SettingsError if a batch that is to be repeated needs leases that the query does not take."""
        if self._portions.application is None:
            return
        self._look()
        if unnamed := sorted(set(streams) - self._streams.starts.keys()):
            raise SettingsError(
                "stream",
                self._options.stream,
                f"also {', '.join(key.stream for key in unnamed)}, until the batch is committed that was planned "
                "last: it has to be repeated, and has records of it",
            )

    def _look(self) -> None:
        """Looks for the streams. Those that appear once the targets are set have no target."""
        if self.has_targets:
            return
        starts = self._streams.look()
        for gone in self._drivers.keys() - starts.keys():
            del self._drivers[gone]
        for key, start in starts.items():
            if key not in self._drivers:
                self._drivers[key] = self._made(self._options.of_stream(key, self._access.streams.arn(key), start), key)

    def _driver(self, key: StreamKey, arn: str) -> QueryDriver:
        return self._drivers.get(key) or self._made(self._options.of_stream(key, arn), key)

    def _made(self, options: Options, key: StreamKey) -> QueryDriver:
        access = of_stream(self._access.connect(options), key)
        return QueryDriver(access, options, self._portions.of_stream(key, access, options))

    def _shares(self, before: OffsetOfSeveral, limit: Share) -> Mapping[StreamKey, Share]:
        weights = unread_shards(before, self._read, self._portions.is_ours)
        records, sizes = parts(limit.records, weights), parts(limit.bytes, weights)
        return {key: Share(records[key], sizes[key], limit.span) for key in weights}

    def _of_each(
        self, drivers: Mapping[StreamKey, QueryDriver], call: Callable[[StreamKey, QueryDriver], T]
    ) -> dict[StreamKey, T]:
        """Calls a function for each stream, many at once. Leaves out the streams that are gone."""
        with ThreadPoolExecutor(min(AT_ONCE, len(drivers) or 1)) as pool:
            answers = dict(
                zip(drivers, pool.map(lambda key: self._asked(key, drivers[key], call), drivers), strict=True)
            )
        for key, answer in answers.items():
            if isinstance(answer, _Gone):
                self._streams.is_gone(key, answer.problem)
        return {key: answer for key, answer in answers.items() if not isinstance(answer, _Gone)}

    def _asked(self, key: StreamKey, driver: QueryDriver, call: Callable[[StreamKey, QueryDriver], T]) -> T | _Gone:
        """Calls a function for one stream. Whatever it returns or raises, the stream counts as gone if Kinesis does not
        describe it.
        """
        try:
            return call(key, driver)
        except TransientError:
            raise
        except StreamError as problem:
            if driver.has_stream():
                raise
            return _Gone(problem)

    def _tell_of_waiting(self, before: OffsetOfSeveral) -> None:
        waiting = before.streams.keys() - self._read.keys()
        for key in sorted(waiting - self._is_waiting):
            self._access.log.warning(
                "a stream of the checkpoint is not read: it is gone, or the option stream does not name it. Its "
                "positions wait",
                stream=str(key),
            )
        self._is_waiting = set(waiting)

    def _lose(self, key: StreamKey) -> None:
        """The stream was deleted between the plan of a batch and its reading."""
        tell_of_gap(
            self._access.log,
            self._options,
            key.stream,
            f"it is gone ({key}), and a batch that must be read has records of it",
        )


class _Gone:
    """The answer of a stream that Kinesis no longer describes."""

    def __init__(self, problem: StreamError) -> None:
        self.problem = problem


def _nothing_of(part: Offset) -> Offset:
    return Offset(part.stream, part.identity, application=part.application)


def _by_stream(ranges: Iterable[ShardRange]) -> dict[StreamKey, list[ShardRange]]:
    found: dict[StreamKey, list[ShardRange]] = defaultdict(list)
    for each in ranges:
        key = stream_key_of(each.shard_id)
        assert key is not None, "of several streams"
        found[key].append(each)
    return dict(sorted(found.items()))
