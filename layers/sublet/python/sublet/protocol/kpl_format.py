"""An aggregate's bytes: `F3 89 9A C2`, an AggregatedRecord, and the MD5 of its bytes.

Data that is not provably an aggregate is a plain record, by the rules of KCL's AggregatorUtil. `kpl_messages` declares
the messages and explains the columns.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Sequence
from enum import Enum

from google.protobuf.message import DecodeError, EncodeError
from msgspec import Struct

from sublet.protocol.kpl_messages import (
    Proof,
    parse_aggregated_record,
    parse_columns,
    parse_proof,
    parse_strict_proof,
    parse_tags,
    parse_untagged_record,
    serialize,
)

MAGIC = b"\xf3\x89\x9a\xc2"
MAGIC_BYTES = len(MAGIC)
DIGEST_SIZE = 16

OVERHEAD = MAGIC_BYTES + DIGEST_SIZE
"""Bytes of an aggregate beyond its message."""


EXPLICIT_HASH_KEY = re.compile(rb"[0-9]{1,39}")
"""Kinesis: decimal, at most 39 digits. KCL would also accept a sign, digits of other scripts, and any length."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_NO_UTF_8 = b"\xff"


class Contents(Struct, frozen=True):
    """Two tables of keys, and three columns with one entry per user record. Indexes are unchecked."""

    partition_key_table: Sequence[str]
    """Keys are text. A key that is not UTF-8 (Kinesis itself accepts none) is decoded as Java does it."""
    explicit_hash_key_table: Sequence[bytes]
    """The table is left unread, and empty, if no user record has an explicit hash key."""
    partition_key_indexes: Sequence[int]
    explicit_hash_key_indexes: Sequence[int | None]
    """The list is empty if no user record has an explicit hash key."""
    data: Sequence[bytes]


EMPTY = Contents((), (), (), (), ())


def write_aggregate(
    partition_keys: Sequence[str],
    explicit_hash_keys: Sequence[str],
    rows: Sequence[tuple[int, int | None, bytes]],
) -> bytes:
    """Builds an aggregate from both tables and, for each user record, its indexes into them and its data."""
    payload = serialize([key.encode() for key in partition_keys], [key.encode() for key in explicit_hash_keys], rows)
    return MAGIC + payload + _digest(payload)


class TooMany(Enum):
    """More user records or bytes than the limit, if it is an aggregate at all."""

    TOO_MANY = "too many"


def read_aggregate(data: bytes) -> Contents | None:
    """The contents of an aggregate, or None for a plain record by KCL's rules. Never raises, whatever the bytes."""
    message = message_of(data)
    return None if message is None else read_message(memoryview(data)[slice(*message)])


def read_aggregate_of(data: bytes, at_most: int, bytes_max: int) -> Contents | TooMany | None:
    """Reads an aggregate within limits: returns TOO_MANY, using little memory, if it has more user records or bytes."""
    if len(data) > bytes_max:
        return TooMany.TOO_MANY
    message = message_of(data)
    if message is None:
        return None
    payload = memoryview(data)[slice(*message)]
    return _read_columns(payload, at_most) or _read_records(payload)


def message_of(data: bytes) -> tuple[int, int] | None:
    """Where the message begins and ends, if the digest at the record's end is that of the message. It may still not be
    a message.
    """
    if len(data) <= OVERHEAD or not data.startswith(MAGIC):
        return None
    payload = memoryview(data)[MAGIC_BYTES:-DIGEST_SIZE]  # not a copy: MD5 and protobuf read from here
    return (MAGIC_BYTES, len(data) - DIGEST_SIZE) if _digest(payload) == data[-DIGEST_SIZE:] else None


def read_message(payload: bytes | memoryview) -> Contents | None:
    """The contents of a message, or of a part of one that begins and ends at a field; None if it is not a message."""
    contents = _read_columns(payload)
    return contents if isinstance(contents, Contents) else _read_records(payload)


def is_message(payload: memoryview) -> bool:
    """Whether a part without records parses as a message."""
    try:
        parse_proof(payload)
    except DecodeError:
        return False
    return True


def java_text(key: bytes) -> str:
    """Decodes UTF-8 as Java does: malformed bytes become U+FFFD as in Python, except for a surrogate, or its first two
    bytes, which Java takes for one malformed character and Python for several.
    """
    try:
        return key.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_NO_UTF_8, key).decode(errors="replace")


def _digest(payload: bytes | memoryview) -> bytes:
    return hashlib.md5(payload, usedforsecurity=False).digest()


def _read_columns(payload: bytes | memoryview, at_most: int = sys.maxsize) -> Contents | TooMany | None:
    """The contents, if the columns provably line up: as many entries as records, and no record lacks one."""
    try:
        count = _count(parse_proof(payload))
        if count > at_most:
            return TooMany.TOO_MANY
        if not count:
            return EMPTY
        columns = parse_columns(payload)
        records = columns.records
        explicit = records.explicit_hash_key_index[:]  # a slice is a list, made in one step
        if explicit and not len(explicit) == count == _count(parse_strict_proof(payload)):
            return None
    except (DecodeError, EncodeError):
        return None
    indexes, data = records.partition_key_index[:], records.data[:]
    if not count == len(indexes) == len(data):
        return None
    explicit_table = columns.explicit_hash_key_table[:] if explicit else ()
    return Contents(columns.partition_key_table[:], explicit_table, indexes, explicit, data)


def _count(message: Proof) -> int:
    """The number of records. Raises EncodeError if one lacks a required field.

    Serializing checks required fields in C, in a third of IsInitialized's time. Returning frees the message.
    """
    message.SerializeToString()
    return len(message.records)


def _read_records(payload: bytes | memoryview) -> Contents | None:
    """Reads record by record what the fast path cannot: a repeated field, explicit hash keys on some records only, odd
    keys.
    """
    try:
        message = parse_aggregated_record(payload)
        message.SerializeToString()
    except (DecodeError, EncodeError):
        return None
    explicit = [r.explicit_hash_key_index if r.HasField("explicit_hash_key_index") else None for r in message.records]
    if not any(index is not None for index in explicit):
        explicit = []
    return Contents(
        [java_text(key) for key in message.partition_key_table],
        message.explicit_hash_key_table[:] if explicit else (),
        [r.partition_key_index for r in message.records],
        explicit,
        [r.data for r in message.records],
    )


def read_giant_record(payload: memoryview, fields: Iterable[memoryview]) -> Contents | None:
    """One record with too many tags to parse them at once: its bytes, and the same bytes in parts that begin and end at
    a field.
    """
    try:
        record = parse_untagged_record(payload)
        for some in fields:
            parse_tags(some).SerializeToString()
    except (DecodeError, EncodeError):
        return None
    if not record.IsInitialized():
        return None
    explicit = [record.explicit_hash_key_index] if record.HasField("explicit_hash_key_index") else []
    return Contents((), (), [record.partition_key_index], explicit, [record.data])
