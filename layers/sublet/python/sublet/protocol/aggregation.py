"""KPL aggregation: many user records in one stream record, and back.

Deaggregation follows KCL's AggregatorUtil, except where KCL loses user records through a fault of their producer: at an
invalid table index or explicit hash key KCL stops reading, and the rest of the aggregate is lost. Here such a stream
record is delivered whole, as one plain record, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.kpl_format import (
    EXPLICIT_HASH_KEY,
    MAGIC,
    MAGIC_BYTES,
    Contents,
    TooMany,
    read_aggregate,
    read_aggregate_of,
    write_aggregate,
)
from sublet.protocol.large_aggregate import LARGE_BYTES, LARGE_USER_RECORDS, LargeAggregate, prove
from sublet.protocol.records import StreamRecord, UserRecord

KPL_MAX_BYTES = 51_200
"""The KPL's default AggregationMaxSize, in bytes of the finished stream record."""

_POSITIONS = list(range(4096))
"""Shared by all aggregates."""

_NO_EXPLICIT_HASH_KEYS: dict[int | None, str | None] = {None: None}


class Deaggregation(Struct, frozen=True):
    """The user records of some stream records, in order, and counts of what was not delivered as usual."""

    user_records: list[UserRecord]
    dropped_out_of_range: int
    """User records dropped by KCL's rule: one hash key outside the shard's range discards the whole aggregate. After a
    reshard the KPL sees in the reply that it predicted the wrong shard, and sends them again.
    """
    delivered_whole: int
    """Aggregates with an invalid table index or explicit hash key, each delivered as one plain record."""
    piece_bytes: int = 0
    """Bytes, if this is a piece of a large aggregate."""


_NOTHING_YET = Deaggregation([], 0, 0)
ALL = 2**63

AS_ONE = 10
"""An aggregate of up to this many times `at_once` user records is not read in pieces, because that reads it twice."""


MayDrop = Callable[[StreamRecord], bool]
"""Whether an aggregate outside the shard's hash key range may be dropped."""


def as_kcl(_: StreamRecord) -> bool:
    """KCL drops every such aggregate."""
    return True


def deaggregate(stream_records: Iterable[StreamRecord], inside: KeysInside | None) -> Deaggregation:
    """All user records, in order. Never raises, whatever the bytes.

    Loses nothing except by KCL's rule (see `dropped_out_of_range`). `inside` is the shard's hash key range; None
    switches the rule off. Keep one per shard from call to call: a recurring partition key is then hashed only once.

    An aggregate inside an aggregate is not expanded. An aggregate without user records yields none, so checkpoints must
    follow the stream records, not these.
    """
    found = tuple(deaggregated(stream_records, inside, at_once=ALL))
    return Deaggregation(
        found[0].user_records if len(found) == 1 else [record for some in found for record in some.user_records],
        sum(some.dropped_out_of_range for some in found),
        sum(some.delivered_whole for some in found),
    )


def deaggregated(
    stream_records: Iterable[StreamRecord],
    inside: KeysInside | None,
    at_once: int,
    may_drop: MayDrop = as_kcl,
) -> Iterator[Deaggregation]:
    """Expands the records in parts, each made on demand.

    A part ends once it has `at_once` user records. Plain records do not count, since they exist already. An aggregate
    that is large (`large_aggregate`), or has many times `at_once` user records, is expanded a piece at a time. It
    returns nothing before all of it is proved, so some parts are empty. `may_drop` is called for each aggregate that is
    out of range.
    """
    user_records: list[UserRecord] = []
    dropped = delivered_whole = 0
    large = min(LARGE_USER_RECORDS, AS_ONE * at_once)
    for record in stream_records:
        data = record.data
        if data[:MAGIC_BYTES] != MAGIC:  # `startswith` would take half of the time that plain records take
            user_records.append(UserRecord(data, record.partition_key, 0, record))
            continue
        contents = read_aggregate_of(data, large, LARGE_BYTES)
        made: Iterator[UserRecord] | None = None
        if contents is TooMany.TOO_MANY:
            yield Deaggregation(user_records, dropped, delivered_whole)
            yield from _large(record, inside, may_drop)
            user_records, dropped, delivered_whole = [], 0, 0
        elif (
            contents is None
            or (explicit_hash_keys := _explicit_hash_keys(contents)) is None
            or (made := _user_records(record, contents, explicit_hash_keys)) is None
        ):
            delivered_whole += contents is not None
            user_records.append(UserRecord(data, record.partition_key, 0, record))
        elif inside is None or _is_inside(inside, contents, explicit_hash_keys) or not may_drop(record):
            user_records.extend(made)
        else:
            dropped += len(contents.data)
        if len(user_records) >= at_once:
            contents = made = None  # frees them: they may be large, and the caller may be slow
            yield Deaggregation(user_records, dropped, delivered_whole)
            user_records, dropped, delivered_whole = [], 0, 0
    yield Deaggregation(user_records, dropped, delivered_whole)


def _large(record: StreamRecord, inside: KeysInside | None, may_drop: MayDrop) -> Iterator[Deaggregation]:
    steps = prove(record.data, inside)
    while True:
        try:
            next(steps)
        except StopIteration as proved:
            found: LargeAggregate | None = proved.value
            break
        yield _NOTHING_YET
    if found is None or found.is_damaged:
        whole = UserRecord(record.data, record.partition_key, 0, record)
        yield Deaggregation([whole], 0, int(found is not None), len(record.data))
    elif found.is_outside and may_drop(record):
        yield Deaggregation([], found.user_records, 0)
    else:
        for made, size in found.runs(record):
            yield Deaggregation(made, 0, 0, size)


class AggregateColumns(NamedTuple):
    """An aggregate's user records as columns, one entry for each record, in order; every index into the table is
    valid.
    """

    data: Sequence[bytes]
    partition_key_table: Sequence[str]
    partition_key_indexes: Sequence[int]
    explicit_hash_keys: Sequence[str | None]
    """The list is empty if no user record has an explicit hash key."""


class WholeReason(Enum):
    """Why a stream record is delivered as one plain record."""

    PLAIN = "plain"
    DAMAGED = "damaged"
    """An aggregate with an invalid table index or explicit hash key (`delivered_whole`)."""


class OutOfRange(NamedTuple):
    """An aggregate dropped by KCL's rule (`dropped_out_of_range`)."""

    user_records: int


def aggregate_columns(data: bytes, inside: KeysInside | None) -> AggregateColumns | WholeReason | OutOfRange:
    """Deaggregates one stream record's data by the rules of `deaggregate`, into columns. Never raises, whatever the
    bytes.
    """
    contents = read_aggregate(data)
    if contents is None:
        return WholeReason.PLAIN
    by_index = _explicit_hash_keys(contents)
    indexes = contents.partition_key_indexes
    if by_index is None or max(indexes, default=-1) >= len(contents.partition_key_table):
        return WholeReason.DAMAGED
    if inside is not None and not _is_inside(inside, contents, by_index):
        return OutOfRange(len(contents.data))
    explicit = list(map(by_index.__getitem__, contents.explicit_hash_key_indexes))
    return AggregateColumns(contents.data, contents.partition_key_table, indexes, explicit)


def _explicit_hash_keys(contents: Contents) -> dict[int | None, str | None] | None:
    """The explicit hash keys in use, by index (None: no key). None if an index is out of range or a key is not
    decimal.
    """
    if not contents.explicit_hash_key_indexes:
        return _NO_EXPLICIT_HASH_KEYS
    table = contents.explicit_hash_key_table
    by_index: dict[int | None, str | None] = {None: None}
    for index in set(contents.explicit_hash_key_indexes):
        if index is not None:
            if index >= len(table) or not EXPLICIT_HASH_KEY.fullmatch(table[index]):
                return None
            by_index[index] = table[index].decode()
    return by_index


def _user_records(
    record: StreamRecord, contents: Contents, explicit_hash_keys: dict[int | None, str | None]
) -> Iterator[UserRecord] | None:
    """The user records as a lazy iterator, or None if a partition key's index is out of range.

    Made from columns in C, without a step of Python per record.
    """
    indexes, explicit_indexes = contents.partition_key_indexes, contents.explicit_hash_key_indexes
    try:
        keys = _at(indexes, contents.partition_key_table)
    except IndexError:
        return None
    columns = contents.data, keys, _positions(len(indexes)), repeat(record)
    if not explicit_indexes:
        return map(UserRecord, *columns)
    return map(UserRecord, *columns, map(explicit_hash_keys.__getitem__, explicit_indexes))


def _positions(number: int) -> Iterable[int]:
    return _POSITIONS if number <= len(_POSITIONS) else range(number)


def _at(indexes: Sequence[int], table: Sequence[str]) -> Sequence[str]:
    """The table's entries at the indexes, in one step. itemgetter with a single index would not return a tuple."""
    if len(indexes) == len(table) and indexes == _POSITIONS[: len(indexes)]:
        return table  # a key for each record
    return itemgetter(*indexes)(table) if len(indexes) > 1 else [table[index] for index in indexes]


def _is_inside(inside: KeysInside, contents: Contents, explicit_hash_keys: dict[int | None, str | None]) -> bool:
    """Whether every user record's hash key is in the range."""
    table, indexes = contents.partition_key_table, contents.partition_key_indexes
    explicit = contents.explicit_hash_key_indexes
    if not explicit and inside.hold(table):
        return True
    if not all(int(text) in inside for text in explicit_hash_keys.values() if text is not None):
        return False
    # Entries of the table that place no user record do not count.
    placing = {i for i, e in zip(indexes, explicit, strict=True) if e is None} if explicit else set(indexes)
    return inside.hold([table[index] for index in placing])


def aggregate(records: Sequence[tuple[str, str | None, bytes]]) -> bytes:
    """A stream record's data, from (partition key, explicit hash key, data) of each user record, in order.

    At least one is required. Each key is written once, in the order of first use. Raises ValueError if there are none.
    """
    if not records:
        raise ValueError("an aggregate needs at least one user record: readers take an empty one for plain data")
    keys: dict[str, int] = {}
    explicit: dict[str, int] = {}
    rows = [
        (
            keys.setdefault(key, len(keys)),
            None if hash_ is None else explicit.setdefault(hash_, len(explicit)),
            data,
        )
        for key, hash_, data in records
    ]
    return write_aggregate(list(keys), list(explicit), rows)
