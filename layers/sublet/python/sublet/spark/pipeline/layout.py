"""How a batch's files lie in a table: by which columns they are partitioned, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sublet.spark.pipeline.evolution import Column
from sublet.spark.plan.table_positions import BatchExtent

BATCH = "batch"

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""How Spark writes null into a path, and an empty text."""

_FOLDER_MAX = 255
"""Bytes of a folder's name, on most file systems."""

_ESCAPED = "".join(map(chr, range(1, 32))) + "\x7f\"#%'*/:=?\\{[]^"
"""What Spark writes in three bytes in a folder's name. It leaves NUL, which no path can have."""

WriteFrame = Callable[[DataFrame, str, Sequence[str]], None]
"""(rows, folder, partition columns): adds Parquet files to the folder."""


def write_files(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
    writer = frame.write.mode("append").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    writer.partitionBy(*partitions).parquet(folder)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch to be written: its number, and what it covers."""

    number: int
    extent: BatchExtent


@dataclass(frozen=True, slots=True)
class Layout:
    """partition_by  the columns that new tables are partitioned by, as far as they have them
    file_size     how many bytes of data a file should have
    """

    partition_by: tuple[str, ...]
    file_size: int

    def partitions_of(self, frame: DataFrame) -> list[str]:
        return [name for name in self.partition_by if name in frame.columns]

    def gathered(self, frame: DataFrame, extent: BatchExtent) -> DataFrame:
        """The rows in as many tasks as there should be files in a partition. Rows of a shard stay side by side, so
        that a file's statistics tell shards apart."""
        return frame.coalesce(max(1, -(-extent.size // self.file_size)))


def beyond_folder(name: str) -> Callable[[Expression], Expression]:
    """Returns a function: whether Spark makes no folder of a struct's text, or one that is read as null."""
    left = _FOLDER_MAX - len(f"{name}=".encode()) - 2 * sum(each in _ESCAPED for each in name)

    def is_beyond(struct: Expression) -> Expression:
        text = struct.getField(name)
        escaped = F.length(text) - F.length(F.translate(text, _ESCAPED, ""))
        is_null = text.isin("", NULL_FOLDER)
        return is_null | text.contains(F.char(F.lit(0))) | (F.octet_length(text) + 2 * escaped > left)

    return is_beyond


def numbered(frame: DataFrame, batch: int) -> DataFrame:
    return frame.withColumn(BATCH, F.lit(batch).cast("bigint"))


def columns_of(frame: DataFrame) -> list[Column]:
    """The columns of the rows, all nullable, because to Spark all columns in files are."""
    fields: list[Column] = nullable(frame.schema).jsonValue()["fields"]
    return fields


def nullable(schema: StructType) -> StructType:
    return schema.toNullable()


def conformed(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The rows with the table's columns, in the table's order: cast to a wider type, null where they have none."""
    own = {name.lower(): name for name in frame.columns}
    wanted: Any = StructType.fromJson({"type": "struct", "fields": list(map(dict, columns))})
    return frame.select(
        *(
            (F.col(f"`{own[field.name.lower()]}`") if field.name.lower() in own else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in wanted.fields
        )
    )
