"""`df.write` and `df.writeStream` into a stream, at least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from random import SystemRandom
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from sublet.decisions.putting.outbox import ProducerRules
from sublet.decisions.putting.placing import RecordPlacing
from sublet.errors import RecordRefused, SettingsError
from sublet.ports import RecordWriter
from sublet.protocol.records import NewRecord, why_not_put
from sublet.protocol.stream_info import RecordDistribution
from sublet.putting.blocking import put_all
from sublet.putting.placing_source import PlacingSource
from sublet.spark.options import Options
from sublet.spark.plain_errors import plainly
from sublet.spark.read.connection import StreamAccess
from sublet.spark.release import StreamArrowWriter, arrow_batches

COLUMNS = {
    "data": (BinaryType(), StringType()),
    "partitionKey": (StringType(),),
    "explicitHashKey": (StringType(),),
}

ConnectWriter = Callable[[Options], tuple[RecordWriter, StreamAccess]]

ANYWHERE_PUT = RecordPlacing(None)
"""Used without aggregates, when it does not matter which shard a row goes to."""


@dataclass
class Written(WriterCommitMessage):
    """What one task has written."""

    rows: int
    stream_records: int
    calls: int
    retried: int


def check_columns(schema: StructType) -> None:
    """Raises SettingsError for a column that would not be written, before anything is put."""
    if "data" not in schema.fieldNames():
        raise SettingsError("schema", schema.simpleString(), "the column data is required")
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            raise SettingsError(
                "schema",
                field.name,
                f"not a column of a record: select only {', '.join(COLUMNS)} (the last is optional; if the stream "
                "distributes records itself, AUTO, partitionKey is too)",
            )
        if field.dataType not in allowed:
            types = " or ".join(kind.simpleString() for kind in allowed)
            raise SettingsError("schema", f"{field.name} {field.dataType.simpleString()}", f"{field.name} is {types}")


@cache
def source_of(connection: StreamAccess) -> PlacingSource:
    """Returns the connection's PlacingSource. A worker process keeps both from task to task."""
    return PlacingSource(connection.stream, connection.clock, connection.log)


def check_keyless(connection: StreamAccess) -> None:
    """Raises RecordRefused if the stream accepts no record without a partition key. If it is not known whether it does,
    Kinesis decides.
    """
    if source_of(connection).distribution() is RecordDistribution.USER_PARTITION_KEY:
        raise RecordRefused(
            "partitionKey is null or missing: the stream accepts a record without one only if it distributes "
            "records itself (an on-demand stream's RecordDistributionStrategy AUTO)"
        )


def put_rows(options: Options, connect: ConnectWriter, batches: Iterator[pa.RecordBatch]) -> Written:
    """Put one task's rows, in no particular order, and return once Kinesis has taken them all. Other tasks write to the
    same shards, so only Kinesis knows how much the shards still take."""
    writer, connection = connect(options)
    rows = _Counted(new_records(batches, partial(check_keyless, connection)))
    source = source_of(connection)

    def place(is_doubted: bool) -> RecordPlacing:
        return source.look(is_doubted=is_doubted) if options.aggregate else ANYWHERE_PUT

    rules = ProducerRules(
        aggregation_enabled=options.aggregate,
        ordered=False,
        rate_limit=None,
        patience=options.patience,
        max_connections=1,
    )
    put = put_all(rows, rules, writer, place, connection.clock, connection.sleep, SystemRandom())
    return Written(rows.count, put.stream_records, put.calls, put.retried)


class _Counted:
    def __init__(self, records: Iterator[NewRecord]) -> None:
        self._records = records
        self.count = 0

    def __iter__(self) -> Iterator[NewRecord]:
        for record in self._records:
            self.count += 1
            yield record


def new_records(batches: Iterator[pa.RecordBatch], check_keyless: Callable[[], None]) -> Iterator[NewRecord]:
    """Turns rows into records, and checks each for what Kinesis would always refuse. Calls `check_keyless` for each
    record without a partition key, which raises if the stream accepts none."""
    for batch in batches:
        columns = {name: batch.column(name) for name in batch.schema.names}
        keys, hash_keys = (
            columns[name].to_pylist() if name in columns else [None] * batch.num_rows
            for name in ("partitionKey", "explicitHashKey")
        )
        data = columns["data"].cast(pa.binary()).to_pylist()
        for values in zip(data, keys, hash_keys, strict=True):
            yield _checked(*values, check_keyless)


def _checked(data: Any, key: Any, hash_key: Any, check_keyless: Callable[[], None]) -> NewRecord:
    if (why := why_not_put(data, key, hash_key, may_be_keyless=True)) is not None:
        raise RecordRefused(why)
    if key is None:
        check_keyless()
    return NewRecord(data, key, hash_key)


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("sublet").mode("append")`."""

    def __init__(self, options: Options, connect: ConnectWriter) -> None:
        self._options = options
        self._connect = connect

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return put_rows(self._options, self._connect, iterator)


class StreamWriter(StreamArrowWriter):
    """`df.writeStream.format("sublet")`. There is nothing to commit or abort: put records stay."""

    def __init__(self, options: Options, connect: ConnectWriter) -> None:
        self._options = options
        self._connect = connect

    @plainly
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return put_rows(self._options, self._connect, arrow_batches(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to do."""
