"""What a session says about its shard in the writes that it makes anyway: lag, arrival time, and rates."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from sublet.decisions.session.lag import LEAST, RATES_OVER, HandledSpan, LastPage, ThroughputRates, lag_of, seen_beside
from sublet.decisions.session.read_position import shows_what_follows
from sublet.ports import Clock
from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease
from sublet.protocol.lease_attributes import whole_milliseconds
from sublet.protocol.records import Page, StreamRecord, UserRecord

STRETCHES_MAX = 1000
"""The most stretches that are remembered as handled but not checkpointed. The oldest are forgotten, since a handler
that checkpoints by itself may never do so.
"""


class SessionLag:
    """The session's thread notes what it does. The thread that writes to the row asks for the report."""

    def __init__(self, lease: Lease, clock: Clock, lock: AbstractContextManager[object]) -> None:
        self._clock = clock
        self._lock = lock
        """Guards every field below. No other lock is taken while it is held."""
        self._handled: deque[HandledSpan] = deque(maxlen=STRETCHES_MAX)
        self._in_hand: Sequence[StreamRecord] = ()
        """The records that `takes` was given last, until they are handled. Their page is in memory as long."""
        self._in_hand_since: datetime | None = None
        self._last: LastPage | None = None
        self._seen = lease.lag_history
        before = lease.lag_report
        self._arrived_at = None if before is None else before.arrived_at
        self._opened = lease.checkpoint
        self._waits_since = None if before is None else before.waits_since
        """Since when a record waits after the checkpoint that the lease was opened at, by the report of the owner
        before. It counts until this session has read as much itself.
        """
        self._reported: Checkpoint = AT_TIMESTAMP
        """The checkpoint of the last report. At first AT_TIMESTAMP, which is before all others."""
        self._bytes = self._records = 0
        self._rates = ThroughputRates.going_on_from(before, clock.now())

    def takes(self, records: Sequence[StreamRecord], after: Checkpoint) -> None:
        """The session begins to handle these records. The first may be the one at `after`, which is handled already."""
        is_known = records[0].sequence_number == after.sequence_number
        with self._lock:
            new = records[1:2] if is_known else records[:1]
            self._in_hand = records
            self._in_hand_since = new[0].approximate_arrival_timestamp if new else None

    def has_handled(self, batch: Sequence[UserRecord]) -> None:
        """The batch is handled, or handed over. If it ends within an aggregate, what follows it arrived with its last
        record.
        """
        first, last = batch[0].approximate_arrival_timestamp, batch[-1].approximate_arrival_timestamp
        with self._lock:
            following = None if batch[-1].is_aggregated else self._after(batch[-1].sequence_number)
            self._in_hand_since = last if following is None else following.approximate_arrival_timestamp
            self._handled.append(HandledSpan(batch[-1].checkpoint, first, last))
            self._records += len(batch)

    def has_passed(self, records: Sequence[StreamRecord], up_to: Checkpoint) -> None:
        """All of these records are handled, or the handler did not want them."""
        last = records[-1].approximate_arrival_timestamp
        with self._lock:
            self._handled.append(HandledSpan(up_to, self._in_hand_since or last, last))
            self._in_hand, self._in_hand_since = (), None

    def _after(self, sequence_number: str) -> StreamRecord | None:
        """The next of the records in hand. A batch mostly ends with the last of them, which needs no search."""
        if not self._in_hand or self._in_hand[-1].sequence_number == sequence_number:
            return None
        at = bisect_right(self._in_hand, int(sequence_number), key=lambda each: int(each.sequence_number))
        return self._in_hand[at] if at < len(self._in_hand) else None

    def has_handled_bytes(self, size: int) -> None:
        """Counts bytes of stream records."""
        with self._lock:
            self._bytes += size

    def has_read(self, page: Page, polled_at: datetime) -> None:
        """The page is handled."""
        behind = timedelta(milliseconds=page.millis_behind_latest) if shows_what_follows(page) else None
        with self._lock:
            self._last = LastPage(behind, polled_at)

    def report(self, checkpoint: Checkpoint) -> tuple[LagReport, tuple[LagSeen, ...]] | None:
        """The report for a row with this checkpoint, and the last reports. None if the checkpoint was moved back behind
        one that was reported: this session knows nothing about the records that follow it.
        """
        now = self._clock.now()
        with self._lock:
            if checkpoint < self._reported:
                return None
            self._reported = checkpoint
            while self._handled and self._handled[0].up_to <= checkpoint:
                arrived_at = self._handled.popleft().last_arrived_at
                self._arrived_at = max(self._arrived_at or arrived_at, arrived_at)
            at, lag = lag_of(checkpoint, self._handled, self._in_hand_since, self._last, now)
            if lag is None and self._waits_since is not None and checkpoint == self._opened:
                lag = max(now - self._waits_since, LEAST)
            rates = self._rates = self._rates.after(self._bytes, self._records, now, RATES_OVER)
            said = rates.reported(whole_milliseconds(at), lag, self._arrived_at)
            self._seen = seen_beside(self._seen, said, checkpoint)
            return said, self._seen
