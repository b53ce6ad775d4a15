"""A lease that this process holds. One lock keeps our writes in order, and decisions.held_lease judges each reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from sublet.decisions.session.held_lease import (
    AfterWrite,
    Holding,
    Tenure,
    Then,
    after_failure,
    after_reading,
    after_write,
)
from sublet.decisions.session.refusal import Verdict
from sublet.decisions.session.throughput import Throughput
from sublet.decisions.time_and_chance import Instant
from sublet.errors import CallFailed, FinalError
from sublet.ports import Applied, Clock, Ports, Refused, Signal
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import (
    LeaseWrite,
    WriteKind,
    hand_over,
    heartbeat,
    late_checkpoint,
)
from sublet.protocol.records import UserRecord
from sublet.protocol.write_notes import with_ahead, with_failure, with_lag, with_throughput, with_unanswered

MakeWrite = Callable[[Lease], LeaseWrite | None]
"""Makes a write from the lease. Returns None if the lease says already what was to be written."""

_DATA: Callable[[UserRecord], bytes] = attrgetter("data")

LagAt = Callable[[Checkpoint], tuple[LagReport, tuple[LagSeen, ...]] | None]
"""Returns what to report with this checkpoint, and the last reports."""

FailingAt = Callable[[Checkpoint], HandlerFailure | None]
"""Returns how the handler fails with the records that follow this checkpoint; None if it does not."""

REPORTS = (WriteKind.HEARTBEAT, WriteKind.CHECKPOINT, WriteKind.RELEASE)

ATTEMPTS = 3
"""How often one write is tried if it is refused because of our own earlier write or of a request to leave. Each refusal
shows what to write instead.
"""


class Ahead(NamedTuple):
    """What is finished beyond the checkpoint, computed on demand. `moves`: how often another writer had moved the
    position when this reading began; one more move makes it void.
    """

    moves: int
    finished: Callable[[], FinishedAhead | None]


def instant(clock: Clock) -> Instant:
    return Instant(clock.now(), clock.steady())


class HeldLease:
    """All writes to a held lease go through here, one at a time, each fenced by what the one before it left.

    `stop` is set as soon as the lease is lost or to be drained, so that a wait for records ends.
    """

    def __init__(self, lease: Lease, since: Instant, ports: Ports, failover_time: timedelta, stop: Signal):
        self._holding = Holding(lease, since)
        self._ports = ports
        self._failover_time = failover_time
        self._lock = ports.tasks.lock()
        """Held from making a write until its reply is judged, so that one write at a time uses the counter. Guards
        changes of `_holding`, `_stop`, `_throughput` and `_is_leaving`; any one of them may be read without it.
        """
        self._stop = stop
        self._throughput: Throughput | None = None
        self._interval = timedelta(0)
        self._bytes_handled = 0
        """Since we acquired the lease."""
        self._ahead = Ahead(0, lambda: None)
        self._lag_at: LagAt = lambda _: None
        self._failing_at: FailingAt = lambda _: None
        self._unanswered_since: Callable[[], datetime | None] = lambda: None
        self._is_leaving = False

    def measure(self, interval: timedelta) -> None:
        """From now on heartbeats and checkpoints report the lease's throughput, measured once an interval."""
        self._throughput = Throughput(self.lease.throughput_kbps, self._bytes_handled, self._now().steady)
        self._interval = interval

    def has_handled(self, user_records: Iterable[UserRecord]) -> None:
        """Counts the records' data without an aggregate's overhead, as KCL does. Otherwise a KCL 3.x leader would
        assign us too few leases.
        """
        if self._throughput is not None:
            self._bytes_handled += sum(map(len, map(_DATA, user_records)))

    @property
    def lease(self) -> Lease:
        """The lease as our last write left it."""
        return self._holding.lease

    @property
    def tenure(self) -> Tenure:
        return self._holding.tenure

    @property
    def is_lost(self) -> bool:
        return self.tenure is Tenure.LOST

    @property
    def holding(self) -> Holding:
        """All that is known about the lease, at one moment."""
        return self._holding

    @property
    def moves(self) -> int:
        """How often another writer has moved its position since we acquired it."""
        return self._holding.moves

    def report_ahead(self, ahead: Ahead) -> None:
        """From now on each write notes this in the row."""
        self._ahead = ahead

    def report_lag(self, lag_at: LagAt) -> None:
        """From now on heartbeats, checkpoints and the release report this of the row's checkpoint. Called with the lock
        held.
        """
        self._lag_at = lag_at

    def report_failing(self, failing_at: FailingAt) -> None:
        """From now on the same writes report this. Called with the lock held."""
        self._failing_at = failing_at

    def report_unanswered(self, since: Callable[[], datetime | None]) -> None:
        """From now on the same writes say since when reads get no answer. Called with the lock held."""
        self._unanswered_since = since

    @property
    def finished_ahead(self) -> FinishedAhead | None:
        """What is finished beyond the checkpoint. None if that is unknown, or another writer has moved the position
        since.
        """
        ahead = self._ahead
        return ahead.finished() if ahead.moves == self.moves else None

    def note_ahead(self) -> None:
        """Write the note now, unless a heartbeat has written it. Otherwise records set aside beyond the checkpoint may
        be set aside twice.
        """
        self.write(lambda lease: heartbeat(lease) if self._lacks_ahead(lease) else None)

    def _lacks_ahead(self, lease: Lease) -> bool:
        ahead = self.finished_ahead
        beyond = None if ahead is None else ahead.beyond(lease.checkpoint)
        return beyond is not None and beyond != lease.finished_ahead

    def go_on(self, stop: Signal) -> None:
        """Replace the stop signal for a new session."""
        with self._lock:
            self._stop = stop
            self._is_leaving = False
            self._become(self._holding)

    def write(self, make: MakeWrite, unmoved_since: int | None = None) -> bool:
        """Write what `make` makes from the lease's present state. True if the row now says at least that.

        unmoved_since   write nothing if `moves` is more than that by now, since the position has been moved meanwhile

        False: the lease is lost or moved, or DynamoDB cannot be reached. Then the next write finds out what the row
        says.
        """
        with self._lock:
            for _ in range(ATTEMPTS):
                if not self._holding.may_write or unmoved_since not in (None, self.moves):
                    return False
                write = make(self.lease)
                if write is None:
                    return True
                # The release was decided before another write's reply asked for the lease.
                if self._holding.is_asked_for(write):
                    write, make = hand_over(self.lease), hand_over
                after = self._write(write)
                if after is None or after.then is Then.NOTHING:
                    return after is not None and after.is_done
                if after.then is Then.HAND_OVER:
                    make = hand_over
            return False

    def _write(self, write: LeaseWrite) -> AfterWrite | None:
        """Makes the write and judges the reply; None if there was no reply."""
        sent_at = self._now()
        self._is_leaving = self._is_leaving or write.kind is WriteKind.RELEASE
        ahead = None if write.kind is WriteKind.HAND_OVER else self.finished_ahead
        write = self._reporting(with_ahead(self._measured(write, sent_at), self.lease, ahead))
        try:
            result = self._ports.table.apply(write)
        except Exception as problem:  # noqa: BLE001 - an expired token, a bug: it must not stop the other leases
            self._failed(write, problem)
            return None
        applied = isinstance(result, Applied)
        row = result.lease if isinstance(result, Applied) else result.row
        after = after_write(self._holding, write, row, applied, sent_at)
        if after.verdict is Verdict.LOST and isinstance(result, Refused):
            self._ports.log.warning("lease lost", lease_key=write.lease_key, write=write.kind, row=_stands(result))
        if after.verdict is Verdict.DRAIN:
            self._ports.log.info(
                "asked to hand the lease over", lease_key=write.lease_key, to=after.holding.lease.lease_owner
            )
        self._become(after.holding)
        return after

    def _measured(self, write: LeaseWrite, now: Instant) -> LeaseWrite:
        if self._throughput is None or write.kind not in (WriteKind.HEARTBEAT, WriteKind.CHECKPOINT):
            return write
        self._throughput = self._throughput.after(self._bytes_handled, now.steady, self._interval)
        brings = self._throughput.kib_per_second
        return write if brings is None else with_throughput(write, brings)

    def _reporting(self, write: LeaseWrite) -> LeaseWrite:
        if write.kind not in REPORTS:
            return write
        checkpoint = (write.moves_to or self.lease.position).checkpoint
        write = with_failure(write, self.lease, self._failing_at(checkpoint))
        write = with_unanswered(write, self.lease, self._unanswered_since())
        said = self._lag_at(checkpoint)
        return write if said is None else with_lag(write, self.lease, *said)

    def _failed(self, write: LeaseWrite, problem: Exception) -> None:
        """Every other error may pass, unexpected ones too; if it does not, the lease counts as lost once another worker
        may have it.
        """
        may_pass = not isinstance(problem, FinalError)
        self._become(after_failure(self._holding, write, may_pass, self._now(), self._failover_time))
        is_planned = isinstance(problem, CallFailed)
        say = self._ports.log.warning if is_planned and not self.is_lost else self._ports.log.error
        message = "lease lost with its table" if self.is_lost else "lease table unavailable"
        say(
            message,
            lease_key=write.lease_key,
            write=write.kind,
            error=type(problem).__name__,
            problem=str(problem),
        )

    def _become(self, holding: Holding) -> None:
        self._holding = holding
        if holding.tenure in (Tenure.DRAINING, Tenure.LOST):
            self._stop.set()

    def confirm(self) -> bool:
        """True if the lease is still ours. If our last write is older than failover_time, this writes to the table
        first.

        A process that was paused (a frozen Lambda, a suspended machine) notices here, before it calls the handler
        again.
        """
        return not self.is_lost and (not self._is_unconfirmed() or self._heartbeat_if(self._is_unconfirmed))

    def _is_unconfirmed(self) -> bool:
        return self._holding.is_unconfirmed(self._now(), self._failover_time)

    def is_heartbeat_due(self, after: timedelta) -> bool:
        """False after a release was sent, even if it got no answer: then the lease is left to expire."""
        return not self._is_leaving and self._holding.is_heartbeat_due(self._now(), after)

    def heartbeat_if_due(self, after: timedelta, make: Callable[[Lease], LeaseWrite] = heartbeat) -> None:
        """`make`: makes a heartbeat that also says something else."""
        if self.is_heartbeat_due(after):
            self._heartbeat_if(partial(self.is_heartbeat_due, after), make)

    def _heartbeat_if(self, still: Callable[[], bool], make: Callable[[Lease], LeaseWrite] = heartbeat) -> bool:
        """`still` is asked again once we have the lock: another write may have made the heartbeat unnecessary."""
        return self.write(lambda lease: make(lease) if still() else None)

    def _now(self) -> Instant:
        return instant(self._ports.clock)

    def checkpoint_late(self, to: Checkpoint) -> bool:
        """Checkpoint a lease that is lost, if its position is as we last knew it. True if the row has it."""
        try:
            return isinstance(self._ports.table.apply(late_checkpoint(self.lease, to)), Applied)
        except CallFailed as problem:
            self._ports.log.warning("late checkpoint failed", lease_key=self.lease.lease_key, problem=str(problem))
            return False

    def read_again(self) -> None:
        """Read the row again, because the owner before us may have checkpointed late. We start where the row says
        now.
        """
        with self._lock:
            self._become(after_reading(self._holding, self._ports.table.get(self.lease.lease_key)))


def _stands(refused: Refused) -> str:
    row = refused.row
    if isinstance(row, Lease):
        return f"owner {row.lease_owner}, counter {row.lease_counter}, checkpoint {row.checkpoint}"
    return "no such row" if row is None else row.problem
