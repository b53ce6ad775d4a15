"""`sublet diff` of two applications on the embedded AWS."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import boto3
import pytest
from sublet.operate.cli.main import main
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row

from infra.local import EmbeddedAws
from tests.contract.dynamodb_tables import create_table

pytestmark = pytest.mark.emulator

SHARDS = [f"shardId-{number:012}" for number in range(2)]


class Said(NamedTuple):
    status: int
    out: str
    err: str


class Bench(NamedTuple):
    """Two applications on one stream, whose first shard has three records, the second two seconds after the first."""

    stream: str
    numbers: list[str]
    run: Callable[..., Said]

    def put_leases(self, application: str, *leases: Lease) -> None:
        for lease in leases:
            boto3.client("dynamodb").put_item(TableName=application, Item=encode_row(lease))

    def diff(self, *words: str) -> Said:
        return self.run("diff", f"{self.stream}-a", f"{self.stream}-b", *words)


@pytest.fixture
def bench(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SUBLET_STREAM", raising=False)
    kinesis, dynamodb = boto3.client("kinesis"), boto3.client("dynamodb")
    stream = f"orders-{uuid.uuid4().hex[:8]}"
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    numbers = []
    for each in range(3):
        put = kinesis.put_record(StreamName=stream, Data=b"1", PartitionKey="a", ExplicitHashKey="0")
        numbers.append(put["SequenceNumber"])
        if each == 0:
            time.sleep(2)
    for application in ("a", "b"):
        create_table(dynamodb, f"{stream}-{application}", "leaseKey")

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        return Said(main(arguments), *capsys.readouterr())

    return Bench(stream, numbers, run)


def by_shard(said: Said) -> dict[str, Any]:
    return {each["shard"]: each for each in json.loads(said.out)["shards"]}


def test_diff_tells_which_is_behind_by_time_and_records(bench: Bench) -> None:
    bench.put_leases(
        f"{bench.stream}-a", Lease(SHARDS[0], Checkpoint(bench.numbers[0])), Lease(SHARDS[1], TRIM_HORIZON)
    )
    bench.put_leases(
        f"{bench.stream}-b", Lease(SHARDS[0], Checkpoint(bench.numbers[2])), Lease(SHARDS[1], TRIM_HORIZON)
    )
    said = bench.diff("--stream", bench.stream, "--json")
    assert said.status == 1, said.err
    found = by_shard(said)
    assert (found[SHARDS[0]]["standing"], found[SHARDS[1]]["standing"]) == ("behind", "equal")
    assert 1 <= found[SHARDS[0]]["seconds"] <= 10
    assert found[SHARDS[0]]["records"] in (2, 3)
    text = bench.diff("--stream", bench.stream).out
    assert "1 behind, 1 equal" in text
    assert SHARDS[1] not in text, "what is equal is only counted"
    assert bench.diff("--stream", bench.stream, "--within", "1m").status == 0
    assert bench.run("diff", f"{bench.stream}-b", f"{bench.stream}-a", "--stream", bench.stream).out.count("ahead") == 2


def test_diff_without_a_stream_compares_positions_alone(bench: Bench) -> None:
    bench.put_leases(f"{bench.stream}-a", Lease(SHARDS[0], Checkpoint(bench.numbers[0])), Lease(SHARDS[1], SHARD_END))
    bench.put_leases(f"{bench.stream}-b", Lease(SHARDS[0], Checkpoint(bench.numbers[0])))
    found = by_shard(said := bench.diff("--json"))
    assert said.status == 1
    assert (found[SHARDS[0]]["standing"], found[SHARDS[1]]["standing"]) == ("equal", "only first")
    assert found[SHARDS[1]]["seconds"] is None
    bench.put_leases(f"{bench.stream}-b", Lease(SHARDS[1], SHARD_END))
    assert bench.diff().status == 0


def test_diff_names_a_table_that_is_missing_and_an_application_that_is_itself(bench: Bench) -> None:
    assert "there is no lease table nobody" in bench.run("diff", f"{bench.stream}-a", "nobody").err
    said = bench.run("diff", "same", "same")
    assert (said.status, "another application than the first" in said.err) == (2, True)


def test_a_row_that_cannot_be_read_is_a_difference(bench: Bench) -> None:
    row = {"leaseKey": {"S": SHARDS[0]}, "checkpoint": {"S": "not a number"}, "leaseCounter": {"N": "1"}}
    boto3.client("dynamodb").put_item(TableName=f"{bench.stream}-a", Item=row)
    said = bench.diff()
    assert said.status == 1
    assert "the row cannot be read" in said.out
