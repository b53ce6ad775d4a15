"""Runs a Lambda fleet's handler, unchanged, on Spark's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from sublet.aws.schema_registries import decoder_of_settings
from sublet.aws.set_aside.failure_destinations import failure_destination
from sublet.decisions.session.failure_policy import begin
from sublet.decisions.session.record_filter import RecordFilter, apart
from sublet.engine.calls.retry_loop import run_retry_loop
from sublet.engine.calls.set_aside import SettingAside
from sublet.errors import SettingsError
from sublet.handler import Handler
from sublet.handlers.load import load_handler
from sublet.metric_names import Metric
from sublet.payloads.decoding import Decoder
from sublet.ports import Clock, FailureDestination, Log
from sublet.protocol.records import StreamRecord, UserRecord, decodable
from sublet.settings import DEFINITIONS, Checkpointing, HandlerContract, Settings, parse_setting
from sublet.spark.read.pace import Sleep
from sublet.spark.read.rows import ARROW_SCHEMA
from sublet.spark.source.handed_over import TaskBatch
from sublet.system.clock import SystemClock
from sublet.system.python_log import PythonLog
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
MILLISECOND = timedelta(milliseconds=1)
_FIELDS = tuple(ARROW_SCHEMA.names)


def apply_handler(rows: DataFrame, handler: str, **settings: Any) -> DataFrame:
    """Call `module:function` with the source's rows, inside the tasks. The result has a row for each call that
    returned, with what the call handled.

    Nothing happens until the result is written, and each time it is written the handler is called again. A batch has
    rows of one shard, in order: pass the source's rows as they come, or filtered, but never shuffled. If a call raises,
    the same settings as on Lambda decide whether it is repeated (handler_attempts times in a row, with backoff), or
    split, or its records are set aside. Otherwise the task fails, and Spark runs it again at least once, with a fresh
    count of attempts. The module must be importable on the executors. Its lease functions are not called, and
    `batch.checkpoint` counts only within the task. `settings` are given by name, such as
    `handler_contract="lambda_event"`.

    Raises HandlerNotLoadable and SettingsError at once.
    """
    calls = _settings_of(settings)
    load_handler(handler, calls)
    missing = [name for name in _FIELDS if name not in rows.columns]
    if missing:
        raise ValueError(f"apply_handler needs the source's own columns; these are missing: {', '.join(missing)}")
    return rows.select(*_FIELDS).mapInArrow(partial(_in_task, handler, calls), HANDLED_DDL)


def _settings_of(given: Mapping[str, Any]) -> Settings:
    """The settings, from values or their text. They name no application or stream, because each row names its
    stream.
    """
    parsed: dict[str, Any] = {
        name: parse_setting(name, DEFINITIONS[name].kind, value)
        if name in DEFINITIONS and isinstance(value, str)
        else value
        for name, value in given.items()
    }
    settings = Settings(**{"application": "sublet-spark", "stream": "told-by-each-row", **parsed})
    if settings.handler_contract is HandlerContract.RECORD_PROCESSOR:
        raise SettingsError(
            "handler_contract", "record_processor", "batch or lambda_event: on Spark, positions are Spark's"
        )
    if settings.checkpointing is Checkpointing.MANUAL:
        raise SettingsError("checkpointing", "manual", "automatic: on Spark, positions are Spark's")
    if settings.parallelization_factor > 1:
        factor = settings.parallelization_factor
        raise SettingsError("parallelization_factor", factor, "1: on Spark, positions are Spark's")
    if not settings.deaggregate:
        raise SettingsError("deaggregate", False, "true: Spark's rows are user records already")
    return settings


def _in_task(reference: str, settings: Settings, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    log, sleep = PythonLog("sublet.spark.handler"), ThreadTasks().signal().wait
    destination = failure_destination(settings.on_failure) if settings.on_failure else None
    handler = load_handler(reference, settings)
    clock = SystemClock()
    decode = decoder_of_settings(settings, clock)
    return handle_batches(handler, batches, clock, sleep, log, settings, destination, decode)


def handle_batches(
    handler: Handler,
    batches: Iterator[pa.RecordBatch],
    clock: Clock,
    sleep: Sleep,
    log: Log,
    settings: Settings,
    destination: FailureDestination | None = None,
    decode: Decoder | None = None,
) -> Iterator[pa.RecordBatch]:
    """Does the work of `apply_handler` in one task. Raises the handler's last exception if records are neither finished
    nor set aside."""
    wanted = RecordFilter(settings)
    for rows in batches:
        for (stream, shard_id), given in _by_shard(rows):
            kept, faults = wanted.wanted(given, {}) if wanted else (given, {})
            kept = kept if decode is None else decodable(kept, decode)
            for records in apart(kept, faults):
                behind = max(clock.now() - records[-1].approximate_arrival_timestamp, timedelta(0))
                aside = SettingAside(
                    destination,
                    log,
                    count=_not_counted,
                    now=clock.now,
                    settings=settings,
                    stream=stream,
                    shard_id=shard_id,
                    holder=settings.application,
                )
                batch = TaskBatch(
                    handler,
                    stream=stream,
                    shard_id=shard_id,
                    records=records,
                    millis_behind_latest=behind // MILLISECOND,
                    aside=aside,
                    sleep=sleep,
                    log=log,
                    clock=clock,
                    settings=settings,
                    faults=faults,
                )
                run_retry_loop(begin(len(records), settings), batch, batch.arrived, clock.now, settings)
                yield _handled(stream, shard_id, batch.handled, records[-1])


def _handled(stream: str, shard_id: str, count: int, last: UserRecord) -> pa.RecordBatch:
    values = (stream, shard_id, count, last.sequence_number, last.sub_sequence_number)
    columns = [pa.array([value], field.type) for value, field in zip(values, HANDLED_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=HANDLED_SCHEMA)


def _not_counted(_: Metric, __: float) -> None:
    """An executor puts no metrics; its log shows what is set aside or refused."""


def _by_shard(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], Sequence[UserRecord]]]:
    """Yields the rows of each shard in turn. User records of one stream record share it, as elsewhere in the library.
    Of its data only what distinguishes a plain record from the later ones of an aggregate is kept."""
    columns = (rows.column(name).to_pylist() for name in _FIELDS)
    stream_records: dict[str, StreamRecord] = {}

    def user_record(row: tuple[Any, ...]) -> UserRecord:
        data, key, hash_key, number, sub, arrived, *_ = row
        shared = stream_records.setdefault(number, StreamRecord(number, b"" if sub else data, key, arrived))
        return UserRecord(data, key, sub, shared, hash_key)

    for (stream, shard_id), run in groupby(zip(*columns, strict=True), key=lambda row: (row[7], row[6])):
        yield (stream, shard_id), tuple(user_record(row) for row in run)
