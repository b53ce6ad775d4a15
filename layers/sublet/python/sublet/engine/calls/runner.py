"""Hands batches to the handler in order, retries after a failure, and never goes past a record that is neither finished
nor set aside.

A batch passes the runner, the retry loop (which asks the runner to make each call), the caller, and the call guard.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sublet.decisions.session.failure_policy import Answer, Run, SetAside, begin, is_noted_before
from sublet.decisions.session.record_filter import apart
from sublet.engine.calls.caller import Caller
from sublet.engine.calls.guard import HandlerCall
from sublet.engine.calls.retry_loop import run_retry_loop
from sublet.errors import BatchItemsFailed
from sublet.protocol.lease import Tried
from sublet.protocol.lease_writes import heartbeat
from sublet.protocol.records import UserRecord

if TYPE_CHECKING:
    from sublet.engine.calls.set_aside import SettingAside


class Attempts(NamedTuple):
    """How often the next records have failed, in earlier windows too. `tried`: which records these are."""

    times: int = 0
    tried: Tried | None = None


@dataclass(slots=True)
class BatchRunner:
    """Runs one batch after another, for a lease or for one lane of it."""

    caller: Caller
    attempts: Attempts = field(default_factory=Attempts, init=False)
    _records: Sequence[UserRecord] = field(default=(), init=False)
    """The batch under way."""
    _millis_behind_latest: int = field(default=0, init=False)

    def handle(self, records: Sequence[UserRecord], millis_behind_latest: int) -> bool:
        """Hand over `records` until all are finished or set aside. False if a call hung, the records were given up, or
        the session was stopped or is past its deadline. Then `progress` says how far it came, and `attempts` how often
        the next records failed.

        No call begins after the deadline, so only the current call and the last writes need the window's margin.
        """
        self._millis_behind_latest = millis_behind_latest
        given = tuple(records)  # the handler cannot remove a record from a tuple
        return all(map(self._handle, apart(given, self.caller.session.faults)))

    def _handle(self, records: Sequence[UserRecord]) -> bool:
        self._records = records
        settings, clock = self.caller.session.settings, self.caller.session.ports.clock
        known = self._known_of(records) if self.caller.progress.follows_checkpoint else ()
        left = run_retry_loop(begin(len(records), settings, *known), self, self._arrived, clock.now, settings)
        is_known = left.attempts or left.is_narrowed
        self.attempts = Attempts(left.attempts, self._tried(left.runs[0]) if left.runs and is_known else None)
        self._records = ()
        return not left.runs and not self.caller.tally.is_hung

    def _known_of(self, records: Sequence[UserRecord]) -> tuple[int, int, int]:
        """What the lease's row says: attempts, crashes, and how many of these records, from the first on, were in each
        attempt.
        """
        lease = self.caller.session.held.lease
        if lease.tried is None or lease.tried.lanes not in (1, self.caller.progress.lanes):
            return lease.attempts, lease.crashes, 0
        tried = bisect_right(records, lease.tried.up_to, key=lambda record: record.checkpoint)
        return (lease.attempts if tried else 0), lease.crashes, tried

    def note_attempts(self, attempts: Attempts) -> None:
        """Write them to the lease's row for its next session, unless the row has them already."""
        known = self.caller.session.held.lease
        is_new = attempts.times != known.attempts if attempts.times else attempts.tried not in (None, known.tried)
        if is_new and self.caller.progress.follows_checkpoint:
            self.caller.session.held.write(partial(heartbeat, attempts=attempts.times, tried=attempts.tried))

    # What the retry loop asks for.

    def _arrived(self, place: int) -> datetime:
        return self._records[place].approximate_arrival_timestamp

    def time_left(self) -> timedelta:
        return self.caller.time_left()

    def call(self, run: Run) -> Answer | None:
        session, records = self.caller.session, self._records
        if not session.guard.slots.take(self.caller.stop):
            return None
        try:
            if self.caller.tally.is_hung or not self._may_call():
                return None
            if is_noted_before(run, session.held.lease.crashes, session.settings):
                self.note_attempts(Attempts(run.attempts + 1, self._tried(run)))
                if session.held.is_lost:
                    return None
            called = records if run.size == len(records) else records[run.start : run.end]
            made = self.caller.call(called, self._millis_behind_latest, run.attempts + 1)
        finally:
            session.guard.slots.give()
        self.caller.tally.handled += made.finished
        if run.size < len(records):
            self.caller.progress.write_if_due()
        if made.is_held_up and not made.finished:
            return None  # this does not count as an attempt
        return Answer(made.finished, _has_raised(made), made.failure)

    def set_aside(self, step: SetAside, last: Answer | None) -> bool | None:
        """Set aside first, then checkpoint past. A crash in between sets them aside twice, and loses nothing."""
        if not self._may_call():
            return None
        records = self._records[step.run.start : step.run.end]
        if not self._setting_aside().put(records, step, last):
            return False
        self.caller.progress.finish(records[-1].checkpoint)
        self.caller.succeeded()
        self.caller.progress.write()
        return True

    def wait(self, lasts: timedelta) -> bool:
        return not self.caller.tally.is_hung and not self.caller.stop.wait(lasts)

    def give_up(self, why: str) -> None:  # noqa: ARG002 - the log has each failure
        self.caller.tally.retries_exhausted = True

    def _tried(self, run: Run) -> Tried:
        return Tried(self._records[run.end - 1].checkpoint, self.caller.progress.lanes)

    def _setting_aside(self) -> SettingAside:
        from sublet.engine.calls.set_aside import SettingAside  # noqa: PLC0415 - no cold start needs it

        session = self.caller.session
        ports, settings, lease = session.ports, session.settings, session.held.lease
        return SettingAside(
            ports.destination,
            ports.log,
            ports.metrics.put,
            ports.clock.now,
            settings,
            settings.stream,
            lease.shard_id,
            lease.holder or "",
        )

    def _may_call(self) -> bool:
        stop = self.caller.stop
        if stop.is_set() or self.time_left() <= timedelta(0) or not self.caller.session.held.confirm():
            return False
        return not stop.is_set() and not self.caller.progress.has_been_moved()  # confirming may have shown either


def _has_raised(call: HandlerCall) -> bool:
    """True if the call raised or hung; item failures do not count, since ESM splits no batch for them."""
    return not call.has_returned and not isinstance(call.failure, BatchItemsFailed)
