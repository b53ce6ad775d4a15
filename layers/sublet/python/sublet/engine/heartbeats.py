"""One task that heartbeats every lease a lease worker holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from sublet.engine.progress import Progress
from sublet.ports import Signal
from sublet.settings import Settings

CHECKS_PER_INTERVAL = 10
"""Due leases are looked for this often within a heartbeat_interval, so that one is late by a tenth of it at most."""


def keep_heartbeating(held: Callable[[], Iterable[Progress]], settings: Settings, stop: Signal) -> None:
    """Until `stop`: heartbeat whatever was not written to for heartbeat_interval. Runs beside polls and handler calls."""
    pause = max(settings.heartbeat_interval / CHECKS_PER_INTERVAL, timedelta(milliseconds=50))
    due_after = settings.heartbeat_interval - pause / 2
    while not stop.wait(pause):
        for lease in held():
            lease.heartbeat_if_due(due_after, slack=pause)
