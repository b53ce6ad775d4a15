"""The source's other direction: `df.write` and `df.writeStream` into a stream. At least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from sublet.errors import RecordRefused, SettingsError
from sublet.protocol.records import NewRecord, why_not_put
from sublet.spark.options import Options
from sublet.spark.plain_errors import plainly
from sublet.spark.read.connection import StreamAccess
from sublet.spark.release import StreamArrowWriter, arrow_batches
from sublet.spark.write.putting import AggregatingPutter, Putter, Writer
from sublet.spark.write.record_distribution import distribution_of

COLUMNS = {
    "data": (BinaryType(), StringType()),
    "partitionKey": (StringType(),),
    "explicitHashKey": (StringType(),),
}

ConnectWriter = Callable[[Options], tuple[Writer, StreamAccess]]


@dataclass
class Written(WriterCommitMessage):
    """What one task has put."""

    rows: int
    stream_records: int
    calls: int
    retried: int


def check_columns(schema: StructType) -> None:
    """Refuse a column that would not be written, before anything is put."""
    if "data" not in schema.fieldNames():
        raise SettingsError("schema", schema.simpleString(), "the column data is required")
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            raise SettingsError(
                "schema",
                field.name,
                f"not a column of a record: select only {', '.join(COLUMNS)} (the last is optional; if the stream distributes "
                "records itself, AUTO, partitionKey is too)",
            )
        if field.dataType not in allowed:
            types = " or ".join(kind.simpleString() for kind in allowed)
            raise SettingsError(
                "schema", f"{field.name} {field.dataType.simpleString()}", f"{field.name} is {types}"
            )


def put_rows(options: Options, connect: ConnectWriter, batches: Iterator[pa.RecordBatch]) -> Written:
    """Put one task's rows; returns once Kinesis has taken them all."""
    writer, connection = connect(options)
    putter = Putter(writer, connection.clock, connection.sleep, options.patience)
    distribution = distribution_of(connection)
    rows = _Counted(new_records(batches, distribution.check_keyless))
    if options.aggregate and distribution.may_aggregate():
        stream_records = AggregatingPutter(putter, connection.stream.list_shards).put_all(rows)
    else:
        stream_records = sum(1 for _ in putter.put_all(rows))
    return Written(rows.count, stream_records, putter.calls, putter.retried)


class _Counted:
    def __init__(self, records: Iterator[NewRecord]) -> None:
        self._records = records
        self.count = 0

    def __iter__(self) -> Iterator[NewRecord]:
        for record in self._records:
            self.count += 1
            yield record


def new_records(batches: Iterator[pa.RecordBatch], check_keyless: Callable[[], None]) -> Iterator[NewRecord]:
    """Rows as records, each checked against what Kinesis would always refuse. `check_keyless` is called for each
    without a partition key, and raises if the stream accepts none."""
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
