"""Reads an aggregate that is too large to expand at once: proves and reads it in pieces.

A protobuf message may be cut between any two fields: each piece is a message itself, and their concatenation is the
whole. So pieces of PIECE bytes are read one after another, each as `kpl_format` reads a small aggregate. Only one needs
memory at a time: ten MB of the smallest user records would take 400 MB. A walk from field to field finds where to cut.
It also notes the offsets of the keys of both tables, which are left in place until a user record needs one.

Nothing is returned before all is proved, as in KCL: one malformed record, index or hash key concerns the whole
aggregate. So everything is read twice. All of it goes in steps of about PIECE, so that the caller can do something else
in between.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator, Sequence
from itertools import repeat

from msgspec import Struct

from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.kpl_format import (
    EMPTY,
    EXPLICIT_HASH_KEY,
    Contents,
    is_message,
    java_text,
    message_of,
    read_giant_record,
    read_message,
)
from sublet.protocol.protobuf_fields import EXPLICIT_HASH_KEYS, KEYS, RECORDS, WalkFailed, delimited_at, field_at
from sublet.protocol.records import StreamRecord, UserRecord

PIECE = 2**15
"""A piece has this many bytes: some 5,000 of the smallest user records, which take a millisecond or two."""

LARGE_BYTES = 2**20
"""An aggregate with more bytes is large. Producers' libraries write no more than this."""

LARGE_USER_RECORDS = 40_000
"""An aggregate with more user records is large too: as objects they take eight MB and more."""

KEYS_AS_TEXT_MAX = 2**16
"""Beyond this, partition keys are decoded again for each piece that needs them: as text they would take ten times the
room.
"""

_NOT_SHORT, _DELIMITED = 0x87, 2
"""Bits of a tag's first byte: whether it continues, and its wire type."""

Steps = Generator[None, None, "LargeAggregate | None"]


class LargeAggregate(Struct, frozen=True):
    """A proven aggregate.

    is_damaged  a table index or explicit hash key is invalid
    is_outside  a hash key is not in the shard's range
    """

    data: bytes
    pieces: Sequence[tuple[int, int]]
    partition_keys: KeyTable
    explicit_hash_keys: KeyTable
    user_records: int
    is_damaged: bool
    is_outside: bool

    def runs(self, record: StreamRecord) -> Iterator[tuple[list[UserRecord], int]]:
        """The user records in order, piece by piece, each with the piece's size in bytes. Not for a damaged
        aggregate.
        """
        position = 0
        for first, end in self.pieces:
            contents = _read_piece(self.data, first, end)
            assert contents is not None  # it was proved
            made = self._made(record, contents, position)
            position += len(made)
            yield made, end - first

    def _made(self, record: StreamRecord, contents: Contents, position: int) -> list[UserRecord]:
        indexes, explicit = contents.partition_key_indexes, contents.explicit_hash_key_indexes
        keys = self.partition_keys.texts(indexes)
        columns = (
            contents.data,
            map(keys.__getitem__, indexes),
            range(position, position + len(indexes)),
            repeat(record),
        )
        if not explicit:
            return list(map(UserRecord, *columns))
        explicit_keys: dict[int | None, str | None] = {None: None}
        explicit_keys |= {
            index: self.explicit_hash_keys[index].decode() for index in set(explicit) if index is not None
        }
        return list(map(UserRecord, *columns, map(explicit_keys.__getitem__, explicit)))


def prove(data: bytes, inside: KeysInside | None, piece: int = PIECE) -> Steps:
    """The aggregate, or None for a plain record by KCL's rules. Never raises, whatever the bytes."""
    message = message_of(data)
    if message is None:
        return None
    try:
        pieces, partition_keys, explicit_hash_keys = yield from _lay_out(data, *message, piece)
    except (WalkFailed, IndexError):
        return None
    proof = _Proof(KeyTable(data, partition_keys), KeyTable(data, explicit_hash_keys), inside)
    kept = []
    for first, end in pieces:
        contents = _read_piece(data, first, end)
        if contents is None:
            return None
        proof.add(contents)
        if contents.data:
            kept.append((first, end))
        yield
    return LargeAggregate(
        data,
        kept,
        proof.partition_keys,
        proof.explicit_hash_keys,
        proof.user_records,
        proof.is_damaged,
        proof.is_outside,
    )


def _lay_out(
    data: bytes, at: int, end: int, piece: int
) -> Generator[None, None, tuple[list[tuple[int, int]], array[int], array[int]]]:
    """Pieces of about `piece` bytes, a longer field alone; and the offset of each key of both tables, at its length.

    Raises WalkFailed or IndexError if the bytes are not fields. The fields found still have to be parsed.
    """
    pieces: list[tuple[int, int]] = []
    keys, explicit = array("I"), array("I")
    tables = {1: keys, 2: explicit}
    first = at
    while at < end:
        tag, length = data[at], data[at + 1]
        if tag & _NOT_SHORT == _DELIMITED and length < 0x80:  # nearly always
            after = at + 2 + length
            if tag == KEYS:
                keys.append(at + 1)
            elif tag == EXPLICIT_HASH_KEYS:
                explicit.append(at + 1)
        else:
            number, is_delimited, content, after = field_at(data, at)
            if is_delimited and number in tables:
                tables[number].append(content)
        if after - first > piece:
            if first < at:
                pieces.append((first, at))
                yield
            first = at
        at = after
    if at > end:
        raise WalkFailed
    if first < end:
        pieces.append((first, end))
    return pieces, keys, explicit


def _read_piece(data: bytes, first: int, end: int) -> Contents | None:
    payload = memoryview(data)[first:end]
    if end - first <= 2 * PIECE:
        return read_message(payload)
    number, is_delimited, content, _ = field_at(data, first)  # a longer field is alone
    if is_delimited and number == RECORDS >> 3:
        return _read_giant(data, content)
    return EMPTY if is_message(payload) else None


def _read_giant(data: bytes, content: int) -> Contents | None:
    """A record with large data, or with many tags, which take 14 times their size to parse at once."""
    first, end = delimited_at(data, content)
    layout = _lay_out(data, first, end, PIECE)
    try:
        while True:
            next(layout)
    except StopIteration as laid_out:
        parts: list[tuple[int, int]] = laid_out.value[0]
    except (WalkFailed, IndexError):
        return None
    view = memoryview(data)
    return read_giant_record(view[first:end], [view[start:stop] for start, stop in parts])


class KeyTable:
    """A table's keys, left in place in the aggregate."""

    def __init__(self, data: bytes, offsets: array[int]) -> None:
        self._data = data
        self._offsets = offsets
        self._texts: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, index: int) -> bytes:
        first, end = delimited_at(self._data, self._offsets[index])
        return self._data[first:end]

    def texts(self, indexes: Sequence[int]) -> Sequence[str] | dict[int, str]:
        """A mapping with at least the keys at those indexes, as text."""
        if self._texts is None and len(self) <= KEYS_AS_TEXT_MAX:
            self._texts = [java_text(self[index]) for index in range(len(self))]
        if self._texts is not None:
            return self._texts
        return {index: java_text(self[index]) for index in set(indexes)}


class _Proof:
    """What is proved about an aggregate so far, piece by piece."""

    def __init__(self, partition_keys: KeyTable, explicit_hash_keys: KeyTable, inside: KeysInside | None) -> None:
        self.partition_keys = partition_keys
        self.explicit_hash_keys = explicit_hash_keys
        self.user_records = 0
        self.is_damaged = self.is_outside = False
        self._inside = inside

    def add(self, contents: Contents) -> None:
        self.user_records += len(contents.data)
        self.is_damaged = self.is_damaged or not self._makes_sense(contents)
        if self._inside is not None and not self.is_damaged and not self.is_outside:
            self.is_outside = not self._holds(self._inside, contents)

    def _makes_sense(self, contents: Contents) -> bool:
        if max(contents.partition_key_indexes, default=-1) >= len(self.partition_keys):
            return False
        return all(
            index is None
            or (index < len(self.explicit_hash_keys) and EXPLICIT_HASH_KEY.fullmatch(self.explicit_hash_keys[index]))
            for index in set(contents.explicit_hash_key_indexes)
        )

    def _holds(self, inside: KeysInside, contents: Contents) -> bool:
        indexes, explicit = contents.partition_key_indexes, contents.explicit_hash_key_indexes
        if not all(int(self.explicit_hash_keys[index]) in inside for index in set(explicit) if index is not None):
            return False
        placing = {i for i, e in zip(indexes, explicit, strict=True) if e is None} if explicit else set(indexes)
        keys = self.partition_keys.texts(indexes)
        return inside.hold([keys[index] for index in placing])
