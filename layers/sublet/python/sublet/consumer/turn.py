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
    """A record that is out, or is as soon as it is taken: its place in its shard, and for the how-manieth time.

    One is made for each record: see sublet.protocol.records.
    """

    queue: ShardQueue
    number: int
    attempt: int
    record: UserRecord


@dataclass(slots=True, eq=False)
class Turn:
    """Not safe for threads but for `left.popleft()`: its buffer has the lock.

    first    the number of the first record
    size     how many records there are, or have been
    until    when those that were taken come again, unless something is said of them
    acks     each is done when the one after it is taken
    """

    queue: ShardQueue
    first: int
    size: int
    until: datetime
    acks: bool
    left: deque[Delivery]
    noted: int = 0
    """Of so many the queue knows that they were taken."""
    is_cut: bool = False
    """It ended with some left: no more were taken because it was over, not because there were none."""

    def note(self) -> None:
        """Have the queue know what was taken up to now."""
        taken = self.size - len(self.left)
        if taken > self.noted:
            start = self.first + self.noted
            self.queue.hand_out_row(start, self.first + taken, self.until, acks=self.acks)
            self.noted = taken

    def end(self) -> None:
        """What is left is not taken any more."""
        try:
            while True:
                self.left.pop()
                self.size -= 1
                self.is_cut = True
        except IndexError:
            self.note()


def begin(queue: ShardQueue, at_most: int, until: datetime, *, acks: bool) -> Turn | None:
    """Of the records that come next in the queue, where nothing is to come again."""
    first = queue.upcoming
    if at_most <= 0 or first == queue.admitted.end:
        return None
    piece = queue.admitted.piece(first)
    end = min(piece.end, first + at_most)
    records = piece.records(first, end)
    left = deque(map(Delivery, repeat(queue), range(first, end), repeat(1), records))
    return Turn(queue, first, end - first, until, acks, left)
