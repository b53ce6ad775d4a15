"""Progress of items that finish out of order: the finished prefix, and the finished ranges beyond it.

Only the prefix can be checkpointed. A range beyond it counts once the gap before it is closed. Until then the next
owner of the shard learns of it from the note beside the checkpoint (`protocol.finished_ahead`), or handles it again.
"""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct


class FinishedPrefix(Struct, frozen=True):
    """Items are numbered from 0, without gaps.

    length  the length of the finished prefix
    beyond  other finished items: sorted ranges [start, end) that touch neither each other nor the prefix

    `beyond` holds at most one range for every two items under way. The caller bounds its size by starting no item that
    is further beyond `length` than a limit.
    """

    length: int = 0
    beyond: tuple[tuple[int, int], ...] = ()

    def finish(self, start: int, end: int) -> FinishedPrefix:
        """Marks start, start + 1, ... end - 1 as finished. Items may be finished twice."""
        start = max(start, self.length)
        if start >= end:
            return self
        if start == self.length and not self.beyond:  # in order, as nearly always
            return FinishedPrefix(end)
        first = bisect_left(
            self.beyond, start, key=lambda known: known[1]
        )  # the first range that touches the items, or is after them
        last = bisect_left(self.beyond, end + 1, key=lambda known: known[0])  # the first range wholly after
        if first < last:
            start, end = min(start, self.beyond[first][0]), max(end, self.beyond[last - 1][1])
        if start == self.length:
            return FinishedPrefix(end, self.beyond[last:])
        return FinishedPrefix(self.length, (*self.beyond[:first], (start, end), *self.beyond[last:]))

    def __contains__(self, number: int) -> bool:
        if number < self.length:
            return True
        at = bisect_left(self.beyond, number + 1, key=lambda known: known[1])
        return at < len(self.beyond) and self.beyond[at][0] <= number

    @property
    def finished(self) -> int:
        """How many items are finished."""
        return self.length + sum(end - start for start, end in self.beyond)
