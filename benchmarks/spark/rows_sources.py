"""A data source with one reader per way of reading the same aggregates: sublet's own, and those it is compared with."""

from __future__ import annotations

import hashlib
import sys
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.kpl_format import DIGEST_SIZE, MAGIC
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import FULL_RANGE
from sublet.protocol.stream_info import Placement
from sublet.settings import POLL_LIMIT_MAX
from sublet.spark.option_table import parse_options
from sublet.spark.options import Options, Use
from sublet.spark.plan.strays import StrayFilter
from sublet.spark.read.connection import StreamAccess
from sublet.spark.read.pages import read_pages
from sublet.spark.read.rows import SCHEMA_DDL, Rows
from sublet.spark.source.batch_read import BatchReader

from benchmarks.peers import PYTHON as PEERS
from benchmarks.spark.memory import SHARD_ID, STREAM, aggregated, of_one
from benchmarks.spark.names import AGG, CEILING, NOTHING, PROVEN, SUBLET, SUBLET_UNFILTERED, TUPLES

Row = tuple[bytes, str | None, str | None, str, int, datetime, str, str]


class RowsSource(DataSource):
    """`variant` names one of the ways above; `size` and `records` as in `aggregated`."""

    @classmethod
    def name(cls) -> str:
        return "benchmark_rows"

    def schema(self) -> str:
        return SCHEMA_DDL

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 -- Spark's interface
        size, records = int(self.options["size"]), int(self.options["records"])
        variant = self.options["variant"]
        if variant not in (SUBLET, SUBLET_UNFILTERED):
            return OtherReader(variant, size, records)
        hash_range_filter = "kcl" if variant == SUBLET else "off"
        options = parse_options({"stream": STREAM, "hashRangeFilter": hash_range_filter}, Use.BATCH)
        connect = Connect(size, records)
        return BatchReader(options, lambda _: of_one(connect(options)), connect)


class Connect:
    """Replaces `connect_task`, and is sent to the executors."""

    def __init__(self, size: int, records: int) -> None:
        self.size, self.records = size, records

    def __call__(self, options: Options) -> StreamAccess:  # noqa: ARG002 -- its stream does not exist
        return aggregated(self.size, self.records)


class OtherReader(DataSourceReader):
    """One partition."""

    def __init__(self, variant: str, size: int, records: int) -> None:
        self.variant, self.size, self.records = variant, size, records

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002 -- there is one
        return READ[self.variant](self.size, self.records)


def _stream_records(size: int, records: int) -> Iterator[tuple[StreamRecord, ...]]:
    """A page at a time."""
    at = ReadPosition(IteratorType.TRIM_HORIZON)
    for page in read_pages(aggregated(size, records), SHARD_ID, at, lambda: POLL_LIMIT_MAX):
        if not page.records:
            return
        yield page.records


@cache
def _batches(size: int, records: int) -> list[pa.RecordBatch]:
    rows = Rows(STREAM, SHARD_ID, StrayFilter(KeysInside(FULL_RANGE), Placement()))
    return [batch for page in _stream_records(size, records) for batch in rows.batches(page)]


def _prebuilt(size: int, records: int) -> Iterator[pa.RecordBatch]:
    return iter(_batches(size, records))


def _proven(size: int, records: int) -> Iterator[pa.RecordBatch]:
    """The least for a reader that accepts the same aggregates as KCL: the MD5."""
    for page in _stream_records(size, records):
        for record in page:
            payload = record.data[len(MAGIC) : -DIGEST_SIZE]
            found = hashlib.md5(payload, usedforsecurity=False).digest()
            assert found == record.data[-DIGEST_SIZE:]
    yield from _batches(size, records)


def _tuples(size: int, records: int) -> Iterator[Row]:
    for page in _stream_records(size, records):
        for record in deaggregate(page, KeysInside(FULL_RANGE)).user_records:
            stream_record = record.stream_record
            yield (
                record.data,
                record.partition_key,
                record.explicit_hash_key,
                stream_record.sequence_number,
                record.sub_sequence_number,
                stream_record.approximate_arrival_timestamp,
                SHARD_ID,
                STREAM,
            )


def _agg_tuples(size: int, records: int) -> Iterator[Row]:
    """It filters nothing, and returns data as base64."""
    for page in _stream_records(size, records):
        yield from agg_rows(map(_boto3_record, page), SHARD_ID, STREAM)


def agg_rows(records: Iterable[dict[str, Any]], shard_id: str, stream: str) -> Iterator[Row]:
    """boto3's records, through aws-kinesis-agg."""
    for found in _aws_kinesis_agg()(records, data_format="Boto3"):
        user = found["kinesis"]
        yield (
            b64decode(user["data"]),
            user["partitionKey"],
            user["explicitHashKey"],
            user["sequenceNumber"],
            user["subSequenceNumber"],
            user["approximateArrivalTimestamp"],
            shard_id,
            stream,
        )


def _boto3_record(record: StreamRecord) -> dict[str, object]:
    return {
        "SequenceNumber": record.sequence_number,
        "ApproximateArrivalTimestamp": record.approximate_arrival_timestamp,
        "Data": record.data,
        "PartitionKey": record.partition_key,
    }


@cache
def _aws_kinesis_agg() -> Callable[..., Iterable[dict[str, Any]]]:
    """Imports the library from the peers' environment; whatever this environment has too is imported from here."""
    sys.path += map(str, PEERS.parent.parent.glob("lib/python3*/site-packages"))
    from aws_kinesis_agg.deaggregator import iter_deaggregate_records  # noqa: PLC0415 -- not a dependency of ours

    return iter_deaggregate_records  # type: ignore[no-any-return]


READ: dict[str, Callable[[int, int], Iterator[Any]]] = {
    NOTHING: lambda _size, _records: iter(()),
    CEILING: _prebuilt,
    PROVEN: _proven,
    TUPLES: _tuples,
    AGG: _agg_tuples,
}
