"""Calling the user's handler: in order, again after a failure, and never past a record that is neither finished nor set aside."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from sublet.decisions.failure_policy import Answer, Run, SetAside, begin, is_noted_before
from sublet.decisions.record_filter import Faults, apart
from sublet.decisions.window import handler_backoff
from sublet.engine.calls.guard import CallGuard, HandlerCall
from sublet.engine.calls.parallel import LaneProgress
from sublet.engine.calls.retry_loop import run_retry_loop
from sublet.engine.lease.held import HeldLease
from sublet.engine.lease.progress import Progress
from sublet.errors import BatchItemsFailed, HandlerOverdue
from sublet.handler import Batch, CheckpointReply, Handler
from sublet.metric_names import Metric
from sublet.ports import Ports, Signal
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Tried
from sublet.protocol.lease_writes import heartbeat
from sublet.protocol.records import UserRecord
from sublet.settings import Settings

if TYPE_CHECKING:
    from sublet.engine.calls.set_aside import SettingAside

MILLISECOND = timedelta(milliseconds=1)


@dataclass(slots=True)
class BatchRunner:
    """One lease's handler calls. `cut_off`: when the runtime ends this process (None: it does not)."""

    handler: Handler
    held: HeldLease
    progress: Progress | LaneProgress
    ports: Ports
    settings: Settings
    calls: CallGuard
    stop: Signal
    deadline: datetime
    cut_off: datetime | None
    handled: int = field(default=0, init=False)
    """User records that the handler has finished: by returning, or by checkpointing them before it failed."""
    failures: int = field(default=0, init=False)
    problem: str | None = field(default=None, init=False)
    retries_exhausted: bool = field(default=False, init=False)
    """It failed handler_attempts times in a row, or once with no time left for another call."""
    is_over: bool = field(default=False, init=False)
    """The lease has been left, or is kept for another window: what the handler says of its batches comes too late."""
    is_hung: bool = field(default=False, init=False)
    """A call was given up. It may still be under way, so that no other may be made for this lease."""
    is_to_blame: bool = field(default=False, init=False)
    """Such a call was not merely held up by another."""
    under_way: HandlerCall | None = field(default=None, init=False)
    attempts: int = field(default=0, init=False)
    """How often what follows on what is finished has been tried in vain, in windows before this one too."""
    tried: Tried | None = field(default=None, init=False)
    """Of which records that is so."""
    faults: Faults = field(default_factory=dict)
    """What the content of records raised that are among those to be handed over: a call with such a record fails by it."""
    lanes: tuple[BatchRunner, ...] = field(default=(), init=False)
    """Those side by side just now, each a BatchRunner of its own."""

    @property
    def shard_id(self) -> str:
        return self.held.lease.shard_id

    @property
    def called_at(self) -> datetime | None:
        """When the call under way began, by the steady clock; None between calls. One that may take as long as it likes cannot
        hang: a pull consumer's waits for whoever pulls, and what waits with it shows as lag and as the checkpoint's age.
        """
        may_hang = self.cut_off is not None or self.settings.handler_timeout is not None
        return self.oldest_call.began_at if may_hang and self.oldest_call is not None else None

    @property
    def oldest_call(self) -> HandlerCall | None:
        """Of those that have begun."""
        calls = [self.under_way, *(lane.under_way for lane in self.lanes)]
        begun = [(call.began_at, number) for number, call in enumerate(calls) if call and call.began_at]
        return calls[min(begun)[1]] if begun else None

    def lane(self, progress: LaneProgress, stop: Signal) -> BatchRunner:
        """The same for records that are handled beside others of the shard."""
        return BatchRunner(
            self.handler, self.held, progress, self.ports, self.settings, self.calls, stop, self.deadline, self.cut_off,
            self.faults,
        )  # fmt: skip

    def take_over(self) -> None:
        """What came of the lanes. None of them may say anything more."""
        self.attempts, self.tried = 0, None
        for lane in self.lanes:
            lane.is_over = True
            self.handled += lane.handled
            self.failures += lane.failures
            self.problem = lane.problem or self.problem
            self.retries_exhausted = self.retries_exhausted or lane.retries_exhausted
            self.is_hung = self.is_hung or lane.is_hung
            self.is_to_blame = self.is_to_blame or lane.is_to_blame
            if isinstance(lane.progress, LaneProgress) and lane.progress.is_next:
                self.attempts, self.tried = lane.attempts, lane.tried
        self.lanes = ()

    def handle(self, records: Sequence[UserRecord], millis_behind_latest: int) -> bool:
        """Hand over `records` until all are finished or set aside. False: hung, given up, stopped, or past the deadline;
        `progress` knows how far it came, and `attempts` how often what follows has been tried, so far as `tried` says.

        No call begins after the deadline, so that only the one under way and the last writes need the window's margin.
        """
        return all(
            self._handle(given, millis_behind_latest)
            for given in apart(tuple(records), self.faults)  # of a tuple the handler cannot take any out
        )

    def _handle(self, given: Sequence[UserRecord], millis_behind_latest: int) -> bool:
        batch = EngineBatch(self, given, millis_behind_latest)
        known = self._known_of(given) if self._follows_the_checkpoint else ()
        course = begin(len(given), self.settings, *known)
        left = run_retry_loop(course, batch, batch.arrived, self.ports.clock.now, self.settings)
        self.attempts = left.attempts
        is_known = left.attempts or left.is_narrowed
        self.tried = batch.tried(left.runs[0]) if left.runs and is_known else None
        return not left.runs and not self.is_hung

    def _known_of(self, records: Sequence[UserRecord]) -> tuple[int, int, int]:
        """From before, by the lease's row: attempts, crashes, and how many of the records, from the first on, were in each of
        these attempts.
        """
        lease = self.held.lease
        if lease.tried is None or lease.tried.lanes not in (1, self.progress.lanes):
            return lease.attempts, lease.crashes, 0
        tried = bisect_right(records, lease.tried.up_to, key=lambda record: record.checkpoint)
        return (lease.attempts if tried else 0), lease.crashes, tried

    def note_attempts(self, attempts: int, tried: Tried | None) -> None:
        """In the lease's row, for whoever goes on: how often what follows the checkpoint has been tried in vain, or how far it
        has been narrowed down.
        """
        known = self.held.lease
        is_news = attempts != known.attempts if attempts else tried not in (None, known.tried)
        if is_news and self._follows_the_checkpoint:
            self.held.write(partial(heartbeat, attempts=attempts, tried=tried))

    @property
    def _follows_the_checkpoint(self) -> bool:
        """What is handed over next is what follows the row's checkpoint."""
        return not self.progress.is_unwritten and not self.settings.is_checkpointed_by_hand

    def may_call(self) -> bool:
        in_time = not self.stop.is_set() and self.ports.clock.steady() < self.deadline
        if not in_time or not self.held.confirm():
            return False
        return (
            not self.stop.is_set() and not self.progress.has_been_moved()
        )  # confirmed, and asked for by another

    def _may_retry(self, attempt: int) -> bool:
        if self.is_hung:
            return False
        backoff = handler_backoff(attempt, self.settings)
        in_time = self.ports.clock.steady() + backoff < self.deadline
        self.retries_exhausted = attempt >= self.settings.handler_attempts or not in_time
        return not self.retries_exhausted and not self.stop.wait(backoff)

    def call(self, records: Sequence[UserRecord], millis_behind_latest: int, attempt: int) -> HandlerCall:
        """One handler call; in a slot that the caller has."""
        first, last, count = records[0].checkpoint, records[-1].checkpoint, len(records)
        call = HandlerCall(self.held.lease.lease_key, self.shard_id, "handle", first, last, count)
        place: dict[int, int] | None = None

        def place_of(record: UserRecord, what: str) -> int:
            nonlocal place
            self._refuse_if_hung()
            if place is None:
                place = {id(known): index for index, known in enumerate(records)}
            if id(record) not in place:
                raise ValueError(f"batch.{what}: the record is not one of this batch's records")
            return place[id(record)]

        def checkpoint(record: UserRecord) -> bool:
            call.finished = max(call.finished, place_of(record, "checkpoint(record)") + 1)
            return not self.is_over and self.progress.checkpoint(record.checkpoint)

        def prepare(record: UserRecord, state: bytes) -> bool:
            place_of(record, "prepare_checkpoint(record, state)")
            return not self.is_over and self.progress.prepare(record.checkpoint, state)

        batch = Batch(
            self.settings.stream, self.shard_id, records, millis_behind_latest, checkpoint, self.settings.stream_arn,
            attempt, self._remaining_time_in_millis, prepare, self._checkpoint_at,
        )  # fmt: skip
        by_hand = self.settings.is_checkpointed_by_hand
        if by_hand:
            self.progress.hand_over(last, len(records))
        self.progress.begin_call(last)
        has_returned = self._make(call, partial(self._pass_on, batch))
        if has_returned and not by_hand:
            self.progress.finish(last)
        self.progress.end_call()  # not before: what the row says is judged by what is finished
        if not has_returned:
            self.ports.metrics.put(Metric.HANDLER_ATTEMPTS, attempt)
        if by_hand and not has_returned:  # it may have been told by position
            done = bisect_right(records, self.progress.finished, key=lambda record: record.checkpoint)
            call.finished = max(call.finished, done)
        return call

    def _pass_on(self, batch: Batch) -> None:
        """To the handler, unless its records cannot be."""
        first = batch.records[0]
        if self.faults and (fault := self.faults.get(first.checkpoint)) is not None:
            raise fault.error(first)
        self.handler.handle(batch)

    def _checkpoint_at(self, to: Checkpoint) -> CheckpointReply:
        """It keeps no batch in memory."""
        may_write = not (self.is_over or self.is_hung)
        if may_write and self.progress.checkpoint(to):
            return CheckpointReply.WRITTEN
        is_ours = may_write and self.held.holding.may_write and not self.progress.has_been_moved()
        return CheckpointReply.OUT_OF_REACH if is_ours else CheckpointReply.TOO_LATE

    def _refuse_if_hung(self) -> None:
        if self.is_hung:
            raise HandlerOverdue(
                f"this call for {self.shard_id} took too long: its lease was given up, and others handle its records"
            )

    def _remaining_time_in_millis(self) -> int:
        if self.stop.is_set():
            return 0
        return max(0, (self.deadline - self.ports.clock.steady()) // MILLISECOND)

    def _make(self, call: HandlerCall, work: Callable[[], None]) -> bool:
        """Make a call, in a slot that the caller has; whether it returned."""
        self.under_way = call
        self.calls.make(call, work, self.cut_off, late=self._forget)
        self.under_way = None
        if call.has_returned:
            return True
        self.failures += 1
        self.is_hung = self.is_hung or call.is_given_up
        self.is_to_blame = self.is_to_blame or (call.is_given_up and not call.is_held_up)
        hung = "held up" if call.is_held_up else "hung"
        self.problem = f"{hung} in {call}" if self.is_hung else f"{type(call.failure).__name__} in {call}"
        return False

    def _forget(self) -> None:
        """A call that was given up has ended. The handler was not told that the lease has gone: its calls never overlap."""
        lease, lost = self.held.lease, partial(self.handler.lease_lost, self.shard_id)
        self.calls.tell(HandlerCall(lease.lease_key, self.shard_id, "lease_lost"), lost, self.cut_off)

    def tell(self, what: str, work: Callable[[], None], once: bool = False) -> bool:
        """Call one of the handler's optional functions, again after a failure unless `once`; whether it ever returned. None is
        called while a call hangs.
        """
        attempt = 0
        while not self.is_hung:
            with self.calls.slots:
                if self._make(HandlerCall(self.held.lease.lease_key, self.shard_id, what), work):
                    return True
            attempt += 1
            if once or not self._may_retry(attempt):
                return False
        return False


@dataclass(slots=True)
class EngineBatch:
    """The acts of a batch's course."""

    handling: BatchRunner
    records: Sequence[UserRecord]
    millis_behind_latest: int

    def arrived(self, place: int) -> datetime:
        return self.records[place].approximate_arrival_timestamp

    def tried(self, run: Run) -> Tried:
        return Tried(self.records[run.end - 1].checkpoint, self.handling.progress.lanes)

    def time_left(self) -> timedelta:
        return self.handling.deadline - self.handling.ports.clock.steady()

    def call(self, run: Run) -> Answer | None:
        handling, records = self.handling, self.records
        with handling.calls.slots:
            if handling.is_hung or not handling.may_call():
                return None
            if is_noted_before(run, handling.held.lease.crashes, handling.settings):
                handling.note_attempts(run.attempts + 1, self.tried(run))
                if handling.held.is_lost:
                    return None
            called = records if run.size == len(records) else records[run.start : run.end]
            made = handling.call(called, self.millis_behind_latest, run.attempts + 1)
        handling.handled += made.finished
        if run.size < len(records):
            handling.progress.write_if_due()
        if made.is_held_up and not made.finished:
            return None  # no attempt of its own
        return Answer(made.finished, _has_raised(made), made.failure)

    def set_aside(self, step: SetAside, last: Answer | None) -> bool | None:
        """Set aside first, then checkpoint past: a crash in between sets aside twice, and loses nothing."""
        handling, run = self.handling, step.run
        if not handling.may_call():
            return None
        records = self.records[run.start : run.end]
        if not self._setting_aside().put(records, step, last):
            return False
        handling.progress.finish(records[-1].checkpoint)
        handling.progress.write()
        return True

    def _setting_aside(self) -> SettingAside:
        from sublet.engine.calls.set_aside import SettingAside  # noqa: PLC0415 - no cold start needs it

        handling = self.handling
        ports, settings, lease = handling.ports, handling.settings, handling.held.lease
        return SettingAside(
            ports.destination, ports.log, ports.metrics.put, ports.clock.now, settings, settings.stream,
            lease.shard_id, lease.holder or "",
        )  # fmt: skip

    def wait(self, lasts: timedelta) -> bool:
        handling = self.handling
        return not handling.is_hung and not handling.stop.wait(lasts)

    def give_up(self, why: str) -> None:  # noqa: ARG002 - the log has each failure
        self.handling.retries_exhausted = True


def _has_raised(call: HandlerCall) -> bool:
    """Or hung. What it returned and named as failed is no such thing: ESM splits no batch for that."""
    return not call.has_returned and not isinstance(call.failure, BatchItemsFailed)
