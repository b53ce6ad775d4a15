"""Messages that Java's protobuf accepts and ours does not: a field's tag, or a length, beyond 32 bits.

Java drops the upper bits; ours treats the message as corrupt, and the stream record is a plain one. No writer makes
such a varint: the bytes must have been changed before their digest was computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

VARINT_BYTES_MAX = 10
LOWEST_32_BITS = 2**32 - 1
VARINT, FIXED_64, DELIMITED, GROUP, END_GROUP, FIXED_32 = range(6)
FIXED = {FIXED_64: 8, FIXED_32: 4}


class Kind(NamedTuple):
    """A message's fields that are messages."""

    fields: Mapping[int, Kind]


TAG = Kind({})
RECORD = Kind({4: TAG})
AGGREGATED_RECORD = Kind({3: RECORD})


class _Corrupt(Exception):
    """Corrupt for Java too."""


def as_java_reads(message: bytes) -> bytes:
    """The message with each tag and length as Java reads it; unchanged if it is corrupt for Java too."""
    try:
        return b"".join(_Reader(message).fields(AGGREGATED_RECORD))
    except _Corrupt:
        return message


def varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


class _Reader:
    def __init__(self, message: bytes) -> None:
        self._message = message
        self._at = 0

    def fields(self, kind: Kind, group: int | None = None) -> Iterator[bytes]:
        """Up to the end, or to the end of the group."""
        while self._at < len(self._message) or group is not None:
            tag = self._number() & LOWEST_32_BITS
            yield varint(tag)
            if tag == (group or 0) << 3 | END_GROUP and group is not None:
                return
            yield from self._value(tag >> 3, tag & 7, kind)

    def _value(self, field: int, wire_type: int, kind: Kind) -> Iterator[bytes]:
        if wire_type == VARINT:
            start = self._at
            self._number()
            yield self._message[start : self._at]
        elif wire_type == DELIMITED:
            content = self._take(self._number() & LOWEST_32_BITS)
            inner = kind.fields.get(field)
            read = content if inner is None else b"".join(_Reader(content).fields(inner))
            yield varint(len(read)) + read
        elif wire_type == GROUP:
            yield from self.fields(Kind({}), field)
        elif wire_type in FIXED:
            yield self._take(FIXED[wire_type])
        else:
            raise _Corrupt

    def _number(self) -> int:
        value = 0
        for shift in range(VARINT_BYTES_MAX):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                return value
        raise _Corrupt

    def _take(self, count: int) -> bytes:
        taken = self._message[self._at : self._at + count]
        if len(taken) < count:
            raise _Corrupt
        self._at += count
        return taken
