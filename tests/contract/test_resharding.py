"""An account's stream is split and merged as it was said, for both implementations of the Account port."""

from __future__ import annotations

from collections.abc import Callable

import boto3
import pytest
from sublet.account import Account
from sublet.aws.account import AwsAccount
from sublet.decisions.resharding import Merge, Split
from sublet.memory.account import MemoryAccount
from sublet.operate.hot_shards import reshard
from sublet.protocol.shard import Shard

SHARD = "shardId-000000000000"


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
def test_a_shard_is_split_where_it_was_said_and_merged_again(
    moto_aws: None, make: Callable[[], Account]
) -> None:
    account, at = make(), 12345678901234567890
    assert list(reshard("orders", [Split(SHARD, at)], account)) == [Split(SHARD, at)]
    lower, upper = open_shards(account)
    assert (lower.hash_key_range.ending, upper.hash_key_range.starting) == (at - 1, at)
    list(reshard("orders", [Merge(lower.shard_id, upper.shard_id)], account))
    assert len(open_shards(account)) == 1
