"""A streaming query without Spark: the driver and the tasks of the source over a stream in memory, an offset log of
JSON texts, and batches that run, crash, and are planned again as in Spark."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import EllipsisType
from typing import Any, NamedTuple, Protocol

from sublet.decisions.session.read_position import SHORTEST_RETENTION, ReadPosition
from sublet.ports import Clock, PollRefusal, Refusal, ShardReader
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import RecordDistribution, StreamDescription
from sublet.reading.polling import PollingReader
from sublet.settings import POLL_LIMIT_MAX, StartPosition
from sublet.spark.keeper.keeper import LeaseKeeping
from sublet.spark.option_table import parse_options
from sublet.spark.options import Options, UseOfLeases
from sublet.spark.plan.offsets import Offset, offset_from_json, offset_to_json
from sublet.spark.read.connection import StreamAccess, StreamsAccess
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.read.pace import CallPace
from sublet.spark.read.reading import ReadTask, read_range
from sublet.spark.source.driver import QueryDriver
from sublet.spark.source.leased_shards import LeasedShards
from sublet.spark.source.portion import Portion
from sublet.spark.source.whole_streams import WholeStreams
from sublet.system.clock import SystemClock
from sublet.testing.memory import FakeClock, MemoryLeaseTable, MemoryLog, MemorySightingStore, MemoryStream

ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/"


class Sleeper(Clock, Protocol):
    """A clock that can sleep."""

    def sleep(self, pause: timedelta) -> None: ...


class RealClock:
    """For a query beside the library's own threads."""

    def steady(self) -> datetime:
        return self.now()

    def now(self) -> datetime:
        return SystemClock().now()

    def sleep(self, pause: timedelta) -> None:
        time.sleep(pause.total_seconds())


class SleepingClock(FakeClock):
    """Time passes only while somebody sleeps. Safe for the driver's threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def sleep(self, pause: timedelta) -> None:
        with self._lock:
            self.advance(pause)


class WatchedStream:
    """A MemoryStream that describes itself, counts calls and refusals, and refuses polls when told to."""

    def __init__(self, inner: MemoryStream, clock: Clock) -> None:
        self.inner = inner
        self.created_at = clock.now()
        self.calls: Counter[str] = Counter()
        self.fetched_bytes = 0
        self.refusals: list[PollRefusal] = []
        self.refuse: Callable[[str], PollRefusal | None] = lambda _: None
        self.never_shows: str | None = None
        self.described_as: RecordDistribution | EllipsisType | None = ...
        """What descriptions say, if that differs from the stream's real state."""

    def describe(self) -> StreamDescription:
        self.calls["describe"] += 1
        self.inner.describe()  # raises for a stream that was deleted
        identity = StreamIdentity(ARN + self.inner.name, self.created_at)
        told = self.inner.distribution if self.described_as is ... else self.described_as
        return StreamDescription(identity, self.service_time(), SHORTEST_RETENTION, told)

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        self.calls["list_shards"] += 1
        return self.inner.list_shards(at)

    def has_shard(self, shard_id: str) -> bool:
        self.calls["has_shard"] += 1
        return self.inner.has_shard(shard_id)

    def service_time(self) -> datetime:
        return self.inner.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        self.calls["open"] += 1
        return self.inner.open(shard_id, position)

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        self.calls["poll"] += 1
        assert 1 <= limit <= POLL_LIMIT_MAX, "Kinesis refuses other limits"
        reply = self.refuse(iterator) or self.inner.poll(iterator, limit)
        if isinstance(reply, PollRefusal):
            self.refusals.append(reply)
            return reply
        self.fetched_bytes += reply.page.data_bytes
        if self.never_shows is not None:
            kept = tuple(r for r in reply.page.records if r.sequence_number != self.never_shows)
            reply = reply._replace(page=reply.page._replace(records=kept))
        return reply


class Row(NamedTuple):
    data: bytes
    partition_key: str
    explicit_hash_key: str | None
    sequence_number: str
    sub_sequence_number: int
    arrived: datetime
    shard_id: str
    stream: str


def options(use: UseOfLeases = UseOfLeases.STREAM, /, **given: str) -> Options:
    return parse_options({"stream": "orders", **given}, use)


def rows_of(connection: StreamAccess, tasks: Iterable[ReadTask]) -> list[Row]:
    return [
        Row(*record.values())
        for task in tasks
        for batch in read_range(connection, task)
        for record in batch.to_pylist()
    ]


def only(connection: StreamAccess) -> StreamsAccess:
    """The access of a query of one stream."""
    return StreamsAccess(None, lambda _: connection, connection.clock, connection.sleep, connection.log)


class MemoryQuery:
    """`log`: the offsets of the batches planned so far, as in Spark's offset log; `rows`: of each batch's last run."""

    def __init__(self, stream: WatchedStream, clock: Sleeper, opts: Options) -> None:
        self.stream = stream
        self.clock = clock
        self.options = opts
        self.memory_log = MemoryLog()
        self.leases: MemoryLeaseTable | None = None
        self.sightings: MemorySightingStore | None = None
        self.keeper: LeaseKeeping | None = None
        self.log: list[str] = []
        self.rows: list[list[Row]] = []
        self.restart()

    def connection(self, pace: CallPace) -> StreamAccess:
        sleep = self.clock.sleep
        return StreamAccess(self.stream, pace, self.clock, sleep, self.memory_log, self.options.patience)

    def restart(self) -> None:
        """A new process: what was remembered is gone, and a shard's second of calls has passed."""
        self.clock.sleep(timedelta(seconds=2))
        pace = CallPace.of_driver(self.clock, self.clock.sleep)
        access = only(self.connection(pace))
        self.driver = QueryDriver(access, self.options, self._portion(access))

    def _portion(self, access: StreamsAccess) -> Portion:
        if self.keeper is None:
            return WholeStreams(self.leases, self.sightings)
        return LeasedShards(self.keeper, access, self.options)

    def offset(self, batch: int) -> Offset:
        """At which the batch ended. Spark asks for the initial one each time that it plans batch 0."""
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
        """Read a batch of the log; if the driver was restarted, its process knows only the log."""
        batch = len(self.log) - 1 if batch is None else batch
        start = self.offset(batch - 1)
        tasks = self.driver.tasks(start, self.offset(batch))
        rows = rows_of(self.connection(CallPace.of_task(self.clock, self.clock.sleep)), tasks)
        self.rows[batch:] = [rows]
        return rows

    def run_all(self, limit: BatchShare = NO_LIMIT, batches: int = 1000) -> list[Row]:
        """Until there is nothing to read."""
        for _ in range(batches):
            if not self.plan(limit):
                return self.all_rows
            self.run()
        raise AssertionError(f"still reading after {batches} batches")

    @property
    def all_rows(self) -> list[Row]:
        return [row for rows in self.rows for row in rows]


def memory_query(shards: int = 1, throttled: bool = True, /, **given: str) -> MemoryQuery:
    clock = SleepingClock()
    stream = WatchedStream(MemoryStream(shards, clock=clock, throttled=throttled, name="orders"), clock)
    return MemoryQuery(stream, clock, options(**given))


def through_json(value: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(value))
