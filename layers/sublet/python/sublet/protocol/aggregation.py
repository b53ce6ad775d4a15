"""KPL aggregation: many user records in one stream record, and back.

An aggregate is `F3 89 9A C2`, an AggregatedRecord (see `kpl_messages`), and the MD5 of its bytes. What does not prove to
be one is a plain record. The rules are those of KCL's AggregatorUtil, except where KCL loses user records for a fault of
their producer: at a table index or an explicit hash key that makes no sense it stops reading, and the rest of the
aggregate is gone. Here the stream record is then delivered whole, as one plain record, and counted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from typing import NamedTuple

from google.protobuf.message import DecodeError

from sublet.protocol.kpl_messages import (
    parse_aggregated_record,
    parse_columns,
    parse_strict_aggregated_record,
    serialize,
)
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.protocol.shard import FULL_RANGE, HashKeyRange

try:
    # The interpreter's own MD5 takes half of OpenSSL's time (hashlib's) for something as short as a partition key.
    from _md5 import md5 as _md5_of_key  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from hashlib import md5 as _md5_of_key

MAGIC = b"\xf3\x89\x9a\xc2"
DIGEST_SIZE = 16

KPL_MAX_BYTES = 51_200
"""The KPL's default AggregationMaxSize, in bytes of the finished stream record."""

_EXPLICIT_HASH_KEY = re.compile(rb"[0-9]{1,39}")
"""Kinesis: decimal, of at most 39 digits. KCL would also read a sign, digits of other scripts, and any length."""


def hash_key(partition_key: str, explicit_hash_key: str | None) -> int:
    """What places a record in a shard: the explicit hash key (decimal) if there is one, else MD5 of the partition key."""
    if explicit_hash_key is not None:
        return int(explicit_hash_key)
    return int.from_bytes(_md5_of_key(partition_key.encode()).digest(), "big")


# Deaggregation


@dataclass(frozen=True, slots=True)
class Deaggregation:
    """The user records of some stream records, in order, and what happened on the way."""

    user_records: list[UserRecord]
    dropped_out_of_range: int
    """User records dropped by KCL's rule: one hash key outside the shard's range discards its whole aggregate.

    After a reshard the KPL sees from the reply that it predicted the wrong shard and sends those user records again.
    """
    delivered_whole: int
    """Aggregates with a table index or explicit hash key that makes no sense, each delivered as one plain record."""


class _Contents(NamedTuple):
    """An aggregate as columns, with an entry for each user record; and the two tables that its indexes point into."""

    partition_key_table: Sequence[bytes]
    explicit_hash_key_table: Sequence[bytes]
    partition_key_indexes: Sequence[int]
    explicit_hash_key_indexes: Sequence[int | None]
    """Empty when no user record has an explicit hash key."""
    data: Sequence[bytes]


def deaggregate(stream_records: Iterable[StreamRecord], hash_key_range: HashKeyRange | None) -> Deaggregation:
    """All user records, in order. Raises on no bytes, and loses none but by KCL's rule; None switches that rule off.

    An aggregate in an aggregate is not expanded. An aggregate of no user records gives none: whoever checkpoints must
    count stream records, not these.
    """
    user_records: list[UserRecord] = []
    dropped = delivered_whole = 0
    for record in stream_records:
        contents = _read(record.data) if record.data.startswith(MAGIC) else None
        if contents is None:
            user_records.append(_plain(record))
            continue
        explicit_hash_keys = _explicit_hash_keys(contents)
        expanded = None if explicit_hash_keys is None else _expand(record, contents, explicit_hash_keys)
        if explicit_hash_keys is None or expanded is None:
            user_records.append(_plain(record))
            delivered_whole += 1
        elif hash_key_range is None or _is_inside(hash_key_range, contents, explicit_hash_keys):
            user_records += expanded
        else:
            dropped += len(expanded)
    return Deaggregation(user_records, dropped, delivered_whole)


def _plain(record: StreamRecord) -> UserRecord:
    return UserRecord(record.data, record.partition_key, None, 0, record)


def _read(data: bytes) -> _Contents | None:
    """The contents of an aggregate, or None for whatever KCL takes for a plain record. `data` starts with the magic."""
    payload = data[len(MAGIC) : -DIGEST_SIZE]
    if len(data) <= len(MAGIC) + DIGEST_SIZE or _digest(payload) != data[-DIGEST_SIZE:]:
        return None
    try:
        return _read_columns(payload) or _read_records(payload)
    except DecodeError:
        return None


def _digest(payload: bytes) -> bytes:
    return hashlib.md5(payload, usedforsecurity=False).digest()


def _read_columns(payload: bytes) -> _Contents | None:
    """The contents, if the columns prove to line up: as many entries in each as records, and every record has one."""
    columns = parse_columns(payload)
    indexes, data = columns.records.partition_key_index, columns.records.data
    explicit_indexes = columns.records.explicit_hash_key_index
    message = parse_strict_aggregated_record(payload) if explicit_indexes else parse_aggregated_record(payload)
    records = len(message.records)
    if not records == len(indexes) == len(data) or len(explicit_indexes) not in (0, records):
        return None
    if not message.IsInitialized():
        return None
    return _Contents(
        columns.partition_key_table, columns.explicit_hash_key_table, indexes, explicit_indexes, data
    )


def _read_records(payload: bytes) -> _Contents | None:
    """The same, record by record, for the rest: some records have an explicit hash key, or a field occurs twice."""
    message = parse_aggregated_record(payload)
    if not message.IsInitialized():
        return None
    return _Contents(
        message.partition_key_table,
        message.explicit_hash_key_table,
        [r.partition_key_index for r in message.records],
        [r.explicit_hash_key_index if r.HasField("explicit_hash_key_index") else None for r in message.records],
        [r.data for r in message.records],
    )


def _explicit_hash_keys(contents: _Contents) -> dict[int | None, str | None] | None:
    """Those in use, by index (and None for "has none"); None if an index points nowhere, or at what is not decimal."""
    table = contents.explicit_hash_key_table
    by_index: dict[int | None, str | None] = {None: None}
    for index in set(contents.explicit_hash_key_indexes):
        if index is not None:
            if index >= len(table) or not _EXPLICIT_HASH_KEY.fullmatch(table[index]):
                return None
            by_index[index] = table[index].decode()
    return by_index


def _expand(
    record: StreamRecord, contents: _Contents, explicit_hash_keys: dict[int | None, str | None]
) -> list[UserRecord] | None:
    """The user records, or None if a partition key's index points nowhere.

    Column by column in C, without a Python step for each record: zip makes each tuple, tuple.__new__ a UserRecord of it.
    """
    partition_keys = _texts(contents.partition_key_table)
    explicit_indexes = contents.explicit_hash_key_indexes
    columns = zip(
        contents.data,
        map(partition_keys.__getitem__, contents.partition_key_indexes),
        map(explicit_hash_keys.__getitem__, explicit_indexes) if explicit_indexes else repeat(None),
        count(),
        repeat(record),
        strict=False,
    )
    try:
        return list(map(tuple.__new__, repeat(UserRecord), columns))
    except IndexError:
        return None


def _texts(table: Sequence[bytes]) -> list[str]:
    """Partition keys as text; one that is not UTF-8 (Kinesis takes none, but aggregators do not ask) as Java reads it."""
    try:
        return list(map(bytes.decode, table))
    except UnicodeDecodeError:
        return [key.decode(errors="replace") for key in table]


def _is_inside(
    hash_key_range: HashKeyRange, contents: _Contents, explicit_hash_keys: dict[int | None, str | None]
) -> bool:
    """Whether every user record's hash key is in the range. Compares digests as bytes: big-endian keeps their order."""
    if not all(int(text) in hash_key_range for text in explicit_hash_keys.values() if text is not None):
        return False
    if hash_key_range == FULL_RANGE:
        return True
    indexes, table = contents.partition_key_indexes, contents.partition_key_table
    if contents.explicit_hash_key_indexes:
        indexes = [i for i, e in zip(indexes, contents.explicit_hash_key_indexes, strict=True) if e is None]
    starting, ending = (end.to_bytes(DIGEST_SIZE, "big") for end in hash_key_range)
    digests = [_md5_of_key(table[index]).digest() for index in set(indexes)]
    return not digests or (starting <= min(digests) and max(digests) <= ending)


# Aggregation


class RecordToPut(NamedTuple):
    """A user record on its way out."""

    partition_key: str
    explicit_hash_key: str | None
    data: bytes


class Aggregate(NamedTuple):
    """A stream record to put. Its keys are its first user record's, so that it lands in that one's shard."""

    partition_key: str
    explicit_hash_key: str | None
    data: bytes
    count: int


def aggregate(records: Sequence[tuple[str, str | None, bytes]]) -> bytes:
    """One stream record's data, from (partition key, explicit hash key, data) of each user record, in order.

    Each key is written once, in the order of first use. There must be a record: readers would take none for plain data.
    """
    if not records:
        raise ValueError("an aggregate needs at least one user record")
    keys: dict[str, int] = {}
    explicit: dict[str, int] = {}
    rows = [
        (
            keys.setdefault(key, len(keys)),
            None if hash_key is None else explicit.setdefault(hash_key, len(explicit)),
            data,
        )
        for key, hash_key, data in records
    ]
    payload = serialize([key.encode() for key in keys], [key.encode() for key in explicit], rows)
    return MAGIC + payload + _digest(payload)
