"""What Delta's and Iceberg's SQL have in common."""

from __future__ import annotations

from datetime import date, timedelta
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from sublet.spark.pipeline.evolution import CanWiden, Column, Evolution, Type, adding, evolution, widening
from sublet.spark.pipeline.judging import ARRIVAL_DATE
from sublet.spark.pipeline.lake import retried
from sublet.spark.pipeline.merge import Merge, merge_sql, quoted


class SqlTable:
    """A table by its name in SQL. To merge a micro-batch's rows, `spark` is these rows' session, which is the batch's
    own.
    """

    def __init__(self, spark: SparkSession, name: str, can_widen: CanWiden) -> None:
        self._spark, self.name, self._can_widen = spark, name, can_widen

    @property
    def columns(self) -> list[str]:
        return list(self._spark.table(self.name).columns)

    def days(self) -> list[date]:
        rows = self._spark.sql(f"SELECT DISTINCT {ARRIVAL_DATE} AS day FROM {self.name}").collect()  # noqa: S608
        return sorted(row["day"] for row in rows)

    def read(self, day: date) -> DataFrame:
        return self._spark.table(self.name).where(F.col(ARRIVAL_DATE) == F.lit(day))

    def merge(self, rows: DataFrame, merge: Merge) -> None:
        change = self.evolved(rows.schema)
        self._alter(change)
        view = f"sublet_merge_{uuid4().hex}"
        # Computed first: parsing is a function that Spark 4.1 takes for non-deterministic, and refuses in a MERGE.
        rows.localCheckpoint().createOrReplaceTempView(view)
        try:
            statement = merge_sql(self.name, view, merge, rows.columns, [column["name"] for column in change.columns])
            retried(lambda: self._spark.sql(statement).collect())
        finally:
            self._spark.catalog.dropTempView(view)

    def evolved(self, rows: StructType) -> Evolution:
        """What the table has to become to hold the rows. Raises SettingsError for a type that changes otherwise."""
        return evolution(self.name, _columns(self._spark.table(self.name).schema), _columns(rows), self._can_widen)

    def _alter(self, change: Evolution) -> None:
        for column in change.widened:
            self._altered(widening(column))
        if change.added:
            self._altered(adding(change.added))

    def _altered(self, how: str) -> None:
        retried(lambda: self._spark.sql(f"ALTER TABLE {self.name} {how}"))

    def delete_before(self, column: str, age: timedelta, newest: str, *, dry_run: bool) -> int:
        latest = self._spark.table(self.name).agg(F.unix_micros(F.max(newest))).collect()[0][0]
        if latest is None:
            return 0
        condition = f"{quoted(column)} < timestamp_micros({latest - round(age.total_seconds() * 10**6)})"
        count = self._spark.table(self.name).where(condition).count()
        if count and not dry_run:
            retried(lambda: self._spark.sql(f"DELETE FROM {self.name} WHERE {condition}"))  # noqa: S608
        return int(count)


def _columns(schema: StructType) -> list[Column]:
    fields: list[Column] = schema.toNullable().jsonValue()["fields"]
    return fields


def never_widens(_ours: Type, _theirs: Type) -> bool:
    return False


def create_empty(rows: DataFrame) -> DataFrame:
    """A DataFrame without rows, with all columns nullable: a table is created from it."""
    return rows.sparkSession.createDataFrame([], rows.schema.toNullable())
