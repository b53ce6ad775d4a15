"""Opens a sink's tables and claims them for this pipeline; errors name what the session cannot write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Protocol
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from sublet.errors import SettingsError
from sublet.spark.pipeline.adoption import adopt_delta, adopt_iceberg, adopt_parquet
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.identity import MARK, NEEDS_ITS_OWN, PipelineIdentity, settle
from sublet.spark.pipeline.layout import Batch, Layout, WriteFrame, write_files
from sublet.spark.pipeline.parquet_tables import ParquetTables
from sublet.spark.pipeline.settings import PipelineSettings, Sink
from sublet.spark.plan.table_positions import TablePositions

_NEW_MARK = f"{MARK}.new"
_NO_LAYOUT = Layout((), 1)
"""Of tables that are not written."""


class Tables(Protocol):
    def positions(self, table: str) -> TablePositions:
        """How far the table holds the stream. Empty for a table that does not exist."""

    def write(self, tables: Mapping[str, DataFrame], batch: Batch) -> dict[str, int]:
        """Writes what the tables do not hold of a batch: the caller has filtered each table's rows by its positions.
        Returns the rows written by table. Each table's positions move in the transaction that writes its rows, also
        if it has none. After a failure the call can be repeated."""


def open_tables(
    spark: SparkSession,
    settings: PipelineSettings,
    write_frame: WriteFrame = write_files,
    say: Callable[[str], object] = print,
) -> Tables:
    """Opens the tables. Raises SettingsError if the sink cannot be written here, or output and checkpoint do not belong
    together.

    write_frame  writes the files of Parquet and Delta; tests use it to fail between two tables
    say          is told which tables of an earlier version are adopted
    """
    files = SparkFiles(spark)
    layout = Layout(settings.partition_by, settings.file_size)
    if settings.sink is Sink.ICEBERG:
        from sublet.spark.pipeline.iceberg_tables import IcebergTables, check_iceberg

        check_iceberg(spark, settings.output)
        found = claim(files, settings)
        iceberg = IcebergTables(spark, settings.output, found.id, layout)
        if found.is_of_02:
            adopt_iceberg(spark, files, settings, found.id, iceberg, say)
            renew(files, settings, found)
        elif iceberg.is_of_another():
            raise SettingsError("checkpoint", settings.checkpoint, NEEDS_ITS_OWN)
        return iceberg
    if settings.sink is Sink.DELTA and find_spec("deltalake") is None:
        raise SettingsError(
            "sink",
            "delta",
            "the package deltalake is missing: install sublet with its extras spark and delta",
        )
    found = claim(files, settings)
    if settings.sink is Sink.DELTA:
        from sublet.spark.pipeline.delta_tables import DeltaTables

        delta = DeltaTables(files, settings.output, found.id, layout, write_frame)
        if found.is_of_02:
            adopt_delta(spark, files, settings, found.id, delta, say)
            renew(files, settings, found)
        return delta
    parquet = ParquetTables(spark, files, settings.output, layout, write_frame)
    if found.is_of_02:
        adopt_parquet(spark, files, settings, parquet, say)
        renew(files, settings, found)
    return parquet


class MovableTables(Protocol):
    """Tables whose positions can move without rows."""

    def positions(self, table: str) -> TablePositions: ...

    def move(self, name: str, reached: TablePositions) -> None:
        """Sets the positions of an existing table. Raises an error if another run has moved them since they were
        read."""


def tables_in(spark: SparkSession, output: str, checkpoint: str, sink: Sink) -> MovableTables | None:
    """The Delta or Iceberg tables of a pipeline that may be writing them. None if their positions are not known: sublet
    0.2 has written them, or `deltalake` is missing."""
    files = SparkFiles(spark)
    mark = _mark(files, checkpoint if sink is Sink.ICEBERG else output)
    if mark is None or (sink is Sink.DELTA and find_spec("deltalake") is None):
        return None
    if sink is Sink.ICEBERG:
        from sublet.spark.pipeline.iceberg_tables import IcebergTables

        return IcebergTables(spark, output, mark.id, _NO_LAYOUT)
    from sublet.spark.pipeline.delta_tables import DeltaTables

    return DeltaTables(files, output, mark.id, _NO_LAYOUT, write_files)


def claim(files: SparkFiles, settings: PipelineSettings) -> PipelineIdentity:
    """Returns the mark that output and checkpoint share. A pipeline's first run writes it to both.

    It goes to the output first, so that a crash in between leaves an output without tables, which the next run claims
    again. Of two first runs at once, one takes the other's mark.
    """
    fresh = PipelineIdentity(uuid4().hex[:16], settings.stream, settings.sink)
    output, checkpoint = (_mark(files, place) for place in _places(settings))
    in_use = files.exists(f"{settings.output}/raw") or files.exists(f"{settings.checkpoint}/offsets")
    mark = settle(fresh, output, checkpoint, in_use)
    for place, found in dict(zip(_places(settings), (output, checkpoint), strict=True)).items():
        if found is not None or files.write_new_text(f"{place}/{MARK}", mark.to_json()):
            continue
        if _mark(files, place) is not None:
            return claim(files, settings)
        files.write_text(f"{place}/{MARK}", mark.to_json())  # in place of what a crash left
    return mark


def renew(files: SparkFiles, settings: PipelineSettings, mark: PipelineIdentity) -> None:
    """Writes both marks in today's format, after all tables of 0.2 have positions; that of the output last. A crash may
    cut one text short, and then the other one is there."""
    for place in reversed(_places(settings)):
        for name in (_NEW_MARK, MARK):
            files.write_text(f"{place}/{name}", mark.renewed().to_json())
        files.delete(f"{place}/{_NEW_MARK}")


def _mark(files: SparkFiles, place: str) -> PipelineIdentity | None:
    marks = (PipelineIdentity.from_json(files.read_text(f"{place}/{name}") or "") for name in (MARK, _NEW_MARK))
    return next((mark for mark in marks if mark is not None), None)


def _places(settings: PipelineSettings) -> tuple[str, str]:
    """Iceberg's output is not a folder."""
    return (settings.checkpoint if settings.sink is Sink.ICEBERG else settings.output, settings.checkpoint)
