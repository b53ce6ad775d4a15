"""How far a lease has been handled, and writing that down: at most every checkpoint_interval, and always at the end."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.crash_caution import Caution, caution
from sublet.decisions.held_lease import Tenure
from sublet.engine.held_lease import HeldLease
from sublet.errors import LeaseTableError
from sublet.ports import Applied, Clock, LeaseTable, Log
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease_writes import checkpoint, hand_over, late_checkpoint
from sublet.settings import Settings


class Progress:
    """`finished` is what the handler has finished; `written` is what the lease table is known to say."""

    def __init__(self, held: HeldLease, settings: Settings, clock: Clock):
        self.finished = held.lease.checkpoint
        self.written = held.lease.checkpoint
        self._held = held
        self._settings = settings
        self._clock = clock
        self._written_at: datetime = clock.steady()

    def start_from(self, stored: Checkpoint) -> None:
        """The row has been read again, and another has checkpointed since."""
        self.finished = self.written = stored

    @property
    def is_unwritten(self) -> bool:
        return self.finished > self.written

    def finish(self, to: Checkpoint) -> None:
        """The handler is done with everything up to `to`. Never goes back."""
        self.finished = max(self.finished, to)

    def write_if_due(self, slack: timedelta = timedelta(0)) -> None:
        """At most every checkpoint_interval, or `slack` before it is over; after a crash at once."""
        since = self._clock.steady() - self._written_at
        is_due = since + slack >= self._settings.checkpoint_interval
        if self.is_unwritten and (is_due or caution(self._held.lease) >= Caution.CHECKPOINT_EACH_BATCH):
            self.write()

    def heartbeat_if_due(self, after: timedelta, slack: timedelta) -> None:
        """A checkpoint that is due within `slack` carries the heartbeat: one write instead of two."""
        if self._held.is_heartbeat_due(after):
            self.write_if_due(slack)
        self._held.heartbeat_if_due(after)

    def write(self) -> None:
        """Write what is finished and not written. A lost lease or an unreachable table shows in the held lease."""
        if not self.is_unwritten:
            return
        to = self.finished
        if self._held.write(partial(checkpoint, to=to)):
            self.written = max(to, self._held.lease.checkpoint)
            self._written_at = self._clock.steady()

    def write_last(self, table: LeaseTable, log: Log) -> bool:
        """Before we leave, whatever became of the lease. True: written late, without holding the lease any more.

        Draining: checkpoint as its owner, then let the new one begin. Lost: late, guarded by the position alone.
        """
        self.write()
        if self._held.tenure is Tenure.DRAINING:
            self._held.write(hand_over)
        if not self._held.is_lost or not self.is_unwritten:
            return False
        try:
            return isinstance(
                table.apply(late_checkpoint(self._held.lease.lease_key, self.finished)), Applied
            )
        except LeaseTableError as problem:
            log.warning("late checkpoint failed", lease_key=self._held.lease.lease_key, problem=str(problem))
            return False
