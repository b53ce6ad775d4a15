"""`sublet pipeline` on Spark: every record in raw once, and in either parsed or rejected; the same after any
failure.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sublet.errors import SettingsError
from sublet.spark.pipeline.file_system import SparkFiles
from sublet.spark.pipeline.identity import MARK, PipelineIdentity
from sublet.spark.pipeline.layout import Layout, write_files
from sublet.spark.pipeline.parquet_tables import ParquetTables
from sublet.spark.pipeline.running import run_pipeline, schema_of
from sublet.spark.pipeline.session import cause_of
from sublet.spark.pipeline.settings import PipelineSettings, Sink, pipeline_settings
from sublet.spark.pipeline.tables import Tables, claim, open_tables
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.spark.pipeline.transforming import transformed
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.exploring import explores, first
from tests.spark.flight_events import MISFITS, FlightStream, carriers
from tests.spark.local_session import ROOT, local_session
from tests.spark.processes import kill_session

EXAMPLE = ROOT / "examples" / "pipeline"
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


@pytest.fixture
def stream(embedded_aws: EmbeddedAws, request: pytest.FixtureRequest) -> FlightStream:
    flights = FlightStream(embedded_aws.client("kinesis"), f"flights-{os.getpid()}-{time.time_ns()}")
    flights.produce(100)
    time.sleep(1.1)  # available is what arrived before the run began, by the second
    return flights


@pytest.fixture(autouse=True)
def examples_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))


def settings(stream: FlightStream, folder: Path, **given: Any) -> PipelineSettings:
    wanted: dict[str, Any] = {
        "output": str(folder / "lake"),
        "checkpoint": None,
        "sink": Sink.PARQUET,
        "schema": str(EXAMPLE / "flights.json"),
        "transform": "carriers:tables",
        "every": None,
        "options": {"stream": stream.name},
        "spark": {},
    }
    return pipeline_settings(**{**wanted, **given})


def run(spark: SparkSession, given: PipelineSettings, tables: Tables | None = None) -> RunTally:
    tally = RunTally()
    run_pipeline(spark, given, tally, PlainLines(print), SystemClock(), lambda: False, tables)
    return tally


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """Read by PyArrow, which ignores Spark's logs."""
    found: list[dict[str, Any]] = ds.dataset(folder / "lake" / table, partitioning="hive").to_table().to_pylist()
    return found


def assert_each_once(folder: Path, stream: FlightStream) -> None:
    raw, parsed, rejected = (rows(folder, name) for name in ("raw", "parsed", "rejected"))
    assert Counter(row["data"] for row in raw) == Counter(stream.produced)
    assert sorted(row["number"] for row in parsed) == stream.numbers
    assert sorted(row["data"] for row in rejected) == sorted(stream.misfits)
    for row in rejected:
        assert row["reason"] == MISFITS[row["data"]]
    by_batch = [Counter(row["batch"] for row in table) for table in (raw, parsed, rejected)]
    assert by_batch[0] == by_batch[1] + by_batch[2]
    sums: dict[str, list[int]] = {}
    for row in rows(folder, "carriers"):
        figures = [row[name] for name in ("flights", "departed", "departure_delay", "arrived", "arrival_delay")]
        sums[row["carrier"]] = [a + b for a, b in zip(sums.get(row["carrier"], [0] * 5), figures, strict=True)]
    assert {carrier: tuple(figures) for carrier, figures in sums.items()} == carriers(stream.numbers)


def test_every_record_is_in_raw_once_and_in_either_parsed_or_rejected(
    spark: SparkSession, stream: FlightStream, tmp_path: Path
) -> None:
    first = run(spark, settings(stream, tmp_path))
    assert first.rows == {"raw": 115, "parsed": 110, "rejected": 5, "carriers": 3}
    assert first.lag is not None
    stream.produce(30)
    time.sleep(1.1)
    second = run(spark, settings(stream, tmp_path))
    assert second.rows["raw"] == 45
    assert_each_once(tmp_path, stream)
    parsed = rows(tmp_path, "parsed")[0]
    arrived = parsed["approximateArrivalTimestamp"]
    assert str(parsed["arrivalDate"]) == f"{arrived:%Y-%m-%d}"
    assert parsed["shardId"].startswith("shardId-")
    assert run(spark, settings(stream, tmp_path)).rows == {}


def test_pipeline_without_a_schema_writes_raw_alone(spark: SparkSession, stream: FlightStream, tmp_path: Path) -> None:
    run(spark, settings(stream, tmp_path, schema=None, transform=None))
    assert Counter(row["data"] for row in rows(tmp_path, "raw")) == Counter(stream.produced)
    assert sorted(path.name for path in (tmp_path / "lake").iterdir() if path.name[0] not in "._") == ["raw"]


class FailsAfter:
    """Writes the files of this many tables, and fails before the next one's."""

    def __init__(self, tables: int) -> None:
        self.left = tables

    def __call__(self, frame: DataFrame, folder: str, partitions: Sequence[str]) -> None:
        if self.left == 0:
            raise ConnectionError("the store is out of reach")
        self.left -= 1
        write_files(frame, folder, partitions)


@pytest.mark.parametrize("written", first(1, [1, 3]))
def test_a_batch_that_failed_between_two_tables_leaves_nothing_twice(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, written: int
) -> None:
    given = settings(stream, tmp_path)
    failing = open_tables(spark, given, FailsAfter(written))
    with pytest.raises(PySparkException, match="the store is out of reach"):
        run(spark, given, failing)
    assert not (tmp_path / "lake" / "raw").exists(), "a reader sees nothing of it"
    run(spark, given)
    assert_each_once(tmp_path, stream)


class MovesAFew(SparkFiles):
    """Moves this many files into the tables, and fails before the next one."""

    left = 2

    def move(self, source: str, target: str) -> None:
        if self.left == 0:
            raise ConnectionError("the store is out of reach")
        self.left -= 1
        super().move(source, target)


def test_a_batch_whose_files_are_moved_in_part_is_there_after_the_next_start(
    spark: SparkSession, stream: FlightStream, tmp_path: Path
) -> None:
    """The batch counts as written with its journal, so the next attempt at it moves the rest and writes nothing."""
    given = settings(stream, tmp_path)
    claim(SparkFiles(spark), given)
    layout = Layout(given.partition_by, given.file_size)
    failing = ParquetTables(spark, MovesAFew(spark), given.output, layout, write_files)
    with pytest.raises(PySparkException, match="the store is out of reach"):
        run(spark, given, failing)
    moved = {each.name for each in (tmp_path / "lake").iterdir() if not each.name.startswith(("_", "."))}
    assert 0 < len(moved) < 4, "of raw, parsed, rejected and carriers"
    assert run(spark, given).rows["raw"] == 0
    assert_each_once(tmp_path, stream)


@explores
def test_table_dropped_by_a_fixed_transform_never_appears(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code was fixed between the two."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mended.py").write_text(
        "def before(flights): return {'a': flights.limit(5), 'b': flights}\n"
        "def after(flights): return {'b': flights.where('number < 7')}\n"
    )
    before = settings(stream, tmp_path, transform="mended:before")
    with pytest.raises(PySparkException, match="out of reach"):
        run(spark, before, open_tables(spark, before, FailsAfter(4)))
    run(spark, settings(stream, tmp_path, transform="mended:after"))
    assert not (tmp_path / "lake" / "a").exists()
    assert sorted(row["number"] for row in rows(tmp_path, "b")) == list(range(7))


@explores
def test_a_transform_that_fails_once_leaves_nothing_behind(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "flaky.py").write_text(
        "import carriers\nfailures = [ValueError('not today')]\n"
        "def tables(flights):\n    for failure in failures: raise failures.pop()\n    return carriers.tables(flights)\n"
    )
    given = settings(stream, tmp_path, transform="flaky:tables")
    with pytest.raises(PySparkException, match="ValueError: not today"):
        run(spark, given)
    assert not (tmp_path / "lake" / "raw").exists()
    run(spark, given)
    assert_each_once(tmp_path, stream)


@explores
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda df: df, "a dict of table names and DataFrames"),
        (lambda df: {"raw": df}, "table name 'raw'"),
        (lambda df: {"Ünï": df}, "table name 'Ünï'"),
        (lambda _: {"a": 5}, "table a is of type int"),
        (lambda df: {"a": df.selectExpr("1 as batch")}, "has a column batch"),
        (lambda df: {"a": df.selectExpr("1 as shardId")}, "shardId is int"),
    ],
)
def test_transform_is_refused_for_an_invalid_result(
    spark: SparkSession, make: Callable[[DataFrame], Any], says: str
) -> None:
    with pytest.raises(SettingsError, match="setting transform = 'orders:tables'.*" + re.escape(says)):
        transformed(make, "orders:tables", spark.range(3))


@pytest.fixture(scope="module")
def stream_of_one(embedded_aws: EmbeddedAws) -> FlightStream:
    flights = FlightStream(embedded_aws.client("kinesis"), f"few-{os.getpid()}")
    flights.produce(1)
    time.sleep(1.1)
    return flights


@pytest.mark.parametrize("place", ["lake", "lake/_checkpoint"])
def test_of_two_first_runs_at_once_one_takes_the_mark_of_the_other(
    spark: SparkSession, stream_of_one: FlightStream, tmp_path: Path, place: str
) -> None:
    given = settings(stream_of_one, tmp_path)

    class Beside(SparkFiles):
        """Another run begins just before this one writes to `place`, once."""

        other: PipelineIdentity | None = None

        def write_new_text(self, path: str, text: str) -> bool:
            if self.other is None and path == f"{tmp_path / place}/{MARK}":
                self.other = claim(SparkFiles(spark), given)
            return super().write_new_text(path, text)

    files = Beside(spark)
    ours = claim(files, given)
    assert ours == files.other == claim(SparkFiles(spark), given)


def test_a_mark_that_a_crash_cut_short_is_written_again(
    spark: SparkSession, stream_of_one: FlightStream, tmp_path: Path
) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / MARK).write_text('{"id": "')
    given = settings(stream_of_one, tmp_path)
    assert claim(SparkFiles(spark), given) == claim(SparkFiles(spark), given)


@explores
def test_an_output_without_its_checkpoint_is_refused(
    spark: SparkSession, stream_of_one: FlightStream, tmp_path: Path
) -> None:
    """Batch 0 of a new checkpoint would be taken for another attempt at the old one's."""
    run(spark, settings(stream_of_one, tmp_path))
    elsewhere = settings(stream_of_one, tmp_path, checkpoint=str(tmp_path / "other"))
    with pytest.raises(SettingsError, match=r"setting checkpoint .*the output needs its own checkpoint"):
        run(spark, elsewhere)
    with pytest.raises(SettingsError, match=r"setting checkpoint .*belongs to another output"):
        run(
            spark,
            settings(
                stream_of_one,
                tmp_path,
                output=str(tmp_path / "new"),
                checkpoint=str(tmp_path / "lake/_checkpoint"),
            ),
        )


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("a INTT", "DDL, or a .json file"),
        ("INT", 'columns, such as "id BIGINT'),
        ("a INT, shardid STRING", "another name: the pipeline adds a column shardId"),
        ("a INT, A STRING", "each name once"),
        ("a STRUCT<b: INTERVAL DAY>", r"schema\.a\.b"),
        ("nowhere.json", "there is no such file"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_by_its_reason(spark: SparkSession, schema: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        schema_of(spark, schema)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "[STREAM_FAILED]\nTraceback:\nKeyError: 'a'\nDuring handling\nmine.OrderError: no such order\n\tat java",
            "OrderError: no such order",
        ),
        ("x\nsublet.errors.DataGap: 5 records\nValueError: after it\n", "DataGap: 5 records"),
        ("[STREAM_FAILED] the JVM's own words\n\tat java", "[STREAM_FAILED] the JVM's own words"),
        ("", "RuntimeError"),
    ],
)
def test_a_failure_is_reported_by_its_cause(text: str, cause: str) -> None:
    assert cause_of(RuntimeError(text)) == cause


@explores
def test_iceberg_without_its_jars_is_refused_by_name(
    spark: SparkSession, stream_of_one: FlightStream, tmp_path: Path
) -> None:
    given = settings(stream_of_one, tmp_path, sink=Sink.ICEBERG, output="lake.flights", checkpoint=str(tmp_path))
    with pytest.raises(SettingsError, match="setting sink = 'iceberg': the session lacks Iceberg's jars"):
        run(spark, given)


def test_pipeline_command_prints_the_rows_of_each_table(
    embedded_aws: EmbeddedAws, stream: FlightStream, tmp_path: Path
) -> None:
    """In a process of its own, as a schedule starts it."""
    command = [sys.executable, "-m", "sublet", "pipeline", "--stream", stream.name, "--available-now"]
    command += [
        "--output",
        str(tmp_path / "lake"),
        "--schema",
        "flights.json",
        "--transform",
        "carriers:tables",
    ]
    command += ["--conf", "spark.master=local[2]", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(
        command,
        cwd=EXAMPLE,
        env={**os.environ, **embedded_aws.environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout.splitlines()
    assert said[0].startswith("batch 0: raw 115, parsed 110, rejected 5, carriers 3 rows in ")
    assert said[1].startswith("115 rows in 1 batch, ")
    assert said[3].startswith("behind the stream's tip: at most ")
    assert [said[2], *said[4:]] == [
        f"rejected: 5 (why: {tmp_path}/lake/rejected)",
        "parsed: 110 rows",
        "carriers: 3 rows",
    ]
    assert_each_once(tmp_path, stream)


@pytest.mark.slow
def test_a_continuous_run_goes_on_until_it_is_asked_to_end(
    embedded_aws: EmbeddedAws, stream: FlightStream, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "sublet",
        "pipeline",
        "--stream",
        stream.name,
        "--every",
        "500ms",
        "--metrics",
    ]
    command += [
        "--output",
        str(tmp_path / "lake"),
        "--schema",
        "flights.json",
        "--transform",
        "carriers:tables",
    ]
    command += ["--conf", "spark.master=local[2]", "--conf", "spark.ui.enabled=false"]
    with subprocess.Popen(
        command,
        cwd=EXAMPLE,
        env={**os.environ, **embedded_aws.environment},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            assert running.stdout is not None
            first = next(line for line in running.stdout if line.startswith("batch "))
            stream.produce(20)
            second = next(line for line in running.stdout if line.startswith("batch "))
            running.send_signal(signal.SIGTERM)
            said = running.stdout.read()
            assert running.wait(timeout=120) == 0
        finally:
            kill_session(running.pid)
    assert first.startswith("batch 0: raw ")
    assert second.startswith("batch 1: raw ")
    assert "\nbehind the stream's tip: at most " in said
    assert '"millis_behind_latest"' in said


@explores
def test_a_stream_that_is_not_there_fails_the_command_with_one_sentence(
    embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "sublet.spark.pipeline",
        "--stream",
        "nowhere",
        "--available-now",
    ]
    command += ["--output", str(tmp_path / "lake"), "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(
        command,
        env={**os.environ, **embedded_aws.environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stderr[-3000:]
    assert "sublet: the query failed: StreamNotFound: there is no stream nowhere" in done.stderr
