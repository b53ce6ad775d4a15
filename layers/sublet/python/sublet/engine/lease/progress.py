"""How far a lease has been handled, and writing that down: at most every checkpoint_interval, and always at the end.

The row may say something else meanwhile: an operator has moved the checkpoint, or the owner before us has made its last one
late. What it says counts. Forward, but not beyond what is finished, both are true, and the later one is written; if it is in
the batch that the handler has just now, that is known when its call has ended. Anything else ends this reading of the shard,
and another begins from the row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from sublet.decisions.crash_caution import careful_until
from sublet.decisions.held_lease import Tenure, is_true_too
from sublet.decisions.quiet import begun, opening
from sublet.engine.lease.held import Ahead, HeldLease
from sublet.errors import LeaseTableError
from sublet.ports import Applied, Clock, LeaseTable, Log, Signal
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead, joined
from sublet.protocol.lease import Lease, Position, Quiet
from sublet.protocol.lease_writes import (
    LeaseWrite,
    checkpoint,
    hand_over,
    heartbeat,
    late_checkpoint,
    prepare,
)
from sublet.protocol.records import Page
from sublet.settings import Settings


class OpenBatch(NamedTuple):
    """A batch that the handler may keep: its last record, when it was handed over, and how many records were before it."""

    last: Checkpoint
    at: datetime
    before: int


class Progress:
    """`finished` is what the handler has finished; `written` is what the lease table is known to say.

    `handed` is what it was handed over, if that is not the same (manual checkpointing); `passed`, where no record that it could
    be handed over is left before it. `stop` is set as soon as the row is known to have been moved.
    """

    def __init__(self, held: HeldLease, settings: Settings, clock: Clock, stop: Signal):
        self._unfinished: deque[OpenBatch] = deque()
        self._held = held
        self._settings = settings
        self._clock = clock
        self._stop = stop
        self._in_call: Checkpoint | None = None
        """The last record of the batch that the handler has just now."""
        self._written_at: datetime = clock.steady()
        self.lanes = 1
        """Its records are handled one call after another."""
        self.start()

    def start(self) -> Lease:
        """From what the row says now: the lease as reading begins."""
        holding = self._held.holding
        self._moves, self._opened = holding.moves, holding.lease
        self._unfinished.clear()
        self._records_handed_over = 0
        self._walked = begun(opening(holding.lease))
        self._caught_up_at: datetime | None = None
        self.finished = self.written = self.handed = self.passed = holding.lease.checkpoint
        self._began_at = holding.moves
        self._known_ahead = holding.lease.finished_ahead
        self._know_ahead(self._known_ahead)
        self._careful_until = careful_until(holding.lease, self._clock.steady(), self._settings)
        return holding.lease

    def has_read(self, page: Page, polled_at: datetime) -> None:
        """What was in the page is handled, or handed over."""
        self._walked = self._walked.after(page)
        if page.millis_behind_latest == 0:
            self._caught_up_at = polled_at

    @property
    def caught_up_at(self) -> datetime | None:
        """When the last poll was made that reached the tip, if all that came by then is checkpointed."""
        is_known = self.is_all_finished and not self.is_unwritten and not self.has_been_moved()
        return self._caught_up_at if is_known else None

    @property
    def quiet(self) -> Quiet | None:
        """What the walk has proved since the last record that was read. It counts once that one is checkpointed."""
        end = max(self.reached, self.passed)
        is_begun = end != self._opened.checkpoint
        return self._walked.quiet(Position(end) if is_begun else self._opened.position)

    def heartbeat(self, lease: Lease) -> LeaseWrite:
        """One that says what is known of the shard's tip, too: it costs nothing more."""
        return heartbeat(lease, caught_up_at=self.caught_up_at, quiet=self.quiet)

    @property
    def finished_ahead(self) -> FinishedAhead | None:
        """What was finished beyond the checkpoint when this reading began: it is not to be handed over again. None: nothing, or
        nobody knows.
        """
        return self._known_ahead if self._held.moves == self._began_at else None

    def follow_lanes(self, lanes: Callable[[], FinishedAhead]) -> Callable[[], None]:
        """Have `lanes` say how far each has come, until what this returns is called. Whatever is written from now on notes it,
        beside what was known when this reading began.
        """
        known = self._known_ahead
        self._held.know_ahead(Ahead(self._began_at, lambda: joined(known, lanes())))
        return lambda: self._know_ahead(self._held.finished_ahead)

    def _know_ahead(self, ahead: FinishedAhead | None) -> None:
        self._held.know_ahead(Ahead(self._began_at, lambda: ahead))

    def note_ahead(self) -> None:
        """At once: what is set aside beyond the checkpoint is not to be set aside again. Unless a heartbeat was there first."""
        self._held.write(lambda lease: heartbeat(lease) if self._is_unnoted(lease) else None)

    def _is_unnoted(self, lease: Lease) -> bool:
        ahead = self._held.finished_ahead
        beyond = None if ahead is None else ahead.beyond(lease.checkpoint)
        return beyond is not None and beyond != lease.finished_ahead

    @property
    def is_unwritten(self) -> bool:
        return self.finished > self.written and not self.has_been_moved()

    def begin_call(self, last: Checkpoint) -> None:
        """The handler is given a batch, up to here."""
        self._in_call = last

    def end_call(self) -> None:
        """It has returned or failed, or is given up."""
        self._in_call = None

    def has_been_moved(self) -> bool:
        """Whether the row is where this reading cannot go on from: back, or beyond what is finished. If so, `stop` is set."""
        return self._has_been_moved(self.finished)

    def _has_been_moved(self, finished: Checkpoint) -> bool:
        holding = self._held.holding
        if holding.moves == self._moves:
            return False
        if self._is_forward(finished):
            self._moves, self.written = holding.moves, holding.lease.checkpoint
            return False
        if self._in_call is not None and self._is_forward(self._in_call):
            return False
        self._stop.set()
        return True

    def _is_forward(self, up_to: Checkpoint) -> bool:
        """The row has been moved on, but not beyond this."""
        holding = self._held.holding
        return holding.moved_from is not None and is_true_too(
            holding.lease.checkpoint, max(self.written, holding.moved_from), up_to
        )

    @property
    def is_by_hand(self) -> bool:
        """Only `batch.checkpoint` says what is finished."""
        return self._settings.is_checkpointed_by_hand

    @property
    def is_all_finished(self) -> bool:
        """Nothing that was handed over is left to be checkpointed."""
        return self.finished >= self.handed

    @property
    def reached(self) -> Checkpoint:
        """What is not beyond it has been handed over."""
        return max(self.finished, self.handed)

    @property
    def oldest_unfinished_at(self) -> datetime | None:
        """When the oldest batch was handed over that is not checkpointed whole, by the steady clock."""
        try:
            return self._unfinished[0].at
        except IndexError:
            return None

    @property
    def unfinished_records(self) -> int:
        """Of the batches that are not checkpointed whole."""
        try:
            return self._records_handed_over - self._unfinished[0].before
        except IndexError:
            return 0

    def hand_over(self, last: Checkpoint, records: int) -> None:
        """A batch is given to a handler that checkpoints by itself. The same batch may be given again."""
        if last > self.handed:
            self.handed = last
            self._unfinished.append(OpenBatch(last, self._clock.steady(), self._records_handed_over))
            self._records_handed_over += records

    def pass_over(self, to: Checkpoint) -> None:
        """There is nothing left before `to` that could be handed over: finished, unless what comes before is not."""
        self.passed = max(self.passed, to)
        self.finish(self.finished)

    def finish(self, to: Checkpoint) -> None:
        """The handler is done with everything up to `to`. Never goes back, and after a move not on either: the shard is read
        again from there."""
        to = max(self.finished, to)
        if self._has_been_moved(to):
            return
        self.finished = max(to, self.passed) if to >= self.handed else to
        while self._unfinished and self._unfinished[0].last <= self.finished:
            self._unfinished.popleft()

    def checkpoint(self, to: Checkpoint) -> bool:
        """The handler says so itself; whether the lease table has it. By hand it is written at once, and otherwise when due."""
        self.finish(to)
        if self.is_by_hand:
            self.write()
        else:
            self.write_if_due()
        return self.written >= to

    def prepare(self, to: Checkpoint, state: bytes) -> bool:
        """KCL's first phase, as a write of its own; whether the lease table has it. It leaves the checkpoint where it is.

        Of what is checkpointed already there is nothing to prepare.
        """
        return to > self.written and self._held.write(partial(prepare, to=to, state=state))

    def write_if_due(self, slack: timedelta = timedelta(0)) -> None:
        """At most every checkpoint_interval, or `slack` before it is over; for a while after a crash at once."""
        now = self._clock.steady()
        is_due = now - self._written_at + slack >= self._settings.checkpoint_interval
        if self.is_unwritten and (is_due or now < self._careful_until):
            self.write()

    def heartbeat_if_due(self, after: timedelta, slack: timedelta) -> None:
        """A checkpoint that is due within `slack` carries the heartbeat: one write instead of two."""
        if self._held.is_heartbeat_due(after):
            self.write_if_due(slack)
        self._held.heartbeat_if_due(after, self.heartbeat)
        self.has_been_moved()

    def write(self) -> None:
        """Write what is finished and not written. A lost lease or an unreachable table shows in the held lease."""
        moves = None
        while (
            self.is_unwritten and moves != self._moves
        ):  # once more for a row that is further on than we knew
            at_tip = self._caught_up_at if self.is_all_finished else None
            moves, to = self._moves, self.finished
            make = partial(_checkpoint_unless_there, to=to, caught_up_at=at_tip)
            if self._held.write(make, unmoved_since=moves):
                self.written = max(self.written, to)
                self._written_at = self._clock.steady()
                return

    def write_last(self, table: LeaseTable, log: Log) -> bool:
        """Before we leave, whatever became of the lease. True: written late, without holding the lease any more.

        Draining: checkpoint as its owner, then let the new one begin. Lost: late, if the position is as we last knew it.
        """
        self.write()
        if self._held.tenure is Tenure.DRAINING:
            self._held.write(hand_over)
        if not self._held.is_lost or not self.is_unwritten:
            return False
        try:
            return isinstance(table.apply(late_checkpoint(self._held.lease, self.finished)), Applied)
        except LeaseTableError as problem:
            log.warning("late checkpoint failed", lease_key=self._held.lease.lease_key, problem=str(problem))
            return False


def _checkpoint_unless_there(
    lease: Lease, to: Checkpoint, caught_up_at: datetime | None
) -> LeaseWrite | None:
    """The heartbeats' thread and the session may both find that it is due: the second would be refused by what the first wrote,
    and take the lease for lost.
    """
    return None if lease.checkpoint >= to else checkpoint(lease, to, caught_up_at)
