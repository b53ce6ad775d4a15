"""The places for handler calls of one process. A lease that ends does not wait for a place that it no longer needs."""

from __future__ import annotations

from collections import deque
from datetime import timedelta

from sublet.ports import Signal, Tasks

WAITED_FOR = timedelta(minutes=1)
"""The wait is repeated until it is over."""


class CallSlots:
    """A semaphore whose waiters can be stopped. As with `with slots:`, which takes one and gives it back.

    A slot that is given back belongs to the one that has waited longest, at once. Otherwise its holder, a shard whose next batch
    is there already, would take it again before any other thread has woken up.
    """

    def __init__(self, count: int, tasks: Tasks) -> None:
        self._free = count
        """None is free while anyone waits."""
        self._tasks = tasks
        self._lock = tasks.lock()
        self._waiting: deque[Signal] = deque()
        """One for each waiter without a slot, in the order of their arrival. It is removed as the waiter gets one."""

    def __enter__(self) -> None:
        self.take(None)

    def __exit__(self, *_: object) -> None:
        self.give()

    def take(self, stop: Signal | None) -> bool:
        """Wait for a slot. False without one if `stop` is set first."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            if stop is not None and stop.is_set():
                return False
            told = self._tasks.signal()
            self._waiting.append(told)
        return self._has_waited(told, stop)

    def give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1

    def _has_waited(self, told: Signal, stop: Signal | None) -> bool:
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
        """A waiter that stops passes on the slot that it has got meanwhile."""
        with self._lock:
            is_without = told in self._waiting
            if is_without:
                self._waiting.remove(told)
        if not is_without:
            self.give()
