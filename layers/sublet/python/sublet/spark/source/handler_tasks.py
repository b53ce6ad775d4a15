"""The handler of a Lambda fleet, unchanged, on Spark's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from msgspec import structs
from pyspark.sql import DataFrame

from sublet.decisions.window import handler_backoff
from sublet.engine.exception_fields import exception_fields
from sublet.handler import Batch, Handler
from sublet.handlers.load import load_handler
from sublet.ports import Clock, Log
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import LogExceptions, Settings
from sublet.spark.python_log import PythonLog
from sublet.spark.read.pace import Sleep
from sublet.spark.read.rows import ARROW_SCHEMA
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks

HANDLED_DDL = "stream string, shardId string, records bigint, sequenceNumber string, subSequenceNumber bigint"
HANDLED_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("shardId", pa.string()),
        ("records", pa.int64()),
        ("sequenceNumber", pa.string()),
        ("subSequenceNumber", pa.int64()),
    ]
)
_FIELDS = tuple(ARROW_SCHEMA.names)


def apply_handler(rows: DataFrame, handler: str) -> DataFrame:
    """Call `module:function` with the source's rows, inside the tasks; a row for each call that returned: what it handled.

    Nothing happens until the result is written somewhere, and it happens again each time that it is. A batch holds rows of
    one shard, in order: give the source's rows as they come, or filtered, never shuffled. A call that raises is repeated
    as on Lambda (five attempts, with backoff), and then fails the task, which Spark runs again: at least once. The
    module has to be importable on the executors; its lease functions are not called, and `batch.checkpoint` does
    nothing. Raises HandlerNotLoadable right away.
    """
    load_handler(handler)
    missing = [name for name in _FIELDS if name not in rows.columns]
    if missing:
        raise ValueError(
            f"apply_handler needs the source's own columns; these are missing: {', '.join(missing)}"
        )
    return rows.select(*_FIELDS).mapInArrow(partial(_in_task, handler), HANDLED_DDL)


def _in_task(reference: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    log, sleep = PythonLog("sublet.spark.handler"), ThreadTasks().signal().wait
    return handle_batches(load_handler(reference), batches, SystemClock(), sleep, log)


def handle_batches(
    handler: Handler, batches: Iterator[pa.RecordBatch], clock: Clock, sleep: Sleep, log: Log
) -> Iterator[pa.RecordBatch]:
    """What `apply_handler` does in one task. Raises what the handler raised last."""
    for rows in batches:
        for (stream, shard_id), records in _by_shard(rows):
            last = records[-1]
            behind = max(clock.now() - last.approximate_arrival_timestamp, timedelta(0))
            batch = Batch(stream, shard_id, records, behind // timedelta(milliseconds=1), _nothing)
            _handle(handler, batch, sleep, log)
            handled = (stream, shard_id, len(records), last.sequence_number, last.sub_sequence_number)
            columns = [[value] for value in handled]
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, field.type) for column, field in zip(columns, HANDLED_SCHEMA, strict=True)],
                schema=HANDLED_SCHEMA,
            )


def _handle(handler: Handler, batch: Batch, sleep: Sleep, log: Log) -> None:
    """Each failure is in the executor's log, without its text, which may hold what a record holds."""
    settings = Settings(application="sublet-spark", stream=batch.stream)
    for attempt in range(1, settings.handler_attempts + 1):
        try:
            return handler.handle(structs.replace(batch, attempt=attempt))
        except Exception as failure:
            fields = exception_fields(failure, LogExceptions.FRAMES)
            first = str(batch.records[0].checkpoint)
            log.error("handler failed", shard_id=batch.shard_id, first=first, attempt=attempt, **fields)
            if attempt == settings.handler_attempts:
                raise
            sleep(handler_backoff(attempt, settings))
    return None


def _nothing(_: UserRecord) -> None:
    """Spark's own checkpoint follows whole batches alone."""


def _by_shard(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], Sequence[UserRecord]]]:
    """Runs of rows of one shard. The user records of one stream record share it, as in the library, without its data."""
    columns = (rows.column(name).to_pylist() for name in _FIELDS)
    stream_records: dict[str, StreamRecord] = {}

    def user_record(row: tuple[Any, ...]) -> UserRecord:
        data, key, hash_key, number, sub, arrived, *_ = row
        shared = stream_records.setdefault(number, StreamRecord(number, b"", key, arrived))
        return UserRecord(data, key, sub, shared, hash_key)

    for (stream, shard_id), run in groupby(zip(*columns, strict=True), key=lambda row: (row[7], row[6])):
        yield (stream, shard_id), tuple(user_record(row) for row in run)
