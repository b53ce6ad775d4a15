"""Exactly once on Spark itself, under SIGKILLs at random moments, while data flows and shards split and merge."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from infra.local import EmbeddedAws
from tests.spark.kinesis_stream import BusyStream
from tests.spark.processes import kill_session, python_workers

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("SPARK_KILLS", "20"))
WHOLE = 6
"""One kill in this many hits the JVM and everything; the others hit one Python process: a task's, or the source's on
the driver."""


class Program:
    """The query's program, its output, and its end."""

    def __init__(self, aws: EmbeddedAws, folder: Path, stream: str, *options: str) -> None:
        environment = {
            **os.environ,
            **aws.environment,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "tests.spark.query_program", str(folder), stream, *options]
        self.words: queue.Queue[tuple[str, str]] = queue.Queue()
        self._errors = (folder / "stderr").open("ab")
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.startswith('["'):
                    self.words.put(tuple(json.loads(line)))
        self.words.put(("ended", ""))

    def kill(self) -> None:
        kill_session(self.process.pid)
        self.wait()

    def wait(self) -> int:
        code = self.process.wait(timeout=600)
        self._errors.close()
        return code


class Killing:
    """A query that is killed and started again and again."""

    def __init__(self, aws: EmbeddedAws, folder: Path, stream: BusyStream, chance: Random) -> None:
        self.aws, self.folder, self.stream, self.chance = aws, folder, stream, chance
        self.kills: Counter[str] = Counter()
        self.said: Counter[str] = Counter()
        self.program = Program(aws, folder, stream.name)

    def until_batch(self) -> None:
        """Wait until a batch is written; start the program again if it has died by itself."""
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            what, detail = self.program.words.get(timeout=240)
            self.said[what] += 1
            assert what != "different", detail
            if what == "batch":
                return
            if what == "dying":
                self.kills[detail] += 1
            if what == "ended":
                self.program.wait()
                self.program = Program(self.aws, self.folder, self.stream.name)
        raise AssertionError(f"no batch in 240 s:\n{(self.folder / 'stderr').read_text()[-3000:]}")

    def kill_once(self) -> None:
        self.until_batch()
        print(dict(self.kills), dict(self.said), flush=True)
        time.sleep(self.chance.uniform(0, 1.5))
        workers = python_workers(self.program.process.pid)
        if self.chance.randrange(WHOLE) == 0 or not workers:
            self.kills["everything"] += 1
            self.program.kill()
            self.program = Program(self.aws, self.folder, self.stream.name)
        else:
            self.kills["a Python process"] += 1
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(workers), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_killed_query_loses_and_repeats_nothing(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    seed = int(os.environ.get("SPARK_SEED", "20260131"))
    print(f"seed {seed}")
    (tmp_path / "batches").mkdir()
    stream = BusyStream(embedded_aws.client("kinesis"), "killed", seed)
    stream.produce()
    killing = Killing(embedded_aws, tmp_path, stream, Random(seed))
    producer = threading.Thread(target=stream.run, args=(6.0,), daemon=True)
    producer.start()
    try:
        while killing.kills.total() < KILLS or not {"parent_end", "first_child"} <= killing.kills.keys():
            killing.kill_once()
    finally:
        stream.stop()
        producer.join()
        killing.program.kill()
    while Program(embedded_aws, tmp_path, stream.name, "--drain").wait() == -signal.SIGKILL:
        pass
    print(dict(killing.kills), dict(killing.said), f"{len(stream.produced)} records")
    rows = [
        data
        for file in (tmp_path / "batches").glob("*.parquet")
        for data in pq.read_table(file).column("data").to_pylist()
    ]
    times = Counter(rows)
    assert times.keys() - set(stream.produced) == set(), "rows that were not produced"
    assert [data for data in stream.produced if data not in times] == [], "missing"
    assert [data for data, count in times.items() if count > 1] == [], "twice"
