"""Spark 4.0 and 4.1, which do not tell a source where a batch begins: their calls, over a stream in memory and
without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row as SparkRow
from sublet.errors import SettingsError
from sublet.protocol.aggregation import aggregate
from sublet.spark.read.pace import CallPace
from sublet.spark.release import ONE_BATCH_ALONE, PositionedReader, arrow_batches
from sublet.spark.source.query_lag import lag_of
from sublet.spark.source.stream_read import StreamReader
from sublet.spark.write.sink import new_records

from tests.exploring import first
from tests.spark.memory_query import MemoryQuery, memory_query, only
from tests.spark.test_putting import refuse_keyless

SECOND = timedelta(seconds=1)


class EarlierSpark:
    """Calls a reader as Spark 4.0 and 4.1 do. `log` is the offset log, `committed` how many of its batches are
    committed."""

    def __init__(self, query: MemoryQuery) -> None:
        self.query = query
        self.log: list[str] = []
        self.rows: list[list[bytes]] = []
        self.start()

    @property
    def committed(self) -> int:
        return len(self.rows)

    def start(self) -> None:
        """A new process. With a log, partitions(x, x) comes first, and then a batch that was not committed."""
        query, clock = self.query, self.query.clock
        clock.sleep(2 * SECOND)
        reader = StreamReader(
            query.options,
            lambda _: only(query.connection(CallPace.of_driver(clock, clock.sleep))),
            lambda _: None,
            lambda _: None,
            lambda _: query.connection(CallPace.of_task(clock, clock.sleep)),
        )
        self.reader = PositionedReader(reader)
        if self.log:
            last = json.loads(self.log[-1])
            assert self.reader.partitions(last, last) == []

    def plan(self) -> bool:
        assert self.committed == len(self.log)
        text = json.dumps(self.reader.latestOffset())
        if self.log and text == self.log[-1]:
            return False
        self.log.append(text)
        return True

    def run(self) -> list[bytes]:
        """The batch planned last. Spark asks for the initial offset each time that it runs batch 0."""
        end = json.loads(self.log[-1])
        start = json.loads(self.log[-2]) if len(self.log) > 1 else json.loads(json.dumps(self.reader.initialOffset()))
        return [
            data
            for partition in self.reader.partitions(start, end)
            for batch in self.reader.read(partition)
            for data in batch.column("data").to_pylist()
        ]

    def commit(self, rows: list[bytes]) -> None:
        self.rows.append(rows)

    def run_all(self) -> list[bytes]:
        for _ in range(1000):
            if self.committed < len(self.log) or self.plan():
                self.commit(self.run())
            else:
                return self.all_rows
        raise AssertionError("still reading after a thousand batches")

    @property
    def all_rows(self) -> list[bytes]:
        return [data for rows in self.rows for data in rows]


def put(query: MemoryQuery, count: int, first: int = 0) -> list[bytes]:
    data = [b"%d" % number for number in range(first, first + count)]
    query.stream.inner.put_all((each.decode(), each) for each in data)
    return data


@pytest.mark.parametrize("seed", first(5, range(25)))
def test_exactly_once_and_bounded_through_reshards_and_crashes(seed: int) -> None:
    chance, query = Random(seed), memory_query(2, maxRecordsPerTrigger="30")
    produced: list[bytes] = []
    spark = EarlierSpark(query)
    for _ in range(40):
        for _ in range(chance.randrange(20)):
            data = [b"%d" % (len(produced) + n) for n in range(chance.choice((1, 1, 5)))]
            key = f"key-{chance.randrange(1000)}"
            plain = len(data) == 1
            query.stream.inner.put(key, data[0] if plain else aggregate([(key, None, each) for each in data]))
            produced += data
        if chance.random() < 0.15:
            shards = [shard for shard in query.stream.inner.list_shards() if shard.is_open]
            query.stream.inner.split(chance.choice(shards).shard_id)
        if spark.plan():
            if chance.random() < 0.3:  # planned, and then killed
                spark.start()
            rows = spark.run()
            if chance.random() < 0.3:  # run, and killed before it was committed
                spark.start()
                assert spark.run() == rows, "a range that is read again gives the same rows"
            spark.commit(rows)
        if chance.random() < 0.2:
            spark.start()
        query.clock.sleep(timedelta(milliseconds=chance.randrange(800)))
    query.clock.sleep(20 * SECOND)
    times = Counter(spark.run_all())
    assert times == Counter(produced)
    assert all(len(rows) <= 30 + 5 * len(query.stream.inner.list_shards()) for rows in spark.rows)
    assert query.stream.refusals == [], "five calls and 2 MB a second were exceeded"


def test_the_first_batch_after_a_restart_is_bounded_too() -> None:
    query = memory_query(1, maxRecordsPerTrigger="10")
    spark = EarlierSpark(query)
    put(query, 35)
    for _ in range(4):
        assert spark.plan()
        spark.commit(spark.run())
        spark.start()
    assert [len(rows) for rows in spark.rows] == [10, 10, 10, 5]


def test_a_query_that_is_idle_gives_the_text_that_it_gave() -> None:
    query = memory_query(2)
    spark = EarlierSpark(query)
    put(query, 10)
    spark.run_all()
    for _ in range(3):
        query.clock.sleep(SECOND)
        assert not spark.plan()
    spark.start()
    assert not spark.plan()


def test_available_now_reads_through_a_reshard_and_stops_at_its_targets() -> None:
    query = memory_query(2, availableNow="true", maxRecordsPerTrigger="20")
    wanted = put(query, 30)
    query.stream.inner.split("shardId-000000000000")
    wanted += put(query, 30, first=30)
    query.clock.sleep(SECOND)
    spark = EarlierSpark(query)
    for number in range(100):
        if not spark.plan():
            break
        put(query, 5, first=1000 + 5 * number)
        spark.commit(spark.run())
        query.clock.sleep(SECOND)
    assert sorted(spark.all_rows) == sorted(wanted)
    assert spark.committed >= len(wanted) / 20  # no batch exceeds the limit


def test_asked_for_an_offset_before_it_knows_where_the_query_is_it_refuses() -> None:
    query = memory_query(1)
    spark = EarlierSpark(query)
    put(query, 10)
    spark.run_all()
    put(query, 10, first=10)
    spark.start()
    spark.reader.__init__(spark.reader._reader)  # type: ignore[misc] # as if nothing had been called
    spark.reader.latestOffset()
    last = json.loads(spark.log[-1])
    with pytest.raises(SettingsError, match="triggerAvailableNowWrapper"):
        spark.reader.partitions(last, last)


@pytest.mark.parametrize(
    ("given", "warned"),
    [({}, True), ({"availableNow": "true"}, False), ({"maxRecordsPerTrigger": "50"}, False)],
)
def test_a_first_batch_that_leaves_more_warns_of_the_trigger_that_would_end_there(
    caplog: pytest.LogCaptureFixture, given: dict[str, str], warned: bool
) -> None:
    query = memory_query(1, **{"maxRecordsPerTrigger": "5", **given})
    put(query, 30)
    query.clock.sleep(5 * SECOND)
    spark = EarlierSpark(query)
    spark.run_all()
    assert [ONE_BATCH_ALONE in line for line in caplog.messages] == [True] * warned


def test_lag_travels_with_the_offset_which_spark_shows() -> None:
    query = memory_query(1, maxRecordsPerTrigger="5")
    put(query, 30)
    query.clock.sleep(5 * SECOND)
    spark = EarlierSpark(query)
    spark.plan()
    progress = {"sources": [{"latestOffset": json.loads(spark.log[-1]), "numInputRows": 5}]}
    [lag] = lag_of(json.dumps(progress))
    assert (lag.stream, lag.shard_id) == ("orders", "shardId-000000000000")
    assert lag.behind >= 5 * SECOND


def test_rows_that_a_stream_s_writer_is_given_are_records() -> None:
    rows: list[Any] = [
        SparkRow(data=bytearray(b"a"), partitionKey="k", explicitHashKey=None),
        SparkRow(data=bytearray(b"b"), partitionKey="l", explicitHashKey="7"),
    ]
    found = [(r.data, r.partition_key, r.explicit_hash_key) for r in new_records(arrow_batches(rows), refuse_keyless)]
    assert found == [(b"a", "k", None), (b"b", "l", "7")]
    batch = pa.RecordBatch.from_pylist([{"data": b"c", "partitionKey": "m"}])
    assert [r.data for r in new_records(arrow_batches([batch, batch]), refuse_keyless)] == [b"c", b"c"]
    assert list(arrow_batches([])) == []


@pytest.mark.parametrize(("size", "count"), [(3, 25_000), (100_000, 500), (10 * 2**20, 3)])
def test_rows_become_records_in_portions_of_limited_size(size: int, count: int) -> None:
    """No more rows are taken from Spark than the portion has."""
    taken = 0

    def rows() -> Iterator[SparkRow]:
        nonlocal taken
        for _ in range(count):
            taken += 1
            yield SparkRow(data=bytes(size), partitionKey="k")

    found = 0
    for batch in arrow_batches(rows()):
        found += batch.num_rows
        assert taken == found
        assert batch.num_rows <= 10_000
        assert batch.num_rows == 1 or batch.nbytes < 8.5 * 2**20
    assert found == count
