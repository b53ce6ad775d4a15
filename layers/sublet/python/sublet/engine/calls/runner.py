"""Hands batches to the handler in order, retries after a failure, and never goes past a record that is neither finished
nor set aside.

A batch passes the runner, the retry loop (which asks `LeaseBatch` to make each call), the caller, and the call guard.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from sublet.decisions.session.failure_policy import begin
from sublet.decisions.session.record_filter import apart
from sublet.engine.calls.handler_caller import BatchProgress, HandlerCaller, SessionCalls
from sublet.engine.calls.lease_batch import Attempts, LeaseBatch
from sublet.engine.calls.retry_loop import run_retry_loop
from sublet.protocol.records import UserRecord


@dataclass(slots=True)
class BatchRunner:
    """Runs one batch after another, for a lease or for one lane of it. `attempts`: of the records that come next."""

    session: SessionCalls
    caller: HandlerCaller
    progress: BatchProgress
    attempts: Attempts = field(default_factory=Attempts, init=False)

    def handle(self, records: Sequence[UserRecord], millis_behind_latest: int) -> bool:
        """Hand over `records` until all are finished or set aside. False if a call hung, the records were given up, or
        the session was stopped or is past its deadline. Then `progress` says how far it came, and `attempts` how often
        the next records failed.

        No call begins after the deadline, so only the current call and the last writes need the window's margin.
        """
        session, caller = self.session, self.caller
        settings, clock = session.settings, session.ports.clock
        given = tuple(records)  # the handler cannot remove a record from a tuple
        for each in apart(given, session.faults):
            batch = LeaseBatch(session, caller, self.progress, each, millis_behind_latest)
            course = begin(len(each), settings, *self._known_of(each))
            left = run_retry_loop(course, batch, batch.arrived, clock.now, settings)
            is_known = left.runs and (left.attempts or left.is_narrowed)
            self.attempts = Attempts(left.attempts, batch.tried(left.runs[0]) if is_known else None)
            if left.runs or caller.tally.is_hung:
                return False
        return True

    def _known_of(self, records: Sequence[UserRecord]) -> tuple[int, int, int]:
        """What the lease's row says: attempts, crashes, and how many of these records, from the first on, were in each
        attempt. Nothing of records that do not follow the row's checkpoint.
        """
        if not self.progress.follows_checkpoint:
            return 0, 0, 0
        lease = self.session.held.lease
        if lease.tried is None:
            return lease.attempts, lease.crashes, 0
        tried = bisect_right(records, lease.tried.up_to, key=attrgetter("checkpoint"))
        is_of_lanes = lease.tried.lanes in (1, self.progress.lanes)
        return (lease.attempts if tried else 0), lease.crashes, (tried if is_of_lanes else 0)
