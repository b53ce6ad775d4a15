"""One lease in a window: from its acquire, through its sessions, to the start of its children."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import NamedTuple

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.patience import may_pass
from sublet.decisions.session.window import LeaseReport, SessionOutcome, keeps_leases
from sublet.decisions.time_and_chance import Instant
from sublet.engine.calls.call_limits import HandlerCall
from sublet.engine.lease.held import HeldLease
from sublet.engine.process_shared import NamedLocks, ProcessShared
from sublet.engine.session.phase import PhaseTracker
from sublet.engine.session.session import LeaseSession, lease_session
from sublet.engine.worker.acquire import LeaseAcquirer
from sublet.engine.worker.barrier import WindowBarrier
from sublet.engine.worker.children import ChildLeases
from sublet.errors import CallFailed
from sublet.metric_names import Metric
from sublet.ports import Tasks
from sublet.protocol.lease import Lease, LeaseFence, shard_id_of
from sublet.protocol.lease_writes import release
from sublet.settings import Mode


class WindowSessions:
    """The sessions of one window: those that run, and those whose leases are kept for the next one.

    No field needs a lock: each lease's task sets and deletes its own key, and `held` copies all of them in one step. A
    signal handler may call `stop`, so it could not take one.
    """

    def __init__(self, tasks: Tasks) -> None:
        self.stopping = tasks.signal()
        self.kept: dict[str, LeaseSession] = {}
        self._held: dict[str, LeaseSession] = {}
        self._acquired: set[str] = set()

    def held(self) -> list[LeaseSession]:
        """The sessions whose leases need heartbeats: those that run, and those kept until this window is over."""
        return list(self._held.values())

    def has_begun(self, session: LeaseSession) -> None:
        lease_key = session.held.lease.lease_key
        self._held[lease_key] = session
        self._acquired.add(lease_key)
        if self.stopping.is_set():
            session.stop_early()

    def has_ended(self, session: LeaseSession, *, is_kept: bool) -> None:
        lease_key = session.held.lease.lease_key
        if is_kept:
            self.kept[lease_key] = session
        else:
            del self._held[lease_key]

    @property
    def acquired(self) -> int:
        """How many leases this window has acquired so far."""
        return len(self._acquired)

    def stop(self) -> None:
        """End all sessions early, also those that are still acquiring their lease."""
        self.stopping.set()
        for session in self.held():
            session.stop_early()


class RunResult(NamedTuple):
    """What came of a lease in the window. `lease`: as we left it; None if it was not acquired."""

    report: LeaseReport
    lease: Lease | None = None
    is_vanished: bool = False
    """The lease's row is gone."""


class LeaseRun:
    """Runs the leases of one window; `run` is called once for each, in a task of its own."""

    def __init__(
        self,
        shared: ProcessShared,
        consuming: NamedLocks,
        item: WorkerItem,
        deadline: datetime,
        cut_off: datetime | None,
        sessions: WindowSessions,
        acquirer: LeaseAcquirer,
        barrier: WindowBarrier,
        children: ChildLeases,
    ) -> None:
        ports = shared.ports
        self._shared, self._ports, self._settings = shared, ports, shared.settings
        self._clock, self._tasks, self._metrics, self._log = ports.clock, ports.tasks, ports.metrics, ports.log
        self._handler, self._guard = shared.handler, shared.guard
        self._health, self._threads = shared.guard.health, shared.guard.threads
        self._consuming = consuming
        self._keeps = keeps_leases(item, shared.settings)
        self._deadline, self._cut_off = deadline, cut_off
        self._sessions = sessions
        self._acquirer = acquirer
        self._barrier = barrier
        self._children = children

    def run(self, seen: LeaseFence, why: ClaimReason) -> LeaseReport:
        if self._health.is_hung(seen.lease_key) or not self._consuming.take(seen.lease_key):
            self._barrier.leave(seen.lease_key)
            self._log.warning(
                "lease not acquired: a handler call of an earlier window still runs for it",
                lease_key=seen.lease_key,
            )
            return LeaseReport(seen.lease_key, SessionOutcome.COULD_NOT_ACQUIRE)
        try:
            result = self._consume(seen, why)
        finally:
            if seen.lease_key not in self._sessions.kept:
                self._threads.let_go(seen.lease_key)
            self._consuming.free(seen.lease_key)
            self._barrier.leave(seen.lease_key)
        if result.is_vanished:
            return self._children.of_vanished(result.report)
        if result.lease is not None and result.lease.is_ended:
            return self._children.of_ended(result.report, result.lease)
        return result.report

    def _consume(self, seen: LeaseFence, why: ClaimReason) -> RunResult:
        try:
            row, since = self._acquirer.acquire(seen, why)
        except CallFailed as unavailable:
            if not may_pass(unavailable):
                raise
            self._health.note(unavailable)
            self._metrics.put(Metric.LEASES_FAILED, 1, shard_id=shard_id_of(seen.lease_key))
            return RunResult(LeaseReport(seen.lease_key, SessionOutcome.COULD_NOT_ACQUIRE))
        if not isinstance(row, Lease) or not self._acquirer.is_ours(row):
            return self._not_ours(seen, why, row if isinstance(row, Lease) else None, is_vanished=row is None)
        why = self._acquirer.why(row, why)
        self._log.info("lease acquired", lease_key=row.lease_key, why=why, checkpoint=str(row.checkpoint))
        session = self._first(row, since, why)
        if (why_not_tried := self._acquirer.why_not_tried(row, seen)) is not None:
            self._sessions.has_ended(session, is_kept=False)
            session.held.write(release)
            return RunResult(LeaseReport(row.lease_key, why_not_tried, checkpoint=str(row.checkpoint)))
        session, report = self._run(session)
        self._log.info(
            "lease session ended",
            lease_key=row.lease_key,
            outcome=report.outcome,
            user_records=report.user_records,
        )
        return RunResult(report, session.held.lease)

    def _not_ours(self, seen: LeaseFence, why: ClaimReason, row: Lease | None, *, is_vanished: bool) -> RunResult:
        if row is not None and row.is_ended:  # by an earlier attempt at this item, which then crashed
            return RunResult(LeaseReport(seen.lease_key, SessionOutcome.SHARD_ENDED), row)
        self._log.info("could not acquire", lease_key=seen.lease_key, why=why)
        if why is ClaimReason.CONTINUE:
            self._tell_lost(seen)
        return RunResult(LeaseReport(seen.lease_key, SessionOutcome.COULD_NOT_ACQUIRE), is_vanished=is_vanished)

    def _tell_lost(self, kept: LeaseFence) -> None:
        """Tell the handler that a lease which the window before kept for this one was taken in between: its state is
        stale.
        """
        shard_id = shard_id_of(kept.lease_key)
        self._metrics.put(Metric.LOST_LEASES, 1, shard_id=shard_id)
        call = HandlerCall(kept.lease_key, shard_id, "lease_lost")
        self._guard.tell(call, partial(self._handler.lease_lost, shard_id), self._cut_off)

    def _run(self, session: LeaseSession) -> tuple[LeaseSession, LeaseReport]:
        """Run sessions until the lease's part in the window is over. Returns the last session and its report."""
        try:
            while True:
                report = session.run()
                if report.outcome is SessionOutcome.MOVED:
                    session = self._restart_from_row(session)
                elif not self._continues(session, report):
                    break
                elif not session.is_still_held:
                    report = session.settle()
                    break
                else:
                    session = self._restart(session, self._clock.steady() + self._settings.window)
        except BaseException:
            self._sessions.has_ended(session, is_kept=False)
            raise
        self._sessions.has_ended(session, is_kept=report.kept is not None)
        return session, report

    def _continues(self, session: LeaseSession, report: LeaseReport) -> bool:
        """Whether the lease is kept, other leases of the window are not done yet, and the process has no fixed end."""
        if report.kept is None or self._cut_off is not None:
            return False
        return not self._barrier.wait(session.held.lease.lease_key)

    def _first(self, lease: Lease, since: Instant, why: ClaimReason) -> LeaseSession:
        settings, stop = self._settings, self._tasks.signal()
        held = HeldLease(lease, since, self._ports, settings.failover_time, stop)
        if settings.mode is Mode.CONTINUOUS:
            held.notes.measure(lease.throughput_kbps, settings.heartbeat_interval, self._clock.steady())
        shared, phase = self._shared.of_stream(lease.lease_key), PhaseTracker(self._keeps)
        session = lease_session(shared, held, self._deadline, stop, why, phase, self._cut_off)
        self._sessions.has_begun(session)
        return session

    def _restart_from_row(self, moved: LeaseSession) -> LeaseSession:
        held = moved.held
        self._log.warning(
            "another writer has moved the checkpoint; reading on from there",
            lease_key=held.lease.lease_key,
            checkpoint=str(held.lease.checkpoint),
            finished=str(moved.progress.finished),
        )
        return self._restart(moved, moved.deadline)

    def _restart(self, before: LeaseSession, deadline: datetime) -> LeaseSession:
        """Begin another session from the row's checkpoint. We keep the lease throughout."""
        held, stop = before.held, self._tasks.signal()
        held.go_on(stop)
        session = lease_session(
            before.shared, held, deadline, stop, ClaimReason.CONTINUE, before.phase.following(), self._cut_off
        )
        self._sessions.has_begun(session)
        if before.phase.is_recalled:  # perhaps just now
            session.stop_early()
        if deadline > self._deadline:
            self._barrier.go_on(held.lease.lease_key, stop)
        return session
