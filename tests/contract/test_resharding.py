"""An account's stream is split and merged as it was said, for both implementations of the Account port, and by `sublet
hot`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import boto3
import pytest
from msgspec.structs import replace
from sublet.aws.account import AwsAccount
from sublet.aws.clients import dynamodb_client
from sublet.aws.tables.sketch_store import DynamoDbSketchStore
from sublet.decisions.load.resharding import Merge, Split
from sublet.operate.cli.main import main
from sublet.operate.hot_shards import reshard
from sublet.ports.account import Account
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import FULL_RANGE, Shard
from sublet.testing.memory.account import MemoryAccount

from tests.contract.dynamodb_tables import create_table
from tests.doubles.traffic import Traffic, sketch_of

SHARD = "shardId-000000000000"


class Said(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Said]


def of_memory() -> Account:
    account = MemoryAccount()
    account.create("orders", 1)
    return account


def of_moto() -> Account:
    boto3.client("kinesis").create_stream(StreamName="orders", ShardCount=1)
    return AwsAccount()


def open_shards(account: Account) -> list[Shard]:
    found = [shard for shard in account.reading("orders").list_shards() if shard.is_open]
    return sorted(found, key=lambda shard: shard.hash_key_range)


@pytest.mark.parametrize("make", [of_memory, pytest.param(of_moto, marks=pytest.mark.emulator)])
def test_a_shard_is_split_where_it_was_said_and_merged_again(moto_aws: None, make: Callable[[], Account]) -> None:
    account, at = make(), 12345678901234567890
    assert list(reshard("orders", [Split(SHARD, at)], account)) == [Split(SHARD, at)]
    lower, upper = open_shards(account)
    assert (lower.hash_key_range.ending, upper.hash_key_range.starting) == (at - 1, at)
    list(reshard("orders", [Merge(lower.shard_id, upper.shard_id)], account))
    assert len(open_shards(account)) == 1


@pytest.fixture
def hot(moto_aws: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `sublet hot` on an application whose only shard is hot: many keys bring its load."""
    for variable in ("SUBLET_STREAM", "SUBLET_STREAMS"):
        monkeypatch.delenv(variable, raising=False)
    of_moto()
    client = dynamodb_client()
    create_table(client, "audit", "leaseKey")
    create_table(client, "audit-sightings", "chunk")
    lease = Lease(SHARD, Checkpoint("1"), hash_key_range=FULL_RANGE)
    client.put_item(TableName="audit", Item=encode_row(lease))
    now = datetime.now(UTC)
    sketch = replace(sketch_of(SHARD, [Traffic("user", 950, 1000, keys=100)], seconds=10), since=now, until=now)
    DynamoDbSketchStore(lambda: client, "audit-sightings").keep(sketch)

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = main(["hot", "--application", "audit", "--stream", "orders", *arguments])
        return Said(code, *capsys.readouterr())

    return run


@pytest.mark.emulator
def test_the_command_shows_a_split_and_makes_it_only_if_it_is_told_to(hot: Command) -> None:
    shown = hot()
    assert (shown.code, "To carry this out, add --execute." in shown.err) == (1, True)
    assert [shard.shard_id for shard in open_shards(AwsAccount())] == [SHARD]
    at = int(shown.out.partition("--new-starting-hash-key ")[2].split()[0])

    made = hot("--execute")
    assert f"done: aws kinesis split-shard --stream-name orders --shard-to-split {SHARD}" in made.err
    lower, upper = open_shards(AwsAccount())
    assert (lower.hash_key_range.ending, upper.hash_key_range.starting) == (at - 1, at)


@pytest.mark.emulator
def test_the_command_splits_no_shard_that_is_not_meant(hot: Command) -> None:
    assert hot("--execute", "--shard", "shardId-000000000009").code == 2
    assert len(open_shards(AwsAccount())) == 1
