"""The source in a Spark Declarative Pipeline: `spark-pipelines run` on tables that read the stream."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from sublet.spark.release import HAS_READ_LIMITS, ONE_BATCH_ALONE

from infra.local import EmbeddedAws
from tests.spark.flight_events import MISFITS, FlightStream, carriers, flight
from tests.spark.kinesis_stream import BusyStream
from tests.spark.processes import kill_session

pytest.importorskip("pyspark.pipelines", reason="Spark 4.1 has declarative pipelines")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipeline"
OUTLIVING = ("--conf", "spark.sql.catalogImplementation=hive")
"""A catalog that knows the previous run's tables. It cannot hold the example's, whose partition columns have
capitals.
"""
SPEC = """
name: orders
storage: file://{folder}/storage
libraries:
  - glob:
      include: tables/**
"""
TABLES = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession


@dp.table(format="parquet")
def raw():
    return SparkSession.active().readStream.format("sublet").option("stream", "{stream}").load()
"""


def run_pipeline(aws: EmbeddedAws, folder: Path, *conf: str) -> str:
    """Returns its output."""
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        **aws.environment,
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    with subprocess.Popen(
        [
            *(str(programs / "spark-pipelines"), "run", "--spec", "spark-pipeline.yml"),
            *("--conf", "spark.ui.enabled=false", *conf),
        ],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as pipeline:
        try:
            said, _ = pipeline.communicate(timeout=300)
        finally:
            kill_session(pipeline.pid)
    assert pipeline.returncode == 0, said[-3000:]
    return said


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_run_continues_where_the_last_ended(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    """Each continues where the previous one ended. On a release whose runs are one batch, children of a reshard wait
    for the next."""
    stream = BusyStream(embedded_aws.client("kinesis"), f"pipeline-{os.getpid()}", 4)
    (tmp_path / "tables").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path))
    (tmp_path / "tables" / "raw.py").write_text(TABLES.format(stream=stream.name))

    def data() -> list[bytes]:
        files = [str(file) for file in (tmp_path / "spark-warehouse").rglob("*.parquet")]
        found: list[bytes] = ds.dataset(files).to_table(columns=["data"]).column("data").to_pylist()
        return sorted(found, key=int)

    stream.produce()
    before_the_reshard = stream.produced.copy()
    stream.reshard()  # by this seed a merge of both shards
    stream.produce()
    said = run_pipeline(embedded_aws, tmp_path, *OUTLIVING)
    assert data() == (stream.produced if HAS_READ_LIMITS else before_the_reshard)
    assert (ONE_BATCH_ALONE in said) == (not HAS_READ_LIMITS)
    stream.produce()
    run_pipeline(embedded_aws, tmp_path, *OUTLIVING)
    assert data() == stream.produced


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_the_pipelines_tables_declared(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    """The example unchanged, except for the stream's name and the storage."""
    stream = FlightStream(embedded_aws.client("kinesis"), f"declared-{os.getpid()}")
    stream.produce(60)
    shutil.copytree(EXAMPLE, tmp_path / "example")
    folder = tmp_path / "example" / "declarative"
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text().replace("sublet.stream: flights", f"sublet.stream: {stream.name}")
    spec.write_text(text.replace("/var/lib/flights", str(tmp_path)))
    run_pipeline(embedded_aws, folder)

    def rows(table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            ds.dataset(folder / "spark-warehouse" / table, partitioning="hive").to_table().to_pylist()
        )
        return found

    assert Counter(row["data"] for row in rows("raw")) == Counter(stream.produced)
    assert sorted(row["number"] for row in rows("parsed")) == stream.numbers
    assert {row["data"]: row["reason"] for row in rows("rejected")} == MISFITS
    found = {row["carrier"]: (row["flights"], row["departure_delay"], row["arrival_delay"]) for row in rows("carriers")}
    figures = carriers(stream.numbers)
    assert found == {name: (of[0], of[2], of[4]) for name, of in figures.items()}


def put_flights(client: Any, stream: str, scheduled: str, numbers: range, shard: int) -> None:
    """Flights of one time, all in one of the stream's two shards."""
    events = [json.dumps(json.loads(flight(number)) | {"scheduled": scheduled}) for number in numbers]
    records = [{"Data": event.encode(), "PartitionKey": "x", "ExplicitHashKey": str(shard << 127)} for event in events]
    assert client.put_records(StreamName=stream, Records=records)["FailedRecordCount"] == 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_idle_shard_does_not_hold_up_the_days_of_the_others(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    """A day that both shards have flights of ends, although one of them is silent from then on."""
    client, name = embedded_aws.client("kinesis"), f"by-day-{os.getpid()}"
    client.create_stream(StreamName=name, ShardCount=2)
    client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    shutil.copytree(EXAMPLE, tmp_path / "example")
    folder = tmp_path / "example" / "daily"
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text().replace("sublet.stream: flights", f"sublet.stream: {name}")
    spec.write_text(text.replace("/var/lib/flights", str(tmp_path)))

    def daily() -> dict[tuple[str, str], tuple[int, int]]:
        files = [str(file) for file in (folder / "spark-warehouse" / "daily").rglob("*.parquet")]
        found = ds.dataset(files).to_table().to_pylist() if files else []
        days = [((str(row["day"]), row["carrier"]), (row["flights"], row["departure_delay"])) for row in found]
        assert len(dict(days)) == len(days), "a day twice"
        return dict(days)

    def expected(day: str, numbers: range) -> dict[tuple[str, str], tuple[int, int]]:
        return {(day, carrier): (of[0], of[2]) for carrier, of in carriers(list(numbers)).items()}

    for shard in (0, 1):
        put_flights(client, name, "2026-01-01T12:00", range(shard * 30, shard * 30 + 30), shard)
    run_pipeline(embedded_aws, folder, *OUTLIVING)
    assert daily() == {}
    put_flights(client, name, "2026-01-02T06:01", range(60, 90), 0)
    run_pipeline(embedded_aws, folder, *OUTLIVING)
    assert daily() == {}, "the next run writes what the watermark has passed"
    run_pipeline(embedded_aws, folder, *OUTLIVING)
    assert daily() == expected("2026-01-01", range(60))
