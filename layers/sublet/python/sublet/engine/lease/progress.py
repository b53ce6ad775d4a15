"""How far a lease has been handled, and when to write it: at most every checkpoint_interval, and always at the end.

Meanwhile an operator may move the checkpoint, or the previous owner may checkpoint late. Then the row's position
counts. If it was moved forward, but not beyond what is finished, both positions are true, and the later one is written.
If it was moved into the batch that the handler has now, this waits until the call has ended. After any other move, the
shard is read again from the row's position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from sublet.decisions.session.crash_caution import careful_until
from sublet.decisions.session.held_lease import Holding, Tenure, is_covered_by
from sublet.decisions.session.quiet import begun, opening
from sublet.engine.lease.held import HeldLease
from sublet.engine.lease.row_notes import Ahead
from sublet.ports import Clock, Signal
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead, joined
from sublet.protocol.lease import Lease, Position, QuietUntil
from sublet.protocol.lease_writes import LeaseWrite, checkpoint, hand_over, heartbeat, prepare
from sublet.protocol.records import Page
from sublet.settings import Settings


class OpenBatch(NamedTuple):
    """A batch that the handler may keep: its last record, when it was handed over, and how many records were before
    it.
    """

    last: Checkpoint
    at: datetime
    before: int


class Progress:
    """`finished`: what the handler has finished. `written`: what the lease table is known to say.

    `handed`: what the handler was given, if that differs (manual checkpointing). `passed`: no record before this
    remains to be handed over. `stop` is set as soon as the row is known to have been moved.

    The session, the heartbeats and the handler's own threads all change it. No write to the table is made with the lock
    held.
    """

    def __init__(
        self,
        held: HeldLease,
        settings: Settings,
        clock: Clock,
        stop: Signal,
        lock: AbstractContextManager[object],
    ) -> None:
        self._held = held
        self._notes = held.notes
        self._settings = settings
        self._clock = clock
        self._stop = stop
        self._lock = lock
        """Guards every field below. Any one of them may be read without it. Taken after the held lease's lock or a
        spread's.
        """
        self._unfinished: deque[OpenBatch] = deque()
        self._in_call: Checkpoint | None = None
        """The last record of the batch that the handler has now."""
        self._written_at: datetime = clock.steady()
        self.lanes = 1
        """The lanes in which records are handled; with one, calls follow each other."""
        self.start()

    def start(self) -> Lease:
        """Begin from the row. Returns the lease as reading begins."""
        with self._lock:
            holding = self._held.holding
            self._moves, self._opened = holding.moves, holding.lease
            self._is_moved = False
            """Stays True until reading begins again, even if another owner's late checkpoint makes the row look right
            again.
            """
            self._unfinished.clear()
            self._records_handed_over = 0
            self._walked = begun(opening(holding.lease))
            self._caught_up_at: datetime | None = None
            self.finished = self.written = self.handed = self.passed = holding.lease.checkpoint
            self._began_at = holding.moves
            self._known_ahead = holding.lease.finished_ahead
            self._note_ahead(self._known_ahead)
            self._careful_until = careful_until(holding.lease, self._clock.steady(), self._settings)
            return holding.lease

    def has_read(self, page: Page, polled_at: datetime) -> None:
        """The page's records are handled, or handed over."""
        with self._lock:
            self._walked = self._walked.after(page)
            if page.millis_behind_latest == 0:
                self._caught_up_at = polled_at

    @property
    def caught_up_at(self) -> datetime | None:
        """When the last poll reached the tip, if everything that had arrived by then is checkpointed."""
        with self._lock:
            is_known = self.is_all_finished and not self._is_unwritten() and not self._has_been_moved(self.finished)
            return self._caught_up_at if is_known else None

    @property
    def quiet(self) -> QuietUntil | None:
        """What the walk has proved quiet since the last record that was read. It counts once that record is
        checkpointed.
        """
        with self._lock:
            end = max(self.reached, self.passed)
            is_begun = end != self._opened.checkpoint
            return self._walked.quiet(Position(end) if is_begun else self._opened.position)

    def heartbeat(self, lease: Lease) -> LeaseWrite:
        """A heartbeat that also says what is known about the shard's tip. This costs nothing more."""
        return heartbeat(lease, caught_up_at=self.caught_up_at, quiet=self.quiet)

    @property
    def finished_ahead(self) -> FinishedAhead | None:
        """What was finished beyond the checkpoint when reading began, and so is not handed over again. None if nothing
        is known.
        """
        return self._known_ahead if self._held.moves == self._began_at else None

    def follow_lanes(self, lanes: Callable[[], FinishedAhead]) -> Callable[[], None]:
        """From now on each write notes in the row how far each lane is, until the returned function is called."""
        known = self._known_ahead
        self._notes.ahead = Ahead(self._began_at, lambda: joined(known, lanes()))
        return lambda: self._note_ahead(self._held.finished_ahead)

    def _note_ahead(self, ahead: FinishedAhead | None) -> None:
        self._notes.ahead = Ahead(self._began_at, lambda: ahead)

    @property
    def is_unwritten(self) -> bool:
        """True if records are finished and the row does not say so yet."""
        with self._lock:
            return self._is_unwritten()

    def _is_unwritten(self) -> bool:
        return self.finished > self.written and not self._has_been_moved(self.finished)

    @property
    def follows_checkpoint(self) -> bool:
        """True if the next record to be handed over is the one after the row's checkpoint."""
        return not self.is_by_hand and not self.is_unwritten

    def begin_call(self, last: Checkpoint, records: int) -> None:
        """The handler gets a batch of `records` records, up to `last`. It may get the same batch again."""
        with self._lock:
            self._in_call = last
            if self.is_by_hand and last > self.handed:
                self.handed = last
                self._unfinished.append(OpenBatch(last, self._clock.steady(), self._records_handed_over))
                self._records_handed_over += records

    def end_call(self, finished: Checkpoint | None) -> None:
        """The call has ended or was given up. `finished`: what it finished; None if it failed, or if only
        `batch.checkpoint` counts.
        """
        with self._lock:
            if finished is not None:
                self._finish(finished)
            self._in_call = None  # only now: a row that was moved is judged by what is finished

    def has_been_moved(self) -> bool:
        """True if reading cannot go on, because the row was moved back, or beyond what is finished. Then sets
        `stop`.
        """
        with self._lock:
            return self._has_been_moved(self.finished)

    def _has_been_moved(self, finished: Checkpoint) -> bool:
        holding = self._held.holding
        if self._is_moved or holding.moves == self._moves:
            return self._is_moved
        if self._is_forward(holding, finished):
            self._moves, self.written = holding.moves, holding.lease.checkpoint
            return False
        if self._in_call is not None and self._is_forward(holding, self._in_call):
            return False
        self._stop.set()
        self._is_moved = True
        return True

    def _is_forward(self, holding: Holding, up_to: Checkpoint) -> bool:
        """True if the row was moved forward, but not beyond `up_to`."""
        return holding.moved_from is not None and is_covered_by(
            holding.lease.checkpoint, max(self.written, holding.moved_from), up_to
        )

    @property
    def is_by_hand(self) -> bool:
        """True if only `batch.checkpoint` says what is finished."""
        return self._settings.is_checkpointed_by_hand

    @property
    def is_all_finished(self) -> bool:
        """True if everything that was handed over is finished."""
        return self.finished >= self.handed

    @property
    def reached(self) -> Checkpoint:
        """Everything up to here has been handed over."""
        return max(self.finished, self.handed)

    @property
    def oldest_unfinished_at(self) -> datetime | None:
        """When the oldest batch that is not fully checkpointed was handed over, by the steady clock."""
        with self._lock:
            return self._unfinished[0].at if self._unfinished else None

    @property
    def unfinished_records(self) -> int:
        """How many records are in batches that are not fully checkpointed."""
        with self._lock:
            return self._records_handed_over - self._unfinished[0].before if self._unfinished else 0

    def pass_over(self, to: Checkpoint) -> None:
        """No record before `to` remains to be handed over: `to` is finished as soon as everything before it is."""
        with self._lock:
            self.passed = max(self.passed, to)
            self._finish(self.finished)

    def finish(self, to: Checkpoint) -> None:
        """The handler has finished everything up to `to`. Never moves back. Does nothing once the row was moved, since
        the shard is then read again from there.
        """
        with self._lock:
            self._finish(to)

    def _finish(self, to: Checkpoint) -> None:
        to = max(self.finished, to)
        if self._has_been_moved(to):
            return
        self.finished = max(to, self.passed) if to >= self.handed else to
        while self._unfinished and self._unfinished[0].last <= self.finished:
            self._unfinished.popleft()

    def checkpoint(self, to: Checkpoint) -> bool:
        """The handler says that it has finished up to `to`. With manual checkpointing it is written at once, else when
        due.

        True if the lease table has it.
        """
        self.finish(to)
        if self.is_by_hand:
            self.write()
        else:
            self.write_if_due()
        return self.written >= to

    def prepare(self, to: Checkpoint, state: bytes) -> bool:
        """KCL's prepareCheckpoint, a separate write that does not move the checkpoint. True if the lease table has it.

        False if the checkpoint is at `to` already.
        """
        return to > self.written and self._held.write(partial(prepare, to=to, state=state))

    def write_if_due(self, slack: timedelta = timedelta(0)) -> None:
        """Write at most every checkpoint_interval, or up to `slack` earlier. For a while after a crash, write at
        once.
        """
        with self._lock:
            now = self._clock.steady()
            is_due = now - self._written_at + slack >= self._settings.checkpoint_interval
            writes = (is_due or now < self._careful_until) and self._is_unwritten()
        if writes:
            self.write()

    def heartbeat_if_due(self, after: timedelta, slack: timedelta) -> None:
        """A checkpoint that is due within `slack` also serves as the heartbeat: one write instead of two."""
        if self._held.is_heartbeat_due(after):
            self.write_if_due(slack)
        self._held.heartbeat_if_due(after, self.heartbeat)
        self.has_been_moved()

    def write(self) -> None:
        """Write what is finished and not written. A lost lease or an unreachable table shows in the held lease."""
        moves = None
        while True:
            with self._lock:
                if not self._is_unwritten() or moves == self._moves:
                    return
                at_tip = self._caught_up_at if self.is_all_finished else None
                moves, to = self._moves, self.finished
            if self._held.write(partial(_further, to=to, caught_up_at=at_tip), unmoved_since=moves):
                with self._lock:
                    self.written = max(self.written, to)
                    self._written_at = self._clock.steady()
                return
            # a second time, if the row turned out to be further on than we knew

    def write_last(self) -> bool:
        """The last write before we leave the lease. True if it was made late, after the lease was lost.

        Draining: checkpoint as the owner, then hand over. Lost: checkpoint late, if the position is as we last knew it.
        """
        self.write()
        if self._held.tenure is Tenure.DRAINING:
            self._held.write(hand_over)
        return self._held.is_lost and self.is_unwritten and self._held.checkpoint_late(self.finished)


def _further(lease: Lease, to: Checkpoint, caught_up_at: datetime | None) -> LeaseWrite | None:
    """The checkpoint's write; None if the row has it already. The heartbeats and the session may both find a checkpoint
    due. The second write would be refused because of the first, and we would take the lease for lost.
    """
    return None if lease.checkpoint >= to else checkpoint(lease, to, caught_up_at)
