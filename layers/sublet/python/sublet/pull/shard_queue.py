"""One shard's records in a buffer: admitted, handed out, done.

A record's number is its place among the records that were admitted since the lease was acquired.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

from sublet.decisions.pull.acknowledging import AcknowledgmentState, OutstandingDelivery
from sublet.decisions.pull.pull_request import Ends
from sublet.handler import Batch
from sublet.protocol.records import UserRecord


@dataclass(slots=True)
class QueueTotals:
    """Sums over all of a buffer's queues.

    records, bytes    admitted, and not handed out yet
    unfinished_bytes  of every record that is not done
    """

    records: int = 0
    bytes: int = 0
    unfinished_bytes: int = 0


def ends_of(records: Sequence[UserRecord]) -> Ends:
    """Running totals of the records' bytes, as Kinesis counts them: data and partition keys."""
    sizes = [len(record.data) + len(record.partition_key or "") for record in records]
    return list(accumulate(sizes, initial=0))


class Segment(NamedTuple):
    """Consecutive records of one batch: numbers `first` up to `end`, which begin at `at` in the batch."""

    first: int
    end: int
    at: int
    batch: Batch
    ends: Ends

    def place(self, number: int) -> int:
        """The record's index in the batch."""
        return number - self.first + self.at

    def record(self, number: int) -> UserRecord:
        return self.batch.records[self.place(number)]

    def records(self, start: int, end: int) -> Sequence[UserRecord]:
        return self.batch.records[self.place(start) : self.place(end)]

    def size(self, start: int, end: int) -> int:
        """Bytes of the records from `start` up to `end` that are in this segment."""
        start, end = max(start, self.first), min(end, self.end)
        return self.ends[self.place(end)] - self.ends[self.place(start)] if start < end else 0


class RecordLog:
    """Admitted records by number, from the first unfinished one on. `end` is the number of the next one to be
    admitted.
    """

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._recent: Segment | None = None
        """The segment found last. Records are handed out in order, so it usually holds the next one too."""
        self.end = 0

    def add(self, batch: Batch, ends: Ends, at: int, count: int) -> None:
        """Append `count` records of the batch, beginning at index `at`."""
        end = self.end + count
        last = self._segments[-1] if self._segments else None
        if last is not None and last.batch is batch:
            self._segments[-1] = last._replace(end=end)
        else:
            self._segments.append(Segment(self.end, end, at, batch, ends))
        self.end = end

    def repair(self) -> None:
        """Called after an interrupted change: `end` may be one `add` behind the last segment."""
        if self._segments:
            self.end = self._segments[-1].end

    def admitted_of(self, batch: Batch) -> int:
        """How many of the batch's records are admitted. 0 unless it is the latest batch."""
        last = self._segments[-1] if self._segments else None
        return last.place(last.end) if last is not None and last.batch is batch else 0

    def segment(self, number: int) -> Segment:
        """The segment that holds this number."""
        recent = self._recent
        if recent is None or not recent.first <= number < recent.end:
            recent = self._recent = self._segments[self._index(number)]
        return recent

    def record(self, number: int) -> UserRecord:
        return self.segment(number).record(number)

    def key(self, number: int) -> str:
        return self.record(number).order_key

    def size(self, start: int, end: int) -> int:
        """Bytes of the records from `start` up to `end`."""
        if start >= end:
            return 0
        segment = self.segment(start)
        if end <= segment.end:
            return segment.size(start, end)
        spanned = self._segments[self._index(start) : self._index(end - 1) + 1]
        return sum(segment.size(start, end) for segment in spanned)

    def forget(self, before: int) -> None:
        """Drop the segments that end before this number."""
        if self._segments and before >= self._segments[0].end:
            del self._segments[: self._index(before)]
            self._recent = None

    def _index(self, number: int) -> int:
        return bisect_right(self._segments, number, key=_first_of) - 1


def _first_of(segment: Segment) -> int:
    return segment.first


class ShardQueue:
    """A shard's records while its lease is held. Not thread-safe: the buffer's lock guards it.

    log             the unfinished records, by number
    upcoming        the first number that was never handed out; from there on records are buffered
    is_open         False once the lease is gone: acks and naks of its records no longer count
    is_cut          only a part of a batch was admitted, so nothing after it may be admitted
    is_in_rotation  the queue is in its buffer's rotation, because it may have a record to hand out
    """

    def __init__(self, shard_id: str, totals: QueueTotals) -> None:
        self.shard_id = shard_id
        self.totals = totals
        self.acknowledging = AcknowledgmentState()
        self.log = RecordLog()
        self.upcoming = 0
        self.is_open = True
        self.is_cut = False
        self.is_in_rotation = False
        self.batch: Batch | None = None
        """The latest batch that was offered."""
        self._unfinished_bytes = 0
        self._checkpointed = 0

    @property
    def pending(self) -> int:
        """Admitted records beyond the finished prefix."""
        return self.log.end - self.acknowledging.finished

    @property
    def is_idle(self) -> bool:
        """True if every admitted record is done."""
        return self.pending == 0

    @property
    def has_next(self) -> bool:
        return self.upcoming < self.log.end or self.acknowledging.next_again() is not None

    def admit(self, batch: Batch, ends: Ends, at: int, count: int) -> None:
        """Append the batch's next records."""
        size = ends[at + count] - ends[at]
        self.log.add(batch, ends, at, count)
        self.totals.records += count
        self.totals.bytes += size
        self._add_unfinished(size)

    def void(self) -> None:
        """Close the queue because the lease is gone. A record that the program keeps then keeps no others in memory."""
        self.is_open = False
        self._unbuffer(self.log.end)
        self._add_unfinished(-self._unfinished_bytes)
        self.acknowledging, self.log, self.batch = AcknowledgmentState(), RecordLog(), None
        self.upcoming = 0

    def next(self) -> int | None:
        """The number of the next record to hand out, without handing it out. Skips records of a key that waits for a
        redelivery; they then wait with it.
        """
        acknowledging = self.acknowledging
        if acknowledging.is_in_order:
            return self.upcoming if self.upcoming < self.log.end else None
        if (again := acknowledging.next_again()) is not None:
            return again
        while (number := self.upcoming) < self.log.end:
            key = self.log.key(number)
            if not acknowledging.waits(key):
                return number
            self._unbuffer(number + 1)
            acknowledging.wait(number, key)
        return None

    def hand_out(self, number: int, until: datetime) -> OutstandingDelivery:
        """Hand out the record that `next` returned."""
        if number >= self.upcoming:
            self._unbuffer(number + 1)
        return self.acknowledging.hand_out(number, self.log.key(number), until)

    def hand_out_row(self, start: int, end: int, until: datetime, *, acks: bool) -> None:
        """Hand out the records from `start`, the upcoming one, up to `end`. With `acks`, this finishes the record
        before them and all of them but the last.
        """
        self._unbuffer(end)
        done = end - 1 if acks else start
        if acks:
            self.ack(start - 1, 1)
        keys = [record.order_key for record in self.log.segment(done).records(done, end)]
        self.acknowledging.hand_out_row(start, done, keys, until)
        self._finish(start, done)

    def _unbuffer(self, end: int) -> None:
        """Note that the records up to `end` are no longer buffered."""
        self.totals.records -= end - self.upcoming
        self.totals.bytes -= self.log.size(self.upcoming, end)
        self.upcoming = end

    def is_out(self, number: int, times: int) -> bool:
        return self.is_open and self.acknowledging.is_out(number, times)

    def ack(self, number: int, times: int) -> bool:
        if not (self.is_open and self.acknowledging.ack(number, times)):
            return False
        self._finish(number, number + 1)
        return True

    def _finish(self, start: int, end: int) -> None:
        self._add_unfinished(-self.log.size(start, end))
        self.log.forget(self.acknowledging.finished - 1)  # the last finished one is still to be checkpointed

    def _add_unfinished(self, size: int) -> None:
        self._unfinished_bytes += size
        self.totals.unfinished_bytes += size

    def nak(self, number: int, times: int, again_at: datetime) -> bool:
        return self.is_open and self.acknowledging.nak(number, times, again_at)

    def in_progress(self, number: int, times: int, until: datetime) -> bool:
        return self.is_open and self.acknowledging.in_progress(number, times, until)

    def to_checkpoint(self) -> tuple[Batch, UserRecord] | None:
        """The last record of the finished prefix, with its batch. None if it is the same as at the previous call."""
        finished = self.acknowledging.finished
        if finished == self._checkpointed:
            return None
        self._checkpointed = finished
        segment = self.log.segment(finished - 1)
        return segment.batch, segment.record(finished - 1)

    def repair(self) -> None:
        """Called after an interrupted change: recompute what follows from the log and from what is done. Adds this
        queue's sums to `totals`, which the caller has set to zero.
        """
        self.log.repair()
        self.acknowledging.mend(self.upcoming, self.log.key)
        # The last checkpoint may not have been written, so it is sent again.
        self._unfinished_bytes = self._checkpointed = 0
        self.totals.records += self.log.end - self.upcoming
        self.totals.bytes += self.log.size(self.upcoming, self.log.end)
        first, end = self.acknowledging.finished, self.log.end
        self._add_unfinished(
            sum(self.log.size(n, n + 1) for n in range(first, end) if not self.acknowledging.is_done(n))
        )
        self.is_in_rotation = False
