"""Runs the pipeline's query, from its start to its summary."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Thread
from types import FrameType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StringType, StructType

from sublet.errors import SettingsError
from sublet.payloads.schema_files import with_content
from sublet.ports import Clock
from sublet.settings.payload_format import JSON, FormatKind, PayloadFormat, parsed_format
from sublet.spark import drain, lag_of, report_lag
from sublet.spark.pipeline.avro_columns import columns_of_avro
from sublet.spark.pipeline.batch_extent import OffsetLog
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.judging import check_schema
from sublet.spark.pipeline.merged_table import merged_table
from sublet.spark.pipeline.micro_batch import TransformRecipe, WriteBatch
from sublet.spark.pipeline.payload import Payload, payload_decoder
from sublet.spark.pipeline.session import cause_of, display_for, session
from sublet.spark.pipeline.settings import PipelineSettings, Sink, in_partitions
from sublet.spark.pipeline.tables import Tables, open_tables
from sublet.spark.pipeline.tally import BatchDone, ProgressDisplay, RunTally, summary_lines
from sublet.spark.pipeline.transforming import load_transform
from sublet.spark.pipeline.variant_columns import check_sink
from sublet.system.clock import SystemClock

LOOK_SECONDS = 0.5
"""Seconds between two checks of the query's lag and of a request to stop."""

AVRO_FILE = ".avsc"

Stop = Callable[[], bool]


def run_in_this_process(settings: PipelineSettings) -> int:
    """Runs the command, and returns the exit code. SIGTERM and Ctrl-C end it after the current batch. A second signal
    ends it at once, and the next run repeats that batch."""
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does, to find a transform in the current folder
    if settings.transform is not None:
        load_transform(settings.transform)  # a wrong one fails before Spark's ten seconds of start-up
    clock = SystemClock()
    began = clock.steady()
    asked: list[bool] = []
    terminal = sys.stdout.isatty()
    spark = session(settings, quiet=terminal)

    def stop_on(_number: int, _frame: FrameType | None) -> None:
        asked.append(True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_on)
    if settings.metrics_of is not None:
        report_lag(spark, settings.metrics_of, settings.stream)
    tally, display = RunTally(), display_for(settings.stream, terminal)
    try:
        run_pipeline(spark, settings, tally, display, clock, lambda: bool(asked))
    except PySparkException as failure:
        display.close()
        print(f"sublet: the query failed: {cause_of(failure)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        display.close()
        print("sublet: stopped in mid-batch; the next run repeats that batch", file=sys.stderr)
        return 130
    finally:
        display.close()
        spark.stop()
    for line in summary_lines(tally, clock.steady() - began, settings.output, clock.now()):
        print(line, flush=True)
    return 0


def run_pipeline(
    spark: SparkSession,
    settings: PipelineSettings,
    tally: RunTally,
    display: ProgressDisplay,
    clock: Clock,
    stop: Stop,
    tables: Tables | None = None,
) -> None:
    """Runs until all available records are read, or until `stop` is set and the current batch has ended. So no table
    has part of a batch that another owner of the leases then handles. `tally` has the figures, also after an error.

    Raises SettingsError before anything is read, and Spark's StreamingQueryException for a query that failed.
    """
    recipe = recipe_of(spark, settings)
    tables = tables or open_tables(spark, settings)

    def done(batch: BatchDone) -> None:
        tally.add(batch)
        display.batch_done(tally)

    offsets = OffsetLog(SparkFiles(spark).read_text, settings.checkpoint)
    merged = merged_table(spark, settings, recipe.schema)
    write = WriteBatch(recipe, tables, offsets, clock, done, is_over=stop, merged=merged)
    query = start(spark, settings, write)
    if settings.every is None:
        Thread(target=_drain, args=(query,), daemon=True).start()
    try:
        while not query.awaitTermination(LOOK_SECONDS) and not (stop() and _is_between_batches(query)):
            _look(query, tally, display)
        _look(query, tally, display)
    except PySparkException:
        if not write.was_refused:
            raise
    finally:
        query.stop()


def start(spark: SparkSession, settings: PipelineSettings, write: WriteBatch) -> StreamingQuery:
    options = in_partitions(settings.options, spark.sparkContext.defaultParallelism)
    rows = spark.readStream.format("sublet").options(**options).load()
    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", settings.checkpoint)
    if settings.every is not None:
        writer = writer.trigger(processingTime=f"{settings.every.total_seconds()} seconds")
    return writer.queryName(f"sublet-pipeline-{settings.stream}").start()


def _drain(query: StreamingQuery) -> None:
    """Drains the query. Ignores errors, because the thread that awaits the query's end raises them."""
    with suppress(Exception):
        drain(query)


def _is_between_batches(query: StreamingQuery) -> bool:
    """True if the last batch is committed. If another begins meanwhile, `WriteBatch` refuses it."""
    return not query.status["isTriggerActive"]


def _look(query: StreamingQuery, tally: RunTally, display: ProgressDisplay) -> None:
    progress = query.lastProgress
    shards = () if progress is None else lag_of(progress.json)
    if progress is None or not shards:
        return
    behind, tally.planned_at = (
        max(shard.behind for shard in shards),
        datetime.fromisoformat(progress.timestamp),
    )
    if behind != tally.lag:
        tally.lag = behind
        display.lag_known(tally)


def recipe_of(spark: SparkSession, settings: PipelineSettings) -> TransformRecipe:
    schema = None if settings.schema is None else schema_of(spark, settings.schema)
    region = next((value for name, value in settings.options.items() if name.lower() == "region"), None)
    payload = payload_of(spark, settings.schema, settings.format, strict=settings.strict, region=region)
    if schema is not None:
        check_sink(schema, settings.sink)
        payload_decoder(schema.jsonValue(), payload)  # whatever is wrong shows before anything is read
    folders = () if schema is None or settings.sink is Sink.ICEBERG else _texts(schema, settings.partition_by)
    if settings.transform is None:
        return TransformRecipe(schema, payload=payload, folders=folders)
    return TransformRecipe(schema, load_transform(settings.transform), settings.transform, payload, folders=folders)


def _texts(schema: StructType, names: Sequence[str]) -> tuple[str, ...]:
    """Which of these columns have text."""
    kinds = {each.name: each.dataType for each in schema.fields}
    return tuple(name for name in names if isinstance(kinds.get(name), StringType))


def payload_of(
    spark: SparkSession, schema: str | None, form: str | None, *, strict: bool = False, region: str | None = None
) -> Payload:
    """With the content of schema files, which the executors do not have. Raises SettingsError."""
    written, text = "", schema or ""
    if text.endswith(AVRO_FILE):
        written = _text_of(spark, text)
    if form == FormatKind.AVRO:
        return Payload(PayloadFormat(FormatKind.AVRO, file=text, content=written.encode()), strict=strict)
    found = JSON if form is None else parsed_format(form, "format")
    if written and found.kind not in (FormatKind.AVRO, FormatKind.GLUE, FormatKind.CONFLUENT):
        raise SettingsError("schema", text, f"with --format avro, glue or confluent:URL, not {found.kind.value}")
    return Payload(with_content(found, "format"), written, strict, region)


def _text_of(spark: SparkSession, file: str) -> str:
    written = SparkFiles(spark).read_text(file)
    if written is None:
        raise SettingsError("schema", file, "there is no such file")
    return written


def schema_of(spark: SparkSession, text: str) -> StructType:
    """Reads a schema from DDL, or from a `.json` or `.avsc` file that Spark can read. Raises SettingsError, with
    Spark's own reason.
    """
    try:
        if text.endswith(".json"):
            schema = StructType.fromJson(json.loads(_text_of(spark, text)))
        elif text.endswith(AVRO_FILE):
            schema = StructType.fromJson(columns_of_avro(_text_of(spark, text)))
        else:
            schema = StructType.fromDDL(text)
    except (PySparkException, ValueError, KeyError, TypeError) as refusal:
        reason = str(refusal).strip().splitlines()[0]
        raise SettingsError("schema", text, f"DDL, or a .json file with Spark's form of it ({reason})") from None
    if not isinstance(schema, StructType):
        raise SettingsError("schema", text, 'columns, such as "id BIGINT NOT NULL, price DECIMAL(9,2)"')
    check_schema(schema)
    return schema
