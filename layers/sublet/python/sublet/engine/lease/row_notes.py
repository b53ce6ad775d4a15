"""What an owner's writes to its lease also say in the row: throughput, lag, failures, and what is finished ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

from sublet.decisions.session.throughput import Throughput
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.records import UserRecord
from sublet.protocol.write_notes import with_ahead, with_failure, with_lag, with_throughput, with_unanswered

MEASURED = (WriteKind.HEARTBEAT, WriteKind.CHECKPOINT)
REPORTS = (*MEASURED, WriteKind.RELEASE)

_DATA: Callable[[UserRecord], bytes] = attrgetter("data")


class Ahead(NamedTuple):
    """What is finished beyond the checkpoint, computed on demand. `moves`: how often another writer had moved the
    position when this reading began; one more move makes it void.
    """

    moves: int
    finished: Callable[[], FinishedAhead | None]


NOTHING_AHEAD = Ahead(0, lambda: None)


@dataclass(slots=True)
class RowNotes:
    """Whoever knows something about the lease sets it here; the lease's next write asks for it and says it.

    The callables are called by the thread that writes, which has the held lease's lock.
    """

    ahead: Ahead = NOTHING_AHEAD
    """In each write but a handover."""
    lag_at: Callable[[Checkpoint], tuple[LagReport, tuple[LagSeen, ...]] | None] = lambda _: None
    """What to report with this checkpoint, and the last reports. In heartbeats, checkpoints and the release."""
    failing_at: Callable[[Checkpoint], HandlerFailure | None] = lambda _: None
    """How the handler fails with the records that follow this checkpoint; None if it does not. In the same writes."""
    unanswered_since: Callable[[], datetime | None] = lambda: None
    """Since when reads get no answer. In the same writes."""
    _throughput: Throughput | None = field(default=None, init=False)
    _interval: timedelta = field(default=timedelta(0), init=False)
    _bytes_handled: int = field(default=0, init=False)
    """Since the lease's throughput is measured."""

    def measure(self, before: float | None, interval: timedelta, now: datetime) -> None:
        """From now on heartbeats and checkpoints report the lease's throughput, measured once an interval. `before`: as
        the owner before us reported it. `now`: by the steady clock.
        """
        self._throughput, self._interval = Throughput(before, 0, now), interval

    def has_handled(self, user_records: Iterable[UserRecord]) -> None:
        """Counts the records' data without an aggregate's overhead, as KCL does. Otherwise a KCL 3.x leader would
        assign us too few leases.
        """
        if self._throughput is not None:
            self._bytes_handled += sum(map(len, map(_DATA, user_records)))

    def finished_ahead(self, moves: int) -> FinishedAhead | None:
        """What is finished beyond the checkpoint. None if that is unknown, or another writer has moved the position
        since. `moves`: how often one has moved it by now.
        """
        return self.ahead.finished() if self.ahead.moves == moves else None

    def added_to(self, write: LeaseWrite, lease: Lease, moves: int, now: datetime) -> LeaseWrite:
        """The write with the notes of its kind. `lease` and `moves`: as it is held before the write. `now`: by the
        steady clock.
        """
        if self._throughput is not None and write.kind in MEASURED:
            self._throughput = self._throughput.after(self._bytes_handled, now, self._interval)
            measured = self._throughput.kib_per_second
            write = write if measured is None else with_throughput(write, measured)
        ahead = None if write.kind is WriteKind.HAND_OVER else self.finished_ahead(moves)
        write = with_ahead(write, lease, ahead)
        if write.kind not in REPORTS:
            return write
        checkpoint = (write.moves_to or lease.position).checkpoint
        write = with_failure(write, lease, self.failing_at(checkpoint))
        write = with_unanswered(write, lease, self.unanswered_since())
        lag = self.lag_at(checkpoint)
        return write if lag is None else with_lag(write, lease, *lag)
