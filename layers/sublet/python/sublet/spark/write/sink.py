"""The source's other direction: `df.write` and `df.writeStream` into a stream. At least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from sublet.errors import RowNotWritable, SettingsError
from sublet.protocol.records import NewRecord
from sublet.spark.options import Options
from sublet.spark.plain_errors import plainly
from sublet.spark.read.connection import Connection
from sublet.spark.release import StreamArrowWriter, arrow_batches
from sublet.spark.write.putting import AggregatingPutter, Putter, Writer

DATA_MAX = 10 * 2**20
KEY_MAX = 256
HASH_KEY_LIMIT = 2**128
"""Kinesis' limits: bytes of a record (where the stream allows so much), characters of a partition key, hash keys."""

COLUMNS = {
    "data": (BinaryType(), StringType()),
    "partitionKey": (StringType(),),
    "explicitHashKey": (StringType(),),
}

ConnectWriter = Callable[[Options], tuple[Writer, Connection]]


@dataclass
class Written(WriterCommitMessage):
    """What one task put."""

    rows: int
    stream_records: int
    calls: int
    retried: int


def check_columns(schema: StructType) -> None:
    """Refuse a column that would not be written, and rows without a key: before anything is put."""
    for name in ("data", "partitionKey"):
        if name not in schema.fieldNames():
            raise SettingsError("schema", schema.simpleString(), f"the column {name} is required")
    for field in schema.fields:
        allowed = COLUMNS.get(field.name)
        if allowed is None:
            raise SettingsError(
                "schema",
                field.name,
                f"no column of a record: select {', '.join(COLUMNS)} alone (the last is optional)",
            )
        if field.dataType not in allowed:
            types = " or ".join(kind.simpleString() for kind in allowed)
            raise SettingsError(
                "schema", f"{field.name} {field.dataType.simpleString()}", f"{field.name} is {types}"
            )


def put_rows(options: Options, connect: ConnectWriter, batches: Iterator[pa.RecordBatch]) -> Written:
    """Put one task's rows; returns when Kinesis has taken every one."""
    writer, connection = connect(options)
    putter = Putter(writer, connection.clock, connection.sleep, options.patience)
    rows = _Counted(new_records(batches))
    if options.aggregate:
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


def new_records(batches: Iterator[pa.RecordBatch]) -> Iterator[NewRecord]:
    """Rows as records, each checked against what Kinesis would refuse for ever."""
    for batch in batches:
        columns = {name: batch.column(name) for name in batch.schema.names}
        hash_keys = (
            columns["explicitHashKey"].to_pylist()
            if "explicitHashKey" in columns
            else [None] * batch.num_rows
        )
        data = columns["data"].cast(pa.binary()).to_pylist()
        for values in zip(data, columns["partitionKey"].to_pylist(), hash_keys, strict=True):
            yield _checked(*values)


def _checked(data: bytes | None, key: str | None, hash_key: str | None) -> NewRecord:
    if data is None or len(data) > DATA_MAX:
        raise RowNotWritable(
            f"data is {'null' if data is None else f'{len(data)} bytes'}; at most {DATA_MAX} bytes"
        )
    if not key or len(key) > KEY_MAX:
        raise RowNotWritable(f"partitionKey is {key!r}; 1 to {KEY_MAX} characters")
    if hash_key is not None and not (
        hash_key.isascii() and hash_key.isdecimal() and int(hash_key) < HASH_KEY_LIMIT
    ):
        raise RowNotWritable(f"explicitHashKey is {hash_key!r}; a decimal number below 2**128, or null")
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
    """`df.writeStream.format("sublet")`. Nothing is left to commit or abort: what is put stays put."""

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
