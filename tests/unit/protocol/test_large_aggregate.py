"""Aggregates that are read in pieces, also ones that no producer's library writes, in bounded steps and bounded
memory.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from sublet.protocol.aggregation import Deaggregation, aggregate, deaggregate, deaggregated
from sublet.protocol.hash_keys import KeysInside, keys_inside
from sublet.protocol.kpl_format import MAGIC, TooMany, read_aggregate, read_aggregate_of
from sublet.protocol.large_aggregate import KEYS_AS_TEXT_MAX, LARGE_BYTES, LARGE_USER_RECORDS, PIECE
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange

MOMENT = datetime(2026, 1, 31, 8, tzinfo=UTC)
ALMOST_ALL = HashKeyRange(0, HASH_KEY_MAX - 1)
ABOVE_9 = HashKeyRange(10, HASH_KEY_MAX)
MIB = 2**20
MANY = 180_000
SMALLEST = b"\x1a\x04\x08\x00\x1a\x00"
KEY = b"\x0a\x01k"
TAG, NO_TAG = b"\x22\x03\x0a\x01t", b"\x22\x00"


def framed(*message: bytes) -> bytes:
    payload = b"".join(message)
    return MAGIC + payload + hashlib.md5(payload, usedforsecurity=False).digest()


def delimited(field: int, content: bytes) -> bytes:
    """Of more than 127 bytes and less than 2 MiB: a length of three bytes."""
    size = len(content)
    return bytes([field << 3 | 2, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + content


def record_of(*content: bytes) -> bytes:
    return delimited(3, b"\x08\x00" + b"".join(content))


def parts(data: bytes, inside: KeysInside | None = None, at_once: int = 4096) -> list[Deaggregation]:
    return list(deaggregated([StreamRecord("7", data, "outer", MOMENT)], inside, at_once))


def is_large(data: bytes) -> bool:
    return read_aggregate_of(data, LARGE_USER_RECORDS, LARGE_BYTES) is TooMany.TOO_MANY


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (aggregate([("k", None, b"x" * 1000)] * 1000), False),
        (framed(KEY, SMALLEST * LARGE_USER_RECORDS), False),
        (framed(KEY, SMALLEST * (LARGE_USER_RECORDS + 1)), True),
        (framed(KEY, b"\x9a\x00\x05\x08\x00\x9a\x00\x00" * (LARGE_USER_RECORDS + 1)), True),
        (framed(delimited(9, bytes(MIB))), True),
    ],
    ids=["1,000 of 1 KB", "just as many", "one more", "longer tags", "more than a MiB"],
)
def test_aggregate_is_large_beyond_a_mib_or_40000_user_records(data: bytes, expected: bool) -> None:
    assert is_large(data) is expected


def test_a_large_aggregate_comes_in_parts_of_a_bounded_number() -> None:
    """With so many keys that they are not kept as text."""
    count = KEYS_AS_TEXT_MAX + 4_000
    rows = [(f"key-{n}", str(n) if n % 3 else None, b"%d" % n) for n in range(count)]
    data = aggregate(rows)
    for inside in (None, KeysInside(ALMOST_ALL)):
        made = parts(data, inside)
        assert max(len(part.user_records) for part in made) <= PIECE / 6
        found = [record for part in made for record in part.user_records]
        assert [(r.partition_key, r.explicit_hash_key, r.data) for r in found] == rows
        assert [r.sub_sequence_number for r in found] == list(range(count))


def test_steps_of_the_proof_are_parts_without_user_records() -> None:
    counts = [len(part.user_records) for part in parts(framed(KEY, SMALLEST * 200_000))]
    first = next(index for index, count in enumerate(counts) if count)
    assert first > 30
    assert sum(counts) == 200_000


def test_small_aggregates_are_taken_apart_no_further_than_asked() -> None:
    records = [StreamRecord(str(n), aggregate([("k", None, b"x")] * 10), "outer", MOMENT) for n in range(5)]
    made = [len(part.user_records) for part in deaggregated(records, None, at_once=15)]
    assert made == [20, 20, 10]


@pytest.mark.parametrize(
    ("data", "inside", "expected"),
    [
        (framed(KEY, SMALLEST * MANY, b"\x1a\x02\x08\x00"), None, (1, 0, 0)),
        (framed(KEY, SMALLEST * MANY, b"\x1a\x7f"), None, (1, 0, 0)),
        (framed(KEY, SMALLEST * MANY, b"\x0f"), None, (1, 0, 0)),
        (framed(KEY, SMALLEST * MANY)[:-1] + b"x", None, (1, 0, 0)),
        (framed(KEY, SMALLEST * MANY, b"\x1a\x04\x08\x01\x1a\x00"), None, (1, 0, 1)),
        (framed(KEY, SMALLEST * MANY, b"\x1a\x06\x08\x00\x10\x00\x1a\x00"), None, (1, 0, 1)),
        (framed(KEY, SMALLEST * MANY, b"\x12\x01x\x1a\x06\x08\x00\x10\x00\x1a\x00"), None, (1, 0, 1)),
        (framed(KEY, SMALLEST * MANY), HashKeyRange(0, 7), (0, MANY, 0)),
        (framed(KEY, b"\x12\x019", SMALLEST * MANY, b"\x1a\x06\x08\x00\x10\x00\x1a\x00"), ABOVE_9, (0, MANY + 1, 0)),
        (framed(SMALLEST * MANY, KEY), ALMOST_ALL, (MANY, 0, 0)),
        (framed(KEY, b"\x3b" * 90 + b"\x3c" * 90, SMALLEST * MANY), ALMOST_ALL, (MANY, 0, 0)),
        (framed(KEY, b"\x3b" * 110 + b"\x3c" * 110, SMALLEST * MANY), ALMOST_ALL, (1, 0, 0)),
        (framed(KEY, b"\x3b" * 9 + b"\x3c" * 8, SMALLEST * MANY), ALMOST_ALL, (1, 0, 0)),
        (framed(KEY, record_of(delimited(3, bytes(MIB)))), ALMOST_ALL, (1, 0, 0)),
        (framed(KEY, record_of(delimited(3, bytes(MIB))), SMALLEST), ALMOST_ALL, (2, 0, 0)),
        (framed(KEY, SMALLEST, record_of(b"\x1a\x01x", TAG * 250_000), SMALLEST), ALMOST_ALL, (3, 0, 0)),
        (framed(KEY, SMALLEST, record_of(b"\x1a\x01x", TAG * 250_000, NO_TAG), SMALLEST), ALMOST_ALL, (1, 0, 0)),
        (framed(KEY, SMALLEST, record_of(TAG * 250_000), SMALLEST), ALMOST_ALL, (1, 0, 0)),
        (framed(KEY, SMALLEST * MANY, delimited(9, bytes(MIB))), ALMOST_ALL, (MANY, 0, 0)),
        (framed(KEY, SMALLEST * MANY, delimited(0, bytes(MIB))), ALMOST_ALL, (1, 0, 0)),
    ],
    ids=[
        "a record without data",
        "cut short",
        "no wire type",
        "another digest",
        "an index beyond the table",
        "an explicit hash key beyond the table",
        "an explicit hash key that is none",
        "outside the range",
        "one explicit hash key outside",
        "the table behind the records",
        "groups",
        "too many groups",
        "a group without an end",
        "large data",
        "large data, and another",
        "many tags",
        "many tags, and one without its key",
        "many tags and no data",
        "a large unknown field",
        "a large field with an impossible number",
    ],
)
def test_large_record_deaggregates_like_a_small_one(
    data: bytes, inside: HashKeyRange | None, expected: tuple[int, int, int]
) -> None:
    """User records, those out of range, and whether it was delivered whole."""
    assert is_large(data)
    found = deaggregate([StreamRecord("7", data, "outer", MOMENT)], keys_inside(inside))
    assert (len(found.user_records), found.dropped_out_of_range, found.delivered_whole) == expected
    assert (read_aggregate(data) is None) == (expected == (1, 0, 0) and found.user_records[0].partition_key == "outer")
