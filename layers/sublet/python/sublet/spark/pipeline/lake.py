"""Tables that are changed in place: rows merged into them, files compacted, what is old removed. For Delta and Iceberg,
by their own commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sublet.errors import SettingsError
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.merge import Merge
from sublet.spark.pipeline.settings import Sink

ATTEMPTS = 10
"""How often a change is tried while other writers keep committing first."""

_DELTA_CLASS = "io.delta.tables.DeltaTable"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_ICEBERG_EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_CONFLICT = re.compile(
    r"DELTA_CONCURRENT|DELTA_METADATA_CHANGED|Concurrent\w*Exception|MetadataChangedException|CommitFailed"
    r"|CommitStateUnknown|iceberg\.exceptions\.ValidationException: "
    r"(Found (new )?conflicting|Found concurrently|Missing required files|Cannot commit|Cannot determine history)"
)
"""Iceberg's ValidationException is also what it refuses for good."""

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table's current files."""

    files: int
    size: int


class Lake(Protocol):
    """The tables of one output. Each method that changes a table commits once. If another writer commits a conflicting
    change first, it starts over; after `ATTEMPTS` it raises the conflict's error.
    """

    def names(self) -> list[str]:
        """The tables that exist."""

    def has_column(self, name: str, column: str) -> bool: ...

    def days(self, name: str) -> list[date]:
        """The arrival dates in the table."""

    def read(self, name: str, day: date) -> DataFrame:
        """The rows that arrived on that day."""

    def check_columns(self, name: str, columns: StructType) -> None:
        """Raises SettingsError if the table exists, and has one of the columns with another type."""

    def merge(self, name: str, rows: DataFrame, merge: Merge, partitions: Sequence[str] = ()) -> None:
        """Merges rows, unique by the merge's `on`. Creates the table if it does not exist, and adds missing columns.
        Raises SettingsError if a column has another type in the table."""

    def delete_before(self, name: str, column: str, age: timedelta, newest: str, *, dry_run: bool) -> int:
        """Removes rows whose moment in `column` is older by `age` than the latest moment in the column `newest`.
        Returns how many there are."""

    def size(self, name: str) -> TableSize: ...

    def compact(self, name: str, target_size: int) -> None:
        """Rewrites small files into files of about this many bytes."""

    def remove_old(self, name: str, retention: timedelta, now: datetime, *, dry_run: bool) -> int:
        """Removes versions of the table that are older, and files that belong to no version. Returns how many files
        there are, or with `dry_run`, when it removes nothing, how many files and versions."""


def open_lake(spark: SparkSession, output: str, sink: Sink) -> Lake:
    """Raises SettingsError if the sink's tables cannot be changed in place, or not in this session."""
    if sink is Sink.ICEBERG:
        from sublet.spark.pipeline.iceberg_lake import IcebergLake
        from sublet.spark.pipeline.iceberg_tables import check_iceberg

        check_iceberg(spark, output)
        if _ICEBERG_EXTENSION not in _conf(spark, "spark.sql.extensions"):
            wanted = f"--conf spark.sql.extensions={_ICEBERG_EXTENSION}: the session lacks Iceberg's SQL"
            raise SettingsError("conf", _conf(spark, "spark.sql.extensions") or None, wanted)
        return IcebergLake(spark, output)
    if sink is not Sink.DELTA:
        raise SettingsError(
            "sink", str(sink), "delta or iceberg: files of Parquet tables cannot be replaced in a transaction"
        )
    if has_delta_jar(spark):
        from sublet.spark.pipeline.delta_jar_lake import DeltaJarLake

        return DeltaJarLake(spark, SparkFiles(spark), output)
    if find_spec("deltalake") is None:
        wanted = "Delta's jar in the session, or the package deltalake: install sublet with its extras spark and delta"
        raise SettingsError("sink", "delta", wanted)
    from sublet.spark.pipeline.deltalake_lake import DeltalakeLake

    return DeltalakeLake(spark, SparkFiles(spark), output)


def has_delta_jar(spark: SparkSession) -> bool:
    """Whether the session has Delta's SQL: the jar, its extension and its catalog."""
    is_set_up = (
        _DELTA_EXTENSION in _conf(spark, "spark.sql.extensions")
        and _conf(spark, "spark.sql.catalog.spark_catalog") == _DELTA_CATALOG
    )
    if not is_set_up:
        return False
    jvm: Any = spark._jvm  # noqa: SLF001
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_DELTA_CLASS)
    except Py4JJavaError:
        return False
    return True


def _conf(spark: SparkSession, name: str) -> str:
    return spark.conf.get(name, "") or ""


def is_conflict(failure: Exception) -> bool:
    """Whether another writer committed first. Errors differ by the format, and by how Py4J passes them on."""
    return _CONFLICT.search(f"{type(failure).__name__}: {failure}") is not None


def retried(change: Callable[[], Made]) -> Made:
    """Tries a change until no other writer commits first. At once, because an attempt takes longer than a commit."""
    for left in reversed(range(ATTEMPTS)):
        try:
            return change()
        except Exception as failure:
            if not left or not is_conflict(failure):
                raise
    raise AssertionError
