"""The offset log of a query of several streams: offsets are read back as written, and one stream's checkpoint can go on
in it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.errors import OffsetMalformed
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_key import StreamKey, in_stream
from sublet.spark.plan.limit_shares import parts, unread_shards
from sublet.spark.plan.offsets import (
    Ended,
    Offset,
    ReadTo,
    ShardOffset,
    StreamOffset,
    as_of_one,
    as_of_several,
    offset_from_json,
    offset_to_json,
)

from tests.unit.spark.test_offsets import IDENTITY, MOMENT, offsets

ORDERS = StreamKey.of(IDENTITY)
AUDIT = StreamKey("123456789012", "audit", 1_700_000_000)


def part(key: StreamKey, **shards: ShardOffset) -> StreamOffset:
    identity = StreamIdentity(f"arn:aws:kinesis:us-east-1:{key.account}:stream/{key.stream}", MOMENT)
    return StreamOffset(key.stream, identity, {in_stream(key, name): shard for name, shard in shards.items()})


TWO = Offset(
    {
        ORDERS: part(ORDERS, s0=ShardOffset(ReadTo("1")), s1=ShardOffset(Ended())),
        AUDIT: part(AUDIT, s0=ShardOffset(Ended())),
    }
)


def through_json(offset: Any) -> Any:
    return offset_from_json(json.loads(json.dumps(offset_to_json(offset))))


@given(st.lists(offsets.filter(lambda offset: bool(offset.shards)), max_size=3))
def test_comes_back_from_its_json(some: list[StreamOffset]) -> None:
    keys = [StreamKey("123456789012", f"s{n}", n + 1) for n in range(len(some))]
    streams: dict[StreamKey | None, StreamOffset] = {
        key: replace(each, shards={in_stream(key, name): shard for name, shard in each.shards.items()})
        for key, each in zip(keys, some, strict=True)
    }
    assert through_json(Offset(streams)) == Offset(streams)


def test_format() -> None:
    """Checkpoints of deployed queries contain this text: it may be extended, not changed."""
    assert offset_to_json(Offset({AUDIT: TWO.streams[AUDIT]})) == {
        "v": 2,
        "streams": {
            "123456789012:audit:1700000000": {
                "stream": "audit",
                "arn": "arn:aws:kinesis:us-east-1:123456789012:stream/audit",
                "created": 1769846400123,
                "shards": {"s0": {"e": 1}},
            }
        },
    }
    assert offset_to_json(Offset()) == {"v": 2, "initial": 1, "streams": {}}


@pytest.mark.parametrize(
    "damaged",
    [
        {"v": 2},
        {"v": 2, "streams": {}},
        {"v": 2, "streams": []},
        {"v": 2, "streams": {"orders": {}}},
        {"v": 2, "streams": {str(AUDIT): {}}},
        {
            "v": 2,
            "streams": {str(AUDIT): {**offset_to_json(TWO)["streams"][str(AUDIT)], "shards": {}, "initial": 1}},
        },
        {"v": 3, "streams": {}},
        "text",
    ],
)
def test_malformed_offset_of_several_streams_is_refused(damaged: Any) -> None:
    with pytest.raises(OffsetMalformed):
        offset_from_json(damaged)


def test_offset_of_one_stream_becomes_one_of_several() -> None:
    part = StreamOffset("orders", IDENTITY, {"s0": ShardOffset(ReadTo("1")), "s1": ShardOffset(Ended())})
    assert as_of_several(Offset({None: part})).shards == TWO.streams[ORDERS].shards
    assert as_of_several(Offset({None: replace(part, shards={})})) == Offset()
    assert as_of_several(TWO) is TWO


def test_offset_with_leases_is_refused_as_one_of_several_streams() -> None:
    one = Offset({None: StreamOffset("orders", IDENTITY, {"s0": ShardOffset(ReadTo("1"))}, "orders-audit")})
    with pytest.raises(OffsetMalformed, match="the leases of orders-audit, which are of one stream"):
        as_of_several(one)


def test_and_so_is_the_reverse() -> None:
    one = Offset({None: StreamOffset("orders", IDENTITY)})
    assert as_of_one(one) is one
    with pytest.raises(OffsetMalformed, match=f"several streams .*{AUDIT}"):
        as_of_one(TWO)


def test_a_limit_is_divided_by_the_shards_that_are_ours_and_unread() -> None:
    new = StreamKey("123456789012", "new", 3)
    weights = unread_shards(TWO, [ORDERS, AUDIT, new], lambda _: True)
    assert weights == {ORDERS: 1, AUDIT: 1, new: 1}
    more = Offset({ORDERS: part(ORDERS, **{f"s{n}": ShardOffset(ReadTo("1")) for n in range(9)})})
    assert unread_shards(more, [ORDERS], lambda _: True) == {ORDERS: 9}
    assert unread_shards(more, [ORDERS], lambda name: name.endswith("s3")) == {ORDERS: 1}
    assert parts(100, {ORDERS: 9, AUDIT: 1}) == {ORDERS: 90, AUDIT: 10}
    assert parts(1, {ORDERS: 9, AUDIT: 1}) == {ORDERS: 1, AUDIT: 1}
    assert parts(None, {ORDERS: 9}) == {ORDERS: None}
