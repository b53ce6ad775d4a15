"""`sublet pipeline` killed at drawn moments, its checkpoint set back, cut short, forged and emptied between runs, its
options changed, its shards split and merged: each record once in `raw`, and once in `parsed` or `rejected`.

TORTURE_SEED, TORTURE_RUNS and TORTURE_RECORDS (by run) draw other and longer ones: 60,000 records are
`TORTURE_RUNS=40 TORTURE_RECORDS=1500`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from infra.local import EmbeddedAws
from tests.exploring import explores
from tests.spark.kinesis_stream import BusyStream
from tests.spark.local_session import ROOT
from tests.spark.processes import kill_session
from tests.spark.tortured_program import KILLED

SEED = int(os.environ.get("TORTURE_SEED", "1"))
RUNS = int(os.environ.get("TORTURE_RUNS", "3"))
RECORDS = int(os.environ.get("TORTURE_RECORDS", "60"))
SCHEMA = "id BIGINT NOT NULL, note STRING"


class JsonStream(BusyStream):
    """Numbers its records as JSON objects, of which every ninth does not fit the schema."""

    def _number(self) -> bytes:
        number = len(self.produced)
        self.produced.append(json.dumps({"id": f"{number}" if number % 9 == 4 else number, "note": "n"}).encode())
        return self.produced[-1]

    def produce_many(self, records: int) -> None:
        until = len(self.produced) + records
        while len(self.produced) < until:
            self.produce()


class TorturedLake:
    """A lake, and what may happen to it between two runs. Each is drawn by `chance`, and printed."""

    def __init__(self, aws: EmbeddedAws, folder: Path, sink: str, seed: int) -> None:
        self.aws, self.folder, self.sink, self.chance = aws, folder, sink, Random(seed)
        self.stream = JsonStream(aws.client("kinesis"), f"tortured-{sink}-{os.getpid()}", seed)
        self.output = str(folder / "lake")
        self.checkpoint, self.copy = folder / "checkpoint", folder / "copy"
        self.counts: Counter[str] = Counter()

    def run(self, step: int = -1, victim: str = "all") -> tuple[int, str]:
        limit = self.chance.choice(["maxRecordsPerTrigger=40", "maxBytesPerTrigger=4000", "maxSpanPerTrigger=1m"])
        tasks = self.chance.choice(["1", "2", "5"])
        partitions = self.chance.choice(["arrivalDate", "none", "arrivalDate,shardId"])
        command = [sys.executable, "-m", "tests.spark.tortured_program", str(step), victim, "--available-now"]
        command += ["--stream", self.stream.name, "--output", self.output, "--checkpoint", str(self.checkpoint)]
        command += ["--sink", self.sink, "--schema", SCHEMA, "--partition-by", partitions]
        command += ["--option", limit, "--option", f"maxPartitions={tasks}", "--option", "patience=20s"]
        conf = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        print(f"  run: step {step} of {victim}, {limit}, {tasks} tasks, by {partitions}", flush=True)
        environment = {**os.environ, **self.aws.environment, "PYTHONPATH": str(ROOT)}
        with (
            (self.folder / "stderr").open("w") as errors,
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as program,
        ):
            try:
                said, _ = program.communicate(timeout=400)
            finally:
                kill_session(program.pid)
        self.counts["killed"] += KILLED in said.splitlines()
        return program.returncode, (self.folder / "stderr").read_text()

    def rows(self, table: str) -> Counter[tuple[object, ...]]:
        names = ["stream", "shardId", "sequenceNumber", "subSequenceNumber"]
        place = self.folder / "lake" / table
        if not place.exists() or (self.sink == "delta" and not DeltaTable.is_deltatable(str(place))):
            return Counter()
        found: Any
        if self.sink == "delta":
            found = DeltaTable(str(place)).to_pyarrow_table(columns=names)
        else:
            found = ds.dataset(place, partitioning="hive").to_table(names)
        return Counter(tuple(row[name] for name in names) for row in found.to_pylist())

    def data(self) -> Counter[bytes]:
        place = self.folder / "lake" / "raw"
        if self.sink == "delta":
            found = DeltaTable(str(place)).to_pyarrow_table(columns=["data"])
        else:
            found = ds.dataset(place, partitioning="hive").to_table(["data"])
        return Counter(found.column("data").to_pylist())

    def assert_never_twice(self) -> None:
        for table in ("raw", "parsed", "rejected"):
            assert set(self.rows(table).values()) <= {1}, f"{table} has a row twice"

    def assert_each_once(self) -> None:
        raw, wanted = self.rows("raw"), len(self.stream.produced)
        assert len(raw) == wanted, f"missing {wanted - len(raw)}"
        assert set(raw.values()) == {1}
        assert raw == self.rows("parsed") + self.rows("rejected")
        assert self.data() == Counter(self.stream.produced)

    def batches(self, log: str) -> list[int]:
        folder = self.checkpoint / log
        return sorted(int(file.name) for file in folder.iterdir() if file.name.isdecimal()) if folder.exists() else []

    def remove(self, log: str, batch: int) -> None:
        (self.checkpoint / log / str(batch)).unlink(missing_ok=True)
        (self.checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)

    def touch(self) -> None:
        """Does something to the checkpoint or the stream, or maintains the tables."""
        touches = [self.keep_copy, self.put_copy_back, self.cut_short, self.uncommit, self.empty, self.stream.reshard]
        if self.sink == "delta":
            touches.append(self.maintain)
        touch = self.chance.choice(touches)
        self.counts[touch.__name__] += 1
        print(f"  {touch.__name__}", flush=True)
        touch()

    def keep_copy(self) -> None:
        if self.checkpoint.exists():
            shutil.rmtree(self.copy, ignore_errors=True)
            shutil.copytree(self.checkpoint, self.copy)

    def put_copy_back(self) -> None:
        if self.copy.exists():
            shutil.rmtree(self.checkpoint, ignore_errors=True)
            shutil.copytree(self.copy, self.checkpoint)

    def cut_short(self) -> None:
        """The last batches are removed, to have them read again."""
        offsets = self.batches("offsets")
        for batch in offsets[-self.chance.randint(1, 3) :]:
            for log in ("offsets", "commits"):
                self.remove(log, batch)

    def uncommit(self) -> None:
        """The last commit is removed: its batch comes again."""
        for batch in self.batches("commits")[-1:]:
            if batch == self.batches("offsets")[-1]:
                self.remove("commits", batch)

    def empty(self) -> None:
        """All batches are removed, to have everything read again."""
        for log in ("offsets", "commits"):
            shutil.rmtree(self.checkpoint / log, ignore_errors=True)

    def maintain(self) -> None:
        from sublet.spark.pipeline.deltalake_lake import DeltalakeLake
        from sublet.spark.pipeline.maintain_command import MaintainSettings
        from sublet.spark.pipeline.maintaining import maintain
        from sublet.spark.pipeline.settings import Sink
        from sublet.system.clock import SystemClock

        from tests.spark.test_maintain import LocalFiles

        day = timedelta(days=1)
        if not (self.folder / "lake").exists():
            return
        lake = DeltalakeLake(None, LocalFiles(), self.output)  # type: ignore[arg-type]
        given = MaintainSettings(
            output=self.output,
            sink=Sink.DELTA,
            retention=day,
            tombstone_retention=day,
            target_size=2**27,
            dry_run=False,
            spark={},
        )
        maintain(lake, given, SystemClock(), print)

    def forge_commit(self) -> int | None:
        """The batch that was cut off is said to be committed, which skips it. Its number; None if there is none."""
        offsets, commits = self.batches("offsets"), self.batches("commits")
        if not commits or offsets[-1] <= commits[-1]:
            return None
        shutil.copy(self.checkpoint / "commits" / str(commits[-1]), self.checkpoint / "commits" / str(offsets[-1]))
        return offsets[-1]

    def take_back_commit(self, batch: int) -> None:
        """And what Spark has planned after it."""
        self.remove("commits", batch)
        for later in self.batches("offsets"):
            if later > batch:
                self.remove("offsets", later)


@pytest.mark.slow
@explores
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", ["parquet", "delta"])
def test_each_record_is_written_once_whatever_is_killed_and_touched(
    embedded_aws: EmbeddedAws, tmp_path: Path, sink: str
) -> None:
    print(f"seed {SEED}")
    lake = TorturedLake(embedded_aws, tmp_path, sink, SEED)
    for number in range(RUNS):
        lake.stream.produce_many(RECORDS)
        if lake.chance.random() < 0.5:
            lake.stream.reshard()
            lake.stream.produce()
        time.sleep(1.1)  # available is what arrived before the run began, by the second
        code, said = lake.run(lake.chance.randrange(1, 40), lake.chance.choice(["all", "all", "jvm", "workers"]))
        print(f"  ended with {code}", flush=True)
        assert code in (-9, 0, 1), said[-2000:]
        lake.assert_never_twice()
        if (forged := lake.forge_commit()) is not None:
            lake.counts["forge_commit"] += 1
            lake.stream.produce()
            time.sleep(1.1)
            code, said = lake.run()
            if code:
                print("  refused:", [line for line in said.splitlines() if "is ahead of table" in line][:1], flush=True)
                assert "it is ahead of table" in said, said[-3000:]
                lake.take_back_commit(forged)
                lake.counts["refused"] += 1
        if number % 3 == 2:
            code, said = lake.run()
            assert code == 0, said[-3000:]
            lake.assert_each_once()
        lake.touch()
    code, said = lake.run()
    assert code == 0, said[-3000:]
    lake.assert_each_once()
    print(f"{sink}: {len(lake.stream.produced)} records, {dict(lake.counts)}")
    assert lake.counts["killed"]
