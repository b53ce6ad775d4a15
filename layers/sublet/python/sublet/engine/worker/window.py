"""One window over a few leases.

look     acquire each claim, exactly as the lease manager saw it
decide   each acquired lease runs in a task of its own; children of a shard that ends here run too, if there is room
act      consume until caught up, ended, lost or out of time. Beside them `upkeep` heartbeats all leases, shows their
         metrics and obeys an operator's pauses. A process's leases go on beyond the window's end while a neighbour is
         in a long call
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.process_report import ShardReport
from sublet.decisions.session.window import LeaseReport
from sublet.engine.process_health import LeftBehind
from sublet.engine.process_shared import NamedLocks, ProcessShared
from sublet.engine.worker.acquire import LeaseAcquirer
from sublet.engine.worker.barrier import WindowBarrier
from sublet.engine.worker.children import ChildLeases
from sublet.engine.worker.lease_run import LeaseRun, WindowSessions
from sublet.engine.worker.upkeep import Upkeep, show_no_trouble
from sublet.errors import CallFailed
from sublet.metric_names import Metric
from sublet.ports import Signal, Task
from sublet.protocol.lease import Lease, LeaseFence


@dataclass(slots=True)
class Window:
    """The leases of one window; `run` it once.

    lock     guards `claimed`, `started` and `running`, which grow while the window runs: a shard's end may bring its
             children
    running  how many of the started tasks have not ended; `over` is set when there are none
    """

    shared: ProcessShared
    consuming: NamedLocks
    item: WorkerItem
    holder: str
    deadline: datetime
    stop: Signal | None
    lock: AbstractContextManager[object]
    cut_off: datetime | None = None
    claimed: set[str] = field(default_factory=set)
    started: list[Task[LeaseReport]] = field(default_factory=list)
    running: int = 0
    over: Signal = field(init=False)
    sessions: WindowSessions = field(init=False)
    barrier: WindowBarrier = field(init=False)
    leases: LeaseRun = field(init=False)

    def __post_init__(self) -> None:
        ports, settings = self.shared.ports, self.shared.settings
        self.over = ports.tasks.signal()
        self.sessions, self.barrier = WindowSessions(ports.tasks), WindowBarrier(ports.tasks)
        stopping = self.sessions.stopping
        acquirer = LeaseAcquirer(ports, settings, self.item, self.holder, self.deadline, stopping, self.shared.asks)
        self.leases = LeaseRun(
            self.shared,
            self.consuming,
            self.item,
            self.deadline,
            self.cut_off,
            self.sessions,
            acquirer,
            self.barrier,
            ChildLeases(ports, acquirer, self.shared.watch, self._start_child),
        )

    def run(self) -> list[LeaseReport]:
        """The caller's task does the upkeep until all leases' tasks have ended."""
        ports = self.shared.ports
        upkeep = Upkeep(self.sessions.held, self.item.worker_id, self.shared, self.over)
        forgets = [self.shared.guard.health.ends_at_once.on_set(self.sessions.stop)]
        try:
            if self.stop is not None:
                forgets.append(self.stop.on_set(self.sessions.stop))
            self._start_claims()
            upkeep.run()
        except Exception:
            with suppress(BaseException):  # the first fault is the one to raise
                self._reports()
                self._release_kept()
            raise
        else:
            reports = self._reports()
        finally:
            for forget in forgets:
                forget()
            if self.sessions.acquired and not upkeep.has_shown:
                ports.metrics.put(Metric.WORKER_LEASES, self.sessions.acquired)
                show_no_trouble(ports)
        kept = self.sessions.kept
        return [kept[each.lease_key].settle() if each.lease_key in kept else each for each in reports]

    def _start_claims(self) -> None:
        """Raises what starting a task raises: a machine may be out of threads. Then the leases that were started
        end.
        """
        try:
            with self.lock:
                for claim in self.item.claims:
                    self._start(LeaseFence(claim.lease_key, claim.lease_owner, claim.lease_counter), claim.why)
                self._note_if_over()
        except BaseException:
            self.sessions.stop()
            raise

    def _run(self, seen: LeaseFence, why: ClaimReason) -> LeaseReport:
        try:
            return self.leases.run(seen, why)
        finally:
            with self.lock:
                self.running -= 1
                self._note_if_over()

    def _note_if_over(self) -> None:
        """The caller has the lock."""
        if not self.running:
            self.over.set()

    def _reports(self) -> list[LeaseReport]:
        """Every lease's report, in the order of their start. Raises an unexpected error once all leases are
        released.
        """
        reports, faults = [], []
        for task in self.started:  # may grow while we wait; a task adds to it only before it ends itself
            try:
                reports.append(task.result())
            except BaseException as fault:  # noqa: BLE001 - raised below, when the others have ended
                faults.append(fault)
        if faults:
            self._release_kept()
            raise faults[0]
        return reports

    def _release_kept(self) -> None:
        """Release the kept leases: this window raises an error, so no window goes on with them."""
        for session in self.sessions.kept.values():
            session.stop_early()
            with suppress(CallFailed):
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
            self.started.append(self.shared.ports.tasks.spawn(lambda: self._run(seen, why)))
            self.running += 1

    def _start_child(self, child: Lease) -> bool:
        with self.lock:
            if child.lease_key not in self.claimed:
                in_time = self.shared.ports.clock.steady() < self.deadline and not (self.stop and self.stop.is_set())
                if not in_time or len(self.barrier) >= self._leases_max:
                    return False
                self._start(child.fence, ClaimReason.CHILD)
            return True

    @property
    def _leases_max(self) -> int:
        at_once = self.shared.settings.leases_per_worker
        return at_once if self.item.leases_max is None else min(at_once, self.item.leases_max)
