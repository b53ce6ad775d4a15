"""How the threads of a task sleep: they wake when the task's reading is over.

A sleep is deep inside the reading of a shard: for its pace, between two attempts of a refused call. So the signal that
ends it belongs to the thread, not to the calls in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta

from sublet.ports import Signal
from sublet.system.threads import ThreadSignal

_over: ContextVar[Signal | None] = ContextVar("over", default=None)
_NEVER = ThreadSignal()


class ReadingOver(Exception):
    """Raised in a thread whose task reads no more."""


def task_sleep(pause: timedelta) -> None:
    """Sleeps. Raises ReadingOver as soon as the thread's reading is over."""
    if (over := _over.get()) is None:
        _NEVER.wait(pause)
    elif over.wait(pause):
        raise ReadingOver


@contextmanager
def until(over: Signal) -> Iterator[None]:
    """Lets this thread's sleeps end when `over` is set."""
    token = _over.set(over)
    try:
        yield
    finally:
        _over.reset(token)
