"""A shard's records by number, from the first that is not finished to the last that was admitted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from sublet.decisions.pull_request import Ends
from sublet.handler import Batch
from sublet.protocol.records import UserRecord


def ends_of(records: Sequence[UserRecord]) -> Ends:
    """Their bytes, as Kinesis counts them: of data and partition keys."""
    sizes = [len(record.data) + len(record.partition_key or "") for record in records]
    return list(accumulate(sizes, initial=0))


class Piece(NamedTuple):
    """Records of one batch that follow each other: numbered from `first` up to `end`, and from `at` on in the batch."""

    first: int
    end: int
    at: int
    batch: Batch
    ends: Ends

    def place(self, number: int) -> int:
        """In the batch."""
        return number - self.first + self.at

    def record(self, number: int) -> UserRecord:
        return self.batch.records[self.place(number)]

    def records(self, start: int, end: int) -> Sequence[UserRecord]:
        return self.batch.records[self.place(start) : self.place(end)]

    def size(self, start: int, end: int) -> int:
        """Bytes of those that are its own."""
        start, end = max(start, self.first), min(end, self.end)
        return self.ends[self.place(end)] - self.ends[self.place(start)] if start < end else 0


class Admitted:
    """`end`: how many have been, and so the number of the next."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self.end = 0

    def add(self, batch: Batch, ends: Ends, at: int, count: int) -> None:
        """The batch's next `count` records, from `at` on."""
        end = self.end + count
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.batch is batch:
            self._pieces[-1] = last._replace(end=end)
        else:
            self._pieces.append(Piece(self.end, end, at, batch, ends))
        self.end = end

    def mend(self) -> None:
        """`end` follows from the last piece, of which alone it may be one behind."""
        if self._pieces:
            self.end = self._pieces[-1].end

    def admitted_of(self, batch: Batch) -> int:
        """How many records of it, if it is the last of which there are any."""
        last = self._pieces[-1] if self._pieces else None
        return last.place(last.end) if last is not None and last.batch is batch else 0

    def piece(self, number: int) -> Piece:
        """The one that it is in."""
        return self._pieces[self._index(number)]

    def record(self, number: int) -> UserRecord:
        return self.piece(number).record(number)

    def key(self, number: int) -> str:
        return self.record(number).order_key

    def size(self, start: int, end: int) -> int:
        """Bytes of the records from `start` up to `end`."""
        if start >= end:
            return 0
        first = self._index(start)
        if end <= self._pieces[first].end:
            return self._pieces[first].size(start, end)
        return sum(piece.size(start, end) for piece in self._pieces[first : self._index(end - 1) + 1])

    def forget(self, before: int) -> None:
        """Pieces that end before this number."""
        gone = self._index(before)
        if gone > 0:
            del self._pieces[:gone]

    def _index(self, number: int) -> int:
        return bisect_right(self._pieces, number, key=_first_of) - 1


def _first_of(piece: Piece) -> int:
    return piece.first
