"""One window over a few leases.

look     acquire each claim, exactly as the lease manager saw it
decide   each acquired lease runs in a task of its own; children of a shard that ends here run too, if there is room
act      consume until caught up, ended, lost or out of time. Beside them `upkeep` heartbeats all leases, shows their
         metrics and obeys an operator's pauses. A process's leases go on beyond the window's end while a neighbour is
         in a long call
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.process_health import ShardReport
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


class Window:
    """The leases of one window; `run` it once. `holder`: item and invocation, as the rows name it."""

    def __init__(
        self,
        shared: ProcessShared,
        consuming: NamedLocks,
        item: WorkerItem,
        holder: str,
        deadline: datetime,
        stop: Signal | None,
        cut_off: datetime | None = None,
    ) -> None:
        ports, settings, tasks = shared.ports, shared.settings, shared.ports.tasks
        self._clock, self._tasks, self._metrics = ports.clock, tasks, ports.metrics
        self._item, self._deadline, self._stop = item, deadline, stop
        self._ends_at_once = shared.guard.health.ends_at_once
        at_most = settings.leases_per_worker
        self._leases_max = at_most if item.leases_max is None else min(at_most, item.leases_max)
        self._lock = tasks.lock()
        """Guards the next three, which grow while the window runs: a shard's end may bring its children."""
        self._claimed: set[str] = set()
        self._started: list[Task[LeaseReport]] = []
        self._running = 0
        """How many of the started tasks have not ended; `_over` is set when there are none."""
        self._over = tasks.signal()
        self._sessions, self._barrier = WindowSessions(tasks), WindowBarrier(tasks)
        self._upkeep = Upkeep(self._sessions.held, item.worker_id, shared, self._over)
        acquirer = LeaseAcquirer(ports, settings, item, holder, deadline, self._sessions.stopping, asks=shared.asks)
        self._leases = LeaseRun(
            shared,
            consuming,
            item,
            deadline,
            cut_off,
            self._sessions,
            acquirer,
            self._barrier,
            ChildLeases(ports, acquirer, shared.watch, self._start_child),
        )

    def run(self) -> list[LeaseReport]:
        """The caller's task does the upkeep until all leases' tasks have ended."""
        sessions, upkeep = self._sessions, self._upkeep
        forgets = [self._ends_at_once.on_set(sessions.stop)]
        try:
            if self._stop is not None:
                forgets.append(self._stop.on_set(sessions.stop))
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
            if sessions.acquired and not upkeep.has_shown:
                self._metrics.put(Metric.WORKER_LEASES, sessions.acquired)
                show_no_trouble(self._metrics)
        kept = sessions.kept
        return [kept[each.lease_key].settle() if each.lease_key in kept else each for each in reports]

    def _start_claims(self) -> None:
        """Raises what starting a task raises: a machine may be out of threads. Then the leases that were started
        end.
        """
        try:
            with self._lock:
                for claim in self._item.claims:
                    self._start(LeaseFence(claim.lease_key, claim.lease_owner, claim.lease_counter), claim.why)
                self._note_if_over()
        except BaseException:
            self._sessions.stop()
            raise

    def _run(self, seen: LeaseFence, why: ClaimReason) -> LeaseReport:
        try:
            return self._leases.run(seen, why)
        finally:
            with self._lock:
                self._running -= 1
                self._note_if_over()

    def _note_if_over(self) -> None:
        """The caller has the lock."""
        if not self._running:
            self._over.set()

    def _reports(self) -> list[LeaseReport]:
        """Every lease's report, in the order of their start. Raises an unexpected error once all leases are
        released.
        """
        reports, faults = [], []
        for task in self._started:  # may grow while we wait; a task adds to it only before it ends itself
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
        for session in self._sessions.kept.values():
            session.stop_early()
            with suppress(CallFailed):
                session.settle()

    def left(self) -> list[LeftBehind]:
        """The leases that are held, including those kept for the next window."""
        return [session.left() for session in self._sessions.held()]

    def states(self) -> list[ShardReport]:
        return [session.state() for session in self._sessions.held()]

    def release(self, lease_keys: Collection[str]) -> None:
        """Release these leases, each as soon as its handler call has ended."""
        for session in self._sessions.held():
            if session.held.lease.lease_key in lease_keys:
                session.stop_early()

    def _start(self, seen: LeaseFence, why: ClaimReason) -> None:
        """Begin with a lease, unless this window has or had it. The caller has the lock."""
        if seen.lease_key not in self._claimed:
            self._claimed.add(seen.lease_key)
            self._barrier.join(seen.lease_key)
            self._started.append(self._tasks.spawn(lambda: self._run(seen, why)))
            self._running += 1

    def _start_child(self, child: Lease) -> bool:
        with self._lock:
            if child.lease_key not in self._claimed:
                in_time = self._clock.steady() < self._deadline and not (self._stop and self._stop.is_set())
                if not in_time or len(self._barrier) >= self._leases_max:
                    return False
                self._start(child.fence, ClaimReason.CHILD)
            return True
