"""Delta tables by the SQL of Delta's own jar."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from math import ceil

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.lake import TableSize, retried
from sublet.spark.pipeline.merge import Merge, quoted
from sublet.spark.pipeline.sql_lake import SqlTable, create_empty, never_widens

_SETTINGS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",  # the command has its own minimum
    "spark.databricks.delta.vacuum.logging.enabled": "true",  # the table's history says how many files went
}


class DeltaJarLake:
    """The Delta tables below `output`, which Spark can write to."""

    def __init__(self, spark: SparkSession, files: SparkFiles, output: str) -> None:
        self._spark, self._files, self._output = spark, files, output
        for name, value in _SETTINGS.items():
            spark.conf.set(name, value)

    def names(self) -> list[str]:
        return [name for name in self._files.folders(self._output) if self._exists(name)]

    def has_column(self, name: str, column: str) -> bool:
        return column in self._table(name).columns

    def days(self, name: str) -> list[date]:
        return self._table(name).days()

    def read(self, name: str, day: date) -> DataFrame:
        return self._table(name).read(day)

    def check_columns(self, name: str, columns: StructType) -> None:
        if self._exists(name):
            self._table(name).evolved(columns)

    def merge(self, name: str, rows: DataFrame, merge: Merge, partitions: Sequence[str] = ()) -> None:
        if not self._exists(name):
            if not merge.insert:
                return
            writer = create_empty(rows).write.format("delta").mode("ignore")
            writer.partitionBy(*partitions).save(self._path(name))
        self._table(name, rows.sparkSession).merge(rows, merge)

    def delete_before(self, name: str, column: str, age: timedelta, newest: str, *, dry_run: bool) -> int:
        return self._table(name).delete_before(column, age, newest, dry_run=dry_run)

    def size(self, name: str) -> TableSize:
        (row,) = self._spark.sql(f"DESCRIBE DETAIL {self._table(name).name}").collect()
        return TableSize(row["numFiles"], row["sizeInBytes"])

    def compact(self, name: str, target_size: int) -> None:
        for bound in ("maxFileSize", "minFileSize"):
            self._spark.conf.set(f"spark.databricks.delta.optimize.{bound}", target_size)
        retried(lambda: self._spark.sql(f"OPTIMIZE {self._table(name).name}").collect())

    def remove_old(self, name: str, retention: timedelta, now: datetime, *, dry_run: bool) -> int:  # noqa: ARG002
        table = self._table(name).name
        vacuum = f"VACUUM {table} RETAIN {ceil(retention.total_seconds() / 3600)} HOURS"
        if dry_run:
            return int(self._spark.sql(f"{vacuum} DRY RUN").count())
        self._spark.sql(vacuum).collect()
        ended = self._spark.sql(f"DESCRIBE HISTORY {table}").where("operation = 'VACUUM END'").limit(1).collect()
        return int(ended[0]["operationMetrics"].get("numDeletedFiles", 0)) if ended else 0

    def _exists(self, name: str) -> bool:
        return self._files.exists(f"{self._path(name)}/_delta_log")

    def _path(self, name: str) -> str:
        return self._files.absolute(f"{self._output}/{name}")

    def _table(self, name: str, spark: SparkSession | None = None) -> SqlTable:
        return SqlTable(spark or self._spark, f"delta.{quoted(self._path(name))}", never_widens)
