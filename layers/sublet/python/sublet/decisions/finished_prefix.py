"""What is finished of a row of things that are finished out of order: its longest finished beginning, and the pieces beyond it.

Only the beginning can be checkpointed. A piece beyond it counts when the gap before it is closed; until then whoever goes on with
the shard after us knows of it by what is noted beside the checkpoint (`protocol.finished_ahead`), or handles it again.
"""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct


class FinishedPrefix(Struct, frozen=True):
    """Of things numbered from 0 on, without gaps, in their order.

    length   the first so many are finished, and the one after them is not
    beyond   what else is finished: ranges [start, end), in order, no two of which touch, none of which touches the beginning

    `beyond` holds at most one range for two things under way: whoever hands things out bounds it, by handing out none that is
    further than so many beyond `length`.
    """

    length: int = 0
    beyond: tuple[tuple[int, int], ...] = ()

    def finish(self, start: int, end: int) -> FinishedPrefix:
        """With start, start + 1, ... end - 1 finished too. What is finished already may be finished again."""
        start = max(start, self.length)
        if start >= end:
            return self
        if start == self.length and not self.beyond:  # in order, as nearly always
            return FinishedPrefix(end)
        first = bisect_left(
            self.beyond, start, key=lambda known: known[1]
        )  # the first that touches, or is after
        last = bisect_left(self.beyond, end + 1, key=lambda known: known[0])  # the first that is wholly after
        if first < last:
            start, end = min(start, self.beyond[first][0]), max(end, self.beyond[last - 1][1])
        if start == self.length:
            return FinishedPrefix(end, self.beyond[last:])
        return FinishedPrefix(self.length, (*self.beyond[:first], (start, end), *self.beyond[last:]))

    def __contains__(self, number: int) -> bool:
        """Whether it is finished."""
        if number < self.length:
            return True
        at = bisect_left(self.beyond, number + 1, key=lambda known: known[1])
        return at < len(self.beyond) and self.beyond[at][0] <= number

    @property
    def finished(self) -> int:
        """How many are."""
        return self.length + sum(end - start for start, end in self.beyond)
