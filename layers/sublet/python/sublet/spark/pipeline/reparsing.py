"""Reads records of a table again through today's schema, and moves them between `parsed` and `rejected`.

Of each arrival date, what comes is added before what goes is removed, and both find a record by its position. So after
a crash a record may be in both tables, and never in none; another run leaves it in one. Only records of committed
batches are taken: the batch under way may have written some of its tables, and the pipeline will write the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from sublet.errors import SettingsError
from sublet.spark.pipeline.adoption import committed_batch
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.judging import ARRIVAL_DATE, judge, parsed, rejected
from sublet.spark.pipeline.lake import Lake, open_lake
from sublet.spark.pipeline.merge import ALWAYS, Merge
from sublet.spark.pipeline.merge_rule import MERGED
from sublet.spark.pipeline.merged_table import MergedTable, open_merged, rule_file
from sublet.spark.pipeline.payload import Payload
from sublet.spark.pipeline.reparse_command import ReparseSettings, Source
from sublet.spark.pipeline.running import payload_of, schema_of
from sublet.spark.pipeline.session import in_session, say
from sublet.spark.pipeline.variant_columns import check_sink

IDENTITY = (ARRIVAL_DATE, "stream", "shardId", "sequenceNumber", "subSequenceNumber")
"""What identifies a record; its arrival date only says in which partition it is."""

PARTITIONS = (ARRIVAL_DATE,)
"""Of a table that did not exist: the pipeline's default."""

BOOKKEEPING = ("batch", "pipeline")
"""Columns that a sink adds to its rows."""

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Reparsed:
    """How many records fit and how many do not."""

    fit: int = 0
    misfit: int = 0

    def __add__(self, other: Reparsed) -> Reparsed:
        return Reparsed(self.fit + other.fit, self.misfit + other.misfit)


def reparse_in_this_process(settings: ReparseSettings) -> int:
    """Runs the command, and returns the exit code."""
    return in_session(settings.spark, "reparse", lambda spark: reparse(spark, settings, say))


def reparse(spark: SparkSession, settings: ReparseSettings, report: Say) -> Reparsed:
    """Raises SettingsError before anything is changed."""
    schema = schema_of(spark, settings.schema)
    check_sink(schema, settings.sink)
    payload = payload_of(spark, settings.schema, settings.format, strict=settings.strict)
    lake = open_lake(spark, settings.output, settings.sink)
    names = lake.names()
    if "raw" not in names:
        raise SettingsError("output", settings.output, f"it has no {settings.sink} table raw")
    lake.check_columns("parsed", schema)
    merged = _merged(spark, settings, schema, names)
    last = committed_batch(SparkFiles(spark), settings.checkpoint)
    if last < 0:
        raise SettingsError("checkpoint", settings.checkpoint, "the pipeline's own, with a committed batch")
    done = Reparsed()
    for day in lake.days(settings.source) if settings.source in names else ():
        found = _Day(lake, settings.source, day, merged).reparse(schema, payload, last)
        report(f"{day}: {found.fit:,} fit, {found.misfit:,} do not")
        done += found
    report(f"reparsed {done.fit + done.misfit:,} of {settings.source}: parsed {done.fit:,}, rejected {done.misfit:,}")
    return done


def _merged(spark: SparkSession, settings: ReparseSettings, schema: StructType, names: list[str]) -> MergedTable | None:
    if settings.merge is None:
        if MERGED in names and SparkFiles(spark).exists(rule_file(settings.output, settings.checkpoint, settings.sink)):
            raise SettingsError("merge-key", None, f"as the pipeline has it: the output has a table {MERGED}")
        return None
    return open_merged(
        spark,
        output=settings.output,
        checkpoint=settings.checkpoint,
        sink=settings.sink,
        rule=settings.merge,
        schema=schema,
    )


class _Day:
    """The records of one arrival date."""

    def __init__(self, lake: Lake, source: Source, day: date, merged: MergedTable | None) -> None:
        self._lake, self._source, self._day, self._merged = lake, source, day, merged

    def reparse(self, schema: StructType, payload: Payload, last_batch: int) -> Reparsed:
        rows = self._lake.read(self._source, self._day).where(F.col("batch") <= last_batch)
        own = [name for name in BOOKKEEPING if name in rows.columns]
        judged = judge(rows.dropDuplicates(list(IDENTITY)), schema, also=own, payload=payload)
        judged = judged.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            fits, misfits = parsed(judged, also=own), rejected(judged, schema, also=own)
            counts = Reparsed(fits.count(), misfits.count())
            if counts.fit:
                self._add_to_parsed(fits)
            if counts.misfit:
                self._add_to_rejected(misfits)
        finally:
            judged.unpersist()
        return counts

    def _add_to_parsed(self, fits: DataFrame) -> None:
        """From `raw`, a record that is in `parsed` is replaced by what today's schema makes of it."""
        update = ALWAYS if self._source is Source.RAW else None
        self._lake.merge("parsed", fits, Merge(on=IDENTITY, update_if=update), PARTITIONS)
        if self._merged is not None:
            self._merged.write(fits)
        self._lake.merge("rejected", fits.select(*IDENTITY), Merge(on=IDENTITY, insert=False, delete=True))

    def _add_to_rejected(self, misfits: DataFrame) -> None:
        self._lake.merge("rejected", misfits, Merge(on=IDENTITY, update_if=ALWAYS), PARTITIONS)
        if self._source is Source.RAW:
            self._lake.merge("parsed", misfits.select(*IDENTITY), Merge(on=IDENTITY, insert=False, delete=True))
