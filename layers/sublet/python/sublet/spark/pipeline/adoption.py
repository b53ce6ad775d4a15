"""Adopts the tables of sublet 0.2, which have no positions: they are found out from the rows of `raw`, once.

0.2 wrote a batch into one table after the other, `raw` first, and told an attempt by the batch's number. So all tables
hold what `raw` holds, except for its last batch, if Spark has not committed that: a crash may have come between two
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sublet.decisions.plurals import counted
from sublet.spark.pipeline.batch_extent import OffsetLog, extent_of
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.journal import TableState
from sublet.spark.pipeline.journal_of_02 import JOURNAL_OF_02, BatchJournal, left_over
from sublet.spark.pipeline.layout import BATCH, columns_of
from sublet.spark.pipeline.parquet_tables import ParquetTables
from sublet.spark.pipeline.settings import PipelineSettings
from sublet.spark.plan.table_positions import BatchExtent, TablePositions, bounded

if TYPE_CHECKING:
    from sublet.spark.pipeline.delta_tables import DeltaTables
    from sublet.spark.pipeline.iceberg_tables import IcebergTables

PIPELINE = "pipeline"
"""The column with the pipeline's id in Iceberg's tables of 0.2."""

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class OldLake:
    """What 0.2 left. `raw`: its rows; `last`: its last batch; `committed`: the last one that Spark has committed."""

    raw: DataFrame
    last: int
    committed: int
    log: OffsetLog

    def positions(self, table_last: int) -> TablePositions:
        """How far a table holds the stream, whose last batch is known to be at least `table_last`."""
        is_whole = self.last <= self.committed or table_last >= self.last
        rows = self.raw if is_whole else self.raw.where(F.col(BATCH) < self.last)
        extent = extent_of(rows)
        return TablePositions().advanced(self._up_to_committed(extent))

    def _up_to_committed(self, extent: BatchExtent) -> BatchExtent:
        """With what the checkpoint says of shards that had no rows."""
        committed = self.log.offset(self.committed) if self.committed >= 0 else None
        return bounded(extent, None, committed)


def old_lake(files: SparkFiles, settings: PipelineSettings, raw: DataFrame) -> OldLake:
    last = raw.agg(F.max(BATCH)).collect()[0][0]
    return OldLake(
        raw,
        -1 if last is None else int(last),
        committed_batch(files, settings.checkpoint),
        OffsetLog(files.read_text, settings.checkpoint),
    )


def committed_batch(files: SparkFiles, checkpoint: str) -> int:
    """The last batch that Spark has committed; -1 if none."""
    return max((int(name) for name in files.names(f"{checkpoint}/commits") if name.isdecimal()), default=-1)


def adopt_delta(
    spark: SparkSession, files: SparkFiles, settings: PipelineSettings, pipeline_id: str, tables: DeltaTables, say: Say
) -> None:
    opened = {name: table for name in files.folders(settings.output) if (table := tables.opened(name)) is not None}
    if "raw" not in opened:
        return
    folder = f"{settings.output}/raw"
    uris = [f"{folder}/{path}" for path in pa.table(opened["raw"].get_add_actions()).column("path").to_pylist()]
    lake = old_lake(files, settings, spark.read.option("basePath", folder).parquet(*uris))
    for name, table in opened.items():
        if tables.held(name, table).version is None:
            last = table.transaction_version(pipeline_id)
            positions = lake.positions(-1 if last is None else last)
            tables.move(name, positions)
            _say_adopted(name, positions, say)


def adopt_iceberg(
    spark: SparkSession,
    files: SparkFiles,
    settings: PipelineSettings,
    pipeline_id: str,
    tables: IcebergTables,
    say: Say,
) -> None:
    names = [row["tableName"] for row in spark.sql(f"SHOW TABLES IN {settings.output}").collect()]
    frames = {name: spark.table(f"{settings.output}.{name}") for name in names}
    ours = {
        name: frame.where(F.col(PIPELINE) == pipeline_id) for name, frame in frames.items() if PIPELINE in frame.columns
    }
    if "raw" not in ours:
        return
    lake = old_lake(files, settings, ours["raw"])
    for name, frame in ours.items():
        if not tables.positions(name).shards:
            last = frame.agg(F.max(BATCH)).collect()[0][0]
            positions = lake.positions(-1 if last is None else int(last))
            tables.move(name, positions)
            _say_adopted(name, positions, say)


def adopt_parquet(
    spark: SparkSession, files: SparkFiles, settings: PipelineSettings, tables: ParquetTables, say: Say
) -> None:
    """Part of an uncommitted batch is removed first, as 0.2 does before it repeats the batch."""
    if tables.journal.tables:
        return
    place = f"{settings.output}/{JOURNAL_OF_02}"
    journal = BatchJournal.from_json(files.read_text(place))
    if journal is not None and journal.batch > committed_batch(files, settings.checkpoint):
        for part in left_over(journal, journal.batch):
            files.delete(f"{settings.output}/{part}")
    frames = {
        name: _read(spark, f"{settings.output}/{name}")
        for name in files.folders(settings.output)
        if files.files(f"{settings.output}/{name}")
    }
    if "raw" in frames:
        lake = old_lake(files, settings, frames["raw"])
        tables.commit(_states(frames, lake.positions(lake.last)))
        for name in frames:
            _say_adopted(name, tables.positions(name), say)
    files.delete(place)


def _read(spark: SparkSession, folder: str) -> DataFrame:
    """With the columns of all files; if these disagree, which 0.2 allowed, with those that Spark shows."""
    try:
        return spark.read.option("mergeSchema", "true").parquet(folder)
    except PySparkException:
        return spark.read.parquet(folder)


def _states(frames: Mapping[str, DataFrame], positions: TablePositions) -> dict[str, TableState]:
    """Tables of 0.2 keep their folders: to Spark, a table cannot have two kinds. A folder does not say that its batch
    is a BIGINT."""
    return {
        name: TableState(
            positions,
            tuple({**column, "type": "long"} if column["name"] == BATCH else column for column in columns_of(frame)),
            _partitions_of_02(frame),
            has_files=True,
        )
        for name, frame in frames.items()
    }


def _partitions_of_02(frame: DataFrame) -> tuple[str, ...]:
    return tuple(name for name in ("arrivalDate", "shardId", BATCH) if name in frame.columns)


def _say_adopted(name: str, positions: TablePositions, say: Say) -> None:
    say(f"{name}: adopted from sublet 0.2, with a position in each of {counted(len(positions.shards), 'shard')}")
