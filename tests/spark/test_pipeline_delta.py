"""`sublet pipeline --sink delta`: one transaction per table and batch, however often the batch comes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sublet.errors import SettingsError
from sublet.spark.pipeline.delta_tables import delta_uri
from sublet.spark.pipeline.layout import write_files
from sublet.spark.pipeline.running import run_pipeline
from sublet.spark.pipeline.settings import PipelineSettings, Sink, pipeline_settings
from sublet.spark.pipeline.tables import open_tables
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.spark.flight_events import FlightStream
from tests.spark.local_session import ROOT, local_session

EXAMPLE = ROOT / "examples" / "pipeline"
TABLES = ("raw", "parsed", "rejected", "carriers")
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


@pytest.fixture
def stream(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> FlightStream:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    flights = FlightStream(embedded_aws.client("kinesis"), f"delta-{os.getpid()}-{time.time_ns()}")
    flights.produce(50)
    time.sleep(1.1)
    return flights


def settings(stream: FlightStream, folder: Path, schema: str = str(EXAMPLE / "flights.json")) -> PipelineSettings:
    return pipeline_settings(
        output=str(folder / "lake"),
        checkpoint=None,
        sink=Sink.DELTA,
        schema=schema,
        transform="carriers:tables",
        every=None,
        options={"stream": stream.name},
        spark={},
    )


def run(spark: SparkSession, given: PipelineSettings, fails_after: int | None = None) -> RunTally:
    left = fails_after

    def write(frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        nonlocal left
        write_files(frame, folder, partitions)  # the files are there, the transaction is not
        if left == 0:
            raise ConnectionError("the store is out of reach")
        left = None if left is None else left - 1

    tally = RunTally()
    tables = open_tables(spark, given, write)
    run_pipeline(spark, given, tally, PlainLines(print), SystemClock(), lambda: False, tables)
    return tally


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(str(folder / "lake" / table)).to_pyarrow_table().to_pylist()
    return found


def assert_each_once(folder: Path, stream: FlightStream) -> None:
    assert Counter(row["data"] for row in rows(folder, "raw")) == Counter(stream.produced)
    assert sorted(row["number"] for row in rows(folder, "parsed")) == stream.numbers
    assert sorted(row["data"] for row in rows(folder, "rejected")) == sorted(stream.misfits)
    assert sum(row["flights"] for row in rows(folder, "carriers")) == len(stream.numbers)


def test_a_transaction_for_each_batch_with_its_number(
    spark: SparkSession, stream: FlightStream, tmp_path: Path
) -> None:
    run(spark, settings(stream, tmp_path))
    stream.produce(20)
    time.sleep(1.1)
    run(spark, settings(stream, tmp_path))
    assert_each_once(tmp_path, stream)
    for name in TABLES:
        table = DeltaTable(str(tmp_path / "lake" / name))
        assert table.version() == 1, "two batches"
        assert table.metadata().partition_columns == ([] if name == "carriers" else ["arrivalDate"])
    dates = {row["arrivalDate"] for row in rows(tmp_path, "raw")}
    files = DeltaTable(str(tmp_path / "lake" / "raw")).file_uris()
    assert 2 <= len(files) <= 2 * len(dates), "one for each batch and date"


def test_log_says_what_files_hold(spark: SparkSession, stream: FlightStream, tmp_path: Path) -> None:
    """Readers count by it, and skip files."""
    run(spark, settings(stream, tmp_path))
    for name in ("raw", "parsed"):
        table = DeltaTable(str(tmp_path / "lake" / name))
        assert table.count() == len(rows(tmp_path, name)) > 0
        added = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        assert sum(each["num_records"] for each in added) == table.count()
        numbers = [row["sequenceNumber"] for row in rows(tmp_path, name)]
        assert min(each["min.sequenceNumber"] for each in added) == min(numbers)
        assert max(each["max.sequenceNumber"] for each in added) == max(numbers)
        assert {each["null_count.sequenceNumber"] for each in added} == {0}
    assert min(each["min.number"] for each in added) == min(stream.numbers)
    assert max(each["max.number"] for each in added) == max(stream.numbers)


@explores
@pytest.mark.parametrize("fails_after", [0, 2])
def test_a_batch_that_failed_before_a_transaction_leaves_nothing_twice(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, fails_after: int
) -> None:
    given = settings(stream, tmp_path)
    with pytest.raises(PySparkException, match="the store is out of reach"):
        run(spark, given, fails_after)
    run(spark, given)
    assert_each_once(tmp_path, stream)
    assert [DeltaTable(str(tmp_path / "lake" / name)).version() for name in TABLES] == [0, 0, 0, 0]
    parts = {Path(uri).name for uri in DeltaTable(str(tmp_path / "lake" / "raw")).file_uris()}
    assert {path.name for path in (tmp_path / "lake" / "raw").rglob("*.parquet")} == parts


@explores
def test_a_batch_that_comes_again_after_all_its_transactions_adds_nothing(
    spark: SparkSession, stream: FlightStream, tmp_path: Path
) -> None:
    """As if Spark is killed before it has noted the batch: its number, 0, must not be taken for None."""
    given = settings(stream, tmp_path)
    run(spark, given)
    for note in (tmp_path / "lake" / "_checkpoint" / "commits").glob("*0*"):  # with its checksum
        note.unlink()
    again = run(spark, given)
    assert again.rows["raw"] == 0
    assert_each_once(tmp_path, stream)
    assert [DeltaTable(str(tmp_path / "lake" / name)).version() for name in TABLES] == [0, 0, 0, 0]


@explores
def test_another_schema_is_refused_by_the_table_that_has_the_old_one(
    spark: SparkSession, stream: FlightStream, tmp_path: Path
) -> None:
    run(spark, settings(stream, tmp_path))
    stream.produce(1)
    time.sleep(1.1)
    said = r"SettingsError: setting schema = 'parsed\.number': the table has int, and these rows have string"
    with pytest.raises(PySparkException, match=said):
        run(
            spark,
            settings(stream, tmp_path, "carrier STRING, number STRING, departure_delay INT, arrival_delay INT"),
        )
    run(spark, settings(stream, tmp_path))
    assert_each_once(tmp_path, stream)


@explores
def test_parquet_into_the_same_output_is_refused(spark: SparkSession, stream: FlightStream, tmp_path: Path) -> None:
    run(spark, settings(stream, tmp_path))
    parquet = pipeline_settings(
        output=str(tmp_path / "lake"),
        checkpoint=None,
        sink=Sink.PARQUET,
        schema=None,
        transform=None,
        every=None,
        options={"stream": stream.name},
        spark={},
    )
    with pytest.raises(SettingsError, match=r"setting sink = 'parquet': the output contains delta"):
        open_tables(spark, parquet)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("file:/a/b", "/a/b"),
        ("file:///a", "/a"),
        ("s3a://b/k", "s3://b/k"),
        ("s3://b/k", "s3://b/k"),
        ("abfss://c@d/k", "abfss://c@d/k"),
    ],
)
def test_paths_are_as_deltalake_writes_them(path: str, uri: str) -> None:
    assert delta_uri(path) == uri
