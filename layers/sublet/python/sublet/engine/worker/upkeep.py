"""The work that goes on beside a window's sessions: heartbeats, and chores that may be a second late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from sublet.decisions.manager.fleet_kind import REPORTED_EVERY
from sublet.decisions.session.control import READ_EVERY, pause_of
from sublet.engine.manager.worker_reports import renew_report
from sublet.engine.process_shared import ProcessShared
from sublet.engine.session.metrics import SHOWN_EVERY
from sublet.engine.session.session import LeaseSession
from sublet.metric_names import Metric
from sublet.ports import Metrics, Signal, Task
from sublet.settings import Mode

CHECKS_PER_INTERVAL = 10
"""How often per heartbeat_interval we look for leases that are due: a heartbeat is at most a tenth of the interval
late.
"""

Chores = dict[Callable[[], None], timedelta]
"""How long after each call the next one is due."""


class Upkeep:
    """The upkeep of one window; `run` it once. `held`: the sessions whose leases are held now."""

    def __init__(
        self, held: Callable[[], Sequence[LeaseSession]], worker_id: str, shared: ProcessShared, over: Signal
    ) -> None:
        ports, settings = shared.ports, shared.settings
        self.has_shown = False
        """True if the leases' metrics were put at least once, which a window of less than a minute leaves to its
        end.
        """
        self._clock, self._tasks, self._metrics, self._log = ports.clock, ports.tasks, ports.metrics, ports.log
        self._heartbeat_interval = settings.heartbeat_interval
        self._held = held
        self._watch = shared.watch
        self._over = over
        self._chores: Chores = {self.show: SHOWN_EVERY}
        if ports.control is not None:
            self._chores[self.obey] = READ_EVERY
        if ports.reports is not None and settings.mode is Mode.CONTINUOUS:
            # Renews this worker's report to a KCL 3.x leader, if a tick has made one.
            self._chores[partial(renew_report, worker_id, ports)] = REPORTED_EVERY

    def run(self) -> None:
        """Until the window is over, heartbeat each lease that had no write for heartbeat_interval, and do the chores.

        Chores make calls, and a heartbeat must not wait for one, so another task does them. It starts when the first is
        due: a short window has none to do, and a thread costs as much as a write.
        """
        interval, began = self._heartbeat_interval, self._clock.steady()
        pause = max(interval / CHECKS_PER_INTERVAL, timedelta(milliseconds=50))
        first = began + min(self._chores.values())
        beside: Task[None] | None = None
        while not self._over.wait(pause if beside else _until(first, self._clock.steady(), pause)):
            for session in self._held():
                session.progress.heartbeat_if_due(interval - pause / 2, slack=pause)
            if beside is None and self._clock.steady() >= first:
                beside = self._start_chores(began)
        if beside is not None:
            beside.result()

    def _start_chores(self, began: datetime) -> Task[None] | None:
        """None if the machine is out of threads for now: heartbeats go on."""
        try:
            return self._tasks.spawn(lambda: self._do_chores(began))
        except RuntimeError:
            return None

    def _do_chores(self, began: datetime) -> None:
        """Do them until the window is over. A chore that raises is not done again: the others go on, and the end
        raises its error.
        """
        fault = None
        due = {chore: began + every for chore, every in self._chores.items()}
        while due and not self._over.wait(min(due.values()) - self._clock.steady()):
            chore = min(due, key=due.__getitem__)
            try:
                chore()
                due[chore] = self._clock.steady() + self._chores[chore]
            except Exception as problem:  # noqa: BLE001 - raised below
                fault = fault or problem
                del due[chore]
        if fault is not None:
            raise fault

    def obey(self) -> None:
        """Release each lease that an operator has paused, once its handler call has ended and its checkpoint is
        written.
        """
        control, now = self._watch.current(), self._watch.now
        for session in self._held():
            lease_key = session.held.lease.lease_key
            pause = pause_of(control, lease_key, now)
            if pause is not None and not session.phase.is_recalled:
                self._log.info(
                    "lease paused by an operator: it is released",
                    lease_key=lease_key,
                    order=pause.order,
                    by=pause.by,
                )
                session.stop_early()

    def show(self) -> None:
        """Put every lease's metrics: alarms look at each minute, and a window may last for many."""
        self.has_shown = True
        running = self._held()
        self._metrics.put(Metric.WORKER_LEASES, len(running))
        for session in running:
            session.show()
            session.sketch.store()
        show_no_trouble(self._metrics)
        self._metrics.flush()


def _until(moment: datetime, now: datetime, at_most: timedelta) -> timedelta:
    """How long to wait until the moment: at least half of `at_most`, so that a moment in the past makes no busy
    loop.
    """
    return min(at_most, max(moment - now, at_most / 2))


def show_no_trouble(metrics: Metrics) -> None:
    """Put a zero for each of these metrics every minute: an alarm without a current value uses older ones."""
    for metric in (Metric.HANDLER_FAILURES, Metric.LEASES_FAILED, Metric.READS_REFUSED):
        metrics.put(metric, 0)
