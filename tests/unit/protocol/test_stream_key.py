from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sublet.protocol.shard import FULL_RANGE, ChildShard, Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import (
    StreamKey,
    beside,
    child_in_stream,
    is_of_several,
    own_id,
    shard_in_stream,
    stream_key_of,
)

ORDERS = StreamKey("123456789012", "orders", 1_700_000_000)


def test_a_streams_key_is_kcls_identifier_with_the_creation_time_in_whole_seconds() -> None:
    created = datetime(2023, 11, 14, 22, 13, 20, 900_000, UTC)
    arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
    assert StreamKey.of(StreamIdentity(arn, created)) == ORDERS
    assert str(ORDERS) == "123456789012:orders:1700000000"
    assert ORDERS.created_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "orders:1700000000",
        "12345:orders:1700000000",
        "123456789012:or ders:17",
        "123456789012:orders:",
    ],
)
def test_other_texts_are_no_key_of_a_stream(text: str) -> None:
    assert StreamKey.parse(text) is None
    assert not is_of_several(f"{text}:shardId-000000000000")


def test_a_shard_of_a_single_stream_is_named_by_its_id() -> None:
    assert stream_key_of("shardId-000000000000") is None
    assert own_id("shardId-000000000000") == "shardId-000000000000"
    assert beside("shardId-000000000001", "shardId-000000000000") == "shardId-000000000001"


def test_relatives_are_named_in_the_same_stream() -> None:
    shard = Shard("shardId-2", FULL_RANGE, "shardId-0", "shardId-1", "17", is_open=False)
    named = shard_in_stream(ORDERS, shard)
    assert named.shard_id == f"{ORDERS}:shardId-2"
    assert named.parent_shard_ids == {f"{ORDERS}:shardId-0", f"{ORDERS}:shardId-1"}
    assert (named.starting_sequence_number, named.is_open) == ("17", False)
    assert shard_in_stream(ORDERS, Shard("shardId-0", FULL_RANGE)).parent_shard_ids == frozenset()
    child = child_in_stream(ORDERS, ChildShard("shardId-3", frozenset({"shardId-2"}), FULL_RANGE))
    assert (child.shard_id, child.parent_shard_ids) == (
        f"{ORDERS}:shardId-3",
        frozenset({f"{ORDERS}:shardId-2"}),
    )
    assert beside("shardId-3", named.shard_id) == child.shard_id
