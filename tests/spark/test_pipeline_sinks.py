"""The sinks for Parquet and Delta by themselves: other columns, partitions, positions, and what maintenance leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sublet.errors import SettingsError
from sublet.protocol.checkpoint import Checkpoint
from sublet.settings.payload_format import parsed_format
from sublet.spark.pipeline.delta_tables import DeltaTables
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.judging import judge, parsed, rejected
from sublet.spark.pipeline.layout import NULL_FOLDER, Batch, Layout, WriteFrame, write_files
from sublet.spark.pipeline.parquet_tables import ParquetTables
from sublet.spark.pipeline.payload import Payload
from sublet.spark.pipeline.running import recipe_of
from sublet.spark.pipeline.settings import Sink, pipeline_settings
from sublet.spark.pipeline.tables import Tables
from sublet.spark.plan.table_positions import BatchExtent, ShardExtent, TablePositions

from infra.local import EmbeddedAws
from tests.spark.local_session import ROOT, local_session
from tests.spark.source_rows import Records

BOTH = pytest.mark.parametrize("sink", [Sink.PARQUET, Sink.DELTA])
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


class Sinks:
    """Writes rows into the table `parsed`, in batches of one row, and opens the sink anew for each."""

    def __init__(self, spark: SparkSession, folder: Path, sink: Sink) -> None:
        self.spark, self.folder, self.sink, self.number = spark, folder, sink, 0
        self.partition_by: tuple[str, ...] = ()

    def opened(self, write_frame: WriteFrame = write_files) -> Tables:
        files, layout = SparkFiles(self.spark), Layout(self.partition_by, 2**20)
        if self.sink is Sink.DELTA:
            return DeltaTables(files, str(self.folder), "pipeline", layout, write_frame)
        return ParquetTables(self.spark, files, str(self.folder), layout, write_frame)

    def write(self, *columns: str, write_frame: WriteFrame = write_files) -> None:
        """A row of these SQL expressions."""
        self.number += 1
        at = Checkpoint(str(self.number))
        extent = BatchExtent({"orders/shardId-0": ShardExtent(at, at, self.number)}, 1, 10)
        frame = self.spark.range(1).selectExpr(*columns)
        assert self.opened(write_frame).write({"parsed": frame}, Batch(self.number, extent)) == {"parsed": 1}

    def staged(self) -> list[Path]:
        """The files of attempts that are not committed, with those that say when each began."""
        if self.sink is Sink.PARQUET:
            return [file for file in (self.folder / "_sublet" / "staged").rglob("*") if file.is_file()]
        committed = {Path(uri).name for uri in DeltaTable(str(self.folder / "parsed")).file_uris()}
        files = [file for file in (self.folder / "parsed").rglob("*.parquet") if "_delta_log" not in file.parts]
        positions = sorted((self.folder / "parsed" / "_sublet").iterdir())
        return [file for file in files if file.name not in committed] + positions

    def read(self) -> DataFrame:
        """As anyone reads it, with no option."""
        if self.sink is Sink.PARQUET:
            return self.spark.read.parquet(str(self.folder / "parsed"))
        table = DeltaTable(str(self.folder / "parsed"))
        return self.spark.createDataFrame(pa.table(table.to_pyarrow_table()))

    def rows(self, *columns: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.read().orderBy("batch").select(*columns).collect()]


@BOTH
@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_added_column_is_there_for_a_plain_read_and_null_in_older_rows(
    spark: SparkSession, tmp_path: Path, sink: Sink, partition_by: tuple[str, ...]
) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.partition_by = partition_by
    table.write("1L as id", "date'2026-01-31' as day")
    table.write("2L as id", "'NL' as country", "date'2026-01-30' as day")
    table.write("3L as id", "date'2026-02-01' as day")
    assert table.rows("id", "country") == [(1, None), (2, "NL"), (3, None)]
    assert dict(table.read().dtypes)["day"] == "date"


@BOTH
def test_changed_type_is_refused_by_name_and_leaves_the_values_as_they_are(
    spark: SparkSession, tmp_path: Path, sink: Sink
) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.write("1L as id", "1.5D as price")
    said = r"parsed\.price': the table has double, and these rows have decimal\(9,2\)"
    with pytest.raises(SettingsError, match=said):
        table.write("2L as id", "cast(3.5 as decimal(9,2)) as price")
    table.number -= 1
    table.write("2L as id", "3.5D as price")
    assert table.rows("id", "price") == [(1, 1.5), (2, 3.5)]


def test_changed_type_is_refused_also_by_a_delta_table_that_holds_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The batch was cut off after it, and the table that comes next would be made by the new schema."""
    table = Sinks(spark, tmp_path, Sink.DELTA)
    table.write("1L as id")
    table.number -= 1
    with pytest.raises(SettingsError, match=r"parsed\.id': the table has bigint, and these rows have string"):
        table.write("'1' as id")


def test_wider_types_change_a_parquet_table_in_place(spark: SparkSession, tmp_path: Path) -> None:
    table = Sinks(spark, tmp_path, Sink.PARQUET)
    table.write("1 as id", "cast(1.5 as float) as weight", "cast(1.5 as decimal(9,2)) as price")
    table.write(f"{2**40} as id", "1e300D as weight", "cast(123456789.75 as decimal(12,2)) as price")
    table.write("3 as id", "cast(2.5 as float) as weight", "cast(2.5 as decimal(9,2)) as price")
    assert table.rows("id", "weight", "price") == [
        (1, 1.5, Decimal("1.50")),
        (2**40, 1e300, Decimal("123456789.75")),
        (3, 2.5, Decimal("2.50")),
    ]
    assert [kind for _, kind in table.read().select("id", "weight", "price").dtypes] == [
        "bigint",
        "double",
        "decimal(12,2)",
    ]


def test_wider_type_is_refused_on_delta_and_rows_of_the_narrower_fit(spark: SparkSession, tmp_path: Path) -> None:
    table = Sinks(spark, tmp_path, Sink.DELTA)
    table.write("1L as id")
    table.write("2 as id")
    assert table.rows("id") == [(1,), (2,)]
    with pytest.raises(SettingsError, match=r"parsed\.id': the table has bigint, and these rows have decimal\(20,0\)"):
        table.write("cast(3 as decimal(20,0)) as id")


def test_delta_table_rewritten_as_documented_goes_on_with_the_wider_type(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Sinks(spark, tmp_path / "lake", Sink.DELTA)
    table.partition_by = ("country",)
    table.write("1 as id", "'NL' as country")
    held = table.opened().positions("parsed")
    with pytest.raises(SettingsError, match=r"rewrite the table with the wider one \(see Tables in docs/spark-"):
        table.write(f"{2**40} as id", "'NL' as country")
    table.number -= 1
    [recipe] = re.findall(r"```\n([^`]*schema_mode=[^`]*)```", (ROOT / "docs" / "spark-pipeline.md").read_text())
    monkeypatch.chdir(tmp_path)
    exec(recipe, {})  # noqa: S102 - the document's
    assert table.opened().positions("parsed") == held
    table.write(f"{2**40} as id", "'BE' as country")
    assert table.rows("id", "country") == [(1, "NL"), (2**40, "BE")]
    assert DeltaTable(str(tmp_path / "lake" / "parsed")).metadata().partition_columns == ["country"]


@BOTH
@pytest.mark.parametrize(
    "value",
    [
        "'a/b=../c d%'",
        "cast(null as string)",
        "'Côte d''Ivoire'",
        "'{x}'",
        "1.0D",
        "timestamp'2026-01-01 00:00:00'",
    ],
)
def test_table_is_partitioned_by_any_value(spark: SparkSession, tmp_path: Path, sink: Sink, value: str) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.partition_by = ("country",)
    table.write(f"{value} as country", "1 as id")
    table.write(f"{value} as country", "2 as id")
    as_text = "cast(country as string)"
    [expected] = spark.range(1).selectExpr(f"{value} as country").selectExpr(f"{as_text} as country").collect()
    found = table.read().orderBy("id").selectExpr(as_text, "id").collect()
    assert [tuple(row) for row in found] == [(expected.country, 1), (expected.country, 2)]
    if sink is Sink.DELTA:
        assert DeltaTable(str(tmp_path / "parsed")).metadata().partition_columns == ["country"]


@BOTH
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_text_that_names_no_folder_is_rejected_and_other_text_is_read_as_it_was(
    spark: SparkSession, tmp_path: Path, sink: Sink, form: str
) -> None:
    """A name has 255 bytes at most, here with 8 for the column; one record would fail its batch again and again."""
    fit = ["NL", "x" * 247, "'" * 82 + "x", "é" * 123, "{\n}", " ", None]
    misfit = ["", NULL_FOLDER, "a\0b", "x" * 248, "'" * 82 + "xx", "é" * 124]
    records = Records(spark, Random(1))
    records.add([json.dumps({"country": value}) for value in [*misfit, *fit]])
    schema, payload = StructType.fromDDL("country STRING"), Payload(parsed_format(form, "format"))
    given = pipeline_settings(
        output=str(tmp_path),
        checkpoint=None,
        sink=sink,
        schema="country STRING",
        transform=None,
        every=None,
        options={"stream": "orders"},
        spark={},
        partition_by="country",
    )
    folders = recipe_of(spark, given).folders
    judged = judge(records.frame(records.rows), schema, payload=payload, folders=folders).cache()
    reasons = [row.reason for row in rejected(judged).collect()]
    said = "country: text for a folder's name expected, found one that is empty, has NUL, or is too long"
    assert reasons == [said] * len(misfit)
    table = Sinks(spark, tmp_path, sink)
    table.partition_by = ("country",)
    extent = BatchExtent({"orders/shardId-0": ShardExtent(Checkpoint("1"), Checkpoint("1"), 0)}, 1, 10)
    table.opened().write({"parsed": parsed(judged, payload=payload)}, Batch(1, extent))
    assert {row.country for row in table.read().select("country").collect()} == set(fit)


@BOTH
def test_table_may_be_partitioned_by_a_column_that_begins_like_a_hidden_file(
    spark: SparkSession, tmp_path: Path, sink: Sink
) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.partition_by = ("_tenant",)
    table.write("1 as id", "7 as _tenant")
    assert table.rows("id", "_tenant") == [(1, 7)]


@BOTH
def test_table_keeps_the_partitions_that_it_was_made_with(spark: SparkSession, tmp_path: Path, sink: Sink) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.write("1 as id", "'a' as country")
    table.partition_by = ("country",)
    table.write("2 as id", "'b' as country")
    assert table.rows("id", "country") == [(1, "a"), (2, "b")]
    assert not list((tmp_path / "parsed").rglob("country=*"))


@BOTH
def test_table_that_was_deleted_is_new_and_takes_batches_again(spark: SparkSession, tmp_path: Path, sink: Sink) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.partition_by = ("country",)
    for number in range(2):
        table.write(f"{number}L as id", "'NL' as country")
    shutil.rmtree(tmp_path / "parsed")
    assert table.opened().positions("parsed") == TablePositions()
    table.number, table.partition_by = 0, ()
    for number in range(2):
        table.write(f"'{number}' as id", "'NL' as country")
    assert table.rows("id") == [("0",), ("1",)]
    assert not list((tmp_path / "parsed").glob("country=*"))


@BOTH
def test_batch_without_rows_for_a_table_moves_its_positions_all_the_same(
    spark: SparkSession, tmp_path: Path, sink: Sink
) -> None:
    table = Sinks(spark, tmp_path, sink)
    batch = Batch(0, BatchExtent({"orders/shardId-0": ShardExtent(Checkpoint("1"), Checkpoint("9"), 0)}, 5, 50))
    none = spark.range(1).selectExpr("id").where("id < 0")
    assert table.opened().write({"parsed": none}, batch) == {"parsed": 0}
    held = table.opened().positions("parsed")
    assert str(held.shards["orders/shardId-0"].checkpoint) == "9"
    table.number = 9
    table.write("1L as id")
    assert table.rows("id") == [(1,)]


def test_rows_with_large_decimals_are_found_in_delta_by_their_values(spark: SparkSession, tmp_path: Path) -> None:
    """delta-rs takes decimals for floating-point numbers, and readers skip files by their least and largest values."""
    large, price = "12345678901234567891", "1234567890123456789012345.0123456789"
    columns = (f"cast({large} as decimal(20,0)) as id", f"named_struct('at', cast({price} as decimal(38,10))) as price")
    sink = Sinks(spark, tmp_path, Sink.DELTA)
    sink.write("cast(1.5 as decimal(9,2)) as tax")
    sink.write("cast(1.5 as decimal(9,2)) as tax", *columns)
    sink.write(*columns, "'later' as note")

    def assert_found(files: int) -> None:
        found = sink.read().where(f"id = {large}").count()
        table = DeltaTable(str(tmp_path / "parsed"))
        kept = table.to_pyarrow_table(filters=[("id", "=", Decimal(large))])
        assert (kept.num_rows, found) == (2, 2)
        added = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        assert len(added) == files
        assert {each["num_records"] for each in added} == ({1} if files == 3 else {3})
        assert max(each["max.tax"] for each in added if each["max.tax"] is not None) == Decimal("1.50")
        assert max(each["max.batch"] for each in added) == 3

    assert_found(files=3)
    DeltaTable(str(tmp_path / "parsed")).optimize.compact()
    assert_found(files=1)


def test_delta_positions_outlive_compaction_vacuum_and_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """The log's older files go with a checkpoint of it, and what is not in the table goes with vacuum."""
    sink = Sinks(spark, tmp_path, Sink.DELTA)
    for number in range(3):
        sink.write(f"{number}L as id")
    held = sink.opened().positions("parsed")
    table = DeltaTable(str(tmp_path / "parsed"))
    assert table.optimize.compact()["numFilesRemoved"] == 3
    removed = table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert sum(name.endswith(".parquet") for name in removed) == 3
    table.create_checkpoint()
    for log in sorted((tmp_path / "parsed" / "_delta_log").glob("*.json"))[:-1]:
        log.unlink()
    assert sink.opened().positions("parsed") == held
    assert DeltaTable(str(tmp_path / "parsed")).count() == 3
    sink.write("3L as id")
    assert sink.rows("id") == [(0,), (1,), (2,), (3,)]


def test_delta_table_without_the_file_of_its_positions_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = Sinks(spark, tmp_path, Sink.DELTA)
    sink.write("1L as id")
    [positions] = (tmp_path / "parsed" / "_sublet").iterdir()
    positions.unlink()
    with pytest.raises(SettingsError, match=rf"{positions.name}': the table's positions are gone"):
        sink.write("2L as id")


def test_parquet_journal_that_was_cut_short_leaves_the_one_before(spark: SparkSession, tmp_path: Path) -> None:
    """And what its batch had staged is in no table."""
    sink = Sinks(spark, tmp_path, Sink.PARQUET)
    sink.write("1L as id")
    held = sink.opened().positions("parsed")
    (tmp_path / "_sublet" / "2.json").write_text('{"number": 2, "tables": {')
    staged = tmp_path / "_sublet" / "staged" / "2" / "parsed" / "part-0.parquet"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"torn")
    assert sink.opened().positions("parsed") == held
    sink.write("2L as id")
    assert sink.rows("id") == [(1,), (2,)]
    assert not list((tmp_path / "_sublet").rglob("*.parquet"))


class Killed(Exception):
    """In place of SIGKILL of a driver."""


@BOTH
def test_of_two_drivers_that_write_at_once_one_commits(spark: SparkSession, tmp_path: Path, sink: Sink) -> None:
    """A cluster has started another while the first one still writes the same batch."""
    table = Sinks(spark, tmp_path, sink)
    table.write("0L as id")

    def write_beside_another(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        write_files(frame, folder, partitions)
        table.number -= 1
        table.write("1L as id")

    with pytest.raises((SettingsError, CommitFailedError), match=r"run one at a time|Concurrent transaction"):
        table.write("1L as id", write_frame=write_beside_another)
    assert table.rows("id") == [(0,), (1,)]
    table.write("2L as id")
    assert table.rows("id") == [(0,), (1,), (2,)]


@BOTH
def test_staged_files_are_left_alone_by_another_driver_that_begins(
    spark: SparkSession, tmp_path: Path, sink: Sink
) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.write("0L as id")

    def begin_and_die(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        raise Killed

    def write_beside_another(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        write_files(frame, folder, partitions)
        table.number -= 1
        with pytest.raises(Killed):
            table.write("1L as id", write_frame=begin_and_die)

    table.write("1L as id", write_frame=write_beside_another)
    assert table.rows("id") == [(0,), (1,)]
    table.write("2L as id")
    assert table.rows("id") == [(0,), (1,), (2,)]


@BOTH
def test_rows_cut_at_positions_that_another_driver_has_moved_since_are_refused(
    spark: SparkSession, tmp_path: Path, sink: Sink
) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.write("0L as id")
    stale = table.opened()
    assert str(stale.positions("parsed").shards["orders/shardId-0"].checkpoint) == "1"
    table.write("1L as id")
    extent = BatchExtent({"orders/shardId-0": ShardExtent(Checkpoint("2"), Checkpoint("3"), 3)}, 2, 20)
    with pytest.raises(SettingsError, match="run one at a time"):
        stale.write({"parsed": spark.range(2).selectExpr("id + 1 as id")}, Batch(3, extent))
    assert table.rows("id") == [(0,), (1,)]


def test_driver_whose_journal_another_took_for_a_torn_one_moves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is created and not closed yet looks like a torn one."""
    table = Sinks(spark, tmp_path, Sink.PARQUET)
    table.write("0L as id")

    def create_slowly(files: SparkFiles, path: str, text: str) -> bool:
        monkeypatch.undo()
        files.write_text(path, text[:20])
        table.number -= 1
        table.write("1L as id")
        return True

    monkeypatch.setattr(SparkFiles, "write_new_text", create_slowly)
    with pytest.raises(SettingsError, match="run one at a time"):
        table.write("1L as id")
    assert table.rows("id") == [(0,), (1,)]
    table.write("2L as id")
    assert table.rows("id") == [(0,), (1,), (2,)]


def test_journal_that_another_driver_ended_meanwhile_is_not_taken_for_a_torn_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Sinks(spark, tmp_path, Sink.PARQUET)
    table.write("0L as id")
    table.write("1L as id")
    read_text = SparkFiles.read_text

    def read_before_it_is_closed(files: SparkFiles, path: str) -> str | None:
        if not path.endswith("/2.json"):
            return read_text(files, path)
        monkeypatch.undo()
        return ""

    monkeypatch.setattr(SparkFiles, "read_text", read_before_it_is_closed)
    with pytest.raises(SettingsError, match="run one at a time"):
        table.opened()
    assert sorted(file.name for file in (tmp_path / "_sublet").glob("*.json*")) == ["1.json", "2.json"]
    assert str(table.opened().positions("parsed").shards["orders/shardId-0"].checkpoint) == "2"


def test_file_that_another_driver_moves_meanwhile_stays_where_it_was_moved(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SparkFiles(spark)
    source, target = tmp_path / "staged", tmp_path / "moved"

    def move(before_each_look: Callable[[], object] = lambda: None) -> None:
        system, _ = files._at(str(source))

        class Watched:
            """The file system, seen by a driver that is slower than another one."""

            def __getattr__(self, name: str) -> object:
                if name in ("rename", "delete"):
                    before_each_look()
                return getattr(system, name)

        with monkeypatch.context() as patch:
            patch.setattr(files, "_at", lambda path: (Watched(), spark._jvm.org.apache.hadoop.fs.Path(path)))
            files.move(str(source), str(target))

    source.write_text("rows")
    move(lambda: source.rename(target) if source.exists() else None)
    assert (source.exists(), target.read_text()) == (False, "rows")
    source.write_text("rows")
    move()
    assert (source.exists(), target.read_text()) == (False, "rows"), "copied, and not removed yet"
    source.write_text("whole rows")
    move()
    assert (source.exists(), target.read_text()) == (False, "whole rows"), "the target was torn"


class Gone(BaseException):
    """In place of SIGKILL: nothing is cleaned up."""


@BOTH
def test_files_of_a_driver_that_was_killed_go_after_an_hour(spark: SparkSession, tmp_path: Path, sink: Sink) -> None:
    table = Sinks(spark, tmp_path, sink)
    table.write("0L as id")
    before = set(table.staged())

    def write_and_die(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        write_files(frame, folder, partitions)
        raise Gone

    with pytest.raises(Gone):
        table.write("1L as id", write_frame=write_and_die)
    left = set(table.staged()) - before
    assert len(left) >= 2
    table.number -= 1
    table.write("1L as id")
    assert left <= set(table.staged())
    for file in left:
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 3601))
    table.write("2L as id")
    assert not left & set(table.staged())
    assert table.rows("id") == [(0,), (1,), (2,)]
