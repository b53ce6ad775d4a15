"""Calls the functions of the user's handler for one lease, through the call guard, and counts the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from sublet.decisions.session.record_filter import Faults
from sublet.decisions.session.window import MILLISECOND, handler_backoff
from sublet.engine.calls.call_limits import CallGuard, HandlerCall
from sublet.engine.calls.failing_calls import FailingCalls
from sublet.engine.lease.held import HeldLease
from sublet.errors import HandlerOverdue
from sublet.handler import CheckpointReply, Handler, does_nothing, waits_for_program
from sublet.ports import CallSpan, Ports, Signal, Traces
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import UserRecord
from sublet.settings import Settings


class BatchProgress(Protocol):
    """How far a runner's records are handled: the progress of a shard, or of one lane."""

    @property
    def finished(self) -> Checkpoint: ...
    @property
    def lanes(self) -> int: ...
    @property
    def follows_checkpoint(self) -> bool: ...
    def begin_call(self, last: Checkpoint, records: int) -> None: ...
    def end_call(self, finished: Checkpoint | None) -> None: ...
    def finish(self, to: Checkpoint) -> None: ...
    def checkpoint(self, to: Checkpoint) -> bool: ...
    def prepare(self, to: Checkpoint, state: bytes) -> bool: ...
    def has_been_moved(self) -> bool: ...
    def write_if_due(self) -> None: ...
    def write(self) -> None: ...


@dataclass(slots=True)
class CallTally:
    """The results of a runner's calls. Only the task that makes the calls changes it."""

    handled: int = 0
    """User records that the handler has finished: by returning, or by checkpointing them before it failed."""
    failures: int = 0
    problem: str | None = None
    retries_exhausted: bool = False
    """It failed handler_attempts times in a row, or once with no time left for another call."""
    is_hung: bool = False
    """A call was given up. It may still be running, so no other call is made for this lease."""
    is_to_blame: bool = False
    """The call that was given up hung by itself: no other call held it up."""

    def add(self, other: CallTally) -> None:
        self.handled += other.handled
        self.failures += other.failures
        self.problem = other.problem or self.problem
        self.retries_exhausted |= other.retries_exhausted
        self.is_hung |= other.is_hung
        self.is_to_blame |= other.is_to_blame


@dataclass(frozen=True, slots=True)
class SessionCalls:
    """What all calls of one session have in common.

    cut_off            when the runtime ends this process (None: it does not)
    faults             exceptions that the content of records raised, by position: a call with such a record fails with
                       it
    checkpoints_count  whether checkpoints that the handler makes still count
    failing            the calls that have failed
    under_way          the calls that are running. Each runner sets and deletes its own key, so this needs no lock
    """

    handler: Handler
    held: HeldLease
    ports: Ports
    settings: Settings
    guard: CallGuard
    deadline: datetime
    cut_off: datetime | None
    faults: Faults
    checkpoints_count: Callable[[], bool]
    failing: FailingCalls
    under_way: dict[int, HandlerCall] = field(default_factory=dict)

    def time_left(self) -> timedelta:
        """How long until the deadline."""
        return self.deadline - self.ports.clock.steady()

    def begin_span(self, call: HandlerCall, records: Sequence[UserRecord]) -> CallSpan | None:
        """The span of a call with records; None if nobody traces it."""
        return _begun(self.ports.traces, call, records) if records else None

    def note_duration(self, call: HandlerCall) -> None:
        """Put how long a call with records took, unless it has waited for a program that pulls."""
        if not waits_for_program(self.handler):
            _put_duration(self.ports, call)

    @property
    def oldest(self) -> HandlerCall | None:
        """The running call that began first."""
        begun = [(call.began_at, key, call) for key, call in list(self.under_way.items()) if call.began_at]
        return min(begun)[2] if begun else None

    @property
    def called_at(self) -> datetime | None:
        """When the oldest running call began, by the steady clock; None between calls.

        Always None if a call may take as long as it likes, since it cannot hang: a pull consumer's call waits for its
        caller, and the records that wait with it show in the lag and in the checkpoint's age.
        """
        may_hang = self.cut_off is not None or self.settings.handler_timeout is not None
        oldest = self.oldest if may_hang else None
        return None if oldest is None else oldest.began_at


def _begun(traces: Traces | None, call: HandlerCall, records: Sequence[UserRecord]) -> CallSpan | None:
    return None if traces is None else traces.begin_call(call.shard_id, records, call.attempt)


def _put_duration(ports: Ports, call: HandlerCall) -> None:
    if call.began_at is None:
        return
    failed = HandlerOverdue if call.is_given_up else type(call.failure)
    error = None if call.has_returned else failed.__qualname__
    ports.metrics.put_duration(ports.clock.steady() - call.began_at, shard_id=call.shard_id, error=error)


@dataclass(slots=True)
class HandlerCaller:
    """Makes one call after another, for a lease or for one lane of it.

    is_lane     other lanes' calls for this lease run at the same time
    is_closed   the lane has ended: a checkpoint that the handler makes comes too late
    """

    session: SessionCalls
    progress: BatchProgress
    stop: Signal
    is_lane: bool = False
    tally: CallTally = field(default_factory=CallTally, init=False)
    is_closed: bool = field(default=False, init=False)

    @property
    def is_out_of_time(self) -> bool:
        return self.stop.is_set() or self.session.time_left() < MILLISECOND

    def make(self, call: HandlerCall, work: Callable[[], None], records: Sequence[UserRecord] = ()) -> bool:
        """Make a call. The caller has a slot. True if it returned. `records`: of a call of `handle`, for its span."""
        session, tally = self.session, self.tally
        span = session.begin_span(call, records)
        session.under_way[id(self)] = call
        traced = work if span is None else span.around(work)
        session.guard.make(call, traced, session.cut_off, late=self._tell_lost_late)
        del session.under_way[id(self)]
        if records:
            session.note_duration(call)
        if span is not None:
            span.end(HandlerOverdue(f"it was given up: {call}") if call.is_given_up else call.failure)
        if call.has_returned:
            self.succeeded(call.what)
            return True
        follows = session.held.lease.checkpoint if self.progress.follows_checkpoint else None
        session.failing.failed(id(self), call, session.ports.clock.now(), follows)
        tally.failures += 1
        tally.is_hung |= call.is_given_up
        tally.is_to_blame |= call.is_given_up and not call.is_held_up
        hung = "held up" if call.is_held_up else "hung"
        tally.problem = f"{hung} in {call}" if tally.is_hung else f"{type(call.failure).__name__} in {call}"
        return False

    def succeeded(self, what: str = "handle") -> None:
        """The function has returned, or its records were set aside. Only a caller of the whole shard knows that these
        include the records that failed in the session before; a lane does not.
        """
        failing = self.session.failing
        failing.succeeded(id(self), what)
        if what == "handle" and not self.is_lane:
            failing.earlier_is_handled()

    def tell(self, what: str, work: Callable[[], None], once: bool = False) -> bool:
        """Call one of the handler's optional functions, and after a failure call it again unless `once`. True if it has
        returned.

        No function is called while a call hangs. A function that does nothing needs no slot, which another lease's call
        may keep.
        """
        session, attempt = self.session, 0
        lease = session.held.lease
        if not self.tally.is_hung and what in does_nothing(session.handler):
            self.succeeded(what)
            return True
        while not self.tally.is_hung:
            with session.guard.slots:
                if self.make(HandlerCall(lease.lease_key, lease.shard_id, what, attempt=attempt + 1), work):
                    return True
            attempt += 1
            if once or not self._may_retry(attempt):
                return False
        return False

    def _may_retry(self, attempt: int) -> bool:
        session, tally = self.session, self.tally
        if tally.is_hung:
            return False
        backoff = handler_backoff(attempt, session.settings)
        in_time = backoff < session.time_left()
        tally.retries_exhausted = attempt >= session.settings.handler_attempts or not in_time
        return not tally.retries_exhausted and not self.stop.wait(backoff)

    def _tell_lost_late(self) -> None:
        """A call that was given up has ended. Calls `lease_lost` only now, so that the lease's calls never overlap."""
        session = self.session
        lease = session.held.lease
        lost = partial(session.handler.lease_lost, lease.shard_id)
        session.guard.tell(HandlerCall(lease.lease_key, lease.shard_id, "lease_lost"), lost, session.cut_off)

    # The handler's checkpoints.

    @property
    def checkpoints_count(self) -> bool:
        """Whether a checkpoint that the handler makes now still counts."""
        return not self.is_closed and self.session.checkpoints_count()

    def checkpoint_at(self, to: Checkpoint) -> CheckpointReply:
        """A checkpoint by position. Unlike the others, it does not keep the batch in memory."""
        progress, held = self.progress, self.session.held
        may_write = self.checkpoints_count and not self.tally.is_hung
        if may_write and progress.checkpoint(to):
            return CheckpointReply.WRITTEN
        is_ours = may_write and held.holding.may_write and not progress.has_been_moved()
        return CheckpointReply.OUT_OF_REACH if is_ours else CheckpointReply.TOO_LATE

    def refuse_if_hung(self) -> None:
        if self.tally.is_hung:
            held = self.session.held
            shard_id = held.lease.shard_id
            raise HandlerOverdue(
                f"this call for {shard_id} took too long: its lease was given up, and others handle its records"
            )
