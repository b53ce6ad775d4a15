"""One lease in one window: poll, deaggregate, handle, checkpoint, and leave the lease so that another owner can go
on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.session.crash_caution import crashes_by_hanging
from sublet.decisions.session.held_lease import Tenure
from sublet.decisions.session.process_health import ShardReport
from sublet.decisions.session.quiet import opening
from sublet.decisions.session.shard_end import BlockedByParents
from sublet.decisions.session.window import AtTip, LeaseReport, SessionOutcome, has_caught_up
from sublet.engine.calls.failing_calls import FailingCalls
from sublet.engine.calls.handler_caller import HandlerCaller, SessionCalls
from sublet.engine.calls.parallel import ParallelRunner
from sublet.engine.calls.runner import BatchRunner
from sublet.engine.exception_fields import exception_fields
from sublet.engine.lease.held import HeldLease, instant
from sublet.engine.lease.progress import Progress
from sublet.engine.lease.steps import begin, end_shard, plan_end
from sublet.engine.process_health import LeftBehind
from sublet.engine.process_shared import ProcessShared
from sublet.engine.session.gap_watch import GapWatch
from sublet.engine.session.hot_shard_sketch import SessionSketch
from sublet.engine.session.lag import SessionLag
from sublet.engine.session.metrics import LeaseMetrics
from sublet.engine.session.page_runner import PageRunner
from sublet.engine.session.pages import PageFeed
from sublet.engine.session.phase import PhaseEvent, PhaseTracker
from sublet.engine.session.records import UserRecords
from sublet.errors import CallFailed, HandlerContractBroken, StreamError, TransientError
from sublet.metric_names import Metric
from sublet.ports import Signal
from sublet.protocol.hash_keys import keys_inside
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import hand_over, release
from sublet.protocol.records import Page
from sublet.settings import HashRangeFilter


@dataclass(slots=True)
class LeaseSession:
    """A held lease, consumed until something ends it. `lease_session` makes one. Call `run` once."""

    shared: ProcessShared
    held: HeldLease
    deadline: datetime
    stop: Signal
    why: ClaimReason
    phase: PhaseTracker
    progress: Progress
    lag: SessionLag
    sketch: SessionSketch
    user_records: UserRecords
    page_runner: PageRunner
    calls: SessionCalls
    caller: HandlerCaller
    runner: BatchRunner | ParallelRunner
    metrics: LeaseMetrics
    count: LeaseReport
    """Complete once the session has ended."""
    stream_records: int = 0
    bytes: int = 0
    behind: int | None = None
    """The lag in milliseconds, by the last page that was handled."""
    feed: PageFeed | None = None

    def run(self) -> LeaseReport:
        """Consume, then release. Whatever happens in between, what is finished is written and the lease is released."""
        shared, ports = self.shared, self.shared.ports
        try:
            outcome, problem = self._consume(), None
        except CallFailed as refused:
            outcome, problem = SessionOutcome.SERVICE_FAILED, str(refused)
            if isinstance(refused, StreamError) and not isinstance(refused, TransientError):
                ports.metrics.put(Metric.READS_REFUSED, 1, shard_id=self.shard_id)
            shared.guard.health.note(refused)
            ports.log.error(
                "a call to AWS failed, and the lease session ends",
                shard_id=self.shard_id,
                error=type(refused).__name__,
                problem=problem,
            )
        except BaseException as fault:  # unexpected: release the lease, and let it be seen
            ports.log.error(
                "unexpected error ended the lease session",
                shard_id=self.shard_id,
                position=str(self.progress.reached),
                **exception_fields(fault, shared.settings.log_exceptions),
            )
            self._finish(SessionOutcome.SERVICE_FAILED, None)
            raise
        return self._finish(
            outcome, problem, keep_lease=self._outlives_window and outcome is SessionOutcome.WINDOW_ENDED
        )

    def stop_early(self) -> None:
        """End the window early, and do not keep_lease the lease for the next one."""
        self.phase.is_recalled = True
        self.stop.set()

    @property
    def shard_id(self) -> str:
        return self.held.lease.shard_id

    def left(self) -> LeftBehind:
        lease, call = self.held.lease, self.calls.oldest
        doing = None if call is None else str(call)
        return LeftBehind(lease.lease_key, lease.checkpoint, self.progress.finished, doing)

    def _consume(self) -> SessionOutcome:
        shared = self.shared
        if self.why is ClaimReason.STEAL and not self.stop.wait(self._handover_wait()):
            self.held.read_again()
        may_open = begin(self.held, shared.ports, shared.settings.start_position)
        if may_open is None:
            return SessionOutcome.WAITS_FOR_PARENTS
        if not may_open:
            return self._stopped()
        opened = self.progress.start()
        if shared.settings.hash_range_filter is HashRangeFilter.KCL:
            self.user_records.inside = keys_inside(self.held.lease.hash_key_range)
        position = opening(opened)
        if position is None:
            # An operator moved it to the shard's end; the lease manager creates the children.
            self.phase.is_recalled = True
        if self.stop.is_set() or position is None:
            return self._stopped()
        lease = self.held.lease
        call = partial(shared.handler.lease_acquired, self.shard_id, lease.checkpoint, lease.pending)
        if not self._tell("lease_acquired", call):
            return self._not_handled()
        self.phase.move(PhaseEvent.ACQUIRED)
        feed = self.feed = PageFeed(
            self.shard_id,
            position,
            shared.ports,
            shared.settings,
            shared.budget,
            shared.quiet,
            self.stop,
            self.deadline,
        )
        try:
            return self._pages(feed, opened)
        finally:
            self.stop.set()
            feed.close()

    def _pages(self, feed: PageFeed, opened: Lease) -> SessionOutcome:
        """Handle pages until a page, the deadline or the stop signal ends it. `opened`: the lease as reading began."""
        ports, settings, runner = self.shared.ports, self.shared.settings, self.runner
        tip, gaps = AtTip(), GapWatch(ports, opened, self.stop)
        while (page := feed.next()) is not None:
            self.metrics.polled(page)
            now = instant(ports.clock)
            tip = tip.after(page, now.steady)
            caught_up = has_caught_up(page, tip, now.steady, settings)
            if page.records and not page.is_shard_end and not caught_up:
                feed.read_ahead()  # while they are handled
            gaps.look_at(page, feed.polled_at, now.wall)
            for batch in self.page_runner.batches(page):
                if not runner.handle(batch, page.millis_behind_latest):
                    return self._not_handled()
                del batch  # freed before the next one is made
            self._has_handled(page, feed.polled_at)
            if self.held.lease.crashes and self.progress.caught_up_at is not None:
                self.held.write(self.progress.heartbeat)  # past the record that crashed earlier owners
            if page.is_shard_end:
                return self._end(page)
            if caught_up:
                return SessionOutcome.CAUGHT_UP
        return self._stopped()

    def _handover_wait(self) -> timedelta:
        """The setting's wait, cut at the end of the window."""
        settings, left = self.shared.settings, self.calls.time_left()
        return min(settings.handover_wait, max(left, timedelta(0)))

    def _stopped(self) -> SessionOutcome:
        if self.held.tenure is not Tenure.HELD:
            return SessionOutcome.LEASE_LOST
        return SessionOutcome.MOVED if self.progress.has_been_moved() else SessionOutcome.WINDOW_ENDED

    def _not_handled(self) -> SessionOutcome:
        """The outcome if the handler did not finish: it hangs, it failed too often, or we were stopped or are out of
        time.
        """
        tally = self.caller.tally
        if tally.is_hung:
            return SessionOutcome.HANDLER_HUNG
        has_failed = tally.retries_exhausted and not self.stop.is_set()
        return SessionOutcome.HANDLER_FAILED if has_failed else self._stopped()

    def _has_handled(self, page: Page, polled_at: datetime) -> None:
        self.stream_records += len(page.records)
        self.bytes += page.data_bytes
        self.behind = page.millis_behind_latest
        self.metrics.handled()
        self.progress.write_if_due()
        self.progress.has_read(page, polled_at)
        self.lag.has_read(page, polled_at)

    def show(self) -> None:
        """Publish the lease's metrics, as of now: another thread calls this while the session counts."""
        tally = self.caller.tally
        self.metrics.show(self.bytes, tally.handled, self._throttled, self.calls.called_at)

    def state(self) -> ShardReport:
        return self.metrics.state(self._throttled, self.calls.oldest, self.feed.unanswered if self.feed else None)

    def unanswered_since(self) -> datetime | None:
        outage = self.feed.unanswered if self.feed else None
        return None if outage is None else outage.began_at

    @property
    def _throttled(self) -> int:
        return self.feed.throttled if self.feed else 0

    def _end(self, page: Page) -> SessionOutcome:
        """The shard's last record is handled: write the children's leases, the children's names, and SHARD_END, in this
        order.
        """
        shared = self.shared
        self.progress.write()
        plan = plan_end(self.held.lease, page.child_shards, shared.ports)
        if isinstance(plan, BlockedByParents):
            return SessionOutcome.SHARD_END_BLOCKED
        moves = self.held.moves
        if self.progress.has_been_moved() or self.stop.is_set() or self.progress.is_unwritten:
            return self._stopped()
        if not (self._tell("shard_ended", self._tell_ended) and self.progress.is_all_finished):
            return self._not_handled()
        return SessionOutcome.SHARD_ENDED if end_shard(self.held, plan, shared.ports, moves) else self._stopped()

    def _tell_ended(self) -> None:
        """Call shard_ended, the handler's last chance to checkpoint the records that it keeps. When the window is over,
        it may return without that: a pull consumer waits there until its program has acknowledged them.
        """
        handler = self.shared.handler
        handler.shard_ended(self.shard_id)
        if not (self.progress.is_all_finished or self.caller.is_out_of_time):
            raise HandlerContractBroken(
                f"shard_ended has returned for {self.shard_id}, and records after {self.progress.finished} are not "
                "checkpointed: checkpoint the last of them in shard_ended, and the shard ends"
            )

    def _finish(self, outcome: SessionOutcome, problem: str | None, keep_lease: bool = False) -> LeaseReport:
        """Let the handler flush, make the last checkpoint, and release or keep the lease, or tell the handler that it
        is lost.
        """
        shared, tally = self.shared, self.caller.tally
        if outcome not in (SessionOutcome.SHARD_ENDED, SessionOutcome.MOVED):
            if not keep_lease or shared.settings.is_checkpointed_by_hand:
                self._tell_releasing()
            if self.progress.write_last():
                shared.ports.metrics.put(Metric.LATE_CHECKPOINTS, 1, shard_id=self.shard_id)
            attempts = self.runner.attempts
            attempts.note(self.held, self.progress)
            if self.held.tenure is Tenure.DRAINING:  # a leader has asked for it in the meantime
                self.held.write(hand_over)
            elif not keep_lease:
                self._release()
            if tally.is_hung:
                outcome = SessionOutcome.HANDLER_HUNG
            if self.held.tenure in (Tenure.DRAINING, Tenure.LOST):
                outcome, keep_lease = SessionOutcome.LEASE_LOST, False
                self._tell_lost()
        self.phase.move(PhaseEvent.KEPT if keep_lease or outcome is SessionOutcome.MOVED else PhaseEvent.ENDED)
        if outcome is SessionOutcome.SERVICE_FAILED:
            shared.ports.metrics.put(Metric.LEASES_FAILED, 1, shard_id=self.shard_id)
        lease = self.held.lease
        self.count = LeaseReport(
            self.shard_id,
            outcome,
            lease.fence if keep_lease else None,
            str(lease.checkpoint),
            self.stream_records,
            tally.handled,
            self.bytes,
            self.behind,
            tally.failures,
            self.user_records.dropped_out_of_range,
            problem=problem or tally.problem,
        )
        self.show()
        self.sketch.store(is_last=True)
        return self.count

    @property
    def _outlives_window(self) -> bool:
        """Whether the lease may be kept beyond the window. False also if the process is to end: it begins no other."""
        guard = self.shared.guard
        return self.phase.allows_keeping and guard.health.ending is None

    def _release(self) -> None:
        tally = self.caller.tally
        hung = crashes_by_hanging(self.held.lease) if tally.is_to_blame else 0
        caught_up_at, quiet = self.progress.caught_up_at, self.progress.quiet
        self.held.write(partial(release, caught_up_at=caught_up_at, crashes=hung, quiet=quiet))

    @property
    def is_still_held(self) -> bool:
        """Whether the lease is still kept: it may have been lost since, or requested."""
        return self.held.tenure is Tenure.HELD and self._outlives_window

    def settle(self) -> LeaseReport:
        """The report of a kept lease at the end of the window: as our last heartbeat left it, or lost."""
        if self.is_still_held:
            return replace(self.count, kept=self.held.lease.fence)
        if self.held.tenure is Tenure.HELD:
            self.phase.move(PhaseEvent.GIVEN_UP)
            return self._finish(SessionOutcome.WINDOW_ENDED, self.count.problem)
        self.progress.write_last()
        self._tell_lost()
        self.phase.move(PhaseEvent.ENDED)
        return replace(self.count, outcome=SessionOutcome.LEASE_LOST, kept=None)

    def _tell_lost(self) -> None:
        shared = self.shared
        shared.ports.metrics.put(Metric.LOST_LEASES, 1, shard_id=self.shard_id)
        self._tell("lease_lost", partial(shared.handler.lease_lost, self.shard_id), once=True)

    def _tell_releasing(self) -> None:
        """Call lease_releasing while a checkpoint can still be made, if the handler knows of the lease and it is still
        ours.
        """
        if self.phase.allows("lease_releasing") and self.held.confirm():
            handler = self.shared.handler
            call = partial(handler.lease_releasing, self.shard_id)
            self._tell("lease_releasing", call, once=True)
            self.phase.move(PhaseEvent.RELEASING)

    def _tell(self, what: str, call: Callable[[], None], once: bool = False) -> bool:
        """Call one of the handler's optional functions, if this phase allows it. True if it has returned."""
        return self.phase.allows(what) and self.caller.tell(what, call, once)


def lease_session(
    shared: ProcessShared,
    held: HeldLease,
    deadline: datetime,
    stop: Signal,
    why: ClaimReason,
    phase: PhaseTracker,
    cut_off: datetime | None = None,
) -> LeaseSession:
    """A session of the lease, which was just acquired or is still held.

    cut_off   when the runtime ends this process, whatever it is doing
    """
    ports, settings, lease, notes = shared.ports, shared.settings, held.lease, held.notes
    lock, shard_id = ports.tasks.lock, lease.shard_id

    progress = Progress(held, settings, ports.clock, stop, lock())
    lag = SessionLag(lease, ports.clock, lock())
    sketch = SessionSketch(shard_id, lease.hash_key_range, ports)
    user_records = UserRecords(shared, shard_id, progress, sketch)
    page_runner = PageRunner(settings, notes, progress, user_records, lag, sketch)

    failing = FailingCalls(lease)
    calls = SessionCalls(
        handler=shared.handler,
        held=held,
        ports=ports,
        settings=settings,
        guard=shared.guard,
        deadline=deadline,
        cut_off=cut_off,
        faults=user_records.faults,
        checkpoints_count=lambda: phase.counts,
        failing=failing,
    )
    caller = HandlerCaller(calls, progress, stop)
    runs = ParallelRunner if settings.parallelization_factor > 1 else BatchRunner

    session = LeaseSession(
        shared=shared,
        held=held,
        deadline=deadline,
        stop=stop,
        why=why,
        phase=phase,
        progress=progress,
        lag=lag,
        sketch=sketch,
        user_records=user_records,
        page_runner=page_runner,
        calls=calls,
        caller=caller,
        runner=runs(calls, caller, progress),
        metrics=LeaseMetrics(shard_id, ports, progress),
        count=LeaseReport(shard_id, SessionOutcome.WINDOW_ENDED),
    )
    notes.failing_at, notes.lag_at, notes.unanswered_since = failing.at, lag.report, session.unanswered_since
    return session
