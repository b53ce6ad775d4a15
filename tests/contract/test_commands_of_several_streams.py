"""Commands on an application of two streams, as an operator types them: for one stream, for a shard by its full name,
for all, or with a question which is meant.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pyarrow.parquet
import pytest
from sublet.operate.cli.main import main
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import FULL_RANGE
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import StreamKey, in_stream

from tests.contract.dynamodb_tables import create_table

pytestmark = pytest.mark.emulator

SHARD = "shardId-000000000000"
NAMED = ("--application", "audit")


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Application(NamedTuple):
    """`shards`: full names by stream; `numbers`: of each stream's two records, of which the first is handled."""

    run: Callable[..., Said]
    shards: dict[str, str]
    numbers: dict[str, list[str]]


@pytest.fixture
def audit(
    moto_aws: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Application:
    monkeypatch.chdir(tmp_path)
    for variable in ("SUBLET_STREAM", "SUBLET_STREAMS"):
        monkeypatch.delenv(variable, raising=False)
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    create_table(dynamodb, "audit", "leaseKey")
    create_table(dynamodb, "audit-sightings", "chunk")
    shards, numbers = {}, {}
    for name in ("orders", "payments"):
        kinesis.create_stream(StreamName=name, ShardCount=1)
        summary = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
        key = StreamKey.of(StreamIdentity(summary["StreamARN"], summary["StreamCreationTimestamp"]))
        shards[name] = in_stream(key, SHARD)
        numbers[name] = [
            kinesis.put_record(StreamName=name, Data=f"{name} {number}".encode(), PartitionKey="a")["SequenceNumber"]
            for number in range(2)
        ]
        lease = Lease(shards[name], Checkpoint(numbers[name][0]), hash_key_range=FULL_RANGE)
        dynamodb.put_item(TableName="audit", Item=encode_row(lease))

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        return Said(main(arguments), *capsys.readouterr())

    return Application(run, shards, numbers)


def checkpoints(audit: Application) -> dict[str, str]:
    items = boto3.client("dynamodb").scan(TableName="audit")["Items"]
    by_key = {item["leaseKey"]["S"]: item["checkpoint"]["S"] for item in items}
    return {name: by_key[shard] for name, shard in audit.shards.items()}


@pytest.mark.parametrize("stream", ["orders", "payments"])
def test_a_seek_and_its_undo_of_one_stream(audit: Application, stream: str) -> None:
    (other,) = {"orders", "payments"} - {stream}
    before = checkpoints(audit)
    done = audit.run("seek", "earliest", *NAMED, "--stream", stream, "--shard", SHARD, "--execute")
    assert done.status == 0, done.err
    assert checkpoints(audit) == {stream: "TRIM_HORIZON", other: before[other]}
    assert "it moved no shard of" in audit.run("undo", *NAMED, "--stream", other).err
    assert audit.run("undo", *NAMED, "--execute").status == 0
    assert checkpoints(audit) == before


def test_a_seek_of_all_streams_and_of_a_shard_by_its_full_name(audit: Application) -> None:
    both = {move["shard"] for move in audit.run("seek", "earliest", *NAMED, "--json").json["moves"]}
    assert both == set(audit.shards.values())
    one = audit.run("seek", "earliest", *NAMED, "--shard", audit.shards["payments"], "--json").json["moves"]
    assert [move["shard"] for move in one] == [audit.shards["payments"]]
    asked = audit.run("seek", "earliest", *NAMED, "--shard", SHARD)
    assert (asked.status, f"shard {SHARD} is ambiguous" in asked.err) == (2, True)


def test_a_stream_that_the_application_does_not_read_is_named(audit: Application) -> None:
    for command in (
        ("seek", "earliest"),
        ("undo",),
        ("hot",),
        ("status",),
        ("doctor",),
        ("skip", SHARD),
        ("peek", SHARD),
        ("leases",),
        ("workers",),
        ("history", SHARD),
        ("snapshot", "mine"),
        ("pause",),
        ("resume",),
        ("drain",),
        ("release", SHARD),
    ):
        said = audit.run(*command, *NAMED, "--stream", "order")
        assert said.status == 2
        assert "audit has no leases of stream order; it reads orders, payments" in said.err


def test_rows_snapshots_and_pauses_are_of_the_stream_that_is_meant(audit: Application) -> None:
    named, payments = (*NAMED, "--stream", "payments"), audit.shards["payments"]
    listed = audit.run("leases", *named, "--json").json
    assert [lease["lease"] for lease in listed["leases"]] == [payments]
    assert listed["leases"][0]["checkpoint"] == audit.numbers["payments"][0]
    assert len(audit.run("leases", *NAMED, "--json").json["leases"]) == 2
    assert audit.run("workers", *named, "--json").json["unowned"] == 1
    assert "today: position" in audit.run("history", SHARD, *named).out
    audit.run("snapshot", "mine", *named)
    (kept,) = audit.run("snapshots", *named, "--json").json
    assert (kept["snapshot"], kept["leases"], kept["moved"], kept["problem"]) == ("mine", 1, [], None)
    assert audit.run("snapshots", *NAMED, "--stream", "orders", "--json").json == []

    assert audit.run("pause", *named).status == 0
    words = {shard["shard"]: shard["word"] for shard in audit.run("status", *NAMED, "--json").json["shards"]}
    assert (words[payments], words[audit.shards["orders"]]) == ("PAUSED", "UNKNOWN")
    assert audit.run("resume", *named, "--json").json["resumed"] == [payments]
    refused = audit.run("drain", *named)
    assert (refused.status, "a drain is of the whole application" in refused.err) == (2, True)


def test_seek_may_name_one_of_the_setting_streams(audit: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBLET_STREAMS", "ord*,payments")
    moves = audit.run("seek", "earliest", *NAMED, "--json").json["moves"]
    assert {move["shard"] for move in moves} == set(audit.shards.values())
    moves = audit.run("seek", "earliest", *NAMED, "--stream", "payments", "--json").json["moves"]
    assert [move["shard"] for move in moves] == [audit.shards["payments"]]


def test_skip_and_peek_act_on_the_stream_that_is_meant(audit: Application) -> None:
    named = (*NAMED, "--stream", "payments")
    peeked = [json.loads(line) for line in audit.run("peek", SHARD, *named, "--json").out.splitlines()]
    assert [each["sequence_number"] for each in peeked] == [audit.numbers["payments"][1]]
    assert audit.run("skip", SHARD, *named, "--folder", "aside", "--execute").status == 0
    assert checkpoints(audit) == {
        "orders": audit.numbers["orders"][0],
        "payments": audit.numbers["payments"][1],
    }
    for command in ("peek", "skip"):
        assert "is ambiguous: the application reads" in audit.run(command, SHARD, *NAMED).err
        assert "orders" in audit.run(command, audit.shards["orders"], *NAMED).out


def test_peek_and_get_take_a_shards_full_name(audit: Application) -> None:
    shard = audit.shards["payments"]
    shown = audit.run("peek", shard, "--from", "earliest", "-n", "2", "--text")
    assert ("payments 0" in shown.out, "payments 1" in shown.out, "orders" in shown.out) == (
        True,
        True,
        False,
    )
    assert audit.run("get", shard, audit.numbers["payments"][1], "--data").out == "payments 1"
    refused = audit.run("get", shard, audit.numbers["payments"][1], "--stream", "orders")
    assert "the stream of shard" in refused.err


def test_put_and_get_ask_which_of_several_streams(audit: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBLET_STREAMS", "orders,payments")
    for command in (("put", "data"), ("get", SHARD, "17"), ("peek", SHARD, "--from", "earliest")):
        said = audit.run(*command)
        assert said.status == 2
        assert "give --stream with one of orders,payments" in said.err


def test_tail_follows_several_streams(audit: Application) -> None:
    said = audit.run("tail", "--streams", "orders,pay*", "--from", "earliest", "-n", "4", "--json")
    assert {json.loads(line)["shard_id"] for line in said.out.splitlines()} == set(audit.shards.values())
    one = audit.run(
        "tail",
        "--streams",
        "orders,payments",
        "--from",
        "earliest",
        "-n",
        "2",
        "--json",
        "--shard",
        audit.shards["orders"],
    )
    assert {json.loads(line)["shard_id"] for line in one.out.splitlines()} == {audit.shards["orders"]}


def test_status_hot_and_doctor_show_all_streams_or_one(audit: Application) -> None:
    probed = audit.run("status", *NAMED, "--probe", "--json").json["shards"]
    assert {shard["stream"] for shard in probed} == {"orders", "payments"}
    probed = audit.run("status", *NAMED, "--stream", "payments", "--probe", "--json").json["shards"]
    assert {shard["stream"] for shard in probed} == {"payments"}
    assert {shard["stream"] for shard in audit.run("hot", *NAMED, "--json").json} == {"orders", "payments"}
    assert [shard["stream"] for shard in audit.run("hot", *NAMED, "--stream", "payments", "--json").json] == [
        "payments"
    ]
    examined = audit.run("doctor", *NAMED, "--json").json
    assert (examined["stream"], examined["streams"]) == (None, ["orders", "payments"])
    assert audit.run("doctor", *NAMED, "--stream", "payments", "--json").json["streams"] == ["payments"]
    assert "audit on orders, payments at" in audit.run("doctor", *NAMED).out


def test_history_release_and_pause_take_a_shards_full_name(audit: Application) -> None:
    shard = audit.shards["payments"]
    assert audit.run("history", shard, *NAMED).status == 0
    assert audit.run("pause", *NAMED, "--shard", shard).status == 0
    assert shard in audit.run("resume", *NAMED, "--shard", shard).out
    for command in (
        ("history", SHARD),
        ("release", SHARD),
        ("pause", "--shard", SHARD),
        ("resume", "--shard", SHARD),
    ):
        said = audit.run(*command, *NAMED)
        assert (said.status, "is ambiguous: the application reads" in said.err) == (2, True), said


def test_the_cost_of_several_streams_is_that_of_all_shards_together(audit: Application) -> None:
    priced = audit.run("cost", "--stream", "orders", "--stream", "payments", "--records-per-second", "10", "--json")
    assert priced.json["shards"] == 2


def test_a_stream_to_be_removed_is_named_by_its_key_too(audit: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the same name have no other, and the deployment's SUBLET_STREAMS may be set."""
    key, _, _ = audit.shards["orders"].rpartition(":")
    assert "has named stream orders" in audit.run("streams", "remove", key, *NAMED).err
    monkeypatch.setenv("SUBLET_STREAMS", "orders")
    assert "has named stream payments" in audit.run("streams", "remove", "payments", *NAMED).err


def test_tail_writes_the_records_of_several_streams_in_the_order_of_arrival(audit: Application, tmp_path: Path) -> None:
    words = ("--streams", "orders,payments", "--since", "earliest", "--no-follow", "--output")
    said = audit.run("tail", *words, "ndjson")
    rows = [json.loads(line) for line in said.out.splitlines()]
    assert [base64.b64decode(row["data"]) for row in rows] == [b"orders 0", b"orders 1", b"payments 0", b"payments 1"]
    assert [row["stream"] for row in rows] == ["orders", "orders", "payments", "payments"]
    assert [row["sequence_number"] for row in rows] == [*audit.numbers["orders"], *audit.numbers["payments"]]
    for output in ("csv", "parquet"):
        said = audit.run("tail", *words, output, "--to", str(tmp_path / output))
        assert (said.status, said.out) == (0, ""), said.err
        assert f"4 records are in {tmp_path / output}" in said.err
    assert [row["stream"] for row in csv.DictReader((tmp_path / "csv").read_text().splitlines())] == [
        row["stream"] for row in rows
    ]
    found = pyarrow.parquet.read_table(tmp_path / "parquet").to_pylist()
    assert [row["data"] for row in found] == [base64.b64decode(row["data"]) for row in rows]
