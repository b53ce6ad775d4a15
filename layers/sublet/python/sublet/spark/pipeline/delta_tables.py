"""Writes a batch into Delta tables: Spark writes the files, `deltalake` adds them in one transaction per table.

The transaction carries the pipeline's id and the batch's number. A repeated batch finds its number in the table's log
and leaves the table alone. Files that an attempt wrote without a transaction belong to no table, and the next attempt
removes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sublet.errors import SettingsError
from sublet.spark.pipeline.file_system import ListedFile, SparkFiles
from sublet.spark.pipeline.parquet_tables import BATCH, WriteFrame, partition_columns
from sublet.spark.release import arrow_schema


class DeltaTables:
    """The Delta tables of one pipeline. `pipeline_id` identifies the pipeline in transactions."""

    def __init__(self, files: SparkFiles, output: str, pipeline_id: str, write_frame: WriteFrame) -> None:
        self._files, self._output, self._id, self._write_frame = files, output, pipeline_id, write_frame

    def write(self, tables: Mapping[str, DataFrame], batch: int) -> dict[str, int]:
        """Writes a batch, and returns the rows by table. After any failure, repeating the call leaves each row once."""
        return {name: self._write(name, frame, batch) for name, frame in tables.items()}

    def _write(self, name: str, frame: DataFrame, batch: int) -> int:
        rows = int(frame.count())
        uri = delta_uri(self._files.absolute(f"{self._output}/{name}"))
        numbered = frame.withColumn(BATCH, F.lit(batch).cast("bigint"))
        table = DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None
        if not rows or (table is not None and self._has(table, batch)):
            return rows
        schema = _schema(numbered.schema)
        if table is not None and table.schema().to_json() != schema.to_json():
            raise SettingsError("schema", name, f"the table has other columns ({table.schema()}): give another output")
        columns, part = partition_columns(frame), f"{BATCH}={batch}"
        self._files.delete(f"{self._output}/{name}/{part}")
        self._write_frame(numbered, f"{self._output}/{name}/{part}", columns)
        adds = _adds(self._files.files(f"{self._output}/{name}/{part}"), part)
        commit = CommitProperties(app_transactions=[Transaction(self._id, batch)])
        if table is None:
            create_table_with_add_actions(uri, schema, adds, "error", columns, commit_properties=commit)
        else:
            table.create_write_transaction(adds, "append", schema, columns, commit_properties=commit)
        return rows

    def _has(self, table: DeltaTable, batch: int) -> bool:
        last = table.transaction_version(self._id)
        return last is not None and bool(last >= batch)


def delta_uri(path: str) -> str:
    """Returns deltalake's form of a path that Spark writes as file:/..., s3a://... or s3n://...."""
    scheme, colon, rest = path.partition(":")
    if not colon or scheme == "file":
        return "/" + (rest or path).lstrip("/")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{rest}"


def _schema(columns: StructType) -> Schema:
    """The table's schema, with all columns nullable, because to Spark all columns in files are."""
    return Schema.from_arrow(arrow_schema(columns.toNullable()))


def _adds(files: Sequence[ListedFile], part: str) -> list[AddAction]:
    """Describes files for the transaction. A partition's values are only in a file's path, as Spark wrote it."""
    return [
        AddAction(f"{part}/{file.path}", file.size, _values(file.path), file.modified, True, json.dumps({}))
        for file in files
    ]


def _values(path: str) -> dict[str, str | None]:
    """Reads the partition values from a path like `arrivalDate=2026-01-31/shardId=shardId-0/part-0.parquet`."""
    return {name: unquote(value) for name, _, value in (part.partition("=") for part in path.split("/")[:-1])}
