"""The embedded AWS provides what the other tests rely on: true resharding, conditions, loopback only, nothing left."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from infra.local import EmbeddedAws, ServerFailed
from infra.local.embedded import ROOT
from infra.local.server import running

pytestmark = pytest.mark.emulator

LIMIT = 20.0


def test_a_split_closes_the_parent_keeps_its_records_and_names_the_children(
    embedded_aws: EmbeddedAws,
) -> None:
    kinesis = embedded_aws.client("kinesis")
    stream = "split-me"
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    until_active(kinesis, stream)
    kinesis.put_record(StreamName=stream, PartitionKey="a", Data=b"before the split")
    kinesis.split_shard(StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**127))
    until_active(kinesis, stream)
    kinesis.put_record(StreamName=stream, PartitionKey="a", Data=b"after the split")

    iterator = kinesis.get_shard_iterator(
        StreamName=stream, ShardId="shardId-000000000000", ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    records, children = read_to_the_end(kinesis, iterator)

    assert [record["Data"] for record in records] == [b"before the split"]
    assert {child["ShardId"] for child in children} == {"shardId-000000000001", "shardId-000000000002"}
    assert all(child["ParentShards"] == ["shardId-000000000000"] for child in children)
    assert len(records[0]["SequenceNumber"]) >= 50, "a real Kinesis sequence number, which no 64 bits hold"


def test_a_refused_condition_returns_the_row_that_refused_it(embedded_aws: EmbeddedAws) -> None:
    dynamodb = embedded_aws.client("dynamodb")
    dynamodb.create_table(
        TableName="conditions",
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    row = {"leaseKey": {"S": "shard-0"}, "leaseCounter": {"N": "7"}}
    dynamodb.put_item(TableName="conditions", Item=row)

    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException) as refused:
        dynamodb.update_item(
            TableName="conditions",
            Key={"leaseKey": {"S": "shard-0"}},
            UpdateExpression="SET leaseCounter = :next",
            ConditionExpression="leaseCounter = :seen",
            ExpressionAttributeValues={":next": {"N": "6"}, ":seen": {"N": "5"}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    assert refused.value.response["Item"] == row


@pytest.mark.skipif(shutil.which("ss") is None, reason="asks `ss` (iproute2) who listens where")
def test_every_listener_is_on_loopback(embedded_aws: EmbeddedAws) -> None:
    ours = {pid for server in embedded_aws.servers for pid in members(server.process_group)}
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    addresses = [line.split()[3] for line in listening.splitlines() if any(f"pid={pid}," in line for pid in ours)]

    assert len(addresses) == 2, "ministack, and what stands before kinesis-local"
    assert all(address.startswith("127.0.0.1:") for address in addresses), addresses


def test_embedded_aws_answers_on_loopback_alone(embedded_aws: EmbeddedAws) -> None:
    """The same from outside, without `ss`: another address of this machine gets no connection."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it only chooses the address we would send from
        except OSError:
            pytest.skip("this machine has no address but loopback")
        outside = probe.getsockname()[0]
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_KINESIS"):
        port = int(embedded_aws.environment[name].rsplit(":", 1)[1])
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect((outside, port))


PROGRAM = """
import sys, time
from infra.local import embedded_aws
with embedded_aws() as aws:
    for server in aws.servers:
        print(server.process_group, server.log.parent, flush=True)
    print("up", flush=True)
    if sys.argv[1] == "wait":
        time.sleep(60)
    if sys.argv[1] == "raise":
        raise RuntimeError("the program's own fault")
"""


@pytest.mark.parametrize(
    ("behaviour", "signal_number"),
    [
        ("finish", None),
        ("raise", None),
        ("wait", signal.SIGINT),
        ("wait", signal.SIGTERM),
        ("wait", signal.SIGKILL),
    ],
)
def test_embedded_aws_leaves_nothing_however_the_program_ends(behaviour: str, signal_number: int | None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, behaviour],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        assert program.stdout is not None
        lines: list[str] = []
        for line in program.stdout:
            if line.strip() == "up":
                break
            lines.append(line)
        if signal_number is not None:
            program.send_signal(signal_number)

    servers = [(int(group), Path(home.strip())) for group, home in (line.split(" ", 1) for line in lines)]
    assert len(servers) == 2
    for group, home in servers:
        eventually(partial(group_ended, group), f"process group {group} has ended")
        eventually(partial(is_gone, home), f"{home} is gone")


def test_children_of_a_server_end_with_it(tmp_path: Path) -> None:
    """Like Lambda's worker processes; even one that ignores SIGTERM."""
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    server = (
        "import http.server, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)"
        ".serve_forever()"
    )
    port = free_port()
    command = [sys.executable, "-c", server, str(port)]
    with running("parent", command, {}, f"http://127.0.0.1:{port}/") as parent:
        assert not group_ended(parent.process_group)
    assert group_ended(parent.process_group)
    assert not parent.log.parent.exists()


def test_a_server_can_be_asked_to_end_before_it_is_waited_for() -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    with running("asked", command, {}, f"http://127.0.0.1:{port}/") as asked:
        asked.end()
        eventually(partial(group_ended, asked.process_group), "it ends while the block goes on")
    assert not asked.log.parent.exists()


def test_a_server_that_dies_is_reported_with_its_last_words() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such option: --colour')"]
    with (
        pytest.raises(ServerFailed, match=r"(?s)broken ended 1 before it was healthy.*no such option: --colour"),
        running("broken", command, {}, f"http://127.0.0.1:{free_port()}/"),
    ):
        raise AssertionError("it was said to be healthy")


def test_make_local_prints_its_exports_and_stops_at_ctrl_c() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "infra.local"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as local:
        assert local.stdout is not None
        assert local.stderr is not None
        while "It is up" not in (said := local.stderr.readline()):
            assert said, "it ended before it was up"
        local.send_signal(signal.SIGINT)
        exported = local.stdout.read()
    assert local.returncode == 0
    assert "export AWS_ENDPOINT_URL=http://127.0.0.1:" in exported
    assert "export AWS_ENDPOINT_URL_KINESIS=http://127.0.0.1:" in exported


def until_active(kinesis: Any, stream: str) -> None:
    def active() -> bool:
        summary = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        return bool(summary["StreamStatus"] == "ACTIVE")

    eventually(active, f"{stream} is active")


def read_to_the_end(kinesis: Any, iterator: str | None) -> tuple[list[Any], list[Any]]:
    records: list[Any] = []
    for _ in range(20):
        page = kinesis.get_records(ShardIterator=iterator)
        records += page["Records"]
        iterator = page.get("NextShardIterator")
        if iterator is None:
            return records, page["ChildShards"]
    raise AssertionError("a closed shard's iterator never ended")


def eventually(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < deadline, f"not within {LIMIT:.0f} s: {what}"
        time.sleep(0.05)


def is_gone(path: Path) -> bool:
    return not path.exists()


def group_ended(group: int) -> bool:
    return not members(group)


def members(group: int) -> set[str]:
    """The running processes of a group, without zombies."""
    processes = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split() for line in processes.splitlines()]
    return {pid for pid, pgid, state in rows if int(pgid) == group and not state.startswith("Z")}


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])
