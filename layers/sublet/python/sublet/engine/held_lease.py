"""A lease that this process holds: its row as our last write left it, and one lock that puts our writes in order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum

from sublet.decisions.refusal import Verdict, judge_refusal
from sublet.errors import LeaseTableError, TransientError
from sublet.ports import Applied, Ports, Refused, Signal
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, hand_over, heartbeat


class Tenure(StrEnum):
    """What we may still do with the lease."""

    HELD = "held"
    DRAINING = "draining"
    """Asked to leave by a KCL 3.x leader: still ours to checkpoint, then to hand over."""
    LEFT = "left"
    """Given back by us. The next owner's fence is the counter: not even a heartbeat may follow."""
    LOST = "lost"


_LEAVING = {WriteKind.RELEASE: Tenure.LEFT, WriteKind.END: Tenure.LEFT, WriteKind.HAND_OVER: Tenure.LOST}
"""What we are after these writes; a lease handed over is another's."""


class HeldLease:
    """All writes to a held lease go through here, one at a time, each fenced by what the one before it left.

    `halt` is set as soon as the lease is lost or to be drained, so that whoever waits for records stops waiting.
    """

    def __init__(self, lease: Lease, since: datetime, ports: Ports, halt: Signal):
        self.lease = lease
        self.tenure = Tenure.HELD
        self.written_at = since
        self._table = ports.table
        self._clock = ports.clock
        self._lock = ports.tasks.lock()
        self._halt = halt
        self._log = ports.log

    @property
    def is_lost(self) -> bool:
        return self.tenure is Tenure.LOST

    def write(self, make: Callable[[Lease], LeaseWrite]) -> bool:
        """Write what `make` makes of the lease as it stands; whether the row now says at least that.

        False: the lease is lost, or DynamoDB cannot be reached; in that case nothing is known, and the next write finds out.
        """
        with self._lock:
            return self._write(make)

    def _write(self, make: Callable[[Lease], LeaseWrite]) -> bool:
        if self.tenure not in (Tenure.HELD, Tenure.DRAINING):
            return False
        sent_at = self._clock.now()
        write = make(self.lease)
        try:
            result = self._table.apply(write)
        except LeaseTableError as problem:
            self._failed(write, problem)
            return False
        if isinstance(result, Applied):
            self._done(write, result.lease, sent_at)
            return True
        return self._refused(write, result, sent_at, make)

    def _failed(self, write: LeaseWrite, problem: LeaseTableError) -> None:
        """Unreachable for a while is no loss. Whatever else it is, an exception here would end the heartbeats of other leases."""
        where = {"lease_key": write.lease_key, "write": write.kind, "problem": str(problem)}
        if isinstance(problem, TransientError):
            self._log.warning("lease table unavailable", **where)
        else:
            self._log.error("lease lost with its table", **where)
            self._leave(Tenure.LOST)

    def _done(self, write: LeaseWrite, lease: Lease, sent_at: datetime) -> None:
        self.lease, self.written_at = lease, sent_at
        self.tenure = _LEAVING.get(write.kind, self.tenure)

    def _refused(
        self, write: LeaseWrite, refused: Refused, sent_at: datetime, make: Callable[[Lease], LeaseWrite]
    ) -> bool:
        row, verdict = refused.row, judge_refusal(self.lease, write, refused.row)
        if verdict is Verdict.LOST or not isinstance(row, Lease):
            self._log.warning("lease lost", lease_key=write.lease_key, write=write.kind, row=_stands(refused))
            self._leave(Tenure.LOST)
            return False
        if verdict is Verdict.DONE_BEFORE:
            self._done(write, row, sent_at)
            return True
        self.lease = row
        if verdict is Verdict.WRITE_AGAIN:
            return self._write(make)
        if verdict is Verdict.DRAIN:
            self._log.info("asked to hand the lease over", lease_key=write.lease_key, to=row.lease_owner)
            self._leave(Tenure.DRAINING)
            return self._write(hand_over if write.kind is WriteKind.RELEASE else make)
        return True  # further on than ours

    def _leave(self, tenure: Tenure) -> None:
        self.tenure = tenure
        self._halt.set()

    def lose(self) -> None:
        """Give it up without a write: so long without one of ours succeeding that another may have it by now."""
        self._leave(Tenure.LOST)

    def confirm(self, failover_time: timedelta) -> bool:
        """Whether it is still ours to act on, asked of the table if our last write is older than failover_time.

        A paused process (a frozen Lambda, a suspended machine) wakes up here, before it calls the handler once more.
        """
        if self._clock.now() - self.written_at > failover_time and not self.write(heartbeat):
            self.lose()
        return not self.is_lost

    def is_due(self, heartbeat_interval: timedelta) -> bool:
        """Any write of ours counts as a heartbeat."""
        return self._clock.now() - self.written_at >= heartbeat_interval

    def heartbeat_if_due(self, heartbeat_interval: timedelta, failover_time: timedelta) -> None:
        if not self.is_due(heartbeat_interval) or self.write(heartbeat):
            return
        if self.tenure is not Tenure.LEFT and self._clock.now() - self.written_at > failover_time:
            self.lose()

    def reload(self) -> None:
        """Read the row again: the owner before us may have checkpointed late. What it says now is where we start."""
        with self._lock:
            row = self._table.get(self.lease.lease_key)
            if isinstance(row, Lease) and row.holder == self.lease.holder:
                if row.lease_owner == self.lease.lease_owner:
                    self.lease = row
                    return
                if row.checkpoint_owner == self.lease.lease_owner:
                    return  # to be handed over: the next write is refused, and starts to drain
            self._leave(Tenure.LOST)  # a Java worker that takes a lease leaves our holder on the row


def _stands(refused: Refused) -> str:
    row = refused.row
    if isinstance(row, Lease):
        return f"owner {row.lease_owner}, counter {row.lease_counter}, checkpoint {row.checkpoint}"
    return "no such row" if row is None else row.problem
