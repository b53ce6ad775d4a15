"""Calling the user's handler: in order, again after a failure, and never past a record that it did not finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.window import handler_backoff
from sublet.engine.exception_fields import exception_fields
from sublet.engine.held_lease import HeldLease
from sublet.engine.progress import Progress
from sublet.handler import Batch, Handler
from sublet.metric_names import Metric
from sublet.ports import Ports, Signal
from sublet.protocol.records import UserRecord
from sublet.settings import Settings

MILLISECOND = timedelta(milliseconds=1)


@dataclass(slots=True)
class Handling:
    """One lease's handler calls. `slots` bounds the calls at once in the process."""

    handler: Handler
    held: HeldLease
    progress: Progress
    ports: Ports
    settings: Settings
    slots: AbstractContextManager[object]
    stop: Signal
    deadline: datetime
    called_at: datetime | None = field(default=None, init=False)
    """When the call of `handle` under way began; None between calls."""
    handled: int = field(default=0, init=False)
    """User records that the handler has finished: by returning, or by checkpointing them before it failed."""
    failures: int = field(default=0, init=False)
    problem: str | None = field(default=None, init=False)
    retries_exhausted: bool = field(default=False, init=False)
    """It failed handler_attempts times in a row, or once with no time left for another call."""

    @property
    def shard_id(self) -> str:
        return self.held.lease.shard_id

    def handle(self, records: Sequence[UserRecord], millis_behind_latest: int) -> bool:
        """Hand over `records` until all are finished. False: retries exhausted, stopped, or past the deadline; `progress` knows
        how far it came.

        No call begins after the deadline, so that only the one under way and the last writes need the window's margin.
        """
        left, attempt, failed = tuple(records), 1, 0  # a tuple: the handler cannot take any out
        while left:
            with self.slots:
                if not self._may_call():
                    return False
                finished = self._call(left, millis_behind_latest, attempt)
            self.handled += finished
            left = left[finished:]
            if not left:
                return True
            attempt, failed = (attempt + 1, failed + 1) if finished == 0 else (1, 1)
            if not self._may_retry(failed):
                return False
        return True

    def _may_call(self) -> bool:
        in_time = not self.stop.is_set() and self.ports.clock.steady() < self.deadline
        return in_time and self.held.confirm()

    def _may_retry(self, attempt: int) -> bool:
        backoff = handler_backoff(attempt, self.settings)
        in_time = self.ports.clock.steady() + backoff < self.deadline
        self.retries_exhausted = attempt >= self.settings.handler_attempts or not in_time
        return not self.retries_exhausted and not self.stop.wait(backoff)

    def _call(self, records: Sequence[UserRecord], millis_behind_latest: int, attempt: int) -> int:
        """One handler call; how many of the records, from the first, are finished."""
        first, last, count, finished = records[0].checkpoint, records[-1].checkpoint, len(records), 0
        place: dict[int, int] | None = None

        def checkpoint(record: UserRecord) -> None:
            nonlocal finished, place
            if place is None:
                place = {id(known): index for index, known in enumerate(records)}
            if id(record) not in place:
                raise ValueError("batch.checkpoint(record): the record is not one of this batch's records")
            finished = max(finished, place[id(record)] + 1)
            self.progress.finish(record.checkpoint)
            self.progress.write_if_due()

        batch = Batch(
            self.settings.stream, self.shard_id, records, millis_behind_latest, checkpoint, self.settings.stream_arn,
            attempt, self._remaining_time_in_millis,
        )  # fmt: skip
        self.called_at = self.ports.clock.steady()
        try:
            self.handler.handle(batch)
        except BaseException as failure:  # noqa: BLE001 - whatever the user's code raises: CancelledError and SystemExit too
            self._failed(failure, f"handle, after {finished} records of {count} from {first}")
            return finished
        finally:
            self.called_at = None
        self.progress.finish(last)
        return count

    def _remaining_time_in_millis(self) -> int:
        return max(0, (self.deadline - self.ports.clock.steady()) // MILLISECOND)

    def _failed(self, failure: BaseException, where: str) -> None:
        self.failures += 1
        self.problem = f"{type(failure).__name__} in {where}"
        show_failure(failure, where, self.shard_id, self.ports, self.settings)

    def tell(self, what: str, call: Callable[[], None], once: bool = False) -> bool:
        """Call one of the handler's optional functions, again after a failure unless `once`; whether it ever returned."""
        attempt = 0
        while True:
            try:
                with self.slots:
                    call()
                return True
            except BaseException as failure:  # noqa: BLE001 - as in a call of `handle`
                attempt += 1
                self._failed(failure, what)
            if once or not self._may_retry(attempt):
                return False


def call_once(call: Callable[[], None], what: str, shard_id: str, ports: Ports, settings: Settings) -> None:
    """Call one of the handler's optional functions outside a session. That it fails is seen, and changes nothing."""
    try:
        call()
    except BaseException as failure:  # noqa: BLE001 - as in a call of `handle`
        show_failure(failure, what, shard_id, ports, settings)


def show_failure(failure: BaseException, where: str, shard_id: str, ports: Ports, settings: Settings) -> None:
    ports.metrics.put(Metric.HANDLER_FAILURES, 1, shard_id=shard_id)
    fields = exception_fields(failure, settings.log_exceptions)
    ports.log.error("handler failed", shard_id=shard_id, call=where, **fields)
