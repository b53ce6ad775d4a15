"""The work that goes on beside a window's sessions: heartbeats, and chores that may be a second late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sublet.decisions.manager.fleet_kind import REPORTED_EVERY
from sublet.decisions.session.control import READ_EVERY, pause_of
from sublet.engine.manager.announcing import renew_report
from sublet.engine.process_shared import ProcessShared
from sublet.engine.session.metrics import SHOWN_EVERY
from sublet.engine.session.session import LeaseSession
from sublet.metric_names import Metric
from sublet.ports import Ports, Signal, Task
from sublet.settings import Mode

CHECKS_PER_INTERVAL = 10
"""How often per heartbeat_interval we look for leases that are due: a heartbeat is at most a tenth of the interval
late.
"""

Chores = dict[Callable[[], None], timedelta]
"""How long after each call the next one is due."""


@dataclass(slots=True)
class Upkeep:
    """The upkeep of one window; `run` it once.

    held       the sessions whose leases are held now
    has_shown  True if the leases' metrics were put at least once, which a window of less than a minute leaves to its
               end
    """

    held: Callable[[], Sequence[LeaseSession]]
    worker_id: str
    shared: ProcessShared
    over: Signal
    has_shown: bool = field(default=False, init=False)

    def run(self) -> None:
        """Until the window is over, heartbeat each lease that had no write for heartbeat_interval, and do the chores.

        Chores make calls, and a heartbeat must not wait for one, so another task does them. It starts when the first is
        due: a short window has none to do, and a thread costs as much as a write.
        """
        clock, interval = self.shared.ports.clock, self.shared.settings.heartbeat_interval
        pause = max(interval / CHECKS_PER_INTERVAL, timedelta(milliseconds=50))
        chores, began = self._chores(), clock.steady()
        first = began + min(chores.values())
        beside: Task[None] | None = None
        while not self.over.wait(pause if beside else _until(first, clock.steady(), pause)):
            for session in self.held():
                session.progress.heartbeat_if_due(interval - pause / 2, slack=pause)
            if beside is None and clock.steady() >= first:
                beside = self._start(chores, began)
        if beside is not None:
            beside.result()

    def _chores(self) -> Chores:
        ports, chores = self.shared.ports, {self.show: SHOWN_EVERY}
        if ports.control is not None:
            chores[self.obey] = READ_EVERY
        if ports.reports is not None and self.shared.settings.mode is Mode.CONTINUOUS:
            chores[self.report] = REPORTED_EVERY
        return chores

    def _start(self, chores: Chores, began: datetime) -> Task[None] | None:
        """None if the machine is out of threads for now: heartbeats go on."""
        try:
            return self.shared.ports.tasks.spawn(lambda: self._do(chores, began))
        except RuntimeError:
            return None

    def _do(self, chores: Chores, began: datetime) -> None:
        """Do the chore until the window is over. A chore that raises is not done again: the others go on, and the end
        raises its error.
        """
        clock, fault = self.shared.ports.clock, None
        due = {chore: began + every for chore, every in chores.items()}
        while due and not self.over.wait(min(due.values()) - clock.steady()):
            chore = min(due, key=due.__getitem__)
            try:
                chore()
                due[chore] = clock.steady() + chores[chore]
            except Exception as problem:  # noqa: BLE001 - raised below
                fault = fault or problem
                del due[chore]
        if fault is not None:
            raise fault

    def obey(self) -> None:
        """Release each lease that an operator has paused, once its handler call has ended and its checkpoint is
        written.
        """
        control, now = self.shared.watch.current(), self.shared.watch.now
        for session in self.held():
            lease_key = session.held.lease.lease_key
            pause = pause_of(control, lease_key, now)
            if pause is not None and not session.phase.is_recalled:
                self.shared.ports.log.info(
                    "lease paused by an operator: it is released",
                    lease_key=lease_key,
                    order=pause.order,
                    by=pause.by,
                )
                session.stop_early()

    def show(self) -> None:
        """Put every lease's metrics: alarms look at each minute, and a window may last for many."""
        self.has_shown = True
        running, metrics = self.held(), self.shared.ports.metrics
        metrics.put(Metric.WORKER_LEASES, len(running))
        for session in running:
            session.show()
            session.sketch.store()
        show_no_trouble(self.shared.ports)
        metrics.flush()

    def report(self) -> None:
        """Renews this worker's report to a KCL 3.x leader, if a tick has made one."""
        renew_report(self.worker_id, self.shared.ports)


def _until(moment: datetime, now: datetime, at_most: timedelta) -> timedelta:
    """How long to wait until the moment: at least half of `at_most`, so that a moment in the past makes no busy
    loop.
    """
    return min(at_most, max(moment - now, at_most / 2))


def show_no_trouble(ports: Ports) -> None:
    """Put a zero for each of these metrics every minute: an alarm without a current value uses older ones."""
    for metric in (Metric.HANDLER_FAILURES, Metric.LEASES_FAILED, Metric.READS_REFUSED):
        ports.metrics.put(metric, 0)
