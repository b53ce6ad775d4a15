"""`sublet pause`, `drain`, `release` and `resume` beside a `sublet run`, started as an operator would, on an AWS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import boto3
import pytest
from sublet.operate.cli.main import main
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table
from tests.exploring import explores

pytestmark = [pytest.mark.emulator, pytest.mark.slow]

HANDLER = """
def handle(batch):
    with open("handled", "ab") as handled:
        for record in batch.records:
            handled.write(record.data + b" ")
"""

PATIENCE = 60

TICKS = 5
"""Seconds in which a process has ticked: every two thirds of its failover_time."""


class Said(NamedTuple):
    out: str
    err: str


@dataclass
class Application:
    """A `sublet run` on a stream of one shard, and the operator's commands beside it."""

    name: str
    environment: dict[str, str]
    folder: Path
    captured: pytest.CaptureFixture[str]
    worker: subprocess.Popen[bytes] | None = None
    """The first process."""

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "sublet",
                "run",
                "--application",
                self.name,
                "--stream",
                self.name,
                "--handler",
                "orders:handle",
                "--failover-time",
                "6s",
                "--heartbeat-interval",
                "2s",
            ],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def run(self, *arguments: str, code: int = 0) -> Said:
        """In this process: Python's start takes longer than most commands."""
        self.captured.readouterr()
        done = main([*arguments, "--application", self.name])
        said = Said(*self.captured.readouterr())
        assert done == code, said.err
        return said

    def put(self, data: str) -> None:
        boto3.client("kinesis").put_record(StreamName=self.name, Data=data.encode(), PartitionKey="a")

    def handled(self) -> str:
        file = self.folder / "handled"
        return file.read_text().strip() if file.exists() else ""

    def owner(self) -> str | None:
        row = boto3.client("dynamodb").get_item(
            TableName=self.name, Key={"leaseKey": {"S": "shardId-000000000000"}}, ConsistentRead=True
        )
        owner = row["Item"].get("leaseOwner", {}).get("S")
        return None if owner is None else str(owner)


class Overheard(StringIO):
    """Keeps what is said, and acts as soon as something is."""

    def __init__(self, what: str, act: Callable[[], object]) -> None:
        super().__init__()
        self._what, self._act = what, act

    def write(self, text: str) -> int:
        if self._what in text:
            self._act()
        return super().write(text)


def wait_until(what: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.fixture
def application(
    embedded_aws: EmbeddedAws,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Application:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    name = f"orders-{uuid.uuid4().hex[:8]}"
    kinesis = boto3.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    (tmp_path / "orders.py").write_text(HANDLER)
    return Application(name, {"PATH": os.environ["PATH"], **embedded_aws.environment}, tmp_path, capsys)


@pytest.fixture
def running(application: Application) -> Iterator[Application]:
    process = application.worker = application.start()
    try:
        application.put("first")
        wait_until(lambda: application.handled() == "first")
        yield application
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def test_records_wait_while_paused_and_are_handled_when_resumed(running: Application) -> None:
    said = json.loads(running.run("pause", "--json").out)
    assert said["order"] == "pause"
    assert list(said["held"]) == ["shardId-000000000000"]
    wait_until(lambda: running.owner() is None)
    running.put("second")
    time.sleep(TICKS)
    assert running.handled() == "first"
    assert "is over" in running.run("resume").out
    wait_until(lambda: running.handled() == "first second")
    assert "nothing of" in running.run("resume").out


def test_a_drain_before_a_deployment_waits_until_everything_is_released(running: Application) -> None:
    """The worker stands still until the command has seen that it holds the lease: it might read the order before."""
    worker = running.worker
    assert worker is not None
    said = Overheard("still held", lambda: worker.send_signal(signal.SIGCONT))
    worker.send_signal(signal.SIGSTOP)
    try:
        with redirect_stderr(said):
            drained = running.run("drain", "--timeout", "60s")
    finally:
        worker.send_signal(signal.SIGCONT)
    assert drained.out.strip() == f"{running.name}: drain of 1 lease, none held"
    assert "1 still held: shardId-000000000000 by" in said.getvalue()
    assert running.owner() is None
    running.put("second")
    new = running.start()  # the deployment
    try:
        time.sleep(TICKS)
        assert running.handled() == "first"
        running.run("resume")
        wait_until(lambda: running.handled() == "first second")
    finally:
        new.send_signal(signal.SIGTERM)
        new.wait(PATIENCE)


@explores
def test_a_lease_is_released_and_taken_again(running: Application) -> None:
    released = running.run("release", "shardId-000000000000", "--failover-time", "6s")
    assert released.out.strip() == f"{running.name}: no worker holds shardId-000000000000"
    running.put("second")
    wait_until(lambda: running.handled() == "first second")


def test_pause_drain_and_release_are_refused_where_java_owns_or_nothing_is_there(application: Application) -> None:
    assert f"there is no table {application.name}-sightings" in application.run("pause", code=2).err
    create_table(boto3.client("dynamodb"), application.name, "leaseKey")
    create_table(boto3.client("dynamodb"), f"{application.name}-sightings", "chunk")
    row = encode_row(Lease("shardId-000000000000", TRIM_HORIZON, 7, "host:java-1"))
    boto3.client("dynamodb").put_item(TableName=application.name, Item=row)
    for command in (("pause",), ("drain",), ("release", "shardId-000000000000")):
        assert "holds shardId-000000000000 by host:java-1" in application.run(*command, code=2).err
    assert "no unfinished lease of shardId-9" in application.run("pause", "--shard", "shardId-9", code=2).err
    assert "is in the past: give a later end" in application.run("pause", "--until", "2020-01-01T00:00:00Z", code=2).err
