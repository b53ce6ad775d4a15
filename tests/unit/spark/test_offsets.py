"""Spark's offset log: offsets are read back as written, and those that are not ours are refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.errors import OffsetMalformed
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement, RecordDistribution, StreamDescription
from sublet.spark.plan.offsets import (
    Ended,
    Offset,
    ReadTo,
    ShardOffset,
    StreamOffset,
    Unread,
    from_millis,
    offset_from_json,
    offset_to_json,
)

MOMENT = datetime(2026, 1, 31, 8, 0, 0, 123_000, tzinfo=UTC)
IDENTITY = StreamIdentity("arn:aws:kinesis:us-east-1:000000000000:stream/orders", MOMENT)

moments = st.integers(0, 2 * 10**12).map(from_millis)
sequence_numbers = st.integers(min_value=0, max_value=10**129 - 1).map(str)
read_to = st.builds(
    ReadTo, sequence_numbers, st.none() | moments, st.none() | st.integers(0, 10**6), st.integers(0, 10**6)
)
begins = st.builds(Unread, st.none() | moments) | read_to
shard_offsets = st.builds(
    ShardOffset, begins | st.just(Ended()), st.none() | begins, st.none() | moments, st.none() | moments
)
descriptions = st.builds(
    StreamDescription,
    st.just(IDENTITY),
    moments,
    st.integers(1, 365).map(lambda days: timedelta(days=days)),
    st.none() | st.sampled_from(RecordDistribution),
)
offsets = st.builds(
    StreamOffset,
    st.just("orders"),
    st.just(IDENTITY),
    st.dictionaries(st.integers(0, 10**6).map(lambda n: f"shardId-{n:012}"), shard_offsets, max_size=4),
    st.none() | st.just("orders-audit"),
    st.builds(Placement, st.none() | descriptions, st.none() | moments),
)


def alone(part: StreamOffset) -> dict[str, Any]:
    """The JSON of a query of this stream alone."""
    return offset_to_json(Offset({None: part}))


@given(offsets)
def test_comes_back_from_its_json(part: StreamOffset) -> None:
    assert offset_from_json(json.loads(json.dumps(alone(part)))) == Offset({None: part})


def test_format() -> None:
    """Checkpoints of deployed queries contain this text: it may be extended, not changed."""
    shards = {
        "shardId-1": ShardOffset(ReadTo("4968", MOMENT), Unread(), MOMENT),
        "shardId-0": ShardOffset(Ended()),
        "shardId-2": ShardOffset(Unread(MOMENT), ReadTo("7", None, 3)),
    }
    assert json.dumps(alone(StreamOffset("orders", IDENTITY, shards))) == (
        '{"v": 1, "stream": "orders", "arn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders", '
        '"created": 1769846400123, "shards": {"shardId-0": {"e": 1}, '
        '"shardId-1": {"a": "4968", "t": 1769846400123, "f": {"p": "TRIM_HORIZON"}, "c": 1769846400123}, '
        '"shardId-2": {"p": "AT_TIMESTAMP", "t": 1769846400123, "f": {"a": "7", "i": 3}}}}'
    )


def test_format_of_a_query_that_holds_leases() -> None:
    shards = {"shardId-0": ShardOffset(ReadTo("4968", MOMENT, None, 9))}
    assert json.dumps(alone(StreamOffset("orders", IDENTITY, shards, "orders-audit"))) == (
        '{"v": 1, "stream": "orders", "arn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders", '
        '"created": 1769846400123, "application": "orders-audit", '
        '"shards": {"shardId-0": {"a": "4968", "t": 1769846400123, "l": 9}}}'
    )


def test_offset_format_holds_the_streams_description() -> None:
    """An earlier version ignores it."""
    described = StreamDescription(IDENTITY, MOMENT, timedelta(hours=24), RecordDistribution.AUTO)
    shards = {"shardId-0": ShardOffset(Ended())}
    offset = StreamOffset("orders", IDENTITY, shards, placement=Placement(described, MOMENT))
    assert json.dumps(alone(offset)) == (
        '{"v": 1, "stream": "orders", "arn": "arn:aws:kinesis:us-east-1:000000000000:stream/orders", '
        '"created": 1769846400123, "d": {"t": 1769846400123, "r": 86400, "s": "AUTO"}, "auto": 1769846400123, '
        '"shards": {"shardId-0": {"e": 1}}}'
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("v", 2),
        ("d", {"t": 1}),
        ("d", {"t": 1, "r": 86400, "s": "BY_MOON"}),
        ("arn", ...),
        ("created", "x"),
        ("shards", []),
        ("initial", ...),
        ("shards", {"s": {"a": "x"}}),
        ("shards", {"s": {"p": "LATEST"}}),
        ("shards", {"s": {"e": 1, "f": {"e": 1}}}),
    ],
)
def test_malformed_offset_is_refused(key: str, value: object) -> None:
    data = alone(StreamOffset("orders", IDENTITY))
    if value is ...:
        del data[key]
    else:
        data[key] = value
    with pytest.raises(OffsetMalformed, match="offset"):
        offset_from_json(data)


def test_a_record_read_in_part_is_still_to_be_read() -> None:
    assert ReadTo("99").is_before("100")
    assert not ReadTo("100").is_before("100")
    assert ReadTo("100", None, 3).is_before("100")
    assert not ReadTo("101", None, 3).is_before("100")
