"""Reads records of a table again through today's schema, and moves them between `parsed` and `rejected`.

Of each arrival date, what comes is added before what goes is removed, and both find a record by its position. So after
a crash a record may be in both tables, and never in none; another run leaves it in one. Records that are not in all of
the pipeline's own tables yet are left to it: it may have written some of the tables, and will write the others.

But tables that begin later than `raw` get nothing of what is in `raw` by then, unless the pipeline reads it again, and
then all of it. So before `--from raw` brings that, it moves the positions of these tables to where `raw` is: from then
on it is not the pipeline's, which leaves it out of each batch as it does for `raw`. In this order nothing comes twice.
After a crash some of it is in neither of the two, as it was before, and another run brings it. If the pipeline writes
them meanwhile, the second of the two finds that the positions have moved, and fails; repeated, it goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from sublet.decisions.plurals import counted
from sublet.errors import SettingsError
from sublet.payloads.decoding import NOT_IN_REGISTRY
from sublet.settings.payload_format import FormatKind
from sublet.spark.pipeline.adoption import committed_batch
from sublet.spark.pipeline.batch_extent import OffsetLog
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.judging import ARRIVAL_DATE, judge, parsed, rejected
from sublet.spark.pipeline.lake import Lake, open_lake
from sublet.spark.pipeline.merge import ALWAYS, Merge
from sublet.spark.pipeline.merged_table import MergedTable, merged_table
from sublet.spark.pipeline.parsing import REASON
from sublet.spark.pipeline.payload import Payload
from sublet.spark.pipeline.reparse_command import ReparseSettings, Source
from sublet.spark.pipeline.running import payload_of, schema_of
from sublet.spark.pipeline.session import in_session, say
from sublet.spark.pipeline.tables import MovableTables, tables_in
from sublet.spark.pipeline.transforming import OWN_TABLES
from sublet.spark.pipeline.variant_columns import check_sink
from sublet.spark.plan.table_positions import BatchExtent, bounded, filled, held_by_all
from sublet.spark.positions import is_beyond

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
    """Raises SettingsError before a row is changed; of a registry, before anything of the arrival date is."""
    schema = schema_of(spark, settings.schema)
    check_sink(schema, settings.sink)
    payload = payload_of(spark, settings.schema, settings.format, strict=settings.strict, region=settings.region)
    lake = open_lake(spark, settings.output, settings.sink)
    names = lake.names()
    if "raw" not in names:
        raise SettingsError("output", settings.output, f"it has no {settings.sink} table raw")
    lake.check_columns("parsed", schema)
    merged = merged_table(spark, settings, schema)
    last = committed_batch(SparkFiles(spark), settings.checkpoint)
    if last < 0:
        raise SettingsError("checkpoint", settings.checkpoint, "the pipeline's own, with a committed batch")
    days = lake.days(settings.source) if settings.source in names else []
    tables = tables_in(spark, settings.output, settings.checkpoint, settings.sink)
    if tables is not None and settings.source is Source.RAW and days:
        _take_over(lake, tables, days[0], schema, payload)
    is_whole = _is_whole(spark, settings, tables, last)
    done, left = Reparsed(), 0
    for day in days:
        left += lake.read(settings.source, day).where(~is_whole).count()
        found = _Day(lake, settings, day, merged).reparse(schema, payload, is_whole)
        report(f"{day}: {found.fit:,} fit, {found.misfit:,} do not")
        done += found
    if left:
        report(f"{counted(left, 'record')} left to the pipeline, which has not written all of its tables up to there")
    report(f"reparsed {done.fit + done.misfit:,} of {settings.source}: parsed {done.fit:,}, rejected {done.misfit:,}")
    return done


def _take_over(lake: Lake, tables: MovableTables, day: date, schema: StructType, payload: Payload) -> None:
    """Moves the positions of tables that began later than `raw`, which are created if need be. `day`: one that `raw`
    has. Raises SettingsError if the pipeline has written them meanwhile."""
    held = [tables.positions(name) for name in OWN_TABLES]
    for name, before, after in zip(OWN_TABLES, held, filled(held), strict=True):
        if after is before:
            continue
        if name not in lake.names():
            none = lake.read("raw", day).limit(0)
            own = _bookkeeping(none)
            judged = judge(none, schema, also=own, payload=payload)
            made = parsed(judged, also=own) if name == "parsed" else rejected(judged, schema, also=own)
            lake.merge(name, made, Merge(on=IDENTITY), PARTITIONS)
        tables.move(name, after)


def _bookkeeping(rows: DataFrame) -> list[str]:
    return [name for name in BOOKKEEPING if name in rows.columns]


def _is_whole(spark: SparkSession, settings: ReparseSettings, tables: MovableTables | None, last: int) -> Column:
    """Whether the pipeline is through with a record: all tables hold its shard up to there. Not by its batch's number,
    which after a set-back names other records, except where positions are not known. Where leases are shared, what was
    cut off between two tables may never come again: there the query's own position says that it is past a record, and
    the number does of shards that others have. Call it before rows are read."""
    by_number = F.col("batch") <= last
    held = [] if tables is None else [tables.positions(name) for name in OWN_TABLES]
    if not held or not all(table.shards for table in held):
        return by_number
    whole = F.coalesce(~is_beyond(held_by_all(held)), by_number)
    offset = OffsetLog(SparkFiles(spark).read_text, settings.checkpoint).offset(last)
    if offset is None:
        return whole | by_number
    committed = bounded(BatchExtent(), None, offset)
    if not committed.is_shared:
        return whole
    if not committed.ends:
        return whole | by_number
    passed = {name: str(end) for name, end in committed.ends.items()}
    return whole | F.coalesce(~is_beyond(passed), by_number)


class _Day:
    """The records of one arrival date."""

    def __init__(self, lake: Lake, settings: ReparseSettings, day: date, merged: MergedTable | None) -> None:
        self._lake, self._settings, self._day, self._merged = lake, settings, day, merged
        self._source = settings.source

    def reparse(self, schema: StructType, payload: Payload, is_whole: Column) -> Reparsed:
        rows = self._lake.read(self._source, self._day).where(is_whole)
        own = _bookkeeping(rows)
        judged = judge(rows.dropDuplicates(list(IDENTITY)), schema, also=own, payload=payload)
        judged = judged.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            fits, misfits = parsed(judged, also=own), rejected(judged, schema, also=own)
            counts = Reparsed(fits.count(), misfits.count())
            if payload.has_registry and not counts.fit:
                self._refuse_another_registry(misfits, payload, is_whole)
            if counts.fit:
                self._add_to_parsed(fits, own)
            if counts.misfit:
                self._add_to_rejected(misfits)
        finally:
            judged.unpersist()
        return counts

    def _refuse_another_registry(self, misfits: DataFrame, payload: Payload, is_whole: Column) -> None:
        """Raises SettingsError if the registry lacks the versions of as many records as `parsed` has: they were found
        once, so it is another registry. `misfits`: all records of the day."""
        if self._source is not Source.RAW or "parsed" not in self._lake.names():
            return
        before = self._lake.read("parsed", self._day).where(is_whole).count()
        if 0 < before <= misfits.where(F.col(REASON).contains(NOT_IN_REGISTRY)).count():
            wanted = (
                f"the pipeline's: this registry has no schema version of the records of {self._day}, which parsed has"
            )
            if payload.form.kind is FormatKind.GLUE:
                raise SettingsError("region", self._settings.region, wanted)
            raise SettingsError("format", self._settings.format, wanted)

    def _add_to_parsed(self, fits: DataFrame, own: list[str]) -> None:
        """From `raw`, a record that is in `parsed` is replaced by what today's schema makes of it; in a column that the
        schema no longer has, it keeps its value. `own`: the columns of `fits` that `merged` does not have."""
        update = ALWAYS if self._source is Source.RAW else None
        self._lake.merge("parsed", fits, Merge(on=IDENTITY, update_if=update), PARTITIONS)
        if self._merged is not None:
            self._merged.write(fits.drop(*own), again=True)
        self._lake.merge("rejected", fits.select(*IDENTITY), Merge(on=IDENTITY, insert=False, delete=True))

    def _add_to_rejected(self, misfits: DataFrame) -> None:
        self._lake.merge("rejected", misfits, Merge(on=IDENTITY, update_if=ALWAYS), PARTITIONS)
        if self._source is Source.RAW:
            self._lake.merge("parsed", misfits.select(*IDENTITY), Merge(on=IDENTITY, insert=False, delete=True))
