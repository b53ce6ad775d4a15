"""One shard's records on their way to whoever pulls: offered by its session, buffered, out, done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sublet.consumer.admitted import Admitted
from sublet.decisions.acknowledging import Acknowledging, Out
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
        return self.admitted.end - self.acknowledging.finished

    @property
    def is_idle(self) -> bool:
        """All that was admitted is done."""
        return self.pending == 0

    @property
    def has_next(self) -> bool:
        return self.upcoming < self.admitted.end or self.acknowledging.next_again() is not None

    def admit(self, batch: Batch, ends: Ends, at: int, count: int) -> None:
        """The batch's next records into the buffer, as the last."""
        size = ends[at + count] - ends[at]
        self.admitted.add(batch, ends, at, count)
        self.totals.records += count
        self.totals.bytes += size
        self._unfinish(size)

    def void(self) -> None:
        """The lease is gone. Whoever keeps one of its records keeps nothing else of it in memory."""
        self.is_open = False
        self._unbuffer(self.admitted.end)
        self._unfinish(-self._unfinished_bytes)
        self.acknowledging, self.admitted, self.batch = Acknowledging(), Admitted(), None
        self.upcoming = 0

    def next(self) -> int | None:
        """The number of the next record to hand out, which stays where it is. What is of a key that waits joins it."""
        acknowledging = self.acknowledging
        if acknowledging.is_in_order:
            return self.upcoming if self.upcoming < self.admitted.end else None
        if (again := acknowledging.next_again()) is not None:
            return again
        while (number := self.upcoming) < self.admitted.end:
            key = self.admitted.key(number)
            if not acknowledging.waits(key):
                return number
            self._unbuffer(number + 1)
            acknowledging.wait(number, key)
        return None

    def hand_out(self, number: int, until: datetime) -> Out:
        """The one that `next` has told."""
        if number >= self.upcoming:
            self._unbuffer(number + 1)
        return self.acknowledging.hand_out(number, self.admitted.key(number), until)

    def hand_out_row(self, start: int, end: int, until: datetime, *, acks: bool) -> None:
        """Those from `start` on, which come next, up to `end`. `acks`: all but the last of them are done, and the one before."""
        self._unbuffer(end)
        done = end - 1 if acks else start
        if acks:
            self.ack(start - 1, 1)
        keys = [record.order_key for record in self.admitted.piece(done).records(done, end)]
        self.acknowledging.hand_out_row(start, done, keys, until)
        self._finish(start, done)

    def _unbuffer(self, end: int) -> None:
        """Those up to `end`."""
        self.totals.records -= end - self.upcoming
        self.totals.bytes -= self.admitted.size(self.upcoming, end)
        self.upcoming = end

    def is_out(self, number: int, times: int) -> bool:
        return self.is_open and self.acknowledging.is_out(number, times)

    def ack(self, number: int, times: int) -> bool:
        if not (self.is_open and self.acknowledging.ack(number, times)):
            return False
        self._finish(number, number + 1)
        return True

    def _finish(self, start: int, end: int) -> None:
        self._unfinish(-self.admitted.size(start, end))
        self.admitted.forget(self.acknowledging.finished - 1)  # but for the one to checkpoint

    def _unfinish(self, size: int) -> None:
        self._unfinished_bytes += size
        self.totals.unfinished_bytes += size

    def nak(self, number: int, times: int, again_at: datetime) -> bool:
        return self.is_open and self.acknowledging.nak(number, times, again_at)

    def in_progress(self, number: int, times: int, until: datetime) -> bool:
        return self.is_open and self.acknowledging.in_progress(number, times, until)

    def to_checkpoint(self) -> tuple[Batch, UserRecord] | None:
        """The last of what is finished without a gap and its batch, once: None if that has been told already."""
        finished = self.acknowledging.finished
        if finished == self._checkpointed:
            return None
        self._checkpointed = finished
        piece = self.admitted.piece(finished - 1)
        return piece.batch, piece.record(finished - 1)

    def mend(self) -> None:
        """After a change that an exception has cut in two: what follows from what is admitted and done is made again. It adds its
        own to `totals`, which are zero."""
        self.admitted.mend()
        self.acknowledging.mend(self.upcoming, self.admitted.key)
        self._unfinished_bytes = self._checkpointed = 0  # told once more, since perhaps it was not
        self.totals.records += self.admitted.end - self.upcoming
        self.totals.bytes += self.admitted.size(self.upcoming, self.admitted.end)
        first, end = self.acknowledging.finished, self.admitted.end
        self._unfinish(
            sum(self.admitted.size(n, n + 1) for n in range(first, end) if not self.acknowledging.is_done(n))
        )
        self.is_in_line = False
