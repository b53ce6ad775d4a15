"""`leases=hold` on Spark itself: however a query ends, the next owner continues exactly after its last commit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.handlers.batch import HandlerFunctions
from sublet.protocol.lease import Lease
from sublet.runtimes.process import ConsumerProcess
from sublet.settings import Settings
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import memory_ports

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table
from tests.exploring import explores
from tests.spark.kinesis_stream import BusyStream
from tests.spark.processes import kill_session

ROOT = Path(__file__).resolve().parents[2]
SECOND = timedelta(seconds=1)


CONNECT_CLIENT = """
import sys
from pyspark.sql import SparkSession

stream, folder = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
query = (
    spark.readStream.format("sublet")
    .options(stream=stream, application=stream, leases="hold", failoverTime="6s", checkpointLocation=folder +
    "/checkpoint") .load().writeStream.format("parquet").option("path", folder + "/rows")
    .option("checkpointLocation", folder + "/checkpoint").start()
)
query.processAllAvailable()
print("stream", spark.read.parquet(folder + "/rows").select("data").distinct().count())
query.stop()
spark.stop()
"""


class World:
    """A stream, an application's lease table, and the programs and fleets that share them."""

    def __init__(self, aws: EmbeddedAws, folder: Path, name: str, seed: int = 7) -> None:
        self.aws, self.folder, self.name = aws, folder, f"{name}-{os.getpid()}"
        print(f"seed {seed}")
        self.stream = BusyStream(aws.client("kinesis"), self.name, seed)
        create_table(aws.client("dynamodb"), self.name, "leaseKey")
        create_table(aws.client("dynamodb"), f"{self.name}-sightings", "chunk")
        self.table = DynamoDbLeaseTable(aws.client("dynamodb"), self.name)
        self.by_fleet: list[bytes] = []
        (folder / "batches").mkdir(exist_ok=True)

    def spark(self, ending: str, *trigger: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            **self.aws.environment,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        command = [
            sys.executable,
            "-m",
            "tests.spark.hold_program",
            str(self.folder),
            self.name,
            self.name,
            ending,
        ]
        with (self.folder / "stderr").open("ab") as errors:
            return subprocess.Popen(
                [*command, *trigger],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def run_spark(self, ending: str, *trigger: str, batches: int = 3) -> list[str]:
        """Until this many batches are written and it has ended as requested. Returns its output."""
        (self.folder / "end").unlink(missing_ok=True)
        program = self.spark(ending, *trigger)
        said: list[str] = []
        try:
            assert program.stdout is not None
            with program.stdout as lines:
                for line in lines:
                    said.append(line)
                    print(line, end="", flush=True)
                    if sum(line.startswith('["batch"') for line in said) == batches:
                        (self.folder / "end").touch()
            program.wait(timeout=60)
        finally:
            kill_session(program.pid)
            program.wait()
        return said

    def wait_until_released(self) -> None:
        """Until no lease has an owner: one that is not released keeps its owner when it expires."""
        until = time.monotonic() + 60
        while owned := {lease.lease_key: lease.lease_owner for lease in self.table.scan().leases if lease.lease_owner}:
            assert time.monotonic() < until, owned
            time.sleep(0.05)

    def fleet(self, within: float = 60) -> None:
        """The library's own process, until everything produced so far has been handled."""
        settings = Settings(
            application=self.name,
            stream=self.name,
            worker_id="fleet",
            failover_time=6 * SECOND,
            heartbeat_interval=2 * SECOND,
        )
        kinesis, tasks = self.aws.client("kinesis"), ThreadTasks()
        stop = tasks.signal()
        ports = memory_ports(KinesisStream(kinesis, kinesis, settings), self.table, tasks=tasks)
        process = ConsumerProcess(ports, HandlerFunctions(self._handle), settings, stop)
        running = tasks.spawn(process.run)
        deadline = time.monotonic() + within
        spark = set(self.by_spark())
        while set(self.stream.produced) - spark - set(self.by_fleet) and time.monotonic() < deadline:
            stop.wait(SECOND / 10)
        stop.set()
        running.result()

    def _handle(self, batch: object) -> None:
        self.by_fleet.extend(record.data for record in batch.records)  # type: ignore[attr-defined]

    def by_spark(self) -> list[bytes]:
        """Rows of the batches that Spark has committed; uncommitted ones do not count."""
        commits = {path.name for path in (self.folder / "checkpoint" / "commits").glob("*")}
        files = [f for f in sorted((self.folder / "batches").glob("*.parquet")) if f.stem in commits]
        return [data for file in files for data in pq.read_table(file).column("data").to_pylist()]

    def verdict(self) -> tuple[list[bytes], list[bytes]]:
        """Missing, and repeated."""
        times = Counter(self.by_fleet + self.by_spark())
        assert times.keys() <= set(self.stream.produced)
        missing = [data for data in self.stream.produced if data not in times]
        return missing, [data for data, count in times.items() if count > 1]

    def leases(self) -> dict[str, Lease]:
        return {lease.lease_key: lease for lease in self.table.scan().leases}


class Producing:
    """Data flows, and shards split and merge, until the block ends."""

    def __init__(self, stream: BusyStream, reshard_every: float = 6) -> None:
        self._stream = stream
        self._thread = threading.Thread(target=stream.run, args=(reshard_every,), daemon=True)

    def __enter__(self) -> None:
        self._stream.produce()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stream.stop()
        self._thread.join()


ENDINGS = ["stop", "handler", "task", "spark_stop", "interrupt", "kill_jvm"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ending", ENDINGS)
def test_however_it_ends_in_mid_batch(embedded_aws: EmbeddedAws, tmp_path: Path, ending: str) -> None:
    world = World(embedded_aws, tmp_path, f"ends-{ending.replace('_', '-')}")
    with Producing(world.stream):
        world.run_spark(ending, batches=6)
        world.wait_until_released()
    world.fleet()
    assert world.verdict() == ([], [])
    assert world.by_spark()
    assert world.by_fleet


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_there_and_back(embedded_aws: EmbeddedAws, tmp_path: Path, rounds: int) -> None:
    """The fleet, then a run for what is available, with the same checkpoint in each round; then the fleet. Reshards
    in between."""
    world = World(embedded_aws, tmp_path, f"there-and-back-{rounds}")
    for _ in range(rounds):
        world.stream.produce()
        world.fleet()
        world.stream.produce()
        world.stream.reshard()
        world.stream.produce()
        time.sleep(1)
        world.run_spark("available_now")
        world.wait_until_released()
        assert world.verdict() == ([], [])
    world.stream.produce()
    world.fleet()
    assert world.verdict() == ([], [])
    children = [lease for lease in world.leases().values() if lease.parent_shard_ids]
    assert children
    assert all(lease.checkpoint.is_sequence_number for lease in children), "none was missed at a parent's end"
    assert world.by_fleet


@explores
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "ending", ["kill_jvm", *(pytest.param(each, marks=pytest.mark.slow) for each in ("stop", "stop_blind"))]
)
def test_the_last_batch_is_committed_and_spark_never_says_so(
    embedded_aws: EmbeddedAws, tmp_path: Path, ending: str
) -> None:
    """It waits an hour for its next trigger. Its checkpoint folder has the commit; a query without the folder's
    location repeats the batch."""
    world = World(embedded_aws, tmp_path, f"idle-{ending.replace('_', '-')}")
    world.stream.produce()
    world.run_spark(ending, "1 hour", batches=1)
    world.wait_until_released()
    world.stream.produce()
    world.fleet()
    missing, repeated = world.verdict()
    assert missing == []
    assert sorted(repeated) == (sorted(world.by_spark()) if ending == "stop_blind" else [])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ending", ["kill_reader", "terminate_reader", "kill_everything"])
def test_killed_source_repeats_at_most_the_last_batch(embedded_aws: EmbeddedAws, tmp_path: Path, ending: str) -> None:
    """Its leases expire, or are released before Spark commits the current batch. Nothing is missed."""
    world = World(embedded_aws, tmp_path, f"source-{ending.replace('_', '-')}")
    with Producing(world.stream):
        world.run_spark(ending, batches=4)
        if ending == "terminate_reader":
            world.wait_until_released()
    if ending == "kill_everything":
        assert any(lease.lease_owner for lease in world.leases().values()), "nothing was handed back"
    world.fleet()
    missing, repeated = world.verdict()
    assert missing == []
    last = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").iterdir() if path.name.isdecimal())
    in_last = pq.read_table(tmp_path / "batches" / f"{last}.parquet").column("data").to_pylist()
    assert set(repeated) <= set(in_last)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_runs_of_one_checkpoint_lose_and_repeat_nothing_however_they_end(
    embedded_aws: EmbeddedAws, tmp_path: Path
) -> None:
    """Runs with one checkpoint folder, and the fleet between two of them, while data flows and shards split and
    merge.
    """
    world = World(embedded_aws, tmp_path, "runs")
    with Producing(world.stream, reshard_every=10):
        for ending in ("kill_jvm", "stop", "handler"):
            world.run_spark(ending, batches=3)
            world.wait_until_released()
            world.fleet(within=5)
    world.fleet()
    assert world.verdict() == ([], [])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_query_over_spark_connect_holds_its_leases(embedded_aws: EmbeddedAws, tmp_path: Path) -> None:
    """The source, and so the keeper, is beside the server's driver; the client has only a socket."""
    world = World(embedded_aws, tmp_path, "connect-hold")
    world.stream.produce()
    environment = {**os.environ, **embedded_aws.environment, "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        [sys.executable, "-c", CONNECT_CLIENT, world.name, str(tmp_path)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as client:
        try:
            said, errors = client.communicate(timeout=250)
        finally:
            kill_session(client.pid)
    assert client.returncode == 0, errors[-3000:]
    assert said.split() == ["stream", str(len(world.stream.produced))]
    world.wait_until_released()
    assert all(lease.checkpoint.is_sequence_number for lease in world.leases().values())
    before = len(world.stream.produced)
    world.stream.produce()
    world.fleet()
    assert sorted(world.by_fleet) == sorted(world.stream.produced[before:])
