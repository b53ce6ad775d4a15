"""A checkpoint: how far a shard has been handled, in KCL's terms and KCL's order.

The sequence number names a stream record; the sub-sequence number names a user record within it, if the stream record
is a KPL aggregate. Four sentinels stand for positions without a sequence number. The order is that of KCL's
ExtendedSequenceNumber: AT_TIMESTAMP < TRIM_HORIZON < LATEST < every sequence number < SHARD_END.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sublet.errors import MalformedCheckpoint

MAX_DIGITS = 129
"""Kinesis: a sequence number matches `0|([1-9]\\d{0,128})`."""

TAIL_LENGTH = 20

_SEQUENCE_NUMBER = re.compile(r"0|[1-9][0-9]{0,128}")


class Sentinel(StrEnum):
    """Positions without a sequence number, spelt as in the lease table."""

    AT_TIMESTAMP = "AT_TIMESTAMP"
    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    SHARD_END = "SHARD_END"


STARTING_SENTINELS = (Sentinel.AT_TIMESTAMP, Sentinel.TRIM_HORIZON, Sentinel.LATEST)
"""Where a lease may begin; SHARD_END is the only end."""

_RANK: Mapping[str, int] = {
    Sentinel.AT_TIMESTAMP.value: -3,
    Sentinel.TRIM_HORIZON.value: -2,
    Sentinel.LATEST.value: -1,
    Sentinel.SHARD_END.value: 1,
}
"""Before or after every sequence number, which has 0."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything up to and including (sequence_number, sub_sequence_number) has been handled.

    `sequence_number` is an unpadded decimal of at most 129 digits, or a sentinel; use `parse` for text from outside. A
    plain stream record has sub-sequence number 0.
    """

    sequence_number: str
    sub_sequence_number: int = 0

    @classmethod
    def parse(cls, sequence_number: str, sub_sequence_number: int = 0) -> Checkpoint:
        """Parses a lease row's two checkpoint attributes. Raises MalformedCheckpoint.

        A sentinel's sub-sequence number is dropped: Java writes 0, kcl-rust writes AT_TIMESTAMP's epoch millis there
        (`lease_row` keeps that time as the lease's start).
        """
        if sequence_number in _RANK:
            return cls(Sentinel(sequence_number).value, 0)
        if not _SEQUENCE_NUMBER.fullmatch(sequence_number):
            allowed = f"a sequence number of up to {MAX_DIGITS} digits or one of {', '.join(s.value for s in Sentinel)}"
            raise MalformedCheckpoint(f"checkpoint {sequence_number!r:.200} is not {allowed}")
        if sub_sequence_number < 0:
            raise MalformedCheckpoint(f"sub-sequence number {sub_sequence_number} is negative")
        return cls(sequence_number, sub_sequence_number)

    @property
    def sentinel(self) -> Sentinel | None:
        """The checkpoint as a sentinel; None if it is a sequence number."""
        return Sentinel(self.sequence_number) if self.sequence_number in _RANK else None

    @property
    def is_sequence_number(self) -> bool:
        return self.sequence_number not in _RANK

    @property
    def is_shard_end(self) -> bool:
        return self.sequence_number == Sentinel.SHARD_END

    @property
    def tail(self) -> str:
        """The checkpoint's last characters. No two checkpoints of a shard share them, so attributes name a checkpoint
        by them.
        """
        return str(self)[-TAIL_LENGTH:]

    # Each by one call: with functools.total_ordering three of them would cost two more, several times a batch.

    def __lt__(self, other: object) -> bool:
        return _is_before(self, other) if isinstance(other, Checkpoint) else NotImplemented

    def __le__(self, other: object) -> bool:
        return not _is_before(other, self) if isinstance(other, Checkpoint) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return _is_before(other, self) if isinstance(other, Checkpoint) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return not _is_before(self, other) if isinstance(other, Checkpoint) else NotImplemented

    def __str__(self) -> str:
        return (
            f"{self.sequence_number}:{self.sub_sequence_number}" if self.sub_sequence_number else self.sequence_number
        )


def _is_before(left: Checkpoint, right: Checkpoint) -> bool:
    """Decimals without padding are ordered by their length, then as text: a third of the time that `int` takes."""
    one, other = left.sequence_number, right.sequence_number
    if one == other:
        return left.sub_sequence_number < right.sub_sequence_number
    if one in _RANK or other in _RANK:
        return _RANK.get(one, 0) < _RANK.get(other, 0)
    return len(one) < len(other) or (len(one) == len(other) and one < other)


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """The first phase of a two-phase checkpoint (KCL's prepareCheckpoint): the future position, and the application's
    own state at that time. It stays in the lease's row until the next checkpoint of any owner.
    """

    checkpoint: Checkpoint
    state: bytes | None = None


AT_TIMESTAMP = Checkpoint(Sentinel.AT_TIMESTAMP.value)
TRIM_HORIZON = Checkpoint(Sentinel.TRIM_HORIZON.value)
LATEST = Checkpoint(Sentinel.LATEST.value)
SHARD_END = Checkpoint(Sentinel.SHARD_END.value)

STARTING_AT_A_MOMENT = (AT_TIMESTAMP, LATEST)
"""The checkpoints that `start_at` belongs to: it is the time asked for, or the time at which LATEST was first
opened.
"""
