"""The places for handler calls of one process. A lease that ends does not wait for a place that it no longer needs."""

from __future__ import annotations

from collections import deque
from datetime import timedelta

from sublet.ports import Signal, Tasks

WAITED_FOR = timedelta(minutes=1)
"""The wait is repeated until it is over."""


class CallSlots:
    """A semaphore whose waiters can be stopped. As with `with slots:`, which takes one and gives it back."""

    def __init__(self, count: int, tasks: Tasks) -> None:
        self._free = count
        self._tasks = tasks
        self._lock = tasks.lock()
        self._waiting: deque[Signal] = deque()
        """One for each waiter that nobody has woken yet, in the order of their arrival."""

    def __enter__(self) -> None:
        self.take(None)

    def __exit__(self, *_: object) -> None:
        self.give()

    def take(self, stop: Signal | None) -> bool:
        """Wait for a slot. False without one if `stop` is set first."""
        while True:
            with self._lock:
                if self._free:
                    self._free -= 1
                    return True
                if stop is not None and stop.is_set():
                    return False
                told = self._tasks.signal()
                self._waiting.append(told)
            if not self._has_waited(told, stop):
                return False

    def give(self) -> None:
        with self._lock:
            self._free += 1
            self._wake_one()

    def _has_waited(self, told: Signal, stop: Signal | None) -> bool:
        """True if it is worth looking for a slot again."""
        take_back = None if stop is None else stop.on_set(told.set)
        goes_on = False
        try:
            while not told.is_set():
                told.wait(WAITED_FOR)
            goes_on = stop is None or not stop.is_set()
            return goes_on
        finally:
            if take_back is not None:
                take_back()
            if not goes_on:
                self._leave(told)

    def _leave(self, told: Signal) -> None:
        """A waiter that takes no slot passes on what has woken it."""
        with self._lock:
            if told in self._waiting:
                self._waiting.remove(told)
            elif self._free:
                self._wake_one()

    def _wake_one(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
