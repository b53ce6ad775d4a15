"""A short `make demo-spark`, as a user runs it: to Spark and back, and nothing left running."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.spark.lake import FIGURES, Lake, runs
from tests.e2e.demo_process import ROOT, demo_process

started_demo = partial(demo_process, str(ROOT / ".venv" / "bin" / "python"), "demo.spark")
"""In the demo's own environment; Spark's is only for Spark."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_thousand_events_go_to_spark_and_back_and_the_proof_holds(tmp_path: Path) -> None:
    picture, lake = tmp_path / "demo.svg", tmp_path / "lake"
    with started_demo(tmp_path / "output", "--svg", str(picture), "--keep", str(lake)) as demo:
        assert demo.wait(880) == 0, demo.said
    assert "20,000 of 20,000 events handled" in demo.said
    assert "0 events missing" in demo.said
    assert "0 events handled twice" in demo.said
    assert "shard 1 is split into 4 and 5" in demo.said
    assert "shards 2 and 3 are merged into 6" in demo.said
    assert "it has ended, and holds 0 leases" in demo.said
    assert picture.read_text().startswith("<svg")
    kept = Lake(lake).flights()
    assert kept["raw"] == sum(last - first + 1 for of in kept["keys"].values() for first, last in of)
    assert sum(figures[0] for figures in kept["carriers"].values()) == kept["raw"] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ctrl_c_while_spark_holds_the_leases_leaves_nothing_running(tmp_path: Path) -> None:
    with started_demo(tmp_path / "output") as demo:
        demo.wait_until_it_says("flights-spark has every lease", within=500)
        running = demo.processes().values()
        assert any("java" in what for what in running)
        assert any("python_streaming_source_runner" in what for what in running)
        demo.stop(signal.SIGINT)


def test_demo_without_java_says_so_in_a_sentence(tmp_path: Path) -> None:
    with started_demo(tmp_path / "output", JAVA_HOME=str(tmp_path)) as demo:
        assert demo.wait(60) == 1
    assert demo.said == (
        f"make demo-spark needs Java 17 or newer (any vendor's runtime will do); JAVA_HOME is {tmp_path}, where none "
        "runs.\n"
    )


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    with started_demo(tmp_path / "output", "--keep", str(tmp_path)) as demo:
        assert demo.wait(60) == 1
    assert "is no empty folder" in demo.said


def test_lake_reports_runs_by_key_in_batch_order(tmp_path: Path) -> None:
    def put(table: str, batch: int, rows: list[dict[str, object]]) -> None:
        folder = tmp_path / table / "arrivalDate=2026-01-31"
        folder.mkdir(parents=True, exist_ok=True)
        whence = {"shardId": "shardId-000000000000", "batch": batch}
        pq.write_table(pa.Table.from_pylist([{**row, **whence} for row in rows]), folder / f"part-{batch}.parquet")

    for batch, numbers in enumerate(([1, 2], [4, 3], [7])):
        put("raw", batch, [{"data": b"x"} for _ in numbers])
        put("parsed", batch, [{"key": "N1", "number": number} for number in numbers])
        put("carriers", batch, [{"carrier": "UA", **dict.fromkeys(FIGURES, len(numbers))}])
    lake = Lake(tmp_path)
    assert lake.rows() == {"shardId-000000000000": 5}
    assert lake.flights() == {"raw": 5, "rejected": 0, "keys": {"N1": [[1, 4], [7, 7]]}, "carriers": {"UA": [5] * 5}}
    assert runs([("N1", 4), ("N1", 3), ("N1", 4)]) == {"N1": [[4, 4], [3, 4]]}, "in the order given"
