"""Walks protobuf's wire format from field to field, without knowing the fields' meaning."""

from __future__ import annotations

KEYS, EXPLICIT_HASH_KEYS, RECORDS = 0x0A, 0x12, 0x1A
"""The tags of AggregatedRecord's fields 1 to 3."""

_VARINT, _FIXED_64, _DELIMITED, _GROUP, _GROUP_END, _FIXED_32 = 0, 1, 2, 3, 4, 5


class WalkFailed(Exception):
    """These bytes are not protobuf fields."""


def field_at(data: bytes, at: int) -> tuple[int, bool, int, int]:
    """The field's number, whether it is delimited, where its content begins (for a delimited field, at its length), and
    where the next field begins. Raises WalkFailed, or IndexError beyond the data's end.
    """
    tag, content = _varint(data, at)
    kind = tag & 7
    return tag >> 3, kind == _DELIMITED, content, _after(data, kind, content)


def delimited_at(data: bytes, content: int) -> tuple[int, int]:
    """Where a delimited field's bytes begin and end, from the offset of its length."""
    length, first = _varint(data, content)
    return first, first + length


def _after(data: bytes, kind: int, content: int) -> int:
    if kind == _VARINT:
        return _varint(data, content)[1]
    if kind == _DELIMITED:
        return delimited_at(data, content)[1]
    if kind == _GROUP:
        return _after_group(data, content)
    if kind in (_FIXED_32, _FIXED_64):
        return content + (4 if kind == _FIXED_32 else 8)
    raise WalkFailed


def _after_group(data: bytes, at: int) -> int:
    """The offset after the group's end. The parser checks whether the group's numbers match."""
    depth = 1
    while depth:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _GROUP:
            depth += 1
        elif kind == _GROUP_END:
            depth -= 1
        else:
            at = _after(data, kind, at)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The value and the offset after it."""
    value = shift = 0
    while (byte := data[at]) > 0x7F:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:  # ten bytes at most
            raise WalkFailed
    return value | byte << shift, at + 1
