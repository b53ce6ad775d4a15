"""A streaming query of several streams, without Spark: as `memory_query`, over streams in memory that come and go."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from sublet.decisions.session.read_position import ReadPosition
from sublet.errors import StreamNotFound
from sublet.ports import Refusal, ShardReader
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.protocol.stream_key import StreamKey
from sublet.reading.polling import PollingReader
from sublet.reading.several_streams import with_streams
from sublet.settings import StartPosition
from sublet.spark.keeper.keeper import Keeper
from sublet.spark.options import Options
from sublet.spark.plan.offsets import Offset, offset_from_json, offset_to_json
from sublet.spark.read.connection import StreamAccess, StreamsAccess
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.read.pace import CallPace
from sublet.spark.read.reading import access_for, read_range
from sublet.spark.source.driver import QueryDriver
from sublet.spark.source.leased_shards import LeasedShards
from sublet.spark.source.portion import Portion
from sublet.spark.source.whole_streams import WholeStreams
from sublet.testing.memory import (
    MemoryLeaseTable,
    MemoryLog,
    MemorySightingStore,
    MemoryStream,
    memory_ports,
)
from sublet.testing.memory.streams import MemoryStreams

from tests.spark.held_query import MemoryCommits
from tests.spark.memory_query import Row, SleepingClock, WatchedStream, options, through_json


@dataclass(frozen=True)
class ByName:
    """The Stream port: the stream that has this name when a call is made, as with Kinesis."""

    name: str
    streams: dict[str, WatchedStream]

    @property
    def now(self) -> WatchedStream:
        if self.name not in self.streams:
            raise StreamNotFound(f"there is no stream {self.name}")
        return self.streams[self.name]

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        return self.now.list_shards(at)

    def describe(self) -> StreamDescription:
        return self.now.describe()

    def has_shard(self, shard_id: str) -> bool:
        return self.now.has_shard(shard_id)

    def service_time(self) -> object:
        return self.now.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        return self.now.open(shard_id, position)

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        return self.now.poll(iterator, limit)


class SeveralQuery:
    """`log`: the offsets of the batches planned so far, as in Spark's offset log; `rows`: of each batch's last run.
    `streams`: those that there are.

    With `leases=hold` it has a keeper, and `commits` is the checkpoint folder.
    """

    def __init__(self, names: str, /, **given: str) -> None:
        """A stream of two shards for each letter of `names`."""
        self.clock = SleepingClock()
        self.streams: dict[str, WatchedStream] = {}
        self.counts: Counter[str] = Counter()
        for name in names:
            self.create(name)
        self.options = options(**given)
        self.memory_log = MemoryLog()
        self.table = MemoryLeaseTable(several=True)
        self.sightings = MemorySightingStore()
        self.commits = MemoryCommits()
        self.keeper: Keeper | None = None
        self.runs = 0
        self.log: list[str] = []
        self.rows: list[list[Row]] = []
        self.restart()

    def create(self, name: str, shards: int = 2) -> WatchedStream:
        """Also again, after it was deleted."""
        self.clock.sleep(timedelta(seconds=2))
        inner = MemoryStream(shards, clock=self.clock, throttled=True, name=name)
        self.streams[name] = WatchedStream(inner, self.clock)
        return self.streams[name]

    def delete(self, name: str) -> None:
        del self.streams[name]

    def key(self, name: str) -> StreamKey:
        return StreamKey.of(self.streams[name].describe().identity)

    def put(self, name: str, count: int) -> list[tuple[str, bytes]]:
        """Returns the rows to come: of which stream, with which data."""
        data = [b"%s-%d" % (name.encode(), self.counts[name] + n) for n in range(count)]
        self.counts[name] += count
        self.streams[name].inner.put_all((each.decode(), each) for each in data)
        return [(name, each) for each in data]

    def put_into_each(self, count: int) -> list[tuple[str, bytes]]:
        """Returns what it has put into all streams, after two seconds: later than that, everything can be read."""
        put = [each for name in sorted(self.streams) for each in self.put(name, count)]
        self.clock.sleep(timedelta(seconds=2))
        return put

    def restart(self, **given: str) -> None:
        """A new process, perhaps with other options."""
        self.clock.sleep(timedelta(seconds=2))
        if given:
            self.options = options(**given)
        self.paces: dict[str, CallPace] = {}
        choice = self.options.streams
        assert choice is not None
        self.found = MemoryStreams(choice, self.streams)
        access = StreamsAccess(self.found, self.access, self.clock, self.clock.sleep, self.memory_log)
        self.driver = QueryDriver(access, self.options, self._portions(access, self.found))

    def access(self, own: Options) -> StreamAccess:
        """The driver's."""
        pace = self.paces.setdefault(own.stream, CallPace.of_driver(self.clock, self.clock.sleep))
        return self._access(own, pace)

    def _task_access(self, own: Options) -> StreamAccess:
        return self._access(own, CallPace.of_task(self.clock, self.clock.sleep))

    def _access(self, own: Options, pace: CallPace) -> StreamAccess:
        stream = ByName(own.stream, self.streams)
        return StreamAccess(stream, pace, self.clock, self.clock.sleep, self.memory_log, own.patience)  # type: ignore[arg-type]

    def _portions(self, access: StreamsAccess, found: MemoryStreams) -> Portion:
        self.keeper = None
        match self.options.leases:
            case "hold":
                self.keeper = self._keeper(found)
                return LeasedShards(self.keeper, access, self.options)
            case "follow":
                return WholeStreams(self.table, self.sightings)
        return WholeStreams(None)

    def _keeper(self, found: MemoryStreams) -> Keeper:
        self.runs += 1
        ports = memory_ports(
            table=self.table, sightings=self.sightings, clock=self.clock, chance=Random(self.runs), log=self.memory_log
        )
        return Keeper(
            with_streams(ports, found),
            self.commits,
            self.clock.sleep,
            self.options.keeper_settings,
            f"spark/{self.runs}",
            self.options.fail_on_data_loss,
        )

    def offset(self, batch: int) -> Offset:
        """At which the batch ended."""
        if batch < 0:
            return offset_from_json(through_json(offset_to_json(self.driver.initial_offset())))
        return offset_from_json(json.loads(self.log[batch]))

    def plan(self, limit: BatchShare = NO_LIMIT) -> bool:
        """Write the next batch into the log, unless there is nothing to read."""
        start = self.offset(len(self.log) - 1)
        end = self.driver.latest_offset(start, limit)
        if end is start:
            return False
        self.log.append(json.dumps(offset_to_json(end)))
        return True

    def run(self, batch: int | None = None) -> list[Row]:
        """Read a batch of the log, and commit it."""
        batch = len(self.log) - 1 if batch is None else batch
        tasks = self.driver.tasks(self.offset(batch - 1), self.offset(batch))
        rows = [
            Row(*record.values())
            for task in tasks
            for some in read_range(access_for(task, self.options, self._task_access), task)
            for record in some.to_pylist()
        ]
        self.rows[batch:] = [rows]
        self.commits.ends.append(through_json(offset_to_json(self.offset(batch))))
        return rows

    def run_all(self, limit: BatchShare = NO_LIMIT, batches: int = 300, idle: int = 1) -> list[Row]:
        """Until so many plans in a row find nothing to read."""
        found_nothing = 0
        for _ in range(batches):
            if self.plan(limit):
                found_nothing = 0
                self.run()
            elif (found_nothing := found_nothing + 1) == idle:
                return self.all_rows
            if self.keeper is not None:
                self.clock.sleep(timedelta(milliseconds=300))
                self.keeper.work()
        raise AssertionError(f"still reading after {batches} batches")

    @property
    def all_rows(self) -> list[Row]:
        return [row for rows in self.rows for row in rows]

    @property
    def read(self) -> list[tuple[str, bytes]]:
        """Of which stream, with which data; sorted."""
        return sorted((row.stream, row.data) for row in self.all_rows)
