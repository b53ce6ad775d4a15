"""The sink without Spark: full calls, retries of refused records only, and aggregates that KCL will not drop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import RecordRefused, SettingsError, StreamUnavailable
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.records import GetRecordsReply, NewRecord, PutRefused
from sublet.protocol.stream_info import PutRecord, RecordDistribution
from sublet.putting.placing_source import AUTO_PUTS_ALONE
from sublet.spark.options import UseOfLeases
from sublet.spark.read.pace import CallPace
from sublet.spark.write.sink import Written, check_columns, new_records, put_rows
from sublet.testing.memory import MemoryStream

from tests.spark.memory_query import memory_query, options

THROTTLED = PutRefused("ProvisionedThroughputExceededException", "Rate exceeded", passes=True)


class MemoryWriter:
    """Puts into a MemoryStream; `refuse` decides which records of a call are refused."""

    def __init__(self, stream: MemoryStream) -> None:
        self.stream = stream
        self.calls: list[Sequence[NewRecord]] = []
        self.refuse: Callable[[NewRecord], PutRefused | bool] = lambda _: False
        self.before_call: Callable[[int], None] = lambda _: None

    def put(self, records: Sequence[NewRecord]) -> list[PutRecord | PutRefused]:
        self.before_call(len(self.calls))
        self.calls.append(records)
        return [self._refusal(record) or self._put(record) for record in records]

    def _refusal(self, record: NewRecord) -> PutRefused | None:
        refused = self.refuse(record)
        return (THROTTLED if refused is True else refused) or None

    def _put(self, record: NewRecord) -> PutRecord:
        hash_key = None if record.explicit_hash_key is None else int(record.explicit_hash_key)
        return self.stream.put_record(record.partition_key, record.data, hash_key)


def put_all(writer: MemoryWriter, rows: Sequence[NewRecord], *, aggregate: bool = False) -> Written:
    """As a task of `df.write` does."""
    query = memory_query(1)
    query.stream.inner = writer.stream
    connection = query.connection(CallPace.of_task(query.clock, query.clock.sleep))
    columns = {
        "data": pa.array([row.data for row in rows], pa.binary()),
        "partitionKey": pa.array([row.partition_key for row in rows], pa.string()),
        "explicitHashKey": pa.array([row.explicit_hash_key for row in rows], pa.string()),
    }
    chosen = options(UseOfLeases.WRITE, aggregate=str(aggregate).lower(), patience="30s")
    return put_rows(chosen, lambda _: (writer, connection), iter([pa.RecordBatch.from_pydict(columns)]))


def refuse_keyless() -> None:
    raise AssertionError("every row has a key")


def records(count: int, size: int = 3) -> list[NewRecord]:
    return [NewRecord((b"%d" % n).rjust(size), f"key-{n}") for n in range(count)]


def stored(stream: MemoryStream) -> list[bytes]:
    """What a consumer with KCL's hash range filter gets, over all shards."""
    found: list[bytes] = []
    for shard in stream.list_shards():
        iterator: str | None = stream.open(shard.shard_id, ReadPosition(IteratorType.TRIM_HORIZON))
        while iterator is not None:
            reply = stream.poll(iterator, 10_000)
            assert isinstance(reply, GetRecordsReply)
            page = reply.page
            found += [r.data for r in deaggregate(page.records, KeysInside(shard.hash_key_range)).user_records]
            iterator = reply.next_iterator if page.records else None
    return found


def test_calls_are_as_full_as_kinesis_takes() -> None:
    writer = MemoryWriter(MemoryStream(1))
    put_all(writer, records(1100))
    assert [len(call) for call in writer.calls] == [500, 500, 100]
    large = MemoryWriter(MemoryStream(1))
    put_all(large, [NewRecord(bytes(2**20 - 1_000), f"k{n}") for n in range(11)])
    assert [len(call) for call in large.calls] == [10, 1]


def test_refused_records_alone_are_put_again() -> None:
    chance, writer = Random(5), MemoryWriter(MemoryStream(3))
    writer.refuse = lambda _: chance.random() < 0.3
    wanted = records(1200)
    assert put_all(writer, wanted).stream_records == 1200
    assert sorted(stored(writer.stream)) == sorted(record.data for record in wanted)
    assert len(writer.calls) > 5


def test_a_stream_that_takes_nothing_fails_the_task() -> None:
    writer = MemoryWriter(MemoryStream(1))
    writer.refuse = lambda _: True
    with pytest.raises(
        StreamUnavailable,
        match=r"ProvisionedThroughputExceededException \(Rate exceeded\).*needs more shards",
    ):
        put_all(writer, records(3))


def test_a_service_that_fails_is_not_blamed_on_the_shards() -> None:
    writer = MemoryWriter(MemoryStream(1))
    writer.refuse = lambda _: PutRefused("InternalFailure", "Internal service failure.", passes=True)
    with pytest.raises(StreamUnavailable, match=r"InternalFailure .*: Kinesis is failing"):
        put_all(writer, records(3))


def test_permanently_refused_record_fails_the_task_with_the_reason() -> None:
    writer = MemoryWriter(MemoryStream(1))
    too_long = PutRefused("InvalidArgumentException", "exceeds the stream's max record size", passes=False)
    writer.refuse = lambda record: too_long if record.partition_key == "key-1" else False
    with pytest.raises(RecordRefused, match=r"partitionKey 'key-1' and 3 bytes .*exceeds the stream's max record size"):
        put_all(writer, records(3))
    assert len(writer.calls) == 1


def test_records_of_one_shard_share_aggregates() -> None:
    writer = MemoryWriter(MemoryStream(4))
    wanted = [*records(2000, 20), NewRecord(b"last", "k", str(2**128 - 1)), *records(2)]
    assert put_all(writer, wanted, aggregate=True).stream_records < 20
    assert sorted(stored(writer.stream)) == sorted(record.data for record in wanted)


def test_equal_rows_stay_as_many_as_they_were() -> None:
    writer = MemoryWriter(MemoryStream(1))
    same = [NewRecord(bytes(60_000), "k")] * 4
    assert put_all(writer, same, aggregate=True).stream_records == 4
    assert stored(writer.stream) == [record.data for record in same]


@pytest.mark.parametrize("seed", range(10))
def test_aggregates_are_put_again_by_the_new_shards_after_a_reshard(seed: int) -> None:
    """Shards are listed, and then split and merged before the first call, and again before the second."""
    chance, stream = Random(seed), MemoryStream(2)
    writer = MemoryWriter(stream)

    def reshard(call: int) -> None:
        still_open = sorted((s for s in stream.list_shards() if s.is_open), key=lambda s: s.hash_key_range)
        if call < 4 and chance.random() < 0.5:
            stream.split(chance.choice(still_open).shard_id)
        elif call < 4 and len(still_open) > 1:
            first = chance.randrange(len(still_open) - 1)
            stream.merge(still_open[first].shard_id, still_open[first + 1].shard_id)

    writer.before_call = reshard
    wanted = records(3000, 30)
    put_all(writer, wanted, aggregate=True)
    assert set(stored(stream)) == {record.data for record in wanted}, "KCL dropped what was not sent again"


def test_a_merge_needs_nothing_sent_again() -> None:
    stream = MemoryStream(2)
    writer = MemoryWriter(stream)

    def merge(call: int) -> None:
        if call == 0:
            stream.merge("shardId-000000000000", "shardId-000000000001")

    writer.before_call = merge
    put_all(writer, records(100), aggregate=True)
    assert sorted(stored(stream)) == sorted(record.data for record in records(100))


@pytest.mark.parametrize(
    ("data", "key", "hash_key", "named"),
    [
        (None, "k", None, "data is null"),
        (bytes(10 * 2**20 + 1), "k", None, "data is 10485761 bytes"),
        (b"x", "", None, "partitionKey is ''"),
        (b"x", "k" * 257, None, "partitionKey is"),
        (b"x", "k", "-1", "explicitHashKey is '-1'"),
        (b"x", "k", str(2**128), "explicitHashKey is"),
        (b"x", "k", "007", "without leading zeros"),
    ],
)
def test_a_row_that_kinesis_would_refuse_is_named(
    data: bytes | None, key: str | None, hash_key: str | None, named: str
) -> None:
    columns = {"data": pa.array([data], pa.binary()), "partitionKey": pa.array([key], pa.string())}
    columns["explicitHashKey"] = pa.array([hash_key], pa.string())
    with pytest.raises(RecordRefused, match=named):
        list(new_records(iter([pa.RecordBatch.from_pydict(columns)]), refuse_keyless))


def test_text_is_written_as_utf_8() -> None:
    batch = pa.RecordBatch.from_pydict({"data": ["hé"], "partitionKey": ["k"]})
    assert list(new_records(iter([batch]), refuse_keyless)) == [NewRecord("hé".encode(), "k")]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"partitionKey": StringType()}, "data is required"),
        ({"data": IntegerType(), "partitionKey": StringType()}, "data is binary or string"),
        (
            {"data": StringType(), "partitionKey": StringType(), "hash": StringType()},
            "select only data, partitionKey",
        ),
    ],
)
def test_columns_that_would_be_lost_are_refused(columns: dict[str, StringType | IntegerType], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        check_columns(StructType([StructField(name, kind) for name, kind in columns.items()]))


Columns = dict[str, list[Any]]
TYPES = {"data": pa.binary(), "partitionKey": pa.string()}


class Sink:
    """`df.write` of one task, over a stream in memory; `said`: its log."""

    def __init__(self, distribution: RecordDistribution | None, shards: int = 1) -> None:
        self.query = memory_query(shards)
        self.query.stream.inner.distribution = distribution
        self.writer = MemoryWriter(self.query.stream.inner)
        self.connection = self.query.connection(CallPace.of_task(self.query.clock, self.query.clock.sleep))

    def write(self, rows: Columns, **given: str) -> Written:
        return self.write_gathered([rows], **given)

    def write_gathered(self, batches: Iterable[Columns], **given: str) -> Written:
        """`batches` may take time."""
        arrow = (
            pa.RecordBatch.from_pydict({name: pa.array(column, TYPES[name]) for name, column in rows.items()})
            for rows in batches
        )
        return put_rows(options(UseOfLeases.WRITE, **given), lambda _: (self.writer, self.connection), arrow)

    @property
    def said(self) -> list[str]:
        return [line.message for line in self.query.memory_log.lines]


KEYLESS: Columns = {"data": ["a", "b"], "partitionKey": [None, None]}
WITHOUT_COLUMN: Columns = {"data": ["a", "b"]}


@pytest.mark.parametrize("aggregate", ["false", "true"])
@pytest.mark.parametrize("rows", [KEYLESS, WITHOUT_COLUMN])
@pytest.mark.parametrize("distribution", [RecordDistribution.AUTO, None])
def test_a_row_without_a_key_is_put_where_the_stream_takes_it(
    distribution: RecordDistribution | None, rows: Columns, aggregate: str
) -> None:
    """If the description does not say, Kinesis decides."""
    sink = Sink(RecordDistribution.AUTO)
    sink.query.stream.described_as = distribution
    assert sink.write(rows, aggregate=aggregate).stream_records == 2
    assert stored(sink.writer.stream) == [b"a", b"b"]
    assert {record.partition_key for call in sink.writer.calls for record in call} == {None}


@pytest.mark.parametrize("aggregate", ["false", "true"])
def test_rows_that_take_longer_than_patience_to_gather_are_put(aggregate: str) -> None:
    sink = Sink(RecordDistribution.USER_PARTITION_KEY)

    def gathered() -> Iterator[Columns]:
        for n in range(10):
            sink.query.clock.sleep(timedelta(seconds=7))
            yield {"data": [b"%d" % n], "partitionKey": ["k"]}

    assert sink.write_gathered(gathered(), aggregate=aggregate, patience="60s").rows == 10
    assert stored(sink.writer.stream) == [b"%d" % n for n in range(10)]


@pytest.mark.parametrize("rows", [KEYLESS, WITHOUT_COLUMN])
def test_a_row_without_a_key_is_refused_by_name_where_keys_place_records(rows: Columns) -> None:
    sink = Sink(RecordDistribution.USER_PARTITION_KEY)
    with pytest.raises(RecordRefused, match=r"partitionKey is null.*RecordDistributionStrategy AUTO"):
        sink.write(rows)
    assert sink.writer.calls == []


def test_sink_aggregates_nothing_in_auto_and_logs_it_once() -> None:
    sink = Sink(RecordDistribution.AUTO, 3)
    rows: Columns = {"data": [b"%d" % n for n in range(50)], "partitionKey": ["k"] * 50}
    for _ in range(3):
        assert sink.write(rows, aggregate="true").stream_records == 50
    assert sink.said == [AUTO_PUTS_ALONE]
    assert sink.query.stream.calls == {"describe": 1}
    sink.query.stream.inner.distribution = RecordDistribution.USER_PARTITION_KEY
    sink.query.clock.sleep(timedelta(minutes=5))
    assert sink.write(rows, aggregate="true").stream_records == 1
