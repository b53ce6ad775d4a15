"""Deaggregation never raises, whatever the bytes, and loses nothing except by KCL's rule."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from unittest import mock

from hypothesis import event, given
from hypothesis import strategies as st
from sublet.protocol import hash_keys
from sublet.protocol.aggregation import (
    AggregateColumns,
    OutOfRange,
    WholeReason,
    aggregate,
    aggregate_columns,
    deaggregate,
)
from sublet.protocol.hash_keys import KeysInside, hash_key, keys_inside
from sublet.protocol.kpl_format import MAGIC
from sublet.protocol.large_aggregate import LargeAggregate, prove
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange

MOMENT = datetime(2026, 1, 31, 8, tzinfo=UTC)

partition_keys = st.text(min_size=1, max_size=12) | st.sampled_from("abcdef")
explicit_hash_keys = st.none() | st.integers(0, HASH_KEY_MAX).map(str)
records = st.lists(st.tuples(partition_keys, explicit_hash_keys, st.binary(max_size=200)), min_size=1, max_size=40)
plainly_keyed = st.lists(st.tuples(partition_keys, st.none(), st.binary(max_size=200)), min_size=1, max_size=40)
ranges = st.tuples(st.integers(0, HASH_KEY_MAX), st.integers(0, HASH_KEY_MAX)).map(
    lambda ends: HashKeyRange(*sorted(ends))
)


def framed(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def stream_record(data: bytes) -> StreamRecord:
    return StreamRecord("7", data, "outer", MOMENT)


@given(records | plainly_keyed)
def test_aggregate_round_trips(given_records: list[tuple[str, str | None, bytes]]) -> None:
    result = deaggregate([stream_record(aggregate(given_records))], None)
    assert [(r.partition_key, r.explicit_hash_key, r.data) for r in result.user_records] == given_records
    assert [r.sub_sequence_number for r in result.user_records] == list(range(len(given_records)))


@given(plainly_keyed | records, ranges)
def test_the_filter_is_kcls_rule(
    given_records: list[tuple[str, str | None, bytes]], hash_key_range: HashKeyRange
) -> None:
    result = deaggregate([stream_record(aggregate(given_records))], KeysInside(hash_key_range))
    inside = all(hash_key(key, explicit) in hash_key_range for key, explicit, _ in given_records)
    event(f"inside: {inside}")
    assert len(result.user_records) == (len(given_records) if inside else 0)
    assert result.dropped_out_of_range == (0 if inside else len(given_records))


@given(st.lists(plainly_keyed | records, max_size=4), ranges, st.integers(0, 6))
def test_known_keys_change_nothing(
    streams: list[list[tuple[str, str | None, bytes]]], hash_key_range: HashKeyRange, most: int
) -> None:
    """However few are remembered."""
    remembering = KeysInside(hash_key_range)
    with mock.patch.object(hash_keys, "KEYS_KNOWN_MAX", most):
        for given_records in streams + streams:
            stream_records = [stream_record(aggregate(given_records))]
            found = deaggregate(stream_records, remembering)
            assert found == deaggregate(stream_records, KeysInside(hash_key_range))


@given(st.data())
def test_a_range_drawn_to_hold_the_keys_keeps_them(data: st.DataObject) -> None:
    """Random ranges hold few aggregates: this one begins and ends at the keys, give or take one."""
    given_records = data.draw(plainly_keyed | records)
    keys = [hash_key(key, explicit) for key, explicit, _ in given_records]
    starting = min(keys) + data.draw(st.integers(-1, 1))
    ending = max(keys) + data.draw(st.integers(-1, 1))
    hash_key_range = HashKeyRange(max(starting, 0), min(max(ending, 0), HASH_KEY_MAX))
    result = deaggregate([stream_record(aggregate(given_records))], KeysInside(hash_key_range))
    inside = all(key in hash_key_range for key in keys)
    event(f"inside: {inside}")
    assert len(result.user_records) == (len(given_records) if inside else 0)


messages = st.binary(max_size=400)
anything = st.binary(max_size=100) | messages.map(lambda rest: MAGIC + rest) | messages.map(framed)


def varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def delimited(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def fields_of(*kinds: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.one_of(*kinds), max_size=6).map(b"".join)


TAG = delimited(4, delimited(1, b"t") + delimited(2, b"v"))
GROUP = b"\x3b" + delimited(1, b"x") + b"\x3b\x3c" + b"\x3c"
"""An unknown field of an obsolete kind (a group), with another one in it."""
KEYS = delimited(1, b"k") + delimited(1, b"l") + delimited(2, b"3") + delimited(2, b"x")

indexes = st.integers(0, 3) | st.just(2**64 - 1)
data_fields = st.binary(max_size=8).map(lambda data: delimited(3, data))
record_fields = fields_of(
    indexes.map(lambda index: number(1, index)),
    indexes.map(lambda index: number(2, index)),
    st.sampled_from(
        [delimited(1, b"\x00\x01"), delimited(2, b"\x00"), number(3, 7), number(4, 7), delimited(4, b""), TAG]
    ),
    data_fields,
)
good_records = st.builds(
    lambda index, explicit, data: number(1, index) + (b"" if explicit is None else number(2, explicit)) + data,
    st.integers(0, 1),
    st.none() | st.integers(0, 1),
    data_fields,
)
tables = st.lists(
    st.sampled_from([delimited(1, b"a"), delimited(1, b"\xff"), delimited(2, b"5"), number(9, 1), GROUP]),
    max_size=4,
)
well_made = st.lists(good_records, max_size=6)
odd = st.lists(record_fields, max_size=2)
almost_aggregates = st.builds(
    lambda table, rows, odd_rows, order: framed(
        b"".join(
            [
                KEYS,
                *table,
                *(delimited(3, row) for row in order.sample([*rows, *odd_rows], len(rows) + len(odd_rows))),
            ]
        )
    ),
    tables,
    well_made,
    odd,
    st.randoms(use_true_random=False),
)
"""Well framed, valid protobuf, with the records wrong in every way."""


@given(st.lists(anything | almost_aggregates, max_size=5), st.none() | ranges)
def test_deaggregation_never_raises_and_keeps_the_order(
    contents: list[bytes], hash_key_range: HashKeyRange | None
) -> None:
    stream_records = [StreamRecord(str(n), data, "outer", MOMENT) for n, data in enumerate(contents)]
    result = deaggregate(stream_records, keys_inside(hash_key_range))
    order = [(int(r.sequence_number), r.sub_sequence_number) for r in result.user_records]
    assert order == sorted(set(order))


@given(almost_aggregates)
def test_deaggregation_equals_a_naive_reader(data: bytes) -> None:
    """The columns give what reading field by field gives: the records one by one, or the whole as plain."""
    result = deaggregate([stream_record(data)], None)
    found = [(r.partition_key, r.explicit_hash_key, r.data) for r in result.user_records]
    expected = naive(data[len(MAGIC) : -16])
    event("plain" if expected is None else "aggregate")
    assert found == ([("outer", None, data)] if expected is None else expected)


@given(anything | almost_aggregates | records.map(aggregate), st.none() | ranges, st.integers(1, 40))
def test_large_aggregate_in_pieces_equals_the_whole(
    data: bytes, hash_key_range: HashKeyRange | None, piece: int
) -> None:
    found = proved(data, keys_inside(hash_key_range), piece)
    at_once = aggregate_columns(data, keys_inside(hash_key_range))
    event(type(at_once).__name__)
    match at_once:
        case WholeReason.PLAIN:
            assert found is None
        case WholeReason.DAMAGED:
            assert found is not None
            assert found.is_damaged
        case OutOfRange(user_records):
            assert found is not None
            assert (found.is_damaged, found.is_outside, found.user_records) == (False, True, user_records)
        case AggregateColumns():
            assert found is not None
            assert (found.is_damaged, found.is_outside) == (False, False)
            whole = stream_record(data)
            made = [record for some, _ in found.runs(whole) for record in some]
            assert made == deaggregate([whole], None).user_records
            assert found.user_records == len(made)


def proved(data: bytes, inside: KeysInside | None, piece: int) -> LargeAggregate | None:
    steps = prove(data, inside, piece)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: LargeAggregate | None = end.value
            return found


@given(plainly_keyed | records, st.data())
def test_a_damaged_aggregate_is_one_plain_record(
    given_records: list[tuple[str, str | None, bytes]], data: st.DataObject
) -> None:
    whole = aggregate(given_records)
    if data.draw(st.booleans()):
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        bit = data.draw(st.integers(0, len(whole) * 8 - 1))
        damaged = bytes(byte ^ (1 << bit % 8 if n == bit // 8 else 0) for n, byte in enumerate(whole))
    result = deaggregate([stream_record(damaged)], None)
    assert [(r.data, r.partition_key, r.sub_sequence_number) for r in result.user_records] == [(damaged, "outer", 0)]


def naive(message: bytes) -> list[tuple[str, str | None, bytes]] | None:
    """A reader without columns, field by field; None for plain."""
    keys: list[str] = []
    explicit_keys: list[str] = []
    rows: list[dict[int, int | bytes]] = []
    message = message.replace(GROUP, b"")
    for field, value in read_fields(message):
        if field == 1 and isinstance(value, bytes):
            keys.append(value.decode(errors="replace"))
        elif field == 2 and isinstance(value, bytes):
            explicit_keys.append(value.decode())
        elif field == 3 and isinstance(value, bytes):
            if any(f == 4 and isinstance(v, bytes) and not dict(read_fields(v)).get(1) for f, v in read_fields(value)):
                return None
            rows.append({f: v for f, v in read_fields(value) if isinstance(v, bytes) == (f == 3)})
    found: list[tuple[str, str | None, bytes]] = []
    for fields in rows:
        key, explicit, data = fields.get(1), fields.get(2), fields.get(3)
        if not isinstance(key, int) or not isinstance(data, bytes):
            return None
        if key >= len(keys) or (isinstance(explicit, int) and explicit >= len(explicit_keys)):
            return None
        text = explicit_keys[explicit] if isinstance(explicit, int) else None
        if text is not None and not text.isdecimal():
            return None
        found.append((keys[key], text, data))
    return found


def read_fields(message: bytes) -> list[tuple[int, int | bytes]]:
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def read_varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = read_varint()
        if tag & 7 == 0:
            found.append((tag >> 3, read_varint()))
        else:
            length = read_varint()
            found.append((tag >> 3, message[at : at + length]))
            at += length
    return found
