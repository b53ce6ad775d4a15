"""A lease that this process holds. One lock keeps our writes in order, and decisions.held_lease judges each reply."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from sublet.decisions.session.held_lease import (
    AfterWrite,
    Holding,
    NextAction,
    Tenure,
    after_failure,
    after_reading,
    after_write,
)
from sublet.decisions.session.refused_write import Verdict
from sublet.decisions.time_and_chance import Instant
from sublet.engine.lease.row_notes import RowNotes
from sublet.errors import CallFailed, FinalError
from sublet.ports import Applied, Clock, Ports, Refused, Signal
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import (
    LeaseWrite,
    WriteKind,
    hand_over,
    heartbeat,
    late_checkpoint,
)

MakeWrite = Callable[[Lease], LeaseWrite | None]
"""Makes a write from the lease. Returns None if the lease says already what was to be written."""

ATTEMPTS = 3
"""How often one write is tried if it is refused because of our own earlier write or of a request to leave. Each refusal
shows what to write instead.
"""


def instant(clock: Clock) -> Instant:
    return Instant(clock.now(), clock.steady())


class HeldLease:
    """All writes to a held lease go through here, one at a time, each fenced by what the one before it left.

    `stop` is set as soon as the lease is lost or to be drained, so that a wait for records ends. `notes`: what the
    writes also say in the row.
    """

    def __init__(self, lease: Lease, since: Instant, ports: Ports, failover_time: timedelta, stop: Signal):
        self._holding = Holding(lease, since)
        self.notes = RowNotes()
        self._table, self._clock, self._log = ports.table, ports.clock, ports.log
        self._failover_time = failover_time
        self._lock = ports.tasks.lock()
        """Held from making a write until its reply is judged, so that one write at a time uses the counter. Guards
        changes of `_holding`, `_stop` and `_is_leaving`; any one of them may be read without it.
        """
        self._stop = stop
        self._is_leaving = False

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

    @property
    def finished_ahead(self) -> FinishedAhead | None:
        """What is finished beyond the checkpoint. None if that is unknown, or another writer has moved the position
        since.
        """
        return self.notes.finished_ahead(self.moves)

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
                if self._holding.would_release_requested_lease(write):
                    write, make = hand_over(self.lease), hand_over
                after = self._write(write)
                if after is None or after.then is NextAction.NOTHING:
                    return after is not None and after.is_done
                if after.then is NextAction.HAND_OVER:
                    make = hand_over
            return False

    def _write(self, write: LeaseWrite) -> AfterWrite | None:
        """Makes the write and judges the reply; None if there was no reply."""
        sent_at = self._now()
        self._is_leaving = self._is_leaving or write.kind is WriteKind.RELEASE
        write = self.notes.added_to(write, self.lease, self.moves, sent_at.steady)
        try:
            result = self._table.apply(write)
        except Exception as problem:  # noqa: BLE001 - an expired token, a bug: it must not stop the other leases
            self._failed(write, problem)
            return None
        applied = isinstance(result, Applied)
        row = result.lease if isinstance(result, Applied) else result.row
        after = after_write(self._holding, write, row, applied, sent_at)
        if after.verdict is Verdict.LOST and isinstance(result, Refused):
            self._log.warning("lease lost", lease_key=write.lease_key, write=write.kind, row=_describe_row(result))
        if after.verdict is Verdict.DRAIN:
            self._log.info(
                "another worker asks for the lease", lease_key=write.lease_key, to=after.holding.lease.lease_owner
            )
        self._become(after.holding)
        return after

    def _failed(self, write: LeaseWrite, problem: Exception) -> None:
        """Every other error may pass, unexpected ones too; if it does not, the lease counts as lost once another worker
        may have it.
        """
        may_pass = not isinstance(problem, FinalError)
        self._become(after_failure(self._holding, write, may_pass, self._now(), self._failover_time))
        is_planned = isinstance(problem, CallFailed)
        say = self._log.warning if is_planned and not self.is_lost else self._log.error
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
        return instant(self._clock)

    def checkpoint_late(self, to: Checkpoint) -> bool:
        """Checkpoint a lease that is lost, if its position is as we last knew it. True if the row has it."""
        try:
            return isinstance(self._table.apply(late_checkpoint(self.lease, to)), Applied)
        except CallFailed as problem:
            self._log.warning("late checkpoint failed", lease_key=self.lease.lease_key, problem=str(problem))
            return False

    def read_again(self) -> None:
        """Read the row again, because the owner before us may have checkpointed late. We start where the row says
        now.
        """
        with self._lock:
            self._become(after_reading(self._holding, self._table.get(self.lease.lease_key)))


def _describe_row(refused: Refused) -> str:
    row = refused.row
    if isinstance(row, Lease):
        return f"owner {row.lease_owner}, counter {row.lease_counter}, checkpoint {row.checkpoint}"
    return "no such row" if row is None else row.problem
