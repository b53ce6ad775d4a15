"""`sublet pipeline maintain` on Delta tables by the package `deltalake`: beside a writer, nothing lost or repeated."""

from __future__ import annotations

import os
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from sublet.errors import SettingsError
from sublet.spark.pipeline.deltalake_lake import DeltalakeLake
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.lake import is_conflict, retried
from sublet.spark.pipeline.maintain_command import MaintainSettings
from sublet.spark.pipeline.maintaining import maintain
from sublet.spark.pipeline.merge import Merge
from sublet.spark.pipeline.settings import Sink
from sublet.system.clock import SystemClock

BATCHES, ROWS = 40, 5


class LocalFiles:
    """SparkFiles of this machine, without Spark."""

    def folders(self, folder: str) -> list[str]:
        return sorted(path.name for path in Path(folder).iterdir() if path.is_dir() and path.name[0] not in "_.")

    def absolute(self, path: str) -> str:
        return f"file:{path}"


class Rows:
    """A DataFrame of an Arrow table, without Spark."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.schema = table, from_arrow_schema(table.schema)

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return self._table


def lake(folder: Path) -> DeltalakeLake:
    return DeltalakeLake(cast("SparkSession", None), cast("SparkFiles", LocalFiles()), str(folder))


def settings(folder: Path, **given: Any) -> MaintainSettings:
    wanted: dict[str, Any] = {
        "output": str(folder),
        "sink": Sink.DELTA,
        "retention": timedelta(days=1),
        "tombstone_retention": timedelta(days=1),
        "target_size": 2**27,
        "dry_run": False,
        "spark": {},
    }
    return MaintainSettings(**{**wanted, **given})


def run(folder: Path, **given: Any) -> list[str]:
    said: list[str] = []
    maintain(lake(folder), settings(folder, **given), SystemClock(), said.append)
    return said


def write(folder: Path, batches: range) -> None:
    """As the sink writes: a commit with the batch's number for each batch, partitioned by date."""
    for batch in batches:
        rows = pa.table({"number": range(batch * ROWS, (batch + 1) * ROWS), "arrivalDate": ["2026-01-01"] * ROWS})
        properties = CommitProperties(app_transactions=[Transaction("pipeline", batch)])
        write_deltalake(folder / "raw", rows, mode="append", partition_by=["arrivalDate"], commit_properties=properties)


def numbers(folder: Path) -> list[int]:
    found: list[int] = sorted(DeltaTable(folder / "raw").to_pyarrow_table().column("number").to_pylist())
    return found


def files(folder: Path) -> set[Path]:
    return set((folder / "raw").rglob("*.parquet")) - set((folder / "raw" / "_delta_log").iterdir())


def test_maintenance_beside_a_writer_loses_and_repeats_nothing(tmp_path: Path) -> None:
    write(tmp_path, range(2))
    failures: list[BaseException] = []

    def writes() -> None:
        try:
            write(tmp_path, range(2, BATCHES))
        except BaseException as failure:  # noqa: BLE001 - for the assertion below
            failures.append(failure)

    writer = Thread(target=writes)
    writer.start()
    runs = 0
    while writer.is_alive() or not runs:
        run(tmp_path)
        runs += 1
    writer.join()
    assert failures == []
    assert numbers(tmp_path) == list(range(BATCHES * ROWS))
    print("maintained", runs, "times")
    said = run(tmp_path, retention=timedelta(0))
    assert numbers(tmp_path) == list(range(BATCHES * ROWS))
    assert len(files(tmp_path)) == 1, said
    assert DeltaTable(tmp_path / "raw").transaction_version("pipeline") == BATCHES - 1


def test_a_dry_run_says_what_there_is_to_do_and_does_nothing(tmp_path: Path) -> None:
    write(tmp_path, range(6))
    DeltaTable(tmp_path / "raw").optimize.compact()
    write(tmp_path, range(6, 8))
    before, version = files(tmp_path), DeltaTable(tmp_path / "raw").version()
    said = run(tmp_path, retention=timedelta(0), dry_run=True)
    assert said[0].startswith("raw: 3 files of 0.0 MB, 6 old to remove")
    assert said[1].startswith("1 table looked at in ")
    assert (files(tmp_path), DeltaTable(tmp_path / "raw").version()) == (before, version)
    said = run(tmp_path, retention=timedelta(0))
    assert said[0].startswith("raw: 3 files of 0.0 MB -> 1, 9 old removed")
    assert len(files(tmp_path)) == 1


def test_files_within_the_retention_stay(tmp_path: Path) -> None:
    write(tmp_path, range(6))
    before = files(tmp_path)
    run(tmp_path)
    assert before < files(tmp_path)
    assert sorted(DeltaTable(tmp_path / "raw", version=3).to_pyarrow_table().column("number").to_pylist()) == list(
        range(4 * ROWS)
    )


def test_files_of_a_batch_under_way_and_positions_stay(tmp_path: Path) -> None:
    """What an attempt left days ago, without a commit, goes."""
    write(tmp_path, range(2))
    names = ("part-1/arrivalDate=2026-01-01/a.parquet", "part-2/b.parquet", "_sublet/7.json")
    left, young, positions = (tmp_path / "raw" / name for name in names)
    for file in (left, young, positions):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    for file in (left, positions):
        os.utime(file, (0, 0))
    said = run(tmp_path)
    assert said[0].endswith(", 1 old removed")
    assert [file.exists() for file in (left, young, positions)] == [False, True, True]


def test_rows_with_large_decimals_are_found_after_compaction_and_merges(tmp_path: Path) -> None:
    """Also where the table was made by another writer, whose statistics of them readers must not skip files by."""
    ids = [Decimal(f"1234567890123456789{last}") for last in range(4)]

    def rows(*wanted: Decimal) -> pa.Table:
        dates = ["2026-01-01"] * len(wanted)
        return pa.table({"id": pa.array(wanted, pa.decimal128(20, 0)), "arrivalDate": dates})

    for each in ids[:2]:
        write_deltalake(tmp_path / "raw", rows(each), mode="append", partition_by=["arrivalDate"])
    run(tmp_path)
    source = cast("DataFrame", Rows(rows(*ids[1:])))
    lake(tmp_path).merge("raw", source, Merge(on=("id",)))
    table = DeltaTable(tmp_path / "raw")
    assert table.count() == 4
    for each in ids:
        assert table.to_pyarrow_table(filters=[("id", "=", each)]).num_rows == 1


def test_an_output_without_our_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"setting output = .*it has no delta table raw"):
        run(tmp_path)


class ConcurrentAppendException(Exception):
    """As Delta's jar names it."""


def test_a_change_starts_over_after_a_conflict_alone() -> None:
    left = [ConcurrentAppendException("first"), ConcurrentAppendException("second")]

    def change() -> str:
        if left:
            raise left.pop()
        return "done"

    assert retried(change) == "done"

    calls: list[int] = []

    def fails() -> None:
        calls.append(1)
        raise PermissionError("not allowed")

    with pytest.raises(PermissionError):
        retried(fails)
    assert calls == [1]

    def conflicts() -> None:
        raise ConcurrentAppendException("again")

    with pytest.raises(ConcurrentAppendException):
        retried(conflicts)


@pytest.mark.parametrize(
    "text",
    [
        "[DELTA_CONCURRENT_DELETE_READ] ConcurrentDeleteReadException: ...",
        "org.apache.iceberg.exceptions.ValidationException: Found conflicting files that can contain records",
        "org.apache.iceberg.exceptions.ValidationException: Found new conflicting delete files that can apply to",
        "org.apache.iceberg.exceptions.ValidationException: Missing required files to delete: a.parquet",
        "org.apache.iceberg.exceptions.ValidationException: Cannot commit, found new delete for replaced data file",
        "org.apache.iceberg.exceptions.CommitFailedException: Cannot commit",
    ],
)
def test_conflicts_are_known_by_their_names(text: str) -> None:
    assert is_conflict(RuntimeError(text))


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.hadoop.security.AccessControlException: not allowed",
        "org.apache.iceberg.exceptions.ValidationException: Cannot delete orphan files: GC is disabled",
    ],
)
def test_other_errors_are_no_conflicts(text: str) -> None:
    assert not is_conflict(RuntimeError(text))
