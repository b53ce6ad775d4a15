"""`sublet run` and `sublet leases` as a user starts them, on an AWS with the stream and nothing else."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import boto3
import pytest
from sublet.operate.cli.main import main
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.write_clauses import SEEK_LEAP

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table

pytestmark = pytest.mark.emulator

HANDLER = """
def handle(batch):
    with open("handled", "ab") as handled:
        for record in batch.records:
            handled.write(record.data)
"""


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Sublet = Callable[..., Said]


@pytest.fixture
def aws(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Its environment variables, for this process and for a command."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    return {"PATH": os.environ["PATH"], **embedded_aws.environment}


@pytest.fixture
def sublet(
    aws: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Sublet:
    """A command in this process, in `tmp_path`: Python's start takes longer than most commands."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        return Said(main(arguments), *capsys.readouterr())

    return run


def stream_with_a_record() -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    kinesis = boto3.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    kinesis.put_record(StreamName=name, Data=b"first order", PartitionKey="a")
    return name


def wait_until_the_record_is_older_than_now() -> None:
    """By the service's time, which comes in whole seconds and may be a second or two old."""
    time.sleep(3)


def wait_for(file: Path) -> None:
    until = time.monotonic() + 60
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sublet", *arguments]


def test_run_creates_its_tables_consumes_and_releases_its_leases(aws: dict[str, str], tmp_path: Path) -> None:
    name = stream_with_a_record()
    (tmp_path / "orders.py").write_text(HANDLER)
    named = ("--application", name, "--stream", name, "--handler", "orders:handle")

    refused = subprocess.run(
        command("run", *named, "--no-create"),
        env=aws,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        f"sublet: there is no lease table {name} in region {aws['AWS_DEFAULT_REGION']} of this"
    )

    running = subprocess.Popen(
        command("run", *named), env=aws, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    wait_for(tmp_path / "handled")
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert (tmp_path / "handled").read_bytes() == b"first order"
    assert [line.split(",")[0] for line in said.decode().splitlines()] == [
        f"sublet: created lease table {name}",
        f"sublet: created sightings table {name}-sightings",
    ]

    shown = subprocess.run(
        command("leases", "--application", name),
        env=aws,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    header, lease, _, *summary = (line.split() for line in shown.stdout.splitlines())
    assert header == ["lease", "owner", "counter", "checkpoint"]
    assert lease[0] == "shardId-000000000000"
    assert lease[1] == "-", "released"
    assert lease[3] != "TRIM_HORIZON", "checkpointed"
    assert [" ".join(line) for line in summary] == [
        "target: 0 leases a worker; 1 unowned, 0 expired, 0 moved in the last hour"
    ]

    stands = subprocess.run(
        command("status", "--application", name, "--json"),
        env=aws,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    (shard,) = json.loads(stands.stdout)["shards"]
    assert (shard["word"], shard["lag"]) == ("OK", 0.0), "the last write has said so, and no stream is asked"
    assert shard["handled_to"] is not None


@pytest.mark.parametrize(
    ("asked", "in_terminal", "is_json"),
    [
        ((), True, False),
        ((), False, True),
        (("--log-format", "json"), True, True),
        (("--log-format", "text"), False, False),
    ],
)
def test_log_is_text_in_a_terminal_and_json_elsewhere(
    aws: dict[str, str], tmp_path: Path, asked: tuple[str, ...], in_terminal: bool, is_json: bool
) -> None:
    name = stream_with_a_record()
    (tmp_path / "orders.py").write_text(HANDLER)
    named = ("--application", name, "--stream", name, "--handler", "orders:handle")
    shown, end = pty.openpty() if in_terminal else os.pipe()
    with os.fdopen(shown, "rb", buffering=0) as log:
        running = subprocess.Popen(
            command("run", *named, *asked), env=aws, cwd=tmp_path, stdout=end, stderr=subprocess.PIPE
        )
        os.close(end)
        wait_for(tmp_path / "handled")
        running.send_signal(signal.SIGTERM)
        said = read_all(log)
        complaints = running.communicate(timeout=60)[1].decode()
        assert running.returncode == 0
    assert ("without metrics; --log-format json has both" in complaints) == (in_terminal and not asked)
    assert said.count('"message":"lease acquired"') == is_json
    assert said.count("INFO    sublet: lease acquired lease_key=shardId-000000000000 why=free") == (not is_json)
    assert ("CloudWatchMetrics" in said) == is_json


def read_all(log: io.RawIOBase) -> str:
    """Until nobody can write any more, which Linux reports of a terminal as an error."""
    chunks: list[bytes] = []
    with suppress(OSError):
        while chunk := log.read(65536):
            chunks.append(chunk)
    return b"".join(chunks).decode()


@pytest.mark.parametrize(
    ("script", "drain", "said"),
    [
        (
            f"{HANDLER}    import time; handled.close(); time.sleep(600)\n",
            2,
            [
                "sublet: ended at once: drain_timeout is over; these leases are not released",
                "  shardId-000000000000, checkpoint TRIM_HORIZON, handled up to TRIM_HORIZON",
            ],
        ),
        (
            f"{HANDLER}\nimport atexit, time; atexit.register(time.sleep, 600)\n",
            6,  # seconds, in which the lease is released first
            ["sublet: ended at once: drain_timeout is over; no lease was held"],
        ),
    ],
    ids=["a call that hangs", "a function for Python's exit that hangs"],
)
def test_process_ends_within_drain_timeout_after_sigterm(
    aws: dict[str, str], tmp_path: Path, script: str, drain: int, said: list[str]
) -> None:
    """As a container is stopped: within drain_timeout, before SIGKILL would come, and it names the leases that it
    leaves.
    """
    name = stream_with_a_record()
    (tmp_path / "orders.py").write_text(script)
    named = ("--application", name, "--stream", name, "--handler", "orders:handle")
    running = subprocess.Popen(
        command("run", *named, "--drain-timeout", f"{drain}s"),
        env=aws,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait_for(tmp_path / "handled")
    sent = time.monotonic()
    running.send_signal(signal.SIGTERM)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
    assert time.monotonic() - sent >= drain
    last = told.decode().splitlines()[-len(said) :]
    assert all(line.startswith(expected) for line, expected in zip(last, said, strict=True)), last


def test_leases_of_a_table_that_no_lease_manager_of_ours_looks_at(sublet: Sublet) -> None:
    """KCL's own, or one whose sightings this role may not read."""
    name = create_table(boto3.client("dynamodb"), f"orders-{uuid.uuid4().hex[:8]}", "leaseKey")
    row = encode_row(Lease("shardId-000000000000", TRIM_HORIZON, 7, "host:java-1", throughput_kbps=12.5))
    boto3.client("dynamodb").put_item(TableName=name, Item=row)
    shown = sublet("leases", "--application", name)
    assert shown.stderr.startswith("sublet: expired owners and moved leases are not known: there is no")
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert lines[3:7] == [
        "group workers leases share KB/s share",
        "host 1 1 1.0 12.5 12.5",
        "",
        "worker leases KB/s wrote took",
    ]
    assert lines[7].startswith("host:java-1 1 12.5 ")
    assert lines[8:] == [
        "",
        "target: 1 lease and 12.5 KB/s a worker; 0 unowned, - expired, 0 moved in the last hour",
    ]


def test_a_seek_shows_its_plan_moves_positions_and_is_undone(sublet: Sublet) -> None:
    name = stream_with_a_record()
    table = create_table(boto3.client("dynamodb"), name, "leaseKey")
    create_table(boto3.client("dynamodb"), f"{name}-sightings", "chunk")
    of = ("--application", name, "--stream", name)

    def run(*arguments: str, code: int = 0) -> Said:
        done = sublet(*arguments)
        assert done.returncode == code, done.stderr
        return done

    def row() -> dict[str, object]:
        return dict(boto3.client("dynamodb").get_item(TableName=table, Key=key)["Item"])

    assert "no leases yet" in run("seek", "earliest", *of, code=2).stderr
    held = Lease("shardId-000000000000", TRIM_HORIZON, 7, "host:java-1")
    key = {"leaseKey": {"S": held.lease_key}}
    boto3.client("dynamodb").put_item(TableName=table, Item=encode_row(held))

    wait_until_the_record_is_older_than_now()
    planned = run("seek", "latest", *of)
    shard, effect, *rest = planned.stdout.splitlines()[2].split()
    assert (shard, effect) == ("shardId-000000000000", "skips")
    assert "TRIM_HORIZON" in rest
    assert "Nothing has been moved. To carry out this plan, add --execute." in planned.stderr
    assert row() == encode_row(held)

    run("snapshot", "mine", "--application", name)
    run("snapshot", "mine", "--application", name, "--file", "mine.json")
    run("seek", "latest", *of, "--execute")
    moved = row()
    assert moved["checkpoint"] != {"S": "TRIM_HORIZON"}
    assert moved["leaseCounter"] == {"N": str(7 + SEEK_LEAP)}
    assert "leaseOwner" not in moved
    kept = [line.split()[0] for line in run("snapshots", "--application", name).stdout.splitlines()[1:]]
    assert kept[0] == "mine"
    assert kept[1].startswith("seek-")
    assert json.loads(run("undo", *of, "--json").stdout)["moves"][0]["effect"] == "repeats"
    run("undo", *of, "--execute")
    assert row()["checkpoint"] == {"S": "TRIM_HORIZON"}
    run("undo", *of, "--execute")
    assert row()["checkpoint"] == moved["checkpoint"], "the undo of an undo"
    assert run("seek", "--like", name, *of).stdout.splitlines()[-1] == "nothing to move"
    for back in (("--to-snapshot", "mine"), ("--from-file", "mine.json")):
        run("seek", *back, *of, "--execute")
        assert row()["checkpoint"] == {"S": "TRIM_HORIZON"}
        run("seek", "latest", *of, "--execute")
    assert "there is no snapshot yours" in run("seek", "--to-snapshot", "yours", *of, code=2).stderr
    assert "there is no snapshot yours" in run("snapshots", "--delete", "yours", "--application", name, code=2).stderr
    run("snapshots", "--delete", "mine", "--application", name)
    left = [line.split()[0] for line in run("snapshots", "--application", name).stdout.splitlines()[1:]]
    assert "mine" not in left


def test_positions_of_an_application_without_sightings_are_kept_in_files(sublet: Sublet, tmp_path: Path) -> None:
    """KCL's own: it has no such table."""
    name = stream_with_a_record()
    table = create_table(boto3.client("dynamodb"), name, "leaseKey")
    held = Lease("shardId-000000000000", TRIM_HORIZON, 7, "host:java-1")
    boto3.client("dynamodb").put_item(TableName=table, Item=encode_row(held))

    def run(*arguments: str) -> str:
        done = sublet(*arguments, "--application", name, "--stream", name, "--execute")
        assert done.returncode == 0, done.stderr
        assert f"there is no table {name}-sightings, so snapshots are files in {tmp_path}" in done.stderr
        return str(boto3.client("dynamodb").get_item(TableName=table, Key=key)["Item"]["checkpoint"]["S"])

    key = {"leaseKey": {"S": held.lease_key}}
    wait_until_the_record_is_older_than_now()
    assert run("seek", "latest").isdecimal()
    assert [file.name.partition("-snapshot-")[0] for file in tmp_path.iterdir()] == [name]
    assert run("undo") == "TRIM_HORIZON"


def test_status_and_peek_work_on_any_kcl_table(sublet: Sublet) -> None:
    name = stream_with_a_record()
    table = create_table(boto3.client("dynamodb"), name, "leaseKey")

    def status(*options: str) -> Said:
        return sublet("status", "--application", name, *options)

    assert "has no leases yet" in status().stderr
    row = encode_row(Lease("shardId-000000000000", TRIM_HORIZON, 7, "host:java-1"))
    boto3.client("dynamodb").put_item(TableName=table, Item=row)
    told = status()
    assert told.returncode == 0, told.stderr
    assert "expired owners are not known" in told.stderr
    assert told.stdout.splitlines()[2].split()[:3] == ["shardId-000000000000", "UNKNOWN", "-"]
    asked = status("--stream", name, "--probe", "--json")
    (shard,) = json.loads(asked.stdout)["shards"]
    assert shard["owner"] == "host:java-1"
    assert shard["lag"] >= 0
    assert status("--stream", "no-such-stream").returncode == 2
    peeked = sublet("peek", "shardId-000000000000", "--application", name, "--stream", name)
    assert peeked.stdout.endswith("  first order\n")


EVERY_STREAM = """
def handle(batch):
    with open("handled", "ab") as handled:
        for record in batch.records:
            handled.write(f"{batch.stream} {batch.stream_arn} ".encode() + record.data + bytes([10]))
"""


def test_process_reads_several_streams_and_removes_the_leases_of_a_deleted_one(
    aws: dict[str, str], tmp_path: Path
) -> None:
    """One stream comes while it runs."""
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    first = stream_with_a_record()
    (tmp_path / "orders.py").write_text(EVERY_STREAM)
    application = f"{first}-audit"
    running = subprocess.Popen(
        command(
            "run",
            "--application",
            application,
            "--streams",
            f"{first},{first}-*",
            "--handler",
            "orders:handle",
            "--stream-discovery-interval",
            "10s",
            "--failover-time",
            "3s",
            "--heartbeat-interval",
            "1s",
        ),
        env=aws,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    wait_for(tmp_path / "handled")
    second = f"{first}-more"
    kinesis.create_stream(StreamName=second, ShardCount=1)
    kinesis.get_waiter("stream_exists").wait(StreamName=second, WaiterConfig={"Delay": 1})
    kinesis.put_record(StreamName=second, Data=b"second order", PartitionKey="a")
    until = time.monotonic() + 60
    while b"second order" not in (tmp_path / "handled").read_bytes() and time.monotonic() < until:
        time.sleep(0.5)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    lines = (tmp_path / "handled").read_text().splitlines()
    arn = "arn:aws:kinesis:us-east-1:000000000000:stream/"
    assert lines == [f"{first} {arn}{first} first order", f"{second} {arn}{second} second order"]
    rows = dynamodb.scan(TableName=application)["Items"]
    assert {row["shardId"]["S"] for row in rows} == {"shardId-000000000000"}
    assert {row["streamName"]["S"].split(":")[1] for row in rows} == {first, second}
    assert all(row["leaseKey"]["S"] == f"{row['streamName']['S']}:{row['shardId']['S']}" for row in rows)

    def ask(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command(*words, "--application", application),
            env=aws,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == status, done
        return done

    shown = json.loads(ask("streams", "--json").stdout)
    assert [(each["stream"], each["word"], each["leases"]) for each in shown] == [
        (first, "READ", 1),
        (second, "READ", 1),
    ]
    assert {shard["stream"] for shard in json.loads(ask("status", "--json").stdout)["shards"]} == {
        first,
        second,
    }
    for asked in (("status", "--unhealthy"), ("shards",), ("shards", "--probe")):
        said = json.loads(ask(*asked, "--json", "--stream", second).stdout)
        shards = said["shards"] if isinstance(said, dict) else said
        assert [shard["stream"] for shard in shards] == ([] if "--unhealthy" in asked else [second])
    assert (
        f"no leases of stream returns; it reads {first}, {second}"
        in ask("shards", "--stream", "returns", status=2).stderr
    )
    assert "take it out of the setting streams" in ask("streams", "remove", second, status=2).stderr
    key = next(each["key"] for each in shown if each["stream"] == second)
    dynamodb.update_item(
        TableName=f"{application}-sightings",
        Key={"chunk": {"S": f"stream {key}"}},
        UpdateExpression="SET gone_at = asked_at",
    )
    assert "Kinesis describes stream" in ask("streams", "remove", second, status=2).stderr
    kinesis.delete_stream(StreamName=second)
    kinesis.get_waiter("stream_not_exists").wait(StreamName=second, WaiterConfig={"Delay": 1})
    assert ask("streams", "remove", second).stdout == f"removed 1 lease of stream {key}\n"
    assert [row["streamName"]["S"].split(":")[1] for row in dynamodb.scan(TableName=application)["Items"]] == [first]
