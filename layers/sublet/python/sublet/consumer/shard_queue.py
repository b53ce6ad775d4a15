"""One shard's records on their way to whoever pulls: offered by its session, buffered, out, done."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime

from sublet.consumer.admitted import Admitted
from sublet.decisions.acknowledging import Acknowledging
from sublet.decisions.pull_request import Ends
from sublet.handler import Batch
from sublet.protocol.records import UserRecord


@dataclass(slots=True)
class Totals:
    """Over all of a buffer's queues. `records` and `bytes`: admitted, and not out yet; `unfinished_bytes`: of all that is not
    done."""

    records: int = 0
    bytes: int = 0
    unfinished_bytes: int = 0


class ShardQueue:
    """From the lease's acquiring to its release. Not safe for threads: its buffer has the lock.

    admitted   by number: what is admitted and not finished
    upcoming   the number of the next record that was never out: what is admitted from there on is buffered
    again      numbers of what is to be handed out again, in order, before anything that is upcoming
    is_open    False: the lease is gone, and what is said of its records counts for nothing
    is_cut     a batch was not admitted whole, and nothing after it may be
    is_in_line it has, or may have, something to hand out, and its buffer knows
    """

    def __init__(self, shard_id: str, totals: Totals) -> None:
        self.shard_id = shard_id
        self.totals = totals
        self.acknowledging = Acknowledging()
        self.admitted = Admitted()
        self.upcoming = 0
        self.again: deque[int] = deque()
        self.is_open = True
        self.is_cut = False
        self.is_in_line = False
        self.batch: Batch | None = None
        """The last one offered."""
        self._unfinished_bytes = 0
        self._checkpointed = 0

    @property
    def pending(self) -> int:
        """Admitted, and beyond what is finished without a gap."""
        return self.admitted.end - self.acknowledging.finished.length

    @property
    def is_idle(self) -> bool:
        """All that was admitted is done."""
        return self.pending == 0

    @property
    def has_next(self) -> bool:
        return bool(self.again) or self.upcoming < self.admitted.end

    @property
    def is_in_order(self) -> bool:
        """Nothing is to come again, now or later, but what may yet be forgotten."""
        return not self.again and not self.acknowledging.held

    def admit(self, batch: Batch, ends: Ends, at: int, count: int) -> None:
        """The batch's next records into the buffer, as the last."""
        size = ends[at + count] - ends[at]
        self.admitted.add(batch, ends, at, count)
        self.totals.records += count
        self.totals.bytes += size
        self._unfinish(size)

    def void(self) -> None:
        """The lease is gone."""
        self.is_open = False
        self._unbuffer(self.admitted.end)
        self._unfinish(-self._unfinished_bytes)

    def next(self) -> int | None:
        """The number of the next record to hand out, which stays where it is. What is of a key that waits joins it."""
        if self.again:
            return self.again[0]
        while self.upcoming < self.admitted.end:
            number = self.upcoming
            held = self.acknowledging.held
            if not held or (key := self.admitted.key(number)) not in held:
                return number
            self._unbuffer(number + 1)
            self.acknowledging = self.acknowledging.hold(number, key)
        return None

    def hand_out(self, number: int, until: datetime) -> int:
        """The one that `next` has told; which attempt it is."""
        if self.again and self.again[0] == number:
            self.again.popleft()
        else:
            self._unbuffer(number + 1)
        self.acknowledging = self.acknowledging.hand_out(number, self.admitted.key(number), until)
        return self.acknowledging.out[number].attempt

    def hand_out_row(self, start: int, end: int, until: datetime, *, acks: bool) -> None:
        """Those from `start` on, which come next, up to `end`. `acks`: all but the last of them are done, and the one before."""
        self._unbuffer(end)
        done = end - 1 if acks else start
        if acks:
            self.ack(start - 1, 1)
        keys = [record.partition_key for record in self.admitted.piece(done).records(done, end)]
        self.acknowledging = self.acknowledging.hand_out_row(start, done, keys, until)
        self._finish(start, done)

    def _unbuffer(self, end: int) -> None:
        """Those up to `end`."""
        self.totals.records -= end - self.upcoming
        self.totals.bytes -= self.admitted.size(self.upcoming, end)
        self.upcoming = end

    def ack(self, number: int, attempt: int) -> bool:
        if not self._become(self.acknowledging.ack(number, attempt)):
            return False
        self._finish(number, number + 1)
        return True

    def _finish(self, start: int, end: int) -> None:
        self._unfinish(-self.admitted.size(start, end))
        self.admitted.forget(self.acknowledging.finished.length - 1)  # but for the one to checkpoint

    def _unfinish(self, size: int) -> None:
        self._unfinished_bytes += size
        self.totals.unfinished_bytes += size

    def nak(self, number: int, attempt: int, again_at: datetime) -> bool:
        after = self.acknowledging.nak(number, attempt, again_at)
        if after is not None:  # what of its key was to come again at once waits too
            after = self._hold_again(after, self.admitted.key(number))
        return self._become(after)

    def _hold_again(self, after: Acknowledging, key: str) -> Acknowledging:
        for number in [n for n in self.again if self.admitted.key(n) == key]:
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
        for key in {self.admitted.key(number) for number in forgotten}:
            after = self._hold_again(after, key)
        self.acknowledging, again = after.come_again(now)
        self.again.extend(again)
        return len(forgotten)

    def to_checkpoint(self) -> tuple[Batch, UserRecord] | None:
        """The last of what is finished without a gap and its batch, once: None if that has been told already."""
        finished = self.acknowledging.finished.length
        if finished == self._checkpointed:
            return None
        self._checkpointed = finished
        piece = self.admitted.piece(finished - 1)
        return piece.batch, piece.record(finished - 1)
