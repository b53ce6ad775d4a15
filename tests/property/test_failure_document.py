"""Any content of a queue or a bucket is read completely, or is not a document."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import starmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sublet.protocol.failure_document import Failure, SetAsideBatch, messages, object_bytes
from sublet.protocol.failure_document_read import NotADocument, batch_of_message, batch_of_object
from sublet.protocol.records import StreamRecord, UserRecord

AT = datetime(2026, 1, 31, 8, tzinfo=UTC)
RECORDS = (
    UserRecord(plain := b"data", "key", 0, StreamRecord("101", plain, "key", AT)),
    UserRecord(b"in an aggregate", "other", 3, StreamRecord("102", b"whole", "key", AT), "7"),
)
BATCH = SetAsideBatch(
    "orders",
    "events",
    None,
    "shardId-0",
    RECORDS,
    "RetryAttemptsExhausted",
    3,
    AT,
    "item/invocation",
    "orders:handle",
    Failure("ValueError", "orders.py:7", "text"),
)
DOCUMENT = json.loads(messages(BATCH)[0].body)
LINES = [json.loads(line) for line in gzip.decompress(object_bytes(BATCH)).splitlines()]

Path = tuple[str | int, ...]


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    """The paths to all values in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def changed(value: Any, path: Path, to: object) -> Any:
    value = deepcopy(value)
    *above, last = path
    inside = value
    for key in above:
        inside = inside[key]
    inside[last] = to
    return value


ODD = [
    None,
    True,
    -1,
    2**70,
    1e400,
    0.5,
    "",
    "abc",
    "-7",
    "\ud800",
    "9" * 5_000,
    "SHARD_END",
    "YWJj=",
    "2026-13-45T00:00:00Z",
    "2026-01-31T08:00:00",
    "0001-01-01T00:00:00+14:00",
    [],
    ["abc"],
    {},
    {"a": None},
]


def check(read: SetAsideBatch) -> None:
    """It can be sorted, dated, handed over in any contract, and stored again."""
    assert read.place.size == len(read.records) > 0
    assert all(isinstance(AT - record.approximate_arrival_timestamp, timedelta) for record in read.records)
    assert all(record.checkpoint.is_sequence_number for record in read.records)
    assert batch_of_message(messages(read)[0].body) == read


@pytest.mark.parametrize("path", list(paths(DOCUMENT)), ids=str)
def test_a_message_with_any_field_changed_is_read_whole_or_not_at_all(path: Path) -> None:
    for odd in ODD:
        with suppress(NotADocument):
            check(batch_of_message(json.dumps(changed(DOCUMENT, path, odd))))


@pytest.mark.parametrize("path", list(paths(LINES)), ids=str)
def test_an_object_with_any_field_changed_is_read_whole_or_not_at_all(path: Path) -> None:
    for odd in ODD:
        lines = changed(LINES, path, odd)
        with suppress(NotADocument):
            check(batch_of_object(gzip.compress("\n".join(map(json.dumps, lines)).encode())))


@given(st.data())
def test_bytes_that_were_changed_on_the_way_are_read_whole_or_not_at_all(data: st.DataObject) -> None:
    whole = bytearray(object_bytes(BATCH))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    with suppress(NotADocument):
        check(batch_of_object(bytes(whole[: data.draw(st.integers(0, len(whole)))])))


PLACES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), st.booleans()), min_size=1, unique=True).map(sorted)


@given(PLACES, PLACES)
def test_batches_are_identical_only_if_they_hold_the_same_records(
    one: list[tuple[int, int, bool]], other: list[tuple[int, int, bool]]
) -> None:
    identities = [replace(BATCH, records=tuple(starmap(record_at, places))).identity for places in (one, other)]
    assert (identities[0] == identities[1]) == (one == other)


def record_at(number: int, sub: int, is_aggregated: bool) -> UserRecord:
    whole = b"whole" if is_aggregated else plain
    return UserRecord(plain, "key", sub, StreamRecord(str(number), whole, "key", AT))


def test_message_with_endless_brackets_is_no_document() -> None:
    with pytest.raises(NotADocument, match="not JSON"):
        batch_of_message("[" * 100_000)


def test_document_keeps_an_error_text_of_invalid_unicode() -> None:
    """An exception may quote a file name whose bytes are not valid Unicode."""
    body = json.dumps(changed(DOCUMENT, ("sublet", "error", "text"), "\udcff"))
    assert batch_of_message(body).failure == Failure("ValueError", "orders.py:7", "\udcff")
