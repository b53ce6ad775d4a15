"""Iceberg tables by Iceberg's SQL and procedures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from sublet.spark.pipeline.iceberg_tables import iceberg_widens
from sublet.spark.pipeline.lake import TableSize, retried
from sublet.spark.pipeline.merge import Merge
from sublet.spark.pipeline.sql_lake import SqlTable, create_empty

ORPHAN_AGE = timedelta(days=3)
"""Iceberg's default: a younger file that no snapshot has may be of a commit that is under way."""


class IcebergLake:
    """The Iceberg tables of a namespace, which includes the catalog's name."""

    def __init__(self, spark: SparkSession, namespace: str) -> None:
        self._spark, self._namespace = spark, namespace
        self._catalog, _, self._within = namespace.partition(".")

    def names(self) -> list[str]:
        if not self._spark.catalog.databaseExists(self._namespace):
            return []
        return sorted(row["tableName"] for row in self._spark.sql(f"SHOW TABLES IN {self._namespace}").collect())

    def has_column(self, name: str, column: str) -> bool:
        return column in self._table(name).columns

    def days(self, name: str) -> list[date]:
        return self._table(name).days()

    def read(self, name: str, day: date) -> DataFrame:
        return self._table(name).read(day)

    def check_columns(self, name: str, columns: StructType) -> None:
        if self._spark.catalog.tableExists(self._table(name).name):
            self._table(name).evolved(columns)

    def merge(self, name: str, rows: DataFrame, merge: Merge, partitions: Sequence[str] = ()) -> None:
        table = self._table(name, rows.sparkSession)
        if not rows.sparkSession.catalog.tableExists(table.name):
            if not merge.insert:
                return
            columns = [F.col(column) for column in partitions]
            writer = create_empty(rows).writeTo(table.name).using("iceberg")
            (writer.partitionedBy(*columns) if columns else writer).create()
        table.merge(rows, merge)

    def delete_before(self, name: str, column: str, age: timedelta, newest: str, *, dry_run: bool) -> int:
        return self._table(name).delete_before(column, age, newest, dry_run=dry_run)

    def size(self, name: str) -> TableSize:
        files = self._spark.table(f"{self._table(name).name}.files")
        (row,) = files.selectExpr("count(*)", "coalesce(sum(file_size_in_bytes), 0)").collect()
        return TableSize(row[0], row[1])

    def compact(self, name: str, target_size: int) -> None:
        options = f"map('target-file-size-bytes', '{target_size}')"
        retried(lambda: self._call("rewrite_data_files", name, f"options => {options}"))
        retried(lambda: self._call("rewrite_manifests", name))

    def remove_old(self, name: str, retention: timedelta, now: datetime, *, dry_run: bool) -> int:
        before, orphaned = now - retention, now - max(retention, ORPHAN_AGE)
        orphans = len(self._call("remove_orphan_files", name, _older(orphaned), f"dry_run => {dry_run}"))
        if dry_run:
            snapshots = self._spark.table(f"{self._table(name).name}.snapshots")
            return orphans + int(snapshots.where(F.col("committed_at") < F.lit(before)).count())
        (expired,) = self._call("expire_snapshots", name, _older(before))
        return orphans + int(sum(expired.asDict().values()))

    def _call(self, procedure: str, name: str, *arguments: str) -> list[Row]:
        given = ", ".join([f"table => '{self._within}.{name}'", *arguments])
        return list(self._spark.sql(f"CALL {self._catalog}.system.{procedure}({given})").collect())

    def _table(self, name: str, spark: SparkSession | None = None) -> SqlTable:
        return SqlTable(spark or self._spark, f"{self._namespace}.{name}", iceberg_widens)


def _older(moment: datetime) -> str:
    return f"older_than => TIMESTAMP '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
