"""`sublet pipeline` after somebody touched its checkpoint: each record once in each table, or a refusal by name."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sublet.spark import drain, further, positions_of, unwritten
from sublet.spark.pipeline.running import run_pipeline
from sublet.spark.pipeline.settings import PipelineSettings, Sink, pipeline_settings
from sublet.spark.pipeline.tally import PlainLines, RunTally
from sublet.system.clock import SystemClock

from infra.local import EmbeddedAws
from tests.exploring import explores, first
from tests.spark.flight_events import FlightStream
from tests.spark.local_session import ROOT, local_session

EXAMPLE = ROOT / "examples" / "pipeline"
FLIGHTS = str(EXAMPLE / "flights.json")
PARQUET_AND_MORE = pytest.mark.parametrize("sink", first(1, [Sink.PARQUET, Sink.DELTA]))
DELTA_AND_MORE = pytest.mark.parametrize("sink", first(1, [Sink.DELTA, Sink.PARQUET]))
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def spark(embedded_aws: EmbeddedAws) -> Iterator[SparkSession]:
    with local_session(embedded_aws) as session:
        yield session


@pytest.fixture
def stream(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> FlightStream:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return FlightStream(embedded_aws.client("kinesis"), f"rewound-{os.getpid()}-{time.time_ns()}")


class Lake:
    """A pipeline's output and checkpoint, and what is in them."""

    def __init__(self, spark: SparkSession, stream: FlightStream, folder: Path, sink: Sink) -> None:
        self.spark, self.stream, self.sink = spark, stream, sink
        self.output, self.checkpoint = folder / "lake", folder / "lake" / "_checkpoint"

    def settings(self, transform: str | None, schema: str | None, start: str) -> PipelineSettings:
        return pipeline_settings(
            output=str(self.output),
            checkpoint=None,
            sink=self.sink,
            schema=schema,
            transform=transform,
            every=None,
            options={"stream": self.stream.name, "startPosition": start},
            spark={},
        )

    def load(
        self,
        flights: int = 0,
        transform: str | None = "carriers:tables",
        schema: str | None = FLIGHTS,
        start: str = "TRIM_HORIZON",
    ) -> RunTally:
        """Runs the pipeline, after that many more flights have arrived."""
        if flights:
            self.stream.produce(flights)
            time.sleep(1.1)  # available is what arrived before the run began, by the second
        tally = RunTally()
        given = self.settings(transform, schema, start)
        run_pipeline(self.spark, given, tally, PlainLines(print), SystemClock(), lambda: False)
        return tally

    def copy_checkpoint(self, to: Path) -> None:
        shutil.copytree(self.checkpoint, to)

    def restore_checkpoint(self, copy: Path) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree(copy, self.checkpoint)

    def forget_batches(self, count: int) -> None:
        """Removes the last batches from the checkpoint, as people do to have them read again."""
        numbers = sorted(int(name.name) for name in (self.checkpoint / "commits").iterdir() if name.name.isdecimal())
        for number in numbers[-count:]:
            for log in ("offsets", "commits"):
                (self.checkpoint / log / str(number)).unlink()
                (self.checkpoint / log / f".{number}.crc").unlink(missing_ok=True)

    def empty_checkpoint(self) -> None:
        """Removes all batches from the checkpoint, as people do to have everything read again."""
        for log in ("offsets", "commits"):
            shutil.rmtree(self.checkpoint / log)

    def rows(self, table: str) -> list[dict[str, Any]]:
        if self.sink is Sink.DELTA:
            found: list[dict[str, Any]] = DeltaTable(str(self.output / table)).to_pyarrow_table().to_pylist()
        else:
            found = ds.dataset(self.output / table, partitioning="hive").to_table().to_pylist()
        return found

    def assert_each_once(self) -> None:
        assert Counter(row["data"] for row in self.rows("raw")) == Counter(self.stream.produced)
        assert sorted(row["number"] for row in self.rows("parsed")) == self.stream.numbers
        assert sorted(row["data"] for row in self.rows("rejected")) == sorted(self.stream.misfits)
        assert sum(row["flights"] for row in self.rows("carriers")) == len(self.stream.numbers)


@PARQUET_AND_MORE
def test_checkpoint_restored_from_a_copy_loses_and_repeats_nothing(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, sink: Sink
) -> None:
    lake = Lake(spark, stream, tmp_path, sink)
    lake.load(30)
    lake.copy_checkpoint(tmp_path / "copy")
    lake.load(30)
    lake.load(30)
    before = len(stream.produced)
    stream.produce(30)
    time.sleep(1.1)
    lake.restore_checkpoint(tmp_path / "copy")
    tally = lake.load()
    assert tally.rows["raw"] == len(stream.produced) - before, "the run says what it wrote"
    lake.assert_each_once()
    assert lake.load().rows["raw"] == 0


@DELTA_AND_MORE
def test_checkpoint_cut_short_loses_and_repeats_nothing(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, sink: Sink
) -> None:
    lake = Lake(spark, stream, tmp_path, sink)
    for _ in range(3):
        lake.load(20)
    lake.forget_batches(2)
    lake.load(20)
    lake.assert_each_once()
    lake.forget_batches(1)
    assert lake.load().rows == {"raw": 0, "parsed": 0, "rejected": 0, "carriers": 0}
    lake.assert_each_once()


@DELTA_AND_MORE
def test_checkpoint_ahead_of_the_tables_is_refused_by_name(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, sink: Sink
) -> None:
    lake = Lake(spark, stream, tmp_path, sink)
    lake.load(20)
    shutil.copytree(lake.output, tmp_path / "older")
    lake.load(20)
    newer = tmp_path / "newer"
    lake.copy_checkpoint(newer)
    shutil.rmtree(lake.output)
    shutil.copytree(tmp_path / "older", lake.output)
    lake.restore_checkpoint(newer)
    with pytest.raises(PySparkException, match=r"setting checkpoint = .*it is ahead of table raw, which holds"):
        lake.load(5)
    lake.restore_checkpoint(tmp_path / "older" / "_checkpoint")
    lake.load()
    lake.assert_each_once()


@explores
def test_emptied_checkpoint_is_read_again_but_refused_by_name_from_latest(
    spark: SparkSession, stream: FlightStream, tmp_path: Path
) -> None:
    """From LATEST the records would be missing that arrived since the last run."""
    lake = Lake(spark, stream, tmp_path, Sink.DELTA)
    lake.load(20)
    lake.empty_checkpoint()
    with pytest.raises(PySparkException, match=r"ahead of table raw.* batch 0 begins at 20.*TRIM_HORIZON"):
        lake.load(5, start="LATEST")
    lake.empty_checkpoint()
    assert lake.load().rows["raw"] > 0
    lake.assert_each_once()


@DELTA_AND_MORE
def test_tables_that_differ_each_get_what_they_lack(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transform's new table begins with the batch that it is made of; the others hold that batch already."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"growing_{sink}.py").write_text(
        "def tables(flights):\n"
        "    made = {'old': flights.select('number', 'shardId', 'arrivalDate')}\n"
        "    return made | ({'new': flights.select('number')} if GROWN else {})\n"
        "GROWN = False\n"
    )
    lake = Lake(spark, stream, tmp_path, sink)
    lake.load(20, f"growing_{sink}:tables")
    lake.copy_checkpoint(tmp_path / "copy")
    lake.load(20, f"growing_{sink}:tables")
    import_module(f"growing_{sink}").GROWN = True  # type: ignore[attr-defined]
    lake.restore_checkpoint(tmp_path / "copy")
    lake.load(20, f"growing_{sink}:tables")
    assert sorted(row["number"] for row in lake.rows("old")) == stream.numbers
    assert sorted(row["number"] for row in lake.rows("new")) == stream.numbers[30:]
    assert sorted(row["number"] for row in lake.rows("parsed")) == stream.numbers


def test_table_named_by_a_value_in_its_rows_is_filled_by_a_batch_that_others_hold(
    spark: SparkSession, stream: FlightStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill between two tables: of no row, such a transform makes no table."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "by_carrier.py").write_text(
        "def tables(flights):\n"
        "    carriers = [row.carrier for row in flights.select('carrier').distinct().collect()]\n"
        "    return {carrier.lower(): flights.where(flights.carrier == carrier) for carrier in carriers}\n"
    )
    lake = Lake(spark, stream, tmp_path, Sink.DELTA)
    lake.load(20, "by_carrier:tables")
    shutil.rmtree(lake.output / "aa")
    lake.forget_batches(1)
    lake.load(0, "by_carrier:tables")
    numbers = (row["number"] for name in ("aa", "ua", "wn") for row in lake.rows(name))
    assert sorted(numbers) == stream.numbers


@explores
def test_table_that_was_left_out_for_a_while_is_refused_only_when_it_comes_back(
    spark: SparkSession, stream: FlightStream, tmp_path: Path
) -> None:
    lake = Lake(spark, stream, tmp_path, Sink.PARQUET)
    lake.load(5)
    for _ in range(2):
        lake.load(5, transform=None, schema=None)
    with pytest.raises(PySparkException, match=r"setting checkpoint = .*it is ahead of table parsed, which holds"):
        lake.load(5)
    lake.load(5, transform=None, schema=None)
    assert Counter(row["data"] for row in lake.rows("raw")) == Counter(stream.produced)


def test_a_sink_of_ones_own_writes_each_row_once_after_a_restored_checkpoint(
    spark: SparkSession, stream: FlightStream, tmp_path: Path
) -> None:
    written: list[bytes] = []
    held: dict[str, str] = {}

    def write(rows: DataFrame, _batch: int) -> None:
        new = unwritten(rows, held)
        written.extend(bytes(row["data"]) for row in new.collect())
        held.update(further(held, positions_of(new)))

    def load(flights: int) -> None:
        stream.produce(flights)
        time.sleep(1.1)
        rows = spark.readStream.format("sublet").options(stream=stream.name, availableNow="true").load()
        drain(rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint")).start())

    load(20)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    load(20)
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "copy", tmp_path / "checkpoint")
    load(20)
    assert Counter(written) == Counter(stream.produced)


def test_positions_are_ordered_by_number_and_shards_apart(spark: SparkSession) -> None:
    """Sequence numbers differ in length, and shards of two streams may have one name."""
    schema = "stream string, shardId string, sequenceNumber string, subSequenceNumber bigint"
    rows = spark.createDataFrame(
        [("a", "0", "9", 0), ("a", "0", "10", 0), ("a", "0", "10", 1), ("b", "0", "8", 4), ("a", "1", "7", 0)], schema
    )
    held = positions_of(rows)
    assert held == {"a/0": "10:1", "b/0": "8:4", "a/1": "7"}
    assert unwritten(rows, held).count() == 0
    left = unwritten(rows, {"a/0": "10", "b/0": "8:3"}).collect()
    assert sorted((row.stream, row.shardId, row.subSequenceNumber) for row in left) == [
        ("a", "0", 1),
        ("a", "1", 0),
        ("b", "0", 4),
    ]
    assert further(held, {"a/0": "9", "b/0": "80"}) == {"a/0": "10:1", "b/0": "80", "a/1": "7"}
