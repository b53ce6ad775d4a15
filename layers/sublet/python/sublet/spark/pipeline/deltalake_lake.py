"""Delta tables by the package `deltalake`, where the session lacks Delta's jar. Rows pass through the driver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Field, Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sublet.spark.pipeline.delta_tables import delta_uri, keep_statistics_exact
from sublet.spark.pipeline.evolution import Evolution, evolution
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.judging import ARRIVAL_DATE
from sublet.spark.pipeline.lake import TableSize, retried
from sublet.spark.pipeline.merge import Merge, quoted
from sublet.spark.pipeline.sql_lake import never_widens
from sublet.spark.release import arrow_schema


class DeltalakeLake:
    """The Delta tables below `output`, which Spark can write to."""

    def __init__(self, spark: SparkSession, files: SparkFiles, output: str) -> None:
        self._spark, self._files, self._output = spark, files, output

    def names(self) -> list[str]:
        return [name for name in self._files.folders(self._output) if self._exists(name)]

    def has_column(self, name: str, column: str) -> bool:
        return column in {field.name for field in self._table(name).schema().fields}

    def days(self, name: str) -> list[date]:
        found = self._table(name).to_pyarrow_table(columns=[ARRIVAL_DATE]).column(ARRIVAL_DATE)
        return sorted(found.unique().to_pylist())

    def read(self, name: str, day: date) -> DataFrame:
        rows = self._table(name).to_pyarrow_table(filters=[(ARRIVAL_DATE, "=", day)])
        return self._spark.createDataFrame(rows)

    def check_columns(self, name: str, columns: StructType) -> None:
        if self._exists(name):
            _evolved(name, self._table(name), columns)

    def merge(self, name: str, rows: DataFrame, merge: Merge, partitions: Sequence[str] = ()) -> None:
        columns = rows.schema.toNullable()
        if not self._exists(name):
            if not merge.insert:
                return
            DeltaTable.create(self._uri(name), _schema(columns), mode="ignore", partition_by=list(partitions))
        source = rows.toArrow().cast(arrow_schema(columns))
        retried(lambda: self._merge(name, columns, source, merge))

    def _merge(self, name: str, columns: StructType, source: pa.Table, merge: Merge) -> None:
        table = self._table(name)
        change = _evolved(name, table, columns)
        if change.added:
            table.alter.add_columns([Field.from_json(json.dumps(dict(column))) for column in change.added])
            table = self._table(name)
        keep_statistics_exact(table)
        # To deltalake, Note and note are two columns.
        spelled = {column["name"].lower(): column["name"] for column in change.columns}
        source = source.rename_columns([spelled[column.lower()] for column in source.column_names])
        merger = table.merge(source, merge.matching, source_alias="s", target_alias="t")
        if merge.delete:
            merger = merger.when_matched_delete()
        elif merge.update_if is not None:
            updates = merge.updates(source.column_names, list(spelled.values()))
            merger = merger.when_matched_update(updates, predicate=merge.update_if)
        if merge.insert:
            merger = merger.when_not_matched_insert({quoted(name): f"s.{quoted(name)}" for name in source.column_names})
        merger.execute()

    def delete_before(self, name: str, column: str, age: timedelta, newest: str, *, dry_run: bool) -> int:
        rows = self._table(name).to_pyarrow_table(columns=[column, newest])
        latest = pc.max(rows.column(newest)).as_py()
        if latest is None:
            return 0
        moment = latest - age
        count = int(pc.sum(pc.less(rows.column(column), pa.scalar(moment, rows.column(column).type))).as_py() or 0)
        if count and not dry_run:
            condition = f"{quoted(column)} < '{moment.isoformat()}'"
            retried(lambda: self._to_write(name).delete(condition))
        return count

    def size(self, name: str) -> TableSize:
        files = pa.table(self._table(name).get_add_actions(flatten=True))
        return TableSize(files.num_rows, int(pc.sum(files.column("size_bytes")).as_py() or 0))

    def compact(self, name: str, target_size: int) -> None:
        retried(lambda: self._to_write(name).optimize.compact(target_size=target_size))

    def remove_old(self, name: str, retention: timedelta, now: datetime, *, dry_run: bool) -> int:  # noqa: ARG002
        """The package has its own clock, and makes a checkpoint of the log, whose old entries then go as the table's
        properties say."""
        table, hours = self._table(name), ceil(retention.total_seconds() / 3600)
        files = retried(lambda: table.vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=True))
        if not dry_run:
            table = self._table(name)
            table.create_checkpoint()
            table.cleanup_metadata()
        return len(files)

    def _exists(self, name: str) -> bool:
        return bool(DeltaTable.is_deltatable(self._uri(name)))

    def _table(self, name: str) -> DeltaTable:
        return DeltaTable(self._uri(name))

    def _to_write(self, name: str) -> DeltaTable:
        table = self._table(name)
        keep_statistics_exact(table)
        return table

    def _uri(self, name: str) -> str:
        return delta_uri(self._files.absolute(f"{self._output}/{name}"))


def _schema(columns: StructType) -> Schema:
    return Schema.from_arrow(arrow_schema(columns))


def _evolved(name: str, table: DeltaTable, rows: StructType) -> Evolution:
    """What the table has to become to hold the rows. Raises SettingsError for a type that changes otherwise."""
    ours, theirs = (json.loads(schema.to_json())["fields"] for schema in (table.schema(), _schema(rows.toNullable())))
    return evolution(name, ours, theirs, never_widens)
