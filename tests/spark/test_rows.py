"""Rows agree with the library's own deaggregation, column by column."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from sublet.protocol.aggregation import aggregate, deaggregate
from sublet.protocol.hash_keys import keys_inside
from sublet.protocol.kpl_format import MAGIC, write_aggregate
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import FULL_RANGE, HashKeyRange
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement, RecordDistribution, StreamDescription
from sublet.spark.plan.strays import StrayFilter
from sublet.spark.read.rows import BATCH_BYTES, Rows

from tests.exploring import first

NOW = datetime(2026, 1, 31, 8, 0, 0, 123_000, tzinfo=UTC)
HALF = HashKeyRange(0, 2**127)
BY_KEY = Placement(
    StreamDescription(StreamIdentity("arn", NOW), NOW, timedelta(hours=24), RecordDistribution.USER_PARTITION_KEY)
)
"""A stream that is known not to have placed its records."""


def contents(chance: Random) -> bytes:
    """Plain data, empty data, aggregates with and without explicit hash keys, damaged ones, and empty ones."""
    kind = chance.randrange(6)
    records = [
        (f"key-{chance.randrange(3)}", None, chance.randbytes(chance.randrange(5)))
        for _ in range(chance.randrange(1, 6))
    ]
    match kind:
        case 0:
            return chance.randbytes(chance.randrange(30))
        case 1:
            return aggregate([(key, str(chance.randrange(2**128)), data) for key, _, data in records])
        case 2:
            explicit = [str(chance.randrange(2**128)) if chance.random() < 0.5 else None for _ in records]
            return aggregate([(key, hash_, data) for (key, _, data), hash_ in zip(records, explicit, strict=True)])
        case 3:
            return write_aggregate(["a"], ["x"], [(chance.randrange(2), chance.choice((None, 0, 1)), b"odd")])
        case 4:
            return write_aggregate(["a"], [], [])
    return aggregate(records)


@pytest.mark.parametrize("hash_key_range", [None, FULL_RANGE, HALF])
@pytest.mark.parametrize("seed", first(8, range(40)))
def test_rows_agree_with_deaggregate(hash_key_range: HashKeyRange | None, seed: int) -> None:
    chance = Random(seed)
    records = [
        StreamRecord(str(10**60 + n), contents(chance), f"outer-{n}", NOW) for n in range(chance.randrange(1, 12))
    ]
    expected = deaggregate(records, keys_inside(hash_key_range))
    rows = Rows("orders", "shardId-0", StrayFilter(keys_inside(hash_key_range), BY_KEY))
    found = [tuple(row.values()) for batch in rows.batches(records) for row in batch.to_pylist()]
    assert found == [
        (
            r.data,
            r.partition_key,
            r.explicit_hash_key,
            r.sequence_number,
            r.sub_sequence_number,
            NOW,
            "shardId-0",
            "orders",
        )
        for r in expected.user_records
    ]
    assert rows.strays.dropped == expected.dropped_out_of_range
    assert rows.delivered_whole == expected.delivered_whole


def test_rows_of_plain_records_alone_agree_too() -> None:
    """They take a path of their own. Data that only begins like an aggregate does not."""
    looks_like_one = aggregate([("k", None, b"data")])[:-1]
    begun = [MAGIC[:1], MAGIC[:2], MAGIC[2:] + bytes(20), b"", b"x" + MAGIC, MAGIC[:3]]
    for data in ([b"", b"one", b"\xff\x00", b"one"], [b"one", looks_like_one], begun):
        records = [
            StreamRecord(str(10**60 + n), each, f"key-{n % 2}", NOW + timedelta(milliseconds=n))
            for n, each in enumerate(data)
        ]
        [batch] = Rows("orders", "shardId-0", StrayFilter(keys_inside(HALF), BY_KEY)).batches(records)
        assert batch.to_pylist() == [
            {
                "data": r.data,
                "partitionKey": r.partition_key,
                "explicitHashKey": None,
                "sequenceNumber": r.sequence_number,
                "subSequenceNumber": 0,
                "approximateArrivalTimestamp": r.approximate_arrival_timestamp,
                "shardId": "shardId-0",
                "stream": "orders",
            }
            for r in records
        ]


def test_one_aggregate_among_plain_records_is_expanded_wherever_it_is() -> None:
    for place in range(4):
        data = [b"", MAGIC[:1], b"plain"]
        data.insert(place, aggregate([("k", None, b"one"), ("k", None, b"two")]))
        records = [StreamRecord(str(10**60 + n), each, "k", NOW) for n, each in enumerate(data)]
        [batch] = Rows("orders", "shardId-0", StrayFilter(None, Placement())).batches(records)
        assert batch.column("data").to_pylist() == [*data[:place], b"one", b"two", *data[place + 1 :]]


def test_batches_are_of_a_size_that_a_cache_holds_and_never_empty() -> None:
    """A record that is larger than that is a batch of its own; empty aggregates are in none."""
    sizes = [BATCH_BYTES // 2, BATCH_BYTES // 2, 1, 2 * BATCH_BYTES, 1, 0]
    data = [bytes(size) for size in sizes]
    nothing = write_aggregate(["a"], [], [])
    stream_records = [*data[:4], nothing, *data[4:]]
    records = [StreamRecord(str(10**60 + n), each, "k", NOW) for n, each in enumerate(stream_records)]
    batches = list(Rows("orders", "shardId-0", StrayFilter(None, Placement())).batches(records))
    assert [[len(each) for each in batch.column("data").to_pylist()] for batch in batches] == [
        sizes[:2],
        sizes[2:3],
        sizes[3:4],
        sizes[4:],
    ]
    assert list(Rows("orders", "shardId-0", StrayFilter(None, Placement())).batches(records[4:5])) == []
    assert list(Rows("orders", "shardId-0", StrayFilter(None, Placement())).batches([])) == []
