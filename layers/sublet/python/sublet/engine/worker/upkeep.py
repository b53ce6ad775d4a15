"""What a window does beside its sessions: heartbeats for every lease it holds, metrics each minute, and an operator's orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from sublet.decisions.control import READ_EVERY, pause_of
from sublet.engine.control_watch import ControlWatch
from sublet.engine.session.metrics import SHOWN_EVERY
from sublet.engine.session.session import LeaseSession
from sublet.metric_names import Metric
from sublet.ports import Ports, Signal
from sublet.settings import Settings

CHECKS_PER_INTERVAL = 10
"""How often within a heartbeat_interval due leases are looked for: a heartbeat is late by a tenth of the interval at most."""


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

    True if it has put any. A shorter window puts its own at its end.
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
    """Put a zero beside what else was put in this minute: an alarm without a figure for it goes by older ones."""
    for metric in (Metric.HANDLER_FAILURES, Metric.LEASES_FAILED, Metric.READS_REFUSED):
        ports.metrics.put(metric, 0)
