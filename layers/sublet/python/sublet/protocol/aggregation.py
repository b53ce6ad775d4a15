"""KPL aggregation: many user records in one stream record, and back.

Deaggregation follows KCL's AggregatorUtil, except where KCL loses user records for a fault of their producer:
at a table index or an explicit hash key that makes no sense it stops reading, and the rest of the aggregate
is gone. Here the stream record is then delivered whole, as one plain record, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import count, repeat
from operator import itemgetter
from typing import NamedTuple

from sublet.protocol.kpl_format import DIGEST_SIZE, MAGIC, OVERHEAD, Contents, read_aggregate, write_aggregate
from sublet.protocol.records import RowUserRecord, StreamRecord, UserRecord
from sublet.protocol.shard import FULL_RANGE, HashKeyRange

try:
    # The interpreter's own MD5: for a partition key, half the time of hashlib's, which is OpenSSL's.
    from _md5 import md5 as _md5  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from hashlib import md5 as _md5

KPL_MAX_BYTES = 51_200
"""The KPL's default AggregationMaxSize, in bytes of the finished stream record."""

KEYS_KNOWN_MAX = 16_384
"""Partition keys remembered to hash into a range: some 2 MB."""

_EXPLICIT_HASH_KEY = re.compile(rb"[0-9]{1,39}")
"""Kinesis: decimal, at most 39 digits. KCL would also read a sign, other scripts' digits, and any length."""

_NO_EXPLICIT_HASH_KEYS: dict[int | None, str | None] = {None: None}


def hash_key(partition_key: str, explicit_hash_key: str | None) -> int:
    """What places a record in a shard: its explicit hash key, or else the MD5 of its partition key."""
    if explicit_hash_key is not None:
        return int(explicit_hash_key)
    return int.from_bytes(_md5(partition_key.encode()).digest(), "big")  # noqa: S324 -- Kinesis' choice


class Deaggregation(NamedTuple):
    """The user records of some stream records, in order, and what happened on the way."""

    user_records: list[UserRecord]
    dropped_out_of_range: int
    """User records dropped by KCL's rule: one hash key outside the shard's range discards the whole aggregate.

    After a reshard the KPL sees in the reply that it predicted the wrong shard, and sends them again.
    """
    delivered_whole: int
    """Aggregates with a table index or explicit hash key that makes no sense, each now one plain record."""


def deaggregate(
    stream_records: Iterable[StreamRecord],
    hash_key_range: HashKeyRange | None,
    known_inside: set[str] | None = None,
) -> Deaggregation:
    """All user records, in order. Raises on no bytes.

    Loses nothing but by KCL's rule (see `dropped_out_of_range`), and a range of None switches that rule off.
    `known_inside`: partition keys that have proved to hash into this very range, at most KEYS_KNOWN_MAX. It is read and added
    to, so that whoever keeps it from call to call pays for the MD5 of a recurring key once.
    An aggregate inside an aggregate is not expanded. An aggregate of no user records gives none: what is
    checkpointed must follow the stream records, not these.
    """
    user_records: list[UserRecord] = []
    dropped = delivered_whole = 0
    for record in stream_records:
        contents = read_aggregate(record.data) if record.data.startswith(MAGIC) else None
        if contents is None:
            user_records.append(_plain(record))
            continue
        explicit_hash_keys = _explicit_hash_keys(contents)
        rows = None if explicit_hash_keys is None else _rows(record, contents, explicit_hash_keys)
        if explicit_hash_keys is None or rows is None:
            user_records.append(_plain(record))
            delivered_whole += 1
        elif hash_key_range is None or _is_inside(hash_key_range, contents, explicit_hash_keys, known_inside):
            user_records.extend(map(RowUserRecord, rows))
        else:
            dropped += len(contents.data)
    return Deaggregation(user_records, dropped, delivered_whole)


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


def aggregate_columns(
    data: bytes, hash_key_range: HashKeyRange | None, known_inside: set[str] | None = None
) -> AggregateColumns | Whole | OutOfRange:
    """What `deaggregate` makes of one stream record's data, by the same rules, as columns. Raises on no bytes."""
    contents = read_aggregate(data)
    if contents is None:
        return Whole.PLAIN
    by_index = _explicit_hash_keys(contents)
    indexes = contents.partition_key_indexes
    if by_index is None or max(indexes, default=-1) >= len(contents.partition_key_table):
        return Whole.DAMAGED
    if hash_key_range is not None and not _is_inside(hash_key_range, contents, by_index, known_inside):
        return OutOfRange(len(contents.data))
    explicit = list(map(by_index.__getitem__, contents.explicit_hash_key_indexes))
    return AggregateColumns(contents.data, contents.partition_key_table, indexes, explicit)


def _plain(record: StreamRecord) -> UserRecord:
    plain: UserRecord = RowUserRecord((record.data, record.partition_key, None, 0, record))
    return plain


def _explicit_hash_keys(contents: Contents) -> dict[int | None, str | None] | None:
    """Those in use, by index (None: has none). None if an index points nowhere, or at what is not decimal."""
    if not contents.explicit_hash_key_indexes:
        return _NO_EXPLICIT_HASH_KEYS
    table = contents.explicit_hash_key_table
    by_index: dict[int | None, str | None] = {None: None}
    for index in set(contents.explicit_hash_key_indexes):
        if index is not None:
            if index >= len(table) or not _EXPLICIT_HASH_KEY.fullmatch(table[index]):
                return None
            by_index[index] = table[index].decode()
    return by_index


def _rows(
    record: StreamRecord, contents: Contents, explicit_hash_keys: dict[int | None, str | None]
) -> Iterator[tuple[object, ...]] | None:
    """What to make the user records of, or None if a partition key's index points nowhere.

    Column by column in C, with no step of Python for each record.
    """
    indexes, explicit_indexes = contents.partition_key_indexes, contents.explicit_hash_key_indexes
    try:
        keys = _at(indexes, contents.partition_key_table)
    except IndexError:
        return None
    explicit = map(explicit_hash_keys.__getitem__, explicit_indexes) if explicit_indexes else repeat(None)
    return zip(contents.data, keys, explicit, count(), repeat(record), strict=False)  # two have no end


def _at(indexes: Sequence[int], table: Sequence[str]) -> Sequence[str]:
    """The table's entries at the indexes, in one step: a getter of one alone would give no tuple."""
    return itemgetter(*indexes)(table) if len(indexes) > 1 else [table[index] for index in indexes]


def _is_inside(
    hash_key_range: HashKeyRange,
    contents: Contents,
    explicit_hash_keys: dict[int | None, str | None],
    known_inside: set[str] | None,
) -> bool:
    """Whether every user record's hash key is in the range."""
    if not all(int(text) in hash_key_range for text in explicit_hash_keys.values() if text is not None):
        return False
    table = contents.partition_key_table
    if hash_key_range == FULL_RANGE or (known_inside and known_inside.issuperset(table)):
        return True
    indexes = contents.partition_key_indexes
    if contents.explicit_hash_key_indexes:
        indexes = [i for i, e in zip(indexes, contents.explicit_hash_key_indexes, strict=True) if e is None]
    used = set(indexes)
    keys = table if len(used) == len(table) else [table[index] for index in used]
    return _hash_into(hash_key_range, keys, set() if known_inside is None else known_inside)


def _hash_into(hash_key_range: HashKeyRange, keys: Sequence[str], known_inside: set[str]) -> bool:
    """Whether the MD5 of every key is in the range. Big-endian digests are in order as bytes too."""
    new = [key for key in keys if key not in known_inside] if known_inside else keys
    starting, ending = (end.to_bytes(DIGEST_SIZE, "big") for end in hash_key_range)
    digests = [_md5(key.encode()).digest() for key in new]  # noqa: S324 -- Kinesis' choice
    if digests and not (starting <= min(digests) and max(digests) <= ending):
        return False
    if len(known_inside) + len(new) > KEYS_KNOWN_MAX:
        known_inside.clear()
    known_inside.update(new[:KEYS_KNOWN_MAX])
    return True


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
