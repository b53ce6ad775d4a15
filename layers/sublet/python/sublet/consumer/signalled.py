"""A consumer that is pulled from until a signal comes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sublet.consumer.group import Group
from sublet.ports import Signal
from sublet.runtimes.ending import Stops, stop_at_signals


@contextmanager
def stopped_by_signals(group: Group, stop: Signal) -> Iterator[None]:
    """SIGTERM and SIGINT set `stop` meanwhile. The second of them, or the end of `drain_timeout`, ends the process at once."""
    tasks = group.world.tasks
    told = Stops(stop, stop, tasks.signal())
    put_back = stop_at_signals(told, group.world.settings.drain_timeout, tasks, group.left)
    try:
        yield
    finally:
        told.is_over.set()
        put_back()
