"""An aggregate's bytes: `F3 89 9A C2`, an AggregatedRecord, and the MD5 of its bytes.

What does not prove to be one is a plain record, by the rules of KCL's AggregatorUtil. The messages are
declared in `kpl_messages`, which also says what the columns are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError

from sublet.protocol.kpl_messages import (
    AggregatedRecord,
    parse_aggregated_record,
    parse_columns,
    parse_strict_aggregated_record,
    serialize,
)

MAGIC = b"\xf3\x89\x9a\xc2"
DIGEST_SIZE = 16

OVERHEAD = len(MAGIC) + DIGEST_SIZE
"""Bytes of an aggregate beyond its message."""


class Contents(NamedTuple):
    """Two tables of keys, and three columns with an entry for each user record. Indexes are unchecked."""

    partition_key_table: Sequence[bytes]
    explicit_hash_key_table: Sequence[bytes]
    partition_key_indexes: Sequence[int]
    explicit_hash_key_indexes: Sequence[int | None]
    """Empty when no user record has an explicit hash key."""
    data: Sequence[bytes]


def write_aggregate(
    partition_keys: Sequence[str],
    explicit_hash_keys: Sequence[str],
    rows: Sequence[tuple[int, int | None, bytes]],
) -> bytes:
    """The aggregate of both tables and, for each user record, its indexes into them and its data."""
    payload = serialize(
        [key.encode() for key in partition_keys], [key.encode() for key in explicit_hash_keys], rows
    )
    return MAGIC + payload + _digest(payload)


def read_aggregate(data: bytes) -> Contents | None:
    """The contents of an aggregate, or None for whatever is a plain record to KCL. Raises on no bytes."""
    if len(data) <= OVERHEAD or not data.startswith(MAGIC):
        return None
    payload = data[len(MAGIC) : -DIGEST_SIZE]
    if _digest(payload) != data[-DIGEST_SIZE:]:
        return None
    try:
        return _read_columns(payload) or _read_records(payload)
    except DecodeError:
        return None


def _digest(payload: bytes) -> bytes:
    return hashlib.md5(payload, usedforsecurity=False).digest()


def _read_columns(payload: bytes) -> Contents | None:
    """The contents if the columns prove to line up: as many entries as records, and no record lacks one."""
    count = _count(parse_aggregated_record(payload))
    columns = parse_columns(payload)
    records = columns.records
    indexes, explicit, data = records.partition_key_index, records.explicit_hash_key_index, records.data
    if not count == len(indexes) == len(data):
        return None
    if explicit and not count == len(explicit) == _count(parse_strict_aggregated_record(payload)):
        return None
    # A slice is a list, made in one step and free of the message.
    tables = columns.partition_key_table[:], columns.explicit_hash_key_table[:]
    return Contents(*tables, indexes[:], explicit[:], data[:])


def _count(message: AggregatedRecord) -> int | None:
    """How many records; None if one lacks a required field. Returning frees the message's memory."""
    return len(message.records) if message.IsInitialized() else None


def _read_records(payload: bytes) -> Contents | None:
    """The same, record by record, for the rest: only some have an explicit hash key, or a field twice."""
    message = parse_aggregated_record(payload)
    if not message.IsInitialized():
        return None
    return Contents(
        message.partition_key_table,
        message.explicit_hash_key_table,
        [r.partition_key_index for r in message.records],
        [
            r.explicit_hash_key_index if r.HasField("explicit_hash_key_index") else None
            for r in message.records
        ],
        [r.data for r in message.records],
    )
