"""Calling the user's handler: in order, again after a failure, and never past a record that it did not finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.window import handler_backoff
from sublet.engine.handler_calls import HandlerCall, HandlerCalls
from sublet.engine.held_lease import HeldLease
from sublet.engine.progress import Progress
from sublet.errors import HandlerOverdue
from sublet.handler import Batch, Handler
from sublet.ports import Ports, Signal
from sublet.protocol.records import UserRecord
from sublet.settings import Settings

MILLISECOND = timedelta(milliseconds=1)


@dataclass(slots=True)
class Handling:
    """One lease's handler calls. `cut_off`: when the runtime ends this process (None: it does not)."""

    handler: Handler
    held: HeldLease
    progress: Progress
    ports: Ports
    settings: Settings
    calls: HandlerCalls
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
    under_way: HandlerCall | None = field(default=None, init=False)

    @property
    def shard_id(self) -> str:
        return self.held.lease.shard_id

    @property
    def called_at(self) -> datetime | None:
        """When the call under way began, by the steady clock; None between calls."""
        under_way = self.under_way
        return None if under_way is None else under_way.began_at

    def handle(self, records: Sequence[UserRecord], millis_behind_latest: int) -> bool:
        """Hand over `records` until all are finished. False: hung, retries exhausted, stopped, or past the deadline; `progress`
        knows how far it came.

        No call begins after the deadline, so that only the one under way and the last writes need the window's margin.
        """
        left, attempt, failed = tuple(records), 1, 0  # a tuple: the handler cannot take any out
        while left:
            with self.calls.slots:
                if not self._may_call():
                    return False
                finished = self._call(left, millis_behind_latest, attempt)
            self.handled += finished
            left = left[finished:]
            if not left:
                return not self.is_hung
            attempt, failed = (attempt + 1, failed + 1) if finished == 0 else (1, 1)
            if not self._may_retry(failed):
                return False
        return True

    def _may_call(self) -> bool:
        in_time = not self.stop.is_set() and self.ports.clock.steady() < self.deadline
        return in_time and self.held.confirm() and not self.progress.has_been_moved()

    def _may_retry(self, attempt: int) -> bool:
        if self.is_hung:
            return False
        backoff = handler_backoff(attempt, self.settings)
        in_time = self.ports.clock.steady() + backoff < self.deadline
        self.retries_exhausted = attempt >= self.settings.handler_attempts or not in_time
        return not self.retries_exhausted and not self.stop.wait(backoff)

    def _call(self, records: Sequence[UserRecord], millis_behind_latest: int, attempt: int) -> int:
        """One handler call; how many of the records, from the first, are finished."""
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
            attempt, self._remaining_time_in_millis, prepare,
        )  # fmt: skip
        by_hand = self.settings.is_checkpointed_by_hand
        if by_hand:
            self.progress.hand_over(last)
        has_returned = self._make(call, partial(self.handler.handle, batch))
        if has_returned and not by_hand:
            self.progress.finish(last)
        return call.finished

    def _refuse_if_hung(self) -> None:
        if self.is_hung:
            raise HandlerOverdue(
                f"this call for {self.shard_id} took too long: its lease was given up, and others handle its records"
            )

    def _remaining_time_in_millis(self) -> int:
        return max(0, (self.deadline - self.ports.clock.steady()) // MILLISECOND)

    def _make(self, call: HandlerCall, work: Callable[[], None]) -> bool:
        """Make a call, in a slot that the caller has; whether it returned."""
        self.under_way = call
        self.calls.make(call, work, self.cut_off, late=self._forget)
        self.under_way = None
        if call.has_returned:
            return True
        self.failures += 1
        self.is_hung = call.is_given_up
        self.problem = f"hung in {call}" if self.is_hung else f"{type(call.failure).__name__} in {call}"
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
