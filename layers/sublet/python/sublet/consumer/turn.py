"""Records that whoever pulls takes one after the other without asking, for as long as a turn lasts.

To ask for each record costs ten times what it takes to hand it over. So the buffer, asked for one record, leaves those that
follow in its shard in a deque, whose `popleft` is atomic: whoever pulls takes them without a lock, and the buffer, under its own,
knows by what is left which ones are out. Whatever changes what is to come next ends the turn first: what is left then was never
taken.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import repeat

from msgspec import Struct

from sublet.consumer.shard_queue import ShardQueue
from sublet.protocol.records import UserRecord

LASTS = timedelta(milliseconds=1)
"""A turn at most, so that `ack_wait` may be counted from its beginning, and a shard has no more than this before the next one."""

RECORDS = 500
"""Of a turn at most."""

FIRST_RECORDS = 8
"""Of the first turn, and by so much more than twice what was taken of the one before: what is left of it was made in vain."""


class Delivery(Struct, frozen=True, gc=False, eq=False):
    """A record that is out, or is as soon as it is taken: its place in its shard, and how often it has been handed out.

    One is made for each record: see sublet.protocol.records.
    """

    queue: ShardQueue
    number: int
    times: int
    record: UserRecord
    attempt: int = 1


@dataclass(slots=True, eq=False)
class Turn:
    """Not safe for threads but for `left.popleft()`: its buffer has the lock.

    first    the number of the first record
    end      the number after the last
    until    when those that were taken come again, unless something is said of them
    acks     each is done when the one after it is taken
    """

    queue: ShardQueue
    first: int
    end: int
    until: datetime
    acks: bool
    left: deque[Delivery]
    noted: int = 0
    """Of so many the queue knows that they were taken."""
    put_back: int = 0
    """So many were left when it ended: no more were taken because it was over, not because there were none."""

    def note(self) -> None:
        """Have the queue know what was taken up to now."""
        taken = self.end - self.first - self.put_back - len(self.left)
        if taken > self.noted:
            start = self.first + self.noted
            self.queue.hand_out_row(start, self.first + taken, self.until, acks=self.acks)
            self.noted = taken

    def finish(self) -> None:
        """What is left is not taken any more."""
        try:
            while True:
                self.left.pop()
                self.put_back += 1
        except IndexError:
            self.note()

    def mend(self) -> None:
        """After a change that an exception has cut in two: how many were taken is not known, so that all of it comes (again)."""
        self.left.clear()
        if self.queue.is_open:
            self.queue.upcoming = max(self.queue.upcoming, self.end)


class Turns:
    """The turn of the only one who pulls, if it lasts, and how long those before it were. Not safe for threads."""

    def __init__(self) -> None:
        self._turn: Turn | None = None
        self.usual = 0
        """So many records were taken in a turn, lately: in one that is cut short half as many at least."""

    def begin(
        self, queue: ShardQueue, at_most: int, until: datetime, *, acks: bool
    ) -> deque[Delivery] | None:
        """What may be taken of the queue, where nothing is to come again; None: nothing."""
        at_most = min(at_most, RECORDS, FIRST_RECORDS + 2 * self.usual)
        self._turn = _turn(queue, at_most, until, acks=acks)
        return None if self._turn is None else self._turn.left

    def note(self) -> None:
        """Before anything is asked that depends on what was taken."""
        if self._turn is not None:
            self._turn.note()

    def end(self) -> None:
        """Before anything is done that may change what comes next."""
        if self._turn is not None:
            self._turn.finish()
            known = self.usual // 2 if self._turn.put_back else self.usual
            self.usual = max(self._turn.noted, known)
            self._turn = None

    def mend(self) -> None:
        """After a change that an exception has cut in two."""
        if self._turn is not None:
            self._turn.mend()
            self._turn = None


def _turn(queue: ShardQueue, at_most: int, until: datetime, *, acks: bool) -> Turn | None:
    """Of the records that come next in the queue, where nothing is to come again."""
    first = queue.upcoming
    if at_most <= 0 or first == queue.admitted.end:
        return None
    piece = queue.admitted.piece(first)
    end = min(piece.end, first + at_most)
    records = piece.records(first, end)
    left = deque(map(Delivery, repeat(queue), range(first, end), repeat(1), records))
    return Turn(queue, first, end, until, acks, left)
