"""One window over a few leases.

look     acquire each claim, exactly as the lease manager saw it
decide   who consumes what: each acquired lease in a task of its own, children of what ends here at once if there is room
act      consume until caught up, ended, lost or out of time; one more task heartbeats them all. Leases that a process keeps go
         on beyond that while a neighbour is in a long call
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from sublet.decisions.choose_leases import ClaimReason
from sublet.decisions.instant import Instant
from sublet.decisions.packing import WorkerItem
from sublet.decisions.process_report import ShardState
from sublet.decisions.window import LeaseReport, Outcome, keeps_leases
from sublet.engine.calls.guard import HandlerCall
from sublet.engine.lease.acquire import LeaseAcquirer
from sublet.engine.lease.held import HeldLease
from sublet.engine.lease.progress import Progress
from sublet.engine.manager.announcing import keep_reporting
from sublet.engine.process_health import LeftBehind
from sublet.engine.process_shared import Exclusion, ProcessShared
from sublet.engine.session.phase import Phases
from sublet.engine.session.session import LeaseSession
from sublet.engine.worker.barrier import WindowBarrier
from sublet.engine.worker.children import Children
from sublet.engine.worker.upkeep import keep_heartbeating, keep_showing, show_no_trouble
from sublet.errors import LeaseTableError, StreamError, TransientError
from sublet.metric_names import Metric
from sublet.ports import Signal, Task
from sublet.protocol.lease import Lease, LeaseFence, shard_id_of
from sublet.protocol.lease_writes import release
from sublet.settings import Mode


@dataclass(slots=True)
class Window:
    """The leases of one window; `run` it once. `started` grows while it runs: a shard's end may bring its children."""

    shared: ProcessShared
    consuming: Exclusion
    item: WorkerItem
    holder: str
    deadline: datetime
    stop: Signal | None
    lock: AbstractContextManager[object]
    cut_off: datetime | None = None
    claimed: set[str] = field(default_factory=set)
    vanished: set[str] = field(default_factory=set)
    """Claims whose rows are gone."""
    started: list[Task[LeaseReport]] = field(default_factory=list)
    sessions: dict[str, LeaseSession] = field(default_factory=dict)
    """Whose leases are heartbeaten: those under way, and those kept for the next window, until this one is over."""
    kept: dict[str, LeaseSession] = field(default_factory=dict)
    acquired: int = 0
    stopping: Signal = field(init=False)
    acquiring: LeaseAcquirer = field(init=False)
    under_way: WindowBarrier = field(init=False)
    children: Children = field(init=False)

    def __post_init__(self) -> None:
        ports, settings = self.shared.ports, self.shared.settings
        self.stopping, self.under_way = ports.tasks.signal(), WindowBarrier(ports.tasks)
        self.acquiring = LeaseAcquirer(
            ports, settings, self.item, self.holder, self.deadline, self.stopping, self.shared.asks
        )
        self.children = Children(ports, self.acquiring, self._start_child)

    def run(self) -> list[LeaseReport]:
        tasks, done = self.shared.ports.tasks, self.shared.ports.tasks.signal()
        beside: list[Task[None]] = []
        showing: Task[bool] | None = None
        forgets = [self.shared.calls.health.ends_at_once.on_set(self._stop_sessions)]
        try:
            beside.append(tasks.spawn(lambda: keep_heartbeating(self._progress, self.shared.settings, done)))
            showing = tasks.spawn(lambda: keep_showing(self._running, self.shared.ports, done))
            if self.shared.settings.mode is Mode.CONTINUOUS:
                beside.append(
                    tasks.spawn(lambda: keep_reporting(self.item.worker_id, self.shared.ports, done))
                )
            if self.stop is not None:
                forgets.append(self.stop.on_set(self._stop_sessions))
            self._start_claims()
            reports = self._reports()
        finally:
            done.set()
            for forget in forgets:
                forget()
            for task in beside:
                task.result()
            has_shown = showing is not None and showing.result()
            if self.acquired and not has_shown:
                self.shared.ports.metrics.put(Metric.WORKER_LEASES, self.acquired)
                show_no_trouble(self.shared.ports)
        return [self.kept[r.lease_key].settle() if r.lease_key in self.kept else r for r in reports]

    def _start_claims(self) -> None:
        """Raises what starting a task raises (a machine may be out of threads), once what has been started has ended."""
        try:
            with self.lock:
                for claim in self.item.claims:
                    self._start(
                        LeaseFence(claim.lease_key, claim.lease_owner, claim.lease_counter), claim.why
                    )
        except BaseException:
            self._stop_sessions()
            with suppress(BaseException):  # the first fault is the one to be seen
                self._reports()
            raise

    def _reports(self) -> list[LeaseReport]:
        """Of every lease, in the order of their start. One that failed unplanned is raised only when all have been given back."""
        reports, faults = [], []
        for task in self.started:  # may grow while we wait; a task adds to it only before it ends itself
            try:
                reports.append(task.result())
            except BaseException as fault:  # noqa: BLE001 - raised below, when the others have ended
                faults.append(fault)
        if faults:
            self._give_back_kept()
            raise faults[0]
        return reports

    def _give_back_kept(self) -> None:
        """No window goes on with them: nobody is told what was kept."""
        for session in self.kept.values():
            session.stop_early()
            with suppress(StreamError, LeaseTableError):
                session.settle()

    def _running(self) -> list[LeaseSession]:
        return list(self.sessions.values())

    def _progress(self) -> list[Progress]:
        return [session.progress for session in self._running()]

    def left(self) -> list[LeftBehind]:
        """Of the leases that are held, those kept for the next window included."""
        return [session.left() for session in self._running()]

    def states(self) -> list[ShardState]:
        return [session.state() for session in self._running()]

    def give(self, lease_keys: Collection[str]) -> None:
        """Release these, as soon as the handler's call of each has ended."""
        for lease_key, session in list(self.sessions.items()):
            if lease_key in lease_keys:
                session.stop_early()

    def _stop_sessions(self) -> None:
        """Those to come too: one may be acquiring its lease just now."""
        self.stopping.set()
        for session in self._running():
            session.stop_early()

    def _start(self, seen: LeaseFence, why: ClaimReason) -> None:
        """Begin with a lease, unless this window already has or had it. The caller holds the lock."""
        if seen.lease_key not in self.claimed:
            self.claimed.add(seen.lease_key)
            self.under_way.join(seen.lease_key)
            self.started.append(self.shared.ports.tasks.spawn(lambda: self._lease(seen, why)))

    def _lease(self, seen: LeaseFence, why: ClaimReason) -> LeaseReport:
        """One lease from its acquire to the start of its children."""
        is_hung = self.shared.calls.health.is_hung(seen.lease_key)
        if is_hung or not self.consuming.take(seen.lease_key):
            self.under_way.leave(seen.lease_key)
            self.shared.ports.log.warning(
                "an earlier window of this process is still in a handler call of this lease",
                lease_key=seen.lease_key,
            )
            return LeaseReport(seen.lease_key, Outcome.COULD_NOT_ACQUIRE)
        try:
            report, lease = self._consume(seen, why)
        finally:
            self.consuming.give_back(seen.lease_key)
            self.under_way.leave(seen.lease_key)
        if seen.lease_key in self.vanished:
            return self.children.of_vanished(report)
        return self.children.of_ended(report, lease) if lease is not None and lease.is_ended else report

    def _consume(self, seen: LeaseFence, why: ClaimReason) -> tuple[LeaseReport, Lease | None]:
        """The report, and the lease as we left it (None: not acquired)."""
        log = self.shared.ports.log
        try:
            row, since = self.acquiring.acquire(seen, why)
        except TransientError as unavailable:
            self.shared.calls.health.note(unavailable)
            self.shared.ports.metrics.put(Metric.LEASES_FAILED, 1, shard_id=shard_id_of(seen.lease_key))
            return LeaseReport(seen.lease_key, Outcome.COULD_NOT_ACQUIRE), None
        if row is None:
            self.vanished.add(seen.lease_key)
        if not isinstance(row, Lease) or not self.acquiring.is_ours(row):
            if (
                isinstance(row, Lease) and row.is_ended
            ):  # by an earlier attempt at this item, which then crashed
                return LeaseReport(seen.lease_key, Outcome.SHARD_ENDED), row
            log.info("could not acquire", lease_key=seen.lease_key, why=why)
            if why is ClaimReason.CONTINUE:
                self._tell_lost(seen)
            return LeaseReport(seen.lease_key, Outcome.COULD_NOT_ACQUIRE), None
        why = self.acquiring.why(row, why)
        log.info("lease acquired", lease_key=row.lease_key, why=why, checkpoint=str(row.checkpoint))
        session = self._session(row, since, why)
        if (spared := self.acquiring.spared(row, seen)) is not None:
            del self.sessions[row.lease_key]
            session.held.write(release)
            return LeaseReport(row.lease_key, spared, checkpoint=str(row.checkpoint)), None
        try:
            session, report = self._run(session)
        except BaseException:
            del self.sessions[row.lease_key]
            raise
        if report.kept is not None:
            self.kept[row.lease_key] = session
        else:
            del self.sessions[row.lease_key]
        log.info(
            "lease session ended",
            lease_key=row.lease_key,
            outcome=report.outcome,
            user_records=report.user_records,
        )
        return report, session.held.lease

    def _run(self, session: LeaseSession) -> tuple[LeaseSession, LeaseReport]:
        """Until the lease's part in the window is over; the last session, and what it reports."""
        while True:
            report = session.run()
            if report.outcome is Outcome.MOVED:
                session = self._begin_again_from_the_row(session)
            elif not self._may_go_on(session, report):
                return session, report
            elif not session.is_kept:
                return session, session.settle()
            else:
                session = self._begin_again(
                    session, self.shared.ports.clock.steady() + self.shared.settings.window
                )

    def _may_go_on(self, session: LeaseSession, report: LeaseReport) -> bool:
        """It is kept, others are not done yet, and nothing ends the process meanwhile."""
        if report.kept is None or self.cut_off is not None:
            return False
        return not self.under_way.wait(session.held.lease.lease_key)

    def _tell_lost(self, kept: LeaseFence) -> None:
        """Kept for this window by the one before, and taken in between: the handler's state for it is stale."""
        shard_id, shared = shard_id_of(kept.lease_key), self.shared
        shared.ports.metrics.put(Metric.LOST_LEASES, 1)
        call = HandlerCall(kept.lease_key, shard_id, "lease_lost")
        shared.calls.tell(call, partial(shared.handler.lease_lost, shard_id), self.cut_off)

    def _session(self, lease: Lease, since: Instant, why: ClaimReason) -> LeaseSession:
        ports, stop = self.shared.ports, self.shared.ports.tasks.signal()
        held = HeldLease(lease, since, ports, self.shared.settings.failover_time, stop)
        if self.shared.settings.mode is Mode.CONTINUOUS:
            held.measure(self.shared.settings.heartbeat_interval)
        phase = Phases(keeps_leases(self.item, self.shared.settings))
        session = LeaseSession(self.shared, held, self.deadline, stop, why, phase, self.cut_off)
        self.acquired += 1
        return self._under_way(session)

    def _begin_again_from_the_row(self, moved: LeaseSession) -> LeaseSession:
        held = moved.held
        self.shared.ports.log.warning(
            "the checkpoint was moved by another hand; reading on from there",
            lease_key=held.lease.lease_key, checkpoint=str(held.lease.checkpoint), finished=str(moved.progress.finished),
        )  # fmt: skip
        return self._begin_again(moved, moved.deadline)

    def _begin_again(self, before: LeaseSession, deadline: datetime) -> LeaseSession:
        """From where the row stands, with nothing in hand. The lease stays ours all the while."""
        held, stop = before.held, self.shared.ports.tasks.signal()
        held.go_on(stop)
        session = LeaseSession(
            self.shared, held, deadline, stop, ClaimReason.CONTINUE, before.phase.following(), self.cut_off
        )
        self._under_way(session)
        if before.phase.is_recalled:  # perhaps just now
            session.stop_early()
        if deadline > self.deadline:
            self.under_way.go_on(held.lease.lease_key, stop)
        return session

    def _under_way(self, session: LeaseSession) -> LeaseSession:
        self.sessions[session.held.lease.lease_key] = session
        if self.stopping.is_set():
            session.stop_early()
        return session

    def _start_child(self, child: Lease) -> bool:
        with self.lock:
            if child.lease_key not in self.claimed:
                in_time = self.shared.ports.clock.steady() < self.deadline and not (
                    self.stop and self.stop.is_set()
                )
                if not in_time or len(self.under_way) >= self._leases_max:
                    return False
                self._start(child.fence, ClaimReason.CHILD)
            return True

    @property
    def _leases_max(self) -> int:
        at_once = self.shared.settings.leases_per_worker
        return at_once if self.item.leases_max is None else min(at_once, self.item.leases_max)
