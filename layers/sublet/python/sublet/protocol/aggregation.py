"""KPL aggregation: many user records in one stream record, and back.

Deaggregation follows KCL's AggregatorUtil, except where KCL loses user records for a fault of their producer:
at a table index or an explicit hash key that makes no sense it stops reading, and the rest of the aggregate
is gone. Here the stream record is then delivered whole, as one plain record, and counted.
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
    OVERHEAD,
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
"""Integers that need not be made again for each aggregate."""

_NOEXPLICIT_HASH_KEYS: dict[int | None, str | None] = {None: None}


class Deaggregation(Struct, frozen=True):
    """The user records of some stream records, in order, and what happened on the way."""

    user_records: list[UserRecord]
    dropped_out_of_range: int
    """User records dropped by KCL's rule: one hash key outside the shard's range discards the whole aggregate.

    After a reshard the KPL sees in the reply that it predicted the wrong shard, and sends them again.
    """
    delivered_whole: int
    """Aggregates with a table index or explicit hash key that makes no sense, each now one plain record."""
    piece_bytes: int = 0
    """Of a large aggregate, of which this is a piece."""


_NOTHING_YET = Deaggregation([], 0, 0)
ALL = 2**63

AS_ONE = 10
"""Times as many user records as are made at once: an aggregate of no more is not read in pieces, which would read it twice."""


MayDrop = Callable[[StreamRecord], bool]
"""Whether an aggregate out of the shard's hash key range may be dropped."""


def as_kcl(_: StreamRecord) -> bool:
    """KCL drops each."""
    return True


def deaggregate(stream_records: Iterable[StreamRecord], inside: KeysInside | None) -> Deaggregation:
    """All user records, in order. Raises on no bytes.

    Loses nothing but by KCL's rule (see `dropped_out_of_range`), which asks for the shard's hash key range, `inside`; None
    switches it off. Keep one for a shard from call to call: a partition key that recurs is then hashed once.
    An aggregate inside an aggregate is not expanded. An aggregate of no user records gives none: what is
    checkpointed must follow the stream records, not these.
    """
    found = tuple(deaggregated(stream_records, inside, at_once=ALL))
    return Deaggregation(
        found[0].user_records
        if len(found) == 1
        else [record for some in found for record in some.user_records],
        sum(some.dropped_out_of_range for some in found),
        sum(some.delivered_whole for some in found),
    )


def deaggregated(
    stream_records: Iterable[StreamRecord],
    inside: KeysInside | None,
    at_once: int,
    may_drop: MayDrop = as_kcl,
) -> Iterator[Deaggregation]:
    """The same in parts, each made when it is asked for: no more aggregates are taken apart once there are `at_once` user
    records, and of one that is large (`large_aggregate`), or many times as much, a piece at a time. A part may be empty: of
    such an aggregate nothing is given before all of it is proved, which takes its steps too. Plain records are not counted,
    since they are there already. `may_drop` is asked of each aggregate that is out of range.
    """
    user_records: list[UserRecord] = []
    dropped = delivered_whole = 0
    large = min(LARGE_USER_RECORDS, AS_ONE * at_once)
    for record in stream_records:
        if not record.data.startswith(MAGIC):
            user_records.append(UserRecord(record.data, record.partition_key, 0, record))
            continue
        contents = read_aggregate_of(record.data, large, LARGE_BYTES)
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
            user_records.append(UserRecord(record.data, record.partition_key, 0, record))
        elif inside is None or _is_inside(inside, contents, explicit_hash_keys) or not may_drop(record):
            user_records.extend(made)
        else:
            dropped += len(contents.data)
        if len(user_records) >= at_once:
            contents = made = None  # which may be much: who is given these may take long
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
    """An aggregate's user records as columns, an entry for each, in order; every index into the table is valid."""

    data: Sequence[bytes]
    partition_key_table: Sequence[str]
    partition_key_indexes: Sequence[int]
    explicit_hash_keys: Sequence[str | None]
    """Empty when no user record has one."""


class Whole(Enum):
    """A stream record that is delivered as one plain record."""

    PLAIN = "plain"
    DAMAGED = "damaged"
    """An aggregate with a table index or explicit hash key that makes no sense (`delivered_whole`)."""


class OutOfRange(NamedTuple):
    """An aggregate dropped by KCL's rule (`dropped_out_of_range`)."""

    user_records: int


def aggregate_columns(data: bytes, inside: KeysInside | None) -> AggregateColumns | Whole | OutOfRange:
    """What `deaggregate` makes of one stream record's data, by the same rules, as columns. Raises on no bytes."""
    contents = read_aggregate(data)
    if contents is None:
        return Whole.PLAIN
    by_index = _explicit_hash_keys(contents)
    indexes = contents.partition_key_indexes
    if by_index is None or max(indexes, default=-1) >= len(contents.partition_key_table):
        return Whole.DAMAGED
    if inside is not None and not _is_inside(inside, contents, by_index):
        return OutOfRange(len(contents.data))
    explicit = list(map(by_index.__getitem__, contents.explicit_hash_key_indexes))
    return AggregateColumns(contents.data, contents.partition_key_table, indexes, explicit)


def _explicit_hash_keys(contents: Contents) -> dict[int | None, str | None] | None:
    """Those in use, by index (None: has none). None if an index points nowhere, or at what is not decimal."""
    if not contents.explicit_hash_key_indexes:
        return _NOEXPLICIT_HASH_KEYS
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
    """The user records, yet to be made, or None if a partition key's index points nowhere.

    Made of columns in C, with no step of Python for each record.
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
    """The table's entries at the indexes, in one step: a getter of one alone would give no tuple."""
    if len(indexes) == len(table) and indexes == _POSITIONS[: len(indexes)]:
        return table  # a key for each record
    return itemgetter(*indexes)(table) if len(indexes) > 1 else [table[index] for index in indexes]


def _is_inside(
    inside: KeysInside, contents: Contents, explicit_hash_keys: dict[int | None, str | None]
) -> bool:
    """Whether every user record's hash key is in the range."""
    if not all(int(text) in inside for text in explicit_hash_keys.values() if text is not None):
        return False
    table, indexes = contents.partition_key_table, contents.partition_key_indexes
    explicit = contents.explicit_hash_key_indexes
    if not explicit and inside.hold(table):
        return True
    # An entry of the table that places no user record does not count.
    placing = {i for i, e in zip(indexes, explicit, strict=True) if e is None} if explicit else set(indexes)
    return inside.hold([table[index] for index in placing])


def aggregate(records: Sequence[tuple[str, str | None, bytes]]) -> bytes:
    """A stream record's data, from (partition key, explicit hash key, data) of each user record, in order.

    There must be one at least. Each key is written once, in the order of first use.
    """
    if not records:
        raise ValueError(
            "an aggregate needs at least one user record: readers take an empty one for plain data"
        )
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


class Aggregate(NamedTuple):
    """A stream record to put. Its keys are its first user record's, so that it lands in that one's shard."""

    partition_key: str
    explicit_hash_key: str | None
    data: bytes
    user_records: int


class Aggregator:
    """Collects user records into aggregates of at most `max_bytes`, as stream records, and of `max_count`.

    Keep one for each shard, chosen by `hash_key`: KCL drops an aggregate that holds a user record of another
    shard's. A user record too big for `max_bytes` makes an aggregate of its own, which is then larger.
    """

    def __init__(self, max_bytes: int = KPL_MAX_BYTES, max_count: int = 1_000_000) -> None:
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._start_afresh()

    def add(self, partition_key: str, explicit_hash_key: str | None, data: bytes) -> Aggregate | None:
        """Take one more user record; the aggregate of those before it, if it did not fit in with them."""
        finished = None
        size = self._added_size(partition_key, explicit_hash_key, data)
        if self._records and (self._size + size > self._max_bytes or len(self._records) == self._max_count):
            finished = self.flush()
            size = self._added_size(partition_key, explicit_hash_key, data)
        self._records.append((partition_key, explicit_hash_key, data))
        self._keys.setdefault(partition_key, len(self._keys))
        if explicit_hash_key is not None:
            self._explicit.setdefault(explicit_hash_key, len(self._explicit))
        self._size += size
        return finished

    def flush(self) -> Aggregate | None:
        """The aggregate of what is left; None when nothing is."""
        records = self._records
        self._start_afresh()
        return Aggregate(*records[0][:2], aggregate(records), len(records)) if records else None

    def _start_afresh(self) -> None:
        self._records: list[tuple[str, str | None, bytes]] = []
        self._keys: dict[str, int] = {}
        self._explicit: dict[str, int] = {}
        self._size = OVERHEAD

    def _added_size(self, partition_key: str, explicit_hash_key: str | None, data: bytes) -> int:
        """The bytes that this record would add: its own, and those of keys that the tables lack so far."""
        index = self._keys.get(partition_key)
        added = 0 if index is not None else _delimited(len(partition_key.encode()))
        record = 1 + _varint(len(self._keys) if index is None else index) + _delimited(len(data))
        if explicit_hash_key is not None:
            index = self._explicit.get(explicit_hash_key)
            added += 0 if index is not None else _delimited(len(explicit_hash_key.encode()))
            record += 1 + _varint(len(self._explicit) if index is None else index)
        return added + _delimited(record)


def _varint(value: int) -> int:
    """Bytes of a protobuf varint: seven bits in each."""
    return max(1, (value.bit_length() + 6) // 7)


def _delimited(length: int) -> int:
    """Bytes of a field of `length` bytes, with its tag and its length."""
    return 1 + _varint(length) + length
