"""`sublet pipeline` under SIGKILL between the tables of a batch: nothing missing, nothing twice, at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from infra.local import EmbeddedAws
from tests.spark.flight_events import FlightStream
from tests.spark.processes import kill_session

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "pipeline"


def run(aws: EmbeddedAws, moment: int, stream: FlightStream, output: Path) -> int:
    """The exit code of a run that dies at that moment."""
    command = [sys.executable, "-m", "tests.spark.pipeline_program", str(moment), "--available-now"]
    command += ["--stream", stream.name, "--output", str(output), "--option", "maxRecordsPerTrigger=60"]
    command += ["--schema", str(EXAMPLE / "flights.json"), "--transform", "carriers:tables"]
    command += ["--conf", "spark.master=local[2]", "--conf", "spark.ui.enabled=false"]
    environment = {**os.environ, **aws.environment, "PYTHONPATH": f"{ROOT}:{EXAMPLE}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True) as program:
        try:
            return program.wait(timeout=300)
        finally:
            kill_session(program.pid)


def rows(output: Path, table: str) -> list[dict[str, Any]]:
    if not (output / table).exists():
        return []
    found: list[dict[str, Any]] = ds.dataset(output / table, partitioning="hive").to_table().to_pylist()
    return found


def positions(output: Path, table: str) -> Counter[tuple[str, int]]:
    return Counter((row["sequenceNumber"], row["subSequenceNumber"]) for row in rows(output, table))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_between_the_tables_of_a_batch(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    stream = FlightStream(embedded_aws.client("kinesis"), f"killed-{os.getpid()}")
    output = tmp_path / "lake"
    for moment in (1, 3, 4):
        stream.produce(40)
        time.sleep(1.1)
        assert run(embedded_aws, moment, stream, output) == -signal.SIGKILL
        for table in ("raw", "parsed", "rejected"):
            assert set(positions(output, table).values()) <= {1}, "a reader saw a row twice"
    assert run(embedded_aws, -1, stream, output) == 0
    assert Counter(row["data"] for row in rows(output, "raw")) == Counter(stream.produced)
    assert sorted(row["number"] for row in rows(output, "parsed")) == stream.numbers
    assert positions(output, "raw") == positions(output, "parsed") + positions(output, "rejected")
    assert sum(row["flights"] for row in rows(output, "carriers")) == len(stream.numbers)
    assert len({row["batch"] for row in rows(output, "raw")}) >= 3
