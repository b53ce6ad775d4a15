"""Streams in memory, identical in each process that makes them: of aggregates, of a record per batch, and of many
shards."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from itertools import count, cycle, islice
from random import Random

from msgspec.structs import replace
from sublet.decisions.session.read_position import ReadPosition
from sublet.ports import PollRefusal, ShardReader
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.records import Polled
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import StreamDescription
from sublet.reading.polling import PollingReader
from sublet.settings import StartPosition
from sublet.spark.read.connection import StreamAccess, StreamsAccess
from sublet.spark.read.pace import CallPace
from sublet.testing.memory import FakeClock, MemoryLog, MemoryStream

from benchmarks.kpl_aggregates import Row, kpl_aggregates

STREAM = "orders"
SHARD_ID = "shardId-000000000000"
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/orders"
KEYS = 100
DISTINCT_AGGREGATES = 100
"""Repeated to make up the rest: 5 MB, too many for any cache."""

PATIENCE = timedelta(seconds=60)


class LeapingClock(FakeClock):
    """Sleeping advances the time at once: Kinesis' pace is kept, but does not count."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def sleep(self, pause: timedelta) -> None:
        with self._lock:
            self.advance(pause)


class Identified:
    """A MemoryStream with an identity, which counts its calls, each of which takes `latency`."""

    def __init__(self, inner: MemoryStream, latency: timedelta = timedelta(0)) -> None:
        self.inner = inner
        self.calls: Counter[str] = Counter()
        self._latency = latency.total_seconds()

    def describe(self) -> StreamDescription:
        self._count("DescribeStreamSummary")
        return replace(self.inner.describe(), identity=StreamIdentity(ARN, FakeClock().now()))

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        self._count("ListShards")
        return self.inner.list_shards(at)

    def has_shard(self, shard_id: str) -> bool:
        return self.inner.has_shard(shard_id)

    def service_time(self) -> datetime:
        return self.inner.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        self._count("GetShardIterator")
        return self.inner.open(shard_id, position)

    def poll(self, iterator: str, limit: int) -> Polled | PollRefusal:
        self._count("GetRecords")
        return self.inner.poll(iterator, limit)

    def _count(self, call: str) -> None:
        self.calls[call] += 1
        if self._latency:
            time.sleep(self._latency)


def connection(stream: Identified, clock: LeapingClock, pace: CallPace) -> StreamAccess:
    return StreamAccess(stream, pace, clock, clock.sleep, MemoryLog(), PATIENCE)


def of_one(access: StreamAccess) -> StreamsAccess:
    """The access of a query of this stream alone."""
    return StreamsAccess(None, lambda _: access, access.clock, access.sleep, access.log)


@cache
def aggregated(size: int, user_records: int) -> StreamAccess:
    """Two shards, the first with that many user records of `size` bytes (up to an aggregate more) in aggregates of 50
    KB.

    Every key hashes into that shard, so that the hash-range filter lets all of them through.
    """
    clock = LeapingClock()
    stream = MemoryStream(2, clock=clock, name=STREAM)
    random = Random(7)
    inside = stream.list_shards()[0].hash_key_range
    keys = list(islice((key for n in count() if hash_key(key := f"customer-{n}", None) in inside), KEYS))
    rows: Iterator[Row] = ((random.choice(keys), None, random.randbytes(size)) for _ in count())
    written = 0
    for key, data, number in cycle(list(islice(kpl_aggregates(rows), DISTINCT_AGGREGATES))):
        if written >= user_records:
            break
        stream.put(key, data)
        written += number
    clock.sleep(timedelta(hours=1))
    return connection(Identified(stream), clock, CallPace.of_task(clock, clock.sleep))


@cache
def trickle(records: int) -> StreamAccess:
    """One shard of small plain records, a second apart."""
    clock = LeapingClock()
    stream = MemoryStream(clock=clock, name=STREAM)
    for number in range(records):
        stream.put(str(number), b"%d" % number)
        clock.sleep(timedelta(seconds=1))
    clock.sleep(timedelta(hours=1))
    return connection(Identified(stream), clock, CallPace.of_driver(clock, clock.sleep))
