"""Time and threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Clock(Protocol):
    """Where the engine gets the time. Both clocks return UTC-aware moments, which are equal until the machine's clock
    is set.
    """

    def now(self) -> datetime:
        """The moment by the wall clock: for stored times, and for comparing with other machines' times. It may jump."""

    def steady(self) -> datetime:
        """The moment by a clock for durations, which is never set and never goes back. It stands still while the
        machine is suspended.
        """


class Signal(Protocol):
    """A flag that is set once and never cleared."""

    def set(self) -> None: ...

    def is_set(self) -> bool: ...

    def wait(self, timeout: timedelta) -> bool:
        """Sleep until set or for `timeout`; returns whether it is set. This is the only way that the engine sleeps."""

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when this is set, or at once if it is set already. Returns a function that takes it
        back.

        The thread that sets the signal makes the call, and may be in a signal handler: the callback takes no lock and
        raises nothing.
        """


class Task(Protocol[T_co]):
    """Work going on beside the caller."""

    def result(self) -> T_co:
        """Wait for it. Returns its value, or raises its exception."""


class Tasks(Protocol):
    """Concurrency, so that a simulation can decide who runs next."""

    def spawn(self, work: Callable[[], T]) -> Task[T]:
        """Start `work` beside the caller."""

    def lock(self) -> AbstractContextManager[object]:
        """A lock, not reentrant."""

    def slots(self, count: int) -> AbstractContextManager[object]:
        """A semaphore for `count` holders."""

    def signal(self) -> Signal: ...
