"""Limits how many handler calls a process makes at once, and how long each may take.

A call with a time limit runs in a task of its own, and its lease's session waits for it: a Python thread cannot be
ended, but it can be left behind. So the session that gives up a call does not hang itself. It ends as for any other
reason: it writes what is finished, returns its memory and releases the lease.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from sublet.call_turn import TURN, CallTurn
from sublet.decisions.session.window import overdue_at
from sublet.engine.calls.call_threads import CallThreads
from sublet.engine.calls.slots import CallSlots
from sublet.engine.exception_fields import exception_fields
from sublet.engine.process_health import HungCall, ProcessHealth
from sublet.metric_names import Metric
from sublet.ports import Ports, Signal
from sublet.protocol.checkpoint import Checkpoint
from sublet.settings import Settings

HANGS = "handler call hangs: its lease is given up"
HELD_UP = "handler call is held up by another: its lease is given up"

NOTED_WITHIN = timedelta(minutes=1)
"""The wait is repeated until it is over. It takes milliseconds; half a second if an event loop is asked which call
blocks it.
"""


@dataclass(slots=True)
class HandlerCall:
    """One call of the handler. `what`: the function's name. A call of `handle` also has the batch's first and last
    record, how many of its records are done, and which attempt it is.
    """

    lease_key: str
    shard_id: str
    what: str
    first: Checkpoint | None = None
    last: Checkpoint | None = None
    count: int = 0
    attempt: int = 1
    finished: int = 0
    began_at: datetime | None = None
    """A moment of the steady clock; None before the call has begun."""
    is_over: bool = False
    is_given_up: bool = False
    """It took too long, and its session no longer waits for it: its result does not count."""
    is_held_up: bool = False
    """It was given up because another call blocks the event loop that it runs on or waits for."""
    noted: Signal | None = None
    """Made when the call is given up, and set once it is noted as hanging: only then may its end be noted."""
    failure: BaseException | None = None
    work: Callable[[], None] | None = None
    """None once it is done, so that the batch can be freed before the next one is made."""
    turn: CallTurn = field(default_factory=CallTurn)

    @property
    def has_returned(self) -> bool:
        return self.is_over and self.failure is None and not self.is_given_up

    def __str__(self) -> str:
        """Which call it is, for a log or a report."""
        if self.first is None:
            return self.what
        return f"{self.what}, after {self.finished} records of {self.count} from {self.first}"


class CallGuard:
    """`slots` limits the calls at once. A call that is given up leaves its slot to another."""

    def __init__(self, ports: Ports, settings: Settings, health: ProcessHealth) -> None:
        self.health = health
        self.slots = CallSlots(settings.handler_slots, ports.tasks)
        self._settings = settings
        self._clock, self._tasks = ports.clock, ports.tasks
        self._metrics, self._log = ports.metrics, ports.log
        self.threads = CallThreads(ports.tasks, settings)
        self._lock = ports.tasks.lock()
        """Guards `is_over` and `is_given_up` of every call: a call ends in time or is given up, never both."""

    def tell(self, call: HandlerCall, work: Callable[[], None], cut_off: datetime | None) -> None:
        """Call one of the optional functions outside a session. A failure is logged and counted, and changes
        nothing.
        """
        with self.slots:
            self.make(call, work, cut_off)

    def make(
        self,
        call: HandlerCall,
        work: Callable[[], None],
        cut_off: datetime | None,
        late: Callable[[], None] = lambda: None,
    ) -> None:
        """Do the work, and note the outcome in `call`. `late` runs when a call that was given up ends after all.

        The caller has a slot. Raises nothing: whatever the user's code raises is the call's failure, CancelledError and
        SystemExit too. So is the error if no thread can be started.
        """
        call.work, call.began_at = work, (now := self._clock.steady())
        until = overdue_at(now, cut_off, self._settings)
        if until is None and not self.threads.are_reused:
            self._do(call, late)
        else:
            self._do_in_thread(call, late, now, until)
        with self._lock:
            call.is_given_up = not call.is_over
            call.noted = self._tasks.signal() if call.is_given_up else None
        self.threads.ended(call.lease_key, call.what, is_given_up=call.is_given_up)
        call.is_held_up = call.is_given_up and call.turn.give_up()
        if call.has_returned:
            call.finished = call.count
        try:
            self._note(call)
        finally:
            if call.noted is not None:
                call.noted.set()

    def _do_in_thread(self, call: HandlerCall, late: Callable[[], None], now: datetime, until: datetime | None) -> None:
        """Wait for the call until its time is over; without a limit, as long as it takes."""
        over = self._tasks.signal()
        try:
            self.threads.spawn(call.lease_key, partial(self._do, call, late, over))
        except RuntimeError as no_thread:
            call.failure, call.is_over = no_thread, True
            return
        # A loop, because on a machine that was suspended a wait may be over too soon.
        while not over.is_set() and (until is None or now < until):
            over.wait(NOTED_WITHIN if until is None else until - now)
            now = self._clock.steady()

    def _do(self, call: HandlerCall, late: Callable[[], None], over: Signal | None = None) -> None:
        before = TURN.set(call.turn)
        try:
            if call.work is not None:
                call.work()
        except BaseException as failure:  # noqa: BLE001 - the user's code may raise anything: CancelledError and SystemExit too
            call.failure = failure
        TURN.reset(before)
        call.work = None
        with self._lock:
            call.is_over = True
        if over is not None:
            over.set()
        if call.noted is not None:
            while not call.noted.wait(NOTED_WITHIN):
                pass
            self._ended_late(call, late)

    def _note(self, call: HandlerCall) -> None:
        """Log and count the result, and note what it says about the process."""
        if call.is_given_up:
            self.health.note_hung(self._as_hung(call))
            self._metrics.put(Metric.HANDLER_FAILURES, 1, shard_id=call.shard_id)
            what = HELD_UP if call.is_held_up else HANGS
            self._log.error(what, **self._fields(call), seconds=self._seconds(call))
        elif call.failure is not None:
            self.health.note(call.failure)
            self._metrics.put(Metric.HANDLER_FAILURES, 1, shard_id=call.shard_id)
            fields = exception_fields(call.failure, self._settings.log_exceptions)
            self._log.error("handler failed", **self._fields(call), **fields)
        if call.finished:
            self.health.note_finished(call.lease_key)

    def _ended_late(self, call: HandlerCall, late: Callable[[], None]) -> None:
        self._log.warning("abandoned handler call has ended", **self._fields(call), seconds=self._seconds(call))
        try:
            late()
        finally:
            self.health.note_returned(self._as_hung(call))

    @staticmethod
    def _fields(call: HandlerCall) -> dict[str, object]:
        fields: dict[str, object] = {
            "shard_id": call.shard_id,
            "lease_key": call.lease_key,
            "call": str(call),
        }
        span = {} if call.first is None else {"first": str(call.first), "last": str(call.last)}
        return fields | span

    def _seconds(self, call: HandlerCall) -> float:
        return (self._clock.steady() - self._since(call)).total_seconds()

    def _since(self, call: HandlerCall) -> datetime:
        return call.began_at or self._clock.steady()

    def _as_hung(self, call: HandlerCall) -> HungCall:
        return HungCall(call.lease_key, call.shard_id, call.what, self._since(call))
