"""One kclpy record processor behind the KCL's own MultiLangDaemon and behind sublet, on one stream: the same calls.

There is one difference, which is a reason to switch: the daemon skips a batch for which the processor raised.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sublet.protocol.aggregation import aggregate

from infra.local.embedded import ROOT, EmbeddedAws
from infra.local.localstack_host import localstack
from tests.e2e.deliveries import wait_until
from tests.e2e.fleet import HANDLERS
from tests.e2e.multilang_daemon import IS_THERE, daemon, kclpy_in
from tests.e2e.processes import running

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(500),
    pytest.mark.skipif(
        os.environ.get("E2E_AWS") != "localstack" or "E2E_ENDPOINT" in os.environ or not IS_THERE,
        reason="needs the MultiLangDaemon and the Java of LocalStack's environment: run `make e2e-localstack`",
    ),
]

STREAM = "orders"
PARENT, POISONED, OTHER = (f"shardId-00000000000{n}" for n in range(3))
POISON = "poison"
PROGRAM = HANDLERS / "kcl_diary.py"
SECONDS = 240
"""For the daemon, whose first call comes after 20 to 60 of them."""

Line = dict[str, Any]


@dataclass(frozen=True)
class Diary:
    """What the processor wrote, by shard."""

    folder: Path

    def of(self, shard_id: str) -> list[Line]:
        """Until it was told that the lease is gone: while it shuts down, a slow daemon may take one again."""
        file = self.folder / shard_id
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        lost = next((n for n, line in enumerate(lines, 1) if line.get("call") == "lease_lost"), len(lines))
        return lines[:lost]

    def has_done_the_parent(self) -> bool:
        return any("checkpoint" in line for line in self.of(PARENT))

    def is_full(self, calls_with_poison: int) -> bool:
        """The parent has ended, and each child's records have been handled, or failed as often as they came."""
        has_ended = any(line.get("call") == "shard_ended" for line in self.of(PARENT))
        poisoned = [line for line in self.of(POISONED) if line.get("call") == "process_records"]
        is_done = any("checkpoint" in line for line in self.of(OTHER))
        return has_ended and is_done and len(poisoned) == calls_with_poison


@dataclass(frozen=True)
class Run:
    """diary, and where its leases stood at the end"""

    diary: Diary
    checkpoints: Mapping[str, str]


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    """LocalStack, because the daemon speaks only HTTP/2 with Kinesis, which the embedded AWS' proxy does not
    support.
    """
    with localstack() as aws:
        yield aws


def put_to_parent(kinesis: Any) -> None:
    """Twenty records and an aggregate, before any consumer reads: both get them as one batch."""
    kinesis.create_stream(StreamName=STREAM, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=STREAM, WaiterConfig={"Delay": 1})
    records = [{"Data": f"{n}".encode(), "PartitionKey": f"key-{n}"} for n in range(20)]
    users = aggregate([("user", None, f"user {n}".encode()) for n in range(5)])
    kinesis.put_records(StreamName=STREAM, Records=[*records, {"Data": users, "PartitionKey": "user"}])


def split_and_put(kinesis: Any) -> None:
    """Three records to each child, at once: neither consumer goes on to the children before it has seen the parent's
    end."""
    middle = 2**127
    kinesis.split_shard(StreamName=STREAM, ShardToSplit=PARENT, NewStartingHashKey=str(middle))
    wait_until(lambda: len(kinesis.list_shards(StreamName=STREAM)["Shards"]) == 3, 20, lambda: "no children")
    texts = {0: ("20", POISON, "22"), middle: ("23", "24", "25")}
    records = [
        {"Data": text.encode(), "PartitionKey": f"key-{text}", "ExplicitHashKey": str(key)}
        for key, of_child in texts.items()
        for text in of_child
    ]
    kinesis.put_records(StreamName=STREAM, Records=records)


@pytest.fixture(scope="module")
def runs(aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """The runs of the daemon and of sublet, side by side; each ends by SIGTERM."""
    daemons, ours = tmp_path_factory.mktemp("daemon"), tmp_path_factory.mktemp("sublet")
    diaries = [Diary(folder / "diary") for folder in (daemons, ours)]
    for diary in diaries:
        diary.folder.mkdir()
    path = kclpy_in(daemons)
    put_to_parent(aws.client("kinesis"))
    with (
        daemon(aws, STREAM, "by-daemon", PROGRAM, daemon_environment(aws, diaries[0], path), daemons) as java,
        running(sublet_environment(aws, diaries[1], path), ours, "-m", "sublet", "run") as sublet,
    ):
        logs = [folder / "log" for folder in (daemons, ours)]
        wait_until(lambda: all(diary.has_done_the_parent() for diary in diaries), SECONDS, lambda: tails(logs))
        split_and_put(aws.client("kinesis"))
        full = ((diaries[0], 1), (diaries[1], 2))
        wait_until(lambda: all(diary.is_full(calls) for diary, calls in full), SECONDS, lambda: tails(logs))
        for process in (java, sublet):
            ended(process, logs)
    return Run(diaries[0], checkpoints(aws, "by-daemon")), Run(diaries[1], checkpoints(aws, "by-sublet"))


def daemon_environment(aws: EmbeddedAws, diary: Diary, kclpy: Path) -> dict[str, str]:
    """Its endpoints are in its properties: Java's SDK would take the common one for Kinesis too."""
    known = {name: value for name, value in aws.environment.items() if not name.startswith("AWS_ENDPOINT")}
    return {
        **known,
        "PATH": os.environ["PATH"],
        "HOME": str(diary.folder),
        "AWS_CBOR_DISABLE": "1",
        "PYTHONPATH": str(kclpy),
        **program_environment(diary),
    }


def sublet_environment(aws: EmbeddedAws, diary: Diary, kclpy: Path) -> dict[str, str]:
    settings = {
        "application": "by-sublet",
        "stream": STREAM,
        "handler": "kcl_diary:RecordProcessor",
        "handler_contract": "record_processor",
        "mode": "continuous",
        "handler_backoff": "100ms",
    }
    return {
        **aws.environment,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, HANDLERS, kclpy))),
        **program_environment(diary),
        **{f"SUBLET_{name.upper()}": value for name, value in settings.items()},
    }


def program_environment(diary: Diary) -> dict[str, str]:
    return {"DIARY": str(diary.folder), "POISON": POISON}


def ended(process: subprocess.Popen[bytes], logs: list[Path]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (0, 128 + signal.SIGTERM), tails(logs)


def tails(logs: list[Path]) -> str:
    return "\n".join(log.read_text()[-3000:] for log in logs)


def checkpoints(aws: EmbeddedAws, table: str) -> dict[str, str]:
    return {
        row["leaseKey"]["S"]: row["checkpoint"]["S"]
        for row in aws.client("dynamodb").scan(TableName=table)["Items"]
        if "leaseKey" in row and "checkpoint" in row
    }


@pytest.mark.parametrize("shard_id", [PARENT, OTHER])
def test_processor_gets_the_same_calls_from_the_daemon_and_from_sublet(runs: tuple[Run, Run], shard_id: str) -> None:
    """The same calls in the same order with the same records, and the same answer to each checkpoint."""
    daemons, ours = runs
    assert ours.diary.of(shard_id) == daemons.diary.of(shard_id)
    assert calls(ours, shard_id)[:2] == ["initialize", "process_records"]


def test_a_batch_that_it_raises_for_is_swallowed_there_and_comes_again_here(runs: tuple[Run, Run]) -> None:
    daemons, ours = runs
    begin, raised, again, *rest = ours.diary.of(POISONED)
    assert again == raised
    tried = [line for line in rest if "checkpoint" in line][:-1]
    assert [begin, raised, *rest[len(tried) :]] == daemons.diary.of(POISONED)
    assert tried, "of the second time"


@pytest.mark.parametrize("shard_id", [POISONED, OTHER])
def test_sublet_and_the_daemon_end_at_the_same_checkpoint(runs: tuple[Run, Run], shard_id: str) -> None:
    """Also after records that the daemon's processor never handled: its next checkpoint counts them as done. (The
    parent's row may be gone.)"""
    daemons, ours = runs
    last = ours.diary.of(shard_id)[1]["records"][-1]["at"][0]
    assert ours.checkpoints[shard_id] == daemons.checkpoints[shard_id] == last


def calls(run: Run, shard_id: str) -> list[str]:
    return [line["call"] for line in run.diary.of(shard_id) if "call" in line]
