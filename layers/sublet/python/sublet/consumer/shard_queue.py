"""One shard's records on their way to whoever pulls: offered by its session, buffered, out, done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sublet.decisions.acknowledging import Acknowledging
from sublet.handler import Batch
from sublet.protocol.records import UserRecord


class Entry(NamedTuple):
    """A record, and how it is checkpointed: by the batch that it came in."""

    record: UserRecord
    checkpoint: Callable[[UserRecord], object]
    size: int


@dataclass(slots=True)
class Totals:
    """Over all of a buffer's queues. `records` and `bytes`: admitted, and not out yet; `unfinished_bytes`: of all that is not
    done."""

    records: int = 0
    bytes: int = 0
    unfinished_bytes: int = 0


class ShardQueue:
    """From the lease's acquiring to its release. Not safe for threads: its buffer has the lock.

    entries    by number: what is admitted and not finished
    ready      numbers of what may be handed out for the first time, in order
    again      numbers of what is to be handed out again, in order, before anything that is ready
    is_open    False: the lease is gone, and what is said of its records counts for nothing
    is_cut     a batch was not admitted whole, and nothing after it may be
    is_in_line it has, or may have, something to hand out, and its buffer knows
    """

    def __init__(self, shard_id: str, totals: Totals) -> None:
        self.shard_id = shard_id
        self.totals = totals
        self.acknowledging = Acknowledging()
        self.entries: dict[int, Entry] = {}
        self.ready: deque[int] = deque()
        self.again: deque[int] = deque()
        self.is_open = True
        self.is_cut = False
        self.is_in_line = False
        self.batch: Batch | None = None
        """The last one offered."""
        self._admitted = 0
        self._to_checkpoint: Entry | None = None

    @property
    def pending(self) -> int:
        """Admitted, and beyond what is finished without a gap."""
        return self._admitted - self.acknowledging.finished.length

    @property
    def is_idle(self) -> bool:
        """All that was admitted is done."""
        return self.pending == 0

    @property
    def has_next(self) -> bool:
        return bool(self.ready or self.again)

    def admit(self, record: UserRecord, checkpoint: Callable[[UserRecord], object], size: int) -> None:
        """Into the buffer, as the last."""
        number = self._admitted
        self._admitted += 1
        self.entries[number] = Entry(record, checkpoint, size)
        self.ready.append(number)
        self.totals.records += 1
        self.totals.bytes += size
        self.totals.unfinished_bytes += size

    def void(self) -> None:
        """The lease is gone."""
        self.is_open = False
        while self.ready:
            self._unbuffer(self.ready[0])
        numbers = [number for number in self.entries if number not in self.acknowledging.finished]
        self.totals.unfinished_bytes -= sum(self.entries[number].size for number in numbers)

    def next(self) -> int | None:
        """The number of the next record to hand out, which stays where it is. What is of a key that waits joins it."""
        if self.again:
            return self.again[0]
        while self.ready:
            number = self.ready[0]
            key = self.entries[number].record.partition_key
            if key not in self.acknowledging.held:
                return number
            self._unbuffer(number)
            self.acknowledging = self.acknowledging.hold(number, key)
        return None

    def hand_out(self, number: int, until: datetime) -> int:
        """The one that `next` has told; which attempt it is."""
        if self.again and self.again[0] == number:
            self.again.popleft()
        else:
            self._unbuffer(number)
        key = self.entries[number].record.partition_key
        self.acknowledging = self.acknowledging.hand_out(number, key, until)
        return self.acknowledging.out[number].attempt

    def _unbuffer(self, number: int) -> None:
        self.ready.popleft()
        self.totals.records -= 1
        self.totals.bytes -= self.entries[number].size

    def ack(self, number: int, attempt: int) -> bool:
        before = self.acknowledging.finished.length
        if not self._become(self.acknowledging.ack(number, attempt)):
            return False
        self.totals.unfinished_bytes -= self.entries[number].size
        for done in range(before, self.acknowledging.finished.length):
            self._to_checkpoint = self.entries.pop(done)
        return True

    def nak(self, number: int, attempt: int, again_at: datetime) -> bool:
        after = self.acknowledging.nak(number, attempt, again_at)
        if after is not None:  # what of its key was to come again at once waits too
            key = self.entries[number].record.partition_key
            after = self._hold_again(after, key)
        return self._become(after)

    def _hold_again(self, after: Acknowledging, key: str) -> Acknowledging:
        for number in [n for n in self.again if self.entries[n].record.partition_key == key]:
            self.again.remove(number)
            after = after.hold(number, key)
        return after

    def in_progress(self, number: int, attempt: int, until: datetime) -> bool:
        return self._become(self.acknowledging.in_progress(number, attempt, until))

    def _become(self, after: Acknowledging | None) -> bool:
        if after is None or not self.is_open:
            return False
        self.acknowledging = after
        return True

    def look(self, now: datetime) -> int:
        """Have what is due come again. How many were forgotten."""
        after, forgotten = self.acknowledging.forget(now)
        for key in {self.entries[n].record.partition_key for n in forgotten}:
            after = self._hold_again(after, key)
        self.acknowledging, again = after.come_again(now)
        self.again.extend(again)
        return len(forgotten)

    def to_checkpoint(self) -> Entry | None:
        """The last of what is finished without a gap, once: None if that has been told already."""
        entry, self._to_checkpoint = self._to_checkpoint, None
        return entry
