"""Records that an iterator takes without asking the buffer for each.

Asking the buffer for a record costs ten times as much as handing one over. So when a program asks for one record, the
buffer puts the next ones of the same shard into a deque. The iterator takes them with `popleft`, which is atomic and
needs no lock. The buffer, under its lock, sees from what is left which ones are out. Before it changes which record
comes next, it ends the prefetch: records that are left then were never handed out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import repeat

from msgspec import Struct

from sublet.protocol.records import UserRecord
from sublet.pull.shard_queue import ShardQueue

PREFETCH_LASTS = timedelta(milliseconds=1)
"""The longest that a prefetch lasts. So `ack_wait` may be counted from its beginning, and one shard delays the others
by no more.
"""

MAX_PREFETCH = 500
"""A prefetch has this many records at most."""

FIRST_PREFETCH = 8
"""The size of the first prefetch. A later one has this many more records than twice `PrefetchHistory.usual`: preparing
records that are then left over is wasted work.
"""


class Delivery(Struct, frozen=True, gc=False, eq=False):
    """A record as it is handed out, with its number in its shard's queue and how often it was handed out.

    One is made for each record: see sublet.protocol.records.
    """

    queue: ShardQueue
    number: int
    times: int
    record: UserRecord
    attempt: int = 1


@dataclass(slots=True, eq=False)
class Prefetch:
    """Records that one pull took at once. Not thread-safe, except for `left.popleft()`: the buffer's lock guards it.

    first    the number of its first record
    end      the number after its last
    until    when records that were taken come again, unless they are acknowledged
    acks     each record is done when the one after it is taken
    """

    queue: ShardQueue
    first: int
    end: int
    until: datetime
    acks: bool
    left: deque[Delivery]
    noted: int = 0
    """How many of the taken records the queue knows of."""
    put_back: int = 0
    """How many records were left when the prefetch was ended by the buffer, rather than by a program that wanted no
    more.
    """

    def note(self) -> None:
        """Report to the queue which records were taken since the last call."""
        taken = self.end - self.first - self.put_back - len(self.left)
        if taken > self.noted:
            start = self.first + self.noted
            self.queue.hand_out_row(start, self.first + taken, self.until, acks=self.acks)
            self.noted = taken

    def end_now(self) -> None:
        """End the prefetch: nothing more can be taken."""
        try:
            while True:
                self.left.pop()
                self.put_back += 1
        except IndexError:
            self.note()

    def repair(self) -> None:
        """Called after an interrupted change: it is unknown how many were taken, so all of them count as handed out."""
        self.left.clear()
        if self.queue.is_open:
            self.queue.upcoming = max(self.queue.upcoming, self.end)


class PrefetchHistory:
    """The current prefetch, if there is one, and how much the ones before it delivered. Not thread-safe."""

    def __init__(self) -> None:
        self._current: Prefetch | None = None
        self.usual = 0
        """How many records recent prefetches delivered. One that was cut short at most halves this."""

    def begin(self, queue: ShardQueue, at_most: int, until: datetime, *, acks: bool) -> deque[Delivery] | None:
        """Prefetch from a queue in which no record waits to come again. None if it has nothing."""
        at_most = min(at_most, MAX_PREFETCH, FIRST_PREFETCH + 2 * self.usual)
        self._current = _prefetch(queue, at_most, until, acks=acks)
        return None if self._current is None else self._current.left

    def note(self) -> None:
        """Call this before reading anything that depends on what was taken."""
        if self._current is not None:
            self._current.note()

    def end(self) -> None:
        """Call this before changing which record comes next."""
        if self._current is not None:
            self._current.end_now()
            known = self.usual // 2 if self._current.put_back else self.usual
            self.usual = max(self._current.noted, known)
            self._current = None

    def repair(self) -> None:
        """Repair the current prefetch after an interrupted change."""
        if self._current is not None:
            self._current.repair()
            self._current = None


def _prefetch(queue: ShardQueue, at_most: int, until: datetime, *, acks: bool) -> Prefetch | None:
    first = queue.upcoming
    if at_most <= 0 or first == queue.log.end:
        return None
    segment = queue.log.segment(first)
    end = min(segment.end, first + at_most)
    records = segment.records(first, end)
    left = deque(map(Delivery, repeat(queue), range(first, end), repeat(1), records))
    return Prefetch(queue, first, end, until, acks, left)
