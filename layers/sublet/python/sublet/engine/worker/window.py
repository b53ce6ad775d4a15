"""One window over a few leases.

look     acquire each claim, exactly as the lease manager saw it
decide   each acquired lease runs in a task of its own; children of a shard that ends here run too, if there is room
act      consume until caught up, ended, lost or out of time. Beside them one task each heartbeats all leases, shows their metrics
         each minute, and obeys an operator's pauses. A process's leases go on beyond the window's end while a neighbour is in
         a long call
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.choose_leases import ClaimReason
from sublet.decisions.control import READ_EVERY, pause_of
from sublet.decisions.packing import WorkerItem
from sublet.decisions.process_report import ShardReport
from sublet.decisions.window import LeaseReport
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.announcing import keep_reporting
from sublet.engine.process_health import LeftBehind
from sublet.engine.process_shared import Exclusion, ProcessShared
from sublet.engine.session.metrics import SHOWN_EVERY
from sublet.engine.session.session import LeaseSession
from sublet.engine.worker.acquire import Children, LeaseAcquirer
from sublet.engine.worker.barrier import WindowBarrier
from sublet.engine.worker.lease_run import LeaseRun, WindowSessions
from sublet.errors import LeaseTableError, StreamError
from sublet.metric_names import Metric
from sublet.ports import Ports, Signal, Task
from sublet.protocol.lease import Lease, LeaseFence
from sublet.settings import Mode, Settings

CHECKS_PER_INTERVAL = 10
"""How often per heartbeat_interval we look which leases are due: a heartbeat is late by at most a tenth of the interval."""


@dataclass(slots=True)
class Window:
    """The leases of one window; `run` it once.

    lock   guards `claimed` and `started`, which grow while the window runs: a shard's end may bring its children
    """

    shared: ProcessShared
    consuming: Exclusion
    item: WorkerItem
    holder: str
    deadline: datetime
    stop: Signal | None
    lock: AbstractContextManager[object]
    cut_off: datetime | None = None
    claimed: set[str] = field(default_factory=set)
    started: list[Task[LeaseReport]] = field(default_factory=list)
    sessions: WindowSessions = field(init=False)
    barrier: WindowBarrier = field(init=False)
    leases: LeaseRun = field(init=False)

    def __post_init__(self) -> None:
        ports, settings = self.shared.ports, self.shared.settings
        self.sessions, self.barrier = WindowSessions(ports.tasks), WindowBarrier(ports.tasks)
        stopping = self.sessions.stopping
        acquirer = LeaseAcquirer(
            ports, settings, self.item, self.holder, self.deadline, stopping, self.shared.asks
        )
        self.leases = LeaseRun(
            self.shared, self.consuming, self.item, self.deadline, self.cut_off, self.sessions, acquirer,
            self.barrier, Children(ports, acquirer, self.shared.watch, self._start_child),
        )  # fmt: skip

    def run(self) -> list[LeaseReport]:
        tasks, done = self.shared.ports.tasks, self.shared.ports.tasks.signal()
        beside: list[Task[None]] = []
        showing: Task[bool] | None = None
        forgets = [self.shared.calls.health.ends_at_once.on_set(self.sessions.stop)]
        try:
            held, shared, ports = self.sessions.held, self.shared, self.shared.ports
            beside.append(tasks.spawn(lambda: keep_heartbeating(held, shared.settings, done)))
            showing = tasks.spawn(lambda: keep_showing(held, ports, done))
            if shared.settings.mode is Mode.CONTINUOUS:
                beside.append(tasks.spawn(lambda: keep_reporting(self.item.worker_id, ports, done)))
            if ports.control is not None:
                beside.append(tasks.spawn(lambda: keep_obeying(held, shared.watch, ports, done)))
            if self.stop is not None:
                forgets.append(self.stop.on_set(self.sessions.stop))
            self._start_claims()
            reports = self._reports()
        finally:
            done.set()
            for forget in forgets:
                forget()
            for task in beside:
                task.result()
            has_shown = showing is not None and showing.result()
            if self.sessions.acquired and not has_shown:
                self.shared.ports.metrics.put(Metric.WORKER_LEASES, self.sessions.acquired)
                show_no_trouble(self.shared.ports)
        kept = self.sessions.kept
        return [kept[each.lease_key].settle() if each.lease_key in kept else each for each in reports]

    def _start_claims(self) -> None:
        """Raises what starting a task raises (a machine may be out of threads), once the tasks that were started have ended."""
        try:
            with self.lock:
                for claim in self.item.claims:
                    self._start(
                        LeaseFence(claim.lease_key, claim.lease_owner, claim.lease_counter), claim.why
                    )
        except BaseException:
            self.sessions.stop()
            with suppress(BaseException):  # the first fault is the one to be seen
                self._reports()
            raise

    def _reports(self) -> list[LeaseReport]:
        """Every lease's report, in the order of their start. Raises an unexpected error once all leases are released."""
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
        """Release the kept leases: this window raises an error, so no window goes on with them."""
        for session in self.sessions.kept.values():
            session.stop_early()
            with suppress(StreamError, LeaseTableError):
                session.settle()

    def left(self) -> list[LeftBehind]:
        """The leases that are held, including those kept for the next window."""
        return [session.left() for session in self.sessions.held()]

    def states(self) -> list[ShardReport]:
        return [session.state() for session in self.sessions.held()]

    def give(self, lease_keys: Collection[str]) -> None:
        """Release these leases, each as soon as its handler call has ended."""
        for session in self.sessions.held():
            if session.held.lease.lease_key in lease_keys:
                session.stop_early()

    def _start(self, seen: LeaseFence, why: ClaimReason) -> None:
        """Begin with a lease, unless this window has or had it. The caller has the lock."""
        if seen.lease_key not in self.claimed:
            self.claimed.add(seen.lease_key)
            self.barrier.join(seen.lease_key)
            self.started.append(self.shared.ports.tasks.spawn(lambda: self.leases.run(seen, why)))

    def _start_child(self, child: Lease) -> bool:
        with self.lock:
            if child.lease_key not in self.claimed:
                in_time = self.shared.ports.clock.steady() < self.deadline and not (
                    self.stop and self.stop.is_set()
                )
                if not in_time or len(self.barrier) >= self._leases_max:
                    return False
                self._start(child.fence, ClaimReason.CHILD)
            return True

    @property
    def _leases_max(self) -> int:
        at_once = self.shared.settings.leases_per_worker
        return at_once if self.item.leases_max is None else min(at_once, self.item.leases_max)


# What goes on beside the sessions.


def keep_heartbeating(held: Callable[[], Iterable[LeaseSession]], settings: Settings, stop: Signal) -> None:
    """Until `stop`, heartbeat each lease that was not written to for heartbeat_interval."""
    pause = max(settings.heartbeat_interval / CHECKS_PER_INTERVAL, timedelta(milliseconds=50))
    due_after = settings.heartbeat_interval - pause / 2
    while not stop.wait(pause):
        for session in held():
            session.progress.heartbeat_if_due(due_after, slack=pause)


def keep_obeying(
    held: Callable[[], Iterable[LeaseSession]], watch: ControlWatch, ports: Ports, stop: Signal
) -> None:
    """Until `stop`, release each lease that an operator has paused: as soon as its handler call has ended, and checkpointed."""
    while not stop.wait(READ_EVERY):
        control, now = watch.current(), ports.clock.now()
        for session in held():
            lease_key = session.held.lease.lease_key
            pause = pause_of(control, lease_key, now)
            if pause is not None and not session.phase.is_recalled:
                ports.log.info(
                    "lease paused by an operator: it is released",
                    lease_key=lease_key,
                    order=pause.order,
                    by=pause.by,
                )
                session.stop_early()


def keep_showing(sessions: Callable[[], Sequence[LeaseSession]], ports: Ports, stop: Signal) -> bool:
    """Until `stop`, put every lease's metrics each minute: alarms look at each minute, and a window may last for many.

    True if it has put any. A window of less than a minute puts them at its end.
    """
    has_shown = False
    while not stop.wait(SHOWN_EVERY):
        has_shown = True
        running = sessions()
        ports.metrics.put(Metric.WORKER_LEASES, len(running))
        for session in running:
            session.show()
        show_no_trouble(ports)
        ports.metrics.flush()
    return has_shown


def show_no_trouble(ports: Ports) -> None:
    """Put a zero for each of these metrics every minute: an alarm without a current value goes by older ones."""
    for metric in (Metric.HANDLER_FAILURES, Metric.LEASES_FAILED, Metric.READS_REFUSED):
        ports.metrics.put(metric, 0)
