"""Writes a batch into Parquet tables, for readers that do not know Spark's logs.

Each batch has its own folders, `arrivalDate=.../shardId=.../batch=17`. The journal names them before they are written
(see `journal`), and they are removed before they are written again, so no row is ever in a table twice. Part of an
interrupted batch stays until the next attempt, with which the next run begins. Spark's own file sink would need a query
per table, each of which would read the stream again, and only Spark reads its `_spark_metadata`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sublet.errors import SettingsError
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.journal import JOURNAL, BatchJournal, left_over
from sublet.spark.pipeline.judging import ARRIVAL_DATE

BATCH = "batch"

WriteFrame = Callable[[DataFrame, str, Sequence[str]], None]
"""(rows, folder, partition columns): adds Parquet files to the folder."""


def write_files(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
    frame.write.mode("append").partitionBy(*partitions).parquet(folder)


def partition_columns(frame: DataFrame) -> list[str]:
    """Arrival date and shard, if the table has these columns."""
    return [name for name in (ARRIVAL_DATE, "shardId") if name in frame.columns]


class ParquetTables:
    """The Parquet tables of one pipeline."""

    def __init__(self, files: SparkFiles, output: str, write_frame: WriteFrame) -> None:
        self._files, self._output, self._write_frame = files, output, write_frame

    def write(self, tables: Mapping[str, DataFrame], batch: int) -> dict[str, int]:
        """Writes a batch, and returns the rows by table. After any failure, repeating the call leaves each row once."""
        places = {name: _places(name, frame, batch) for name, frame in tables.items()}
        file = f"{self._output}/{JOURNAL}"
        for place in left_over(BatchJournal.from_json(self._files.read_text(file)), batch):
            self._files.delete(f"{self._output}/{place}")
        self._files.write_text(
            file, BatchJournal(batch, tuple(place for of in places.values() for place in of)).to_json()
        )
        for name, frame in tables.items():
            if places[name]:
                numbered = frame.withColumn(BATCH, F.lit(batch).cast("bigint"))
                self._write_frame(numbered, f"{self._output}/{name}", [*partition_columns(frame), BATCH])
        return {name: sum(of.values()) for name, of in places.items()}


def _places(table: str, frame: DataFrame, batch: int) -> dict[str, int]:
    """The number of rows by the folder that they will be in."""
    columns = partition_columns(frame)
    groups = frame.groupBy(*columns).agg(F.count(F.lit(1)).alias("rows")).collect()
    return {
        "/".join([table, *(_part(table, name, group[name]) for name in columns), f"{BATCH}={batch}"]): group["rows"]
        for group in groups
        if group["rows"]
    }


def _part(table: str, column: str, value: Any) -> str:
    """Returns a folder's name. Refuses characters that Spark would escape."""
    text = str(value)
    if value is None or not re.fullmatch(r"[A-Za-z0-9_.-]+", text):
        raise SettingsError(
            "transform", f"{table}.{column} = {value!r}", "the column partitions the table: keep it as it is"
        )
    return f"{column}={text}"
