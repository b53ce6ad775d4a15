"""KPL aggregation and deaggregation: every case of KCL's AggregatorUtil, and where we lose less than it does.

The aggregates are written here byte by byte, so that the library's own writer and reader cannot agree on a mistake.
"""

from __future__ import annotations

import hashlib
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sublet.protocol.aggregation import aggregate, deaggregate
from sublet.protocol.hash_keys import KeysInside, hash_key, keys_inside
from sublet.protocol.kpl_format import java_text
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.protocol.shard import FULL_RANGE, HASH_KEY_MAX, HashKeyRange

MAGIC = b"\xf3\x89\x9a\xc2"
MOMENT = datetime(2026, 1, 31, 8, tzinfo=UTC)
LOWER = HashKeyRange(0, 2**127 - 1)
UPPER = HashKeyRange(2**127, HASH_KEY_MAX)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def delimited(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def row(data: bytes, key: int = 0, explicit: int | None = None) -> bytes:
    fields = number(1, key) + (b"" if explicit is None else number(2, explicit)) + delimited(3, data)
    return delimited(3, fields)


KEY_A, KEY_B = delimited(1, b"a"), delimited(1, b"b")  # MD5 0cc1..., 92eb...: in LOWER, in UPPER
DATA = delimited(3, b"x")
EXPLICIT_5, EXPLICIT_9 = delimited(2, b"5"), delimited(2, b"9")
X, X_5, Y_5 = (b"x", "a", None, 0), (b"x", "a", "5", 0), (b"y", "a", "5", 1)


def fields(*content: bytes) -> bytes:
    """A record of just these fields."""
    return delimited(3, b"".join(content))


def framed(*message: bytes) -> bytes:
    payload = b"".join(message)
    return MAGIC + payload + hashlib.md5(payload, usedforsecurity=False).digest()


def stream_record(data: bytes, sequence_number: str = "7") -> StreamRecord:
    return StreamRecord(sequence_number, data, "outer", MOMENT)


INNER = framed(KEY_A, row(b"inner"))


def named(*cases: tuple[Any, ...]) -> list[Any]:
    """Cases whose last value is their test's name: why what is expected is right."""
    return [pytest.param(*values, id=because) for *values, because in cases]


Found = list[tuple[bytes, str | None, str | None, int]]


def user_records(data: bytes, hash_key_range: HashKeyRange | None = FULL_RANGE) -> Found:
    result = deaggregate([stream_record(data)], keys_inside(hash_key_range))
    assert all(r.stream_record.sequence_number == "7" for r in result.user_records)
    return [(r.data, r.partition_key, r.explicit_hash_key, r.sub_sequence_number) for r in result.user_records]


def plain(data: bytes) -> Found:
    return [(data, "outer", None, 0)]


@pytest.mark.parametrize(
    "data",
    named(
        (b"", "no magic"),
        (MAGIC[:3], "shorter than the magic"),
        (b"\xf3\x89\x9a\xc3" + framed(KEY_A, row(b"x"))[4:], "another magic"),
        (MAGIC, "nothing after the magic"),
        (MAGIC + b"0123456789abcdef", "16 bytes after the magic leave none for the message"),
        (framed(), "a message of 0 bytes, although its digest is right"),
        (framed(KEY_A, row(b"x"))[:-1] + b"\x00", "the digest does not match"),
        (framed(KEY_A, row(b"x"))[:-1], "cut short"),
        (framed(KEY_A, row(b"x")) + b"\x00", "a byte too many"),
        (framed(b"\xff\xff\xff"), "no protobuf"),
        (framed(KEY_A, row(b"x"), b"\x1a\x05"), "protobuf that ends in mid-field"),
        (framed(KEY_A, fields(number(1, 0))), "a record without data"),
        (framed(KEY_A, fields(DATA)), "a record without a partition key index"),
        (framed(KEY_A, row(b"x"), fields()), "an empty record after a good one"),
        (
            framed(KEY_A, fields(number(1, 0), DATA, delimited(4, b""))),
            "a tag without its key, which Java takes for no message at all",
        ),
        (
            framed(KEY_A, fields(number(1, 0), DATA, delimited(4, delimited(2, b"v"))), row(b"y")),
            "the same, with a value",
        ),
        (
            framed(KEY_A, EXPLICIT_5, fields(number(1, 0), number(2, 0), DATA, delimited(4, b""))),
            "and with an explicit hash key",
        ),
        (
            bytes.fromhex("f3899ac20a01611a0708001a01782200d896a960f15651e886afcc94d36e3b59"),
            "the same, as it was found beside KCL 3.5.1",
        ),
        (
            framed(KEY_A, KEY_B, fields(number(1, 0), number(1, 1), DATA), fields(DATA)),
            "one record has two indexes, the other none: two of each column, yet they do not line up",
        ),
        (
            framed(KEY_A, KEY_B, fields(delimited(1, b"\x00\x01"), DATA), fields(DATA)),
            "the same with two packed indexes, which a required field does not accept",
        ),
    ),
)
def test_data_that_is_no_valid_aggregate_is_a_plain_record(data: bytes) -> None:
    result = deaggregate([stream_record(data)], KeysInside(LOWER))
    assert user_records(data, LOWER) == plain(data)
    assert (result.dropped_out_of_range, result.delivered_whole) == (0, 0)


@pytest.mark.parametrize(
    "data",
    named(
        (framed(KEY_A, row(b"x"), row(b"y", key=1), row(b"z")), "index 1 in a table of 1"),
        (framed(row(b"x")), "index 0 in an empty table"),
        (framed(KEY_A, row(b"x", key=2**64 - 1)), "an index beyond the machine's integers"),
        (framed(KEY_A, row(b"x", key=2**32)), "an index that Java would cut down to 0"),
        (framed(KEY_A, row(b"x", explicit=0)), "an explicit hash key's index in an empty table"),
        (framed(KEY_A, delimited(2, b"12"), row(b"x", explicit=0), row(b"y", explicit=9)), "index 9 in a table of 1"),
        (framed(KEY_A, delimited(2, b"12"), row(b"x"), row(b"y", explicit=9)), "the same when only some have one"),
        (framed(KEY_A, delimited(2, b"twelve"), row(b"x", explicit=0)), "no digits"),
        (framed(KEY_A, delimited(2, b""), row(b"x", explicit=0)), "empty"),
        (framed(KEY_A, delimited(2, b"-1"), row(b"x", explicit=0)), "a sign"),
        (framed(KEY_A, delimited(2, "\u0661".encode()), row(b"x", explicit=0)), "a digit, but of another script"),
        (framed(KEY_A, delimited(2, b"\xff"), row(b"x", explicit=0)), "not even text"),
        (framed(KEY_A, delimited(2, b"9" * 5000), row(b"x", explicit=0)), "more digits than Python reads"),
    ),
)
@pytest.mark.parametrize("hash_key_range", [LOWER, FULL_RANGE, None])
def test_kcl_loses_the_rest_of_a_senseless_aggregate_and_we_deliver_it_whole(
    data: bytes, hash_key_range: HashKeyRange | None
) -> None:
    """KCL keeps the records before the bad one, drops it and all after it, and logs an error."""
    result = deaggregate([stream_record(data)], keys_inside(hash_key_range))
    assert user_records(data, hash_key_range) == plain(data)
    assert (result.dropped_out_of_range, result.delivered_whole) == (0, 1)


@pytest.mark.parametrize(
    ("data", "expected"),
    named(
        (framed(KEY_A, KEY_B, row(b"x"), row(b"", 1)), [X, (b"", "b", None, 1)], "the usual"),
        (framed(KEY_A), [], "a message without records is an aggregate of none"),
        (framed(delimited(9, b"unknown")), [], "the same, with nothing in it that we know"),
        (framed(KEY_A, EXPLICIT_5, row(b"x", 0, 0), row(b"y", 0, 0)), [X_5, Y_5], "each has an explicit hash key"),
        (framed(KEY_A, EXPLICIT_5, row(b"x"), row(b"y", 0, 0)), [X, Y_5], "only some have one"),
        (
            framed(
                KEY_A, EXPLICIT_5, delimited(2, b"6"), fields(number(1, 0), number(2, 0), number(2, 1), DATA), row(b"y")
            ),
            [(b"x", "a", "6", 0), (b"y", "a", None, 1)],
            "one names two and the other none: the last one counts",
        ),
        (framed(KEY_A, delimited(2, b"no number"), row(b"x")), [X], "a bad explicit hash key that no record uses"),
        (framed(KEY_A, fields(DATA, number(1, 0))), [X], "fields in another order"),
        (framed(row(b"x"), KEY_A), [X], "the table after the records"),
        (framed(KEY_A, fields(number(1, 0), delimited(3, b"old"), DATA)), [X], "data twice: the last one counts"),
        (
            framed(KEY_A, KEY_B, fields(number(1, 1), number(1, 0), DATA), row(b"y", 1)),
            [X, (b"y", "b", None, 1)],
            "an index twice: the last one counts",
        ),
        (framed(KEY_A, fields(number(1, 0), DATA, delimited(4, delimited(1, b"tag")))), [X], "tags are skipped"),
        (framed(KEY_A, number(9, 1), row(b"x")), [X], "unknown fields are skipped"),
        (framed(KEY_A, fields(b"\x08\x80\x00", DATA)), [X], "a varint longer than it need be"),
        (
            framed(delimited(1, b"a\xff"), row(b"x")),
            [(b"x", "a\ufffd", None, 0)],
            "a key that is not UTF-8, as Java reads it",
        ),
        (framed(delimited(1, b"\xed\xa0\x80"), row(b"x")), [(b"x", "\ufffd", None, 0)], "one that is a surrogate"),
        (framed(delimited(1, "é".encode()), row(b"x")), [(b"x", "é", None, 0)], "a key that is"),
        (framed(KEY_A, row(INNER)), [(INNER, "a", None, 0)], "an aggregate inside stays closed"),
    ),
)
def test_an_aggregate_gives_its_user_records_in_order(data: bytes, expected: Found) -> None:
    result = deaggregate([stream_record(data)], KeysInside(FULL_RANGE))
    assert user_records(data) == expected
    assert (result.dropped_out_of_range, result.delivered_whole) == (0, 0)


@pytest.mark.parametrize(
    ("data", "hash_key_range", "dropped"),
    named(
        (framed(KEY_A, row(b"x"), row(b"y")), LOWER, 0, "both inside"),
        (framed(KEY_A, row(b"x"), row(b"y")), UPPER, 2, "both below"),
        (framed(KEY_B, row(b"x")), LOWER, 1, "above"),
        (
            framed(KEY_A, KEY_B, row(b"x"), row(b"y"), row(b"z", 1)),
            LOWER,
            3,
            "the last one outside takes the others with it",
        ),
        (framed(KEY_A, KEY_B, row(b"x", 1), row(b"y")), LOWER, 2, "and so does the first"),
        (framed(KEY_A, KEY_B, row(b"x")), LOWER, 0, "a key that no record uses does not count"),
        (framed(KEY_A, EXPLICIT_9, row(b"x", 0, 0)), HashKeyRange(9, 9), 0, "both ends belong to the range"),
        (
            framed(KEY_A, EXPLICIT_9, row(b"x", 0, 0)),
            HashKeyRange(10, 99),
            1,
            "the explicit hash key counts, not the other",
        ),
        (framed(KEY_A, delimited(2, b"009"), row(b"x", 0, 0)), HashKeyRange(9, 9), 0, "leading zeros mean nothing"),
        (
            framed(KEY_B, EXPLICIT_9, row(b"x", 0, 0), row(b"y")),
            LOWER,
            2,
            "only some have one: the others count by their key",
        ),
        (framed(KEY_A, EXPLICIT_9, row(b"x", 0, 0), row(b"y")), LOWER, 0, "the same, inside"),
        (
            framed(KEY_A, delimited(2, str(2**128).encode()), row(b"x", 0, 0)),
            FULL_RANGE,
            1,
            "39 digits, and above every shard",
        ),
        (framed(KEY_A), UPPER, 0, "nothing in it, nothing dropped"),
    ),
)
def test_aggregate_with_a_hash_key_outside_the_shard_is_dropped_whole(
    data: bytes, hash_key_range: HashKeyRange, dropped: int
) -> None:
    everything = user_records(data, None)
    assert user_records(data, hash_key_range) == ([] if dropped else everything)
    assert deaggregate([stream_record(data)], keys_inside(hash_key_range)).dropped_out_of_range == dropped
    assert deaggregate([stream_record(data)], None).dropped_out_of_range == 0


def test_a_surrogate_in_a_partition_key_hashes_as_it_does_in_java() -> None:
    """As it was found beside KCL 3.5.1: one U+FFFD, which lies in the upper half; Python makes three of it."""
    data = bytes.fromhex("f3899ac20a03eda0801a0508001a01780130e3742f03e5d3afb0aeddf04513d2")
    assert user_records(data, UPPER) == [(b"x", "\ufffd", None, 0)]
    assert user_records(data, LOWER) == []


@pytest.mark.parametrize("line", Path(__file__).with_name("java_text.txt").read_text().splitlines())
def test_invalid_utf_8_is_decoded_as_java_does(line: str) -> None:
    """`bytes text`, both in hexadecimal: what String(bytes, UTF_8) of OpenJDK 17 makes of them, as UTF-8."""
    given, expected = line.split(" ")
    assert java_text(bytes.fromhex(given)).encode() == bytes.fromhex(expected)


def test_the_filter_asks_the_exact_digest() -> None:
    digest = int.from_bytes(hashlib.md5(b"a", usedforsecurity=False).digest(), "big")
    data = framed(KEY_A, row(b"x"))
    assert user_records(data, HashKeyRange(digest, digest))
    assert not user_records(data, HashKeyRange(digest + 1, HASH_KEY_MAX))
    assert not user_records(data, HashKeyRange(0, digest - 1))


def test_an_aggregate_outside_is_asked_about_again() -> None:
    lower = KeysInside(LOWER)
    for _ in range(2):
        data = framed(KEY_A, KEY_B, row(b"x"), row(b"y", 1))
        assert deaggregate([stream_record(data)], lower).dropped_out_of_range == 2


def test_the_filter_does_not_look_at_plain_records() -> None:
    assert user_records(b"plain", HashKeyRange(1, 1)) == plain(b"plain")


@pytest.mark.parametrize("many_keys", [True, False])
def test_however_many_there_are_each_has_its_position(many_keys: bool) -> None:
    keys = [str(n) if many_keys else "a" for n in range(5_000)]
    found = user_records(aggregate([(key, None, key.encode()) for key in keys]))
    assert found == [(key.encode(), key, None, n) for n, key in enumerate(keys)]


def test_deaggregated_record_equals_and_pickles_as_a_user_record() -> None:
    [found] = deaggregate([stream_record(b"x")], None).user_records
    same = UserRecord(b"x", "outer", 0, stream_record(b"x"))
    assert isinstance(found, UserRecord)
    assert (found, hash(found), repr(found)) == (same, hash(same), repr(same))
    with pytest.raises(AttributeError):
        found.data = b"y"  # type: ignore[misc]
    copied = pickle.loads(pickle.dumps(found))  # noqa: S301 -- our own bytes
    assert (copied, type(copied)) == (same, UserRecord)


def test_stream_records_stay_in_order_and_their_counts_add_up() -> None:
    inside, outside = framed(KEY_A, row(b"1"), row(b"2")), framed(KEY_B, row(b"x"), row(b"y"))
    senseless = framed(KEY_A, row(b"w", 5))
    stream = [inside, b"plain", outside, senseless, framed(KEY_A), senseless, outside, inside]
    result = deaggregate([stream_record(data, str(n)) for n, data in enumerate(stream)], KeysInside(LOWER))
    assert [(r.sequence_number, r.sub_sequence_number, r.data) for r in result.user_records] == [
        ("0", 0, b"1"),
        ("0", 1, b"2"),
        ("1", 0, b"plain"),
        ("3", 0, senseless),
        ("5", 0, senseless),
        ("7", 0, b"1"),
        ("7", 1, b"2"),
    ]
    assert result.dropped_out_of_range == 4
    assert result.delivered_whole == 2


@pytest.mark.parametrize(
    ("partition_key", "explicit", "expected"),
    [
        ("a", None, 0x0CC175B9C0F1B6A831C399E269772661),
        ("é", None, int.from_bytes(hashlib.md5("é".encode(), usedforsecurity=False).digest(), "big")),
        ("a", "0", 0),
        ("a", str(HASH_KEY_MAX), HASH_KEY_MAX),
    ],
)
def test_hash_key(partition_key: str, explicit: str | None, expected: int) -> None:
    assert hash_key(partition_key, explicit) == expected


def test_aggregate_writes_the_kpls_bytes_with_each_key_once() -> None:
    written = aggregate([("b", None, b"x"), ("a", "12", b"y"), ("b", "12", b"")])
    assert written == framed(KEY_B, KEY_A, delimited(2, b"12"), row(b"x", 0), row(b"y", 1, 0), row(b"", 0, 0))


def test_aggregate_refuses_to_pack_no_records() -> None:
    with pytest.raises(ValueError, match="at least one user record"):
        aggregate([])
