"""Opens a sink's tables and claims them for this pipeline; errors name what the session cannot write."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Protocol
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from sublet.errors import SettingsError
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.identity import MARK, PipelineIdentity, settle
from sublet.spark.pipeline.parquet_tables import ParquetTables, WriteFrame, write_files
from sublet.spark.pipeline.settings import PipelineSettings, Sink


class Tables(Protocol):
    def write(self, tables: Mapping[str, DataFrame], batch: int) -> dict[str, int]:
        """Writes one batch into all its tables, and returns the rows by table. After a failure the call can be
        repeated, and leaves each row once."""


def open_tables(spark: SparkSession, settings: PipelineSettings, write_frame: WriteFrame = write_files) -> Tables:
    """Opens the tables. Raises SettingsError if the sink cannot be written here, or output and checkpoint do not belong
    together.

    `write_frame` writes the files of Parquet and Delta; tests use it to fail between two tables.
    """
    files = SparkFiles(spark)
    if settings.sink is Sink.ICEBERG:
        from sublet.spark.pipeline.iceberg_tables import IcebergTables, check_iceberg

        check_iceberg(spark, settings.output)
        return IcebergTables(spark, settings.output, claim(files, settings).id)
    if settings.sink is Sink.DELTA and find_spec("deltalake") is None:
        raise SettingsError(
            "sink",
            "delta",
            "the package deltalake is missing: install sublet with its extras spark and delta",
        )
    mark = claim(files, settings)
    if settings.sink is Sink.DELTA:
        from sublet.spark.pipeline.delta_tables import DeltaTables

        return DeltaTables(files, settings.output, mark.id, write_frame)
    return ParquetTables(files, settings.output, write_frame)


def claim(files: SparkFiles, settings: PipelineSettings) -> PipelineIdentity:
    """Returns the mark that output and checkpoint share. A pipeline's first run writes it to both.

    It goes to the output first, so that a crash in between leaves an output without tables, which the next run claims
    again.
    """
    fresh = PipelineIdentity(uuid4().hex[:16], settings.stream, settings.sink)
    iceberg = settings.sink is Sink.ICEBERG  # Iceberg's rows carry the id, and its output is not a folder
    places = (settings.checkpoint if iceberg else settings.output, settings.checkpoint)
    output, checkpoint = (PipelineIdentity.from_json(files.read_text(f"{place}/{MARK}") or "") for place in places)
    in_use = files.exists(f"{settings.output}/raw") or files.exists(f"{settings.checkpoint}/offsets")
    mark = settle(fresh, output, checkpoint, in_use)
    for place, found in zip(places, (output, checkpoint), strict=True):
        if found is None:
            files.write_text(f"{place}/{MARK}", mark.to_json())
    return mark
