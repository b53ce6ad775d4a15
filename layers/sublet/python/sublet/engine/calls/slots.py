"""Slots for one process' handler calls. A lease that ends does not wait for a slot that it no longer needs."""

from __future__ import annotations

from collections import deque
from datetime import timedelta

from sublet.ports import Signal, Tasks

WAIT = timedelta(minutes=1)
"""How long one wait lasts. Longer waits are made of several."""


class CallSlots:
    """A semaphore with a queue, whose waiters can be stopped. `with slots:` takes a slot and frees it.

    A slot that is free passes at once to the waiter at the head of the queue. Otherwise its last holder, a shard
    whose next batch is ready, would take it again before another thread had woken up.
    """

    def __init__(self, count: int, tasks: Tasks) -> None:
        self._tasks = tasks
        self._lock = tasks.lock()
        """Guards `_free` and `_queue`."""
        self._free = count
        """Zero while anyone waits."""
        self._queue: deque[Signal] = deque()
        """A signal for each waiter without a slot, in order of arrival. A waiter leaves the queue when it gets its
        slot.
        """

    def __enter__(self) -> None:
        self.take(None)

    def __exit__(self, *_: object) -> None:
        self.give()

    def take(self, stop: Signal | None) -> bool:
        """Wait for a slot. Returns False, without a slot, if `stop` is set first."""
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            if stop is not None and stop.is_set():
                return False
            turn = self._tasks.signal()
            self._queue.append(turn)
        return self._wait_for(turn, stop)

    def give(self) -> None:
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._free += 1

    def _wait_for(self, turn: Signal, stop: Signal | None) -> bool:
        unsubscribe = None if stop is None else stop.on_set(turn.set)
        has_slot = False
        try:
            while not turn.is_set():
                turn.wait(WAIT)
            has_slot = stop is None or not stop.is_set()
            return has_slot
        finally:
            if unsubscribe is not None:
                unsubscribe()
            if not has_slot:
                self._leave(turn)

    def _leave(self, turn: Signal) -> None:
        """Leave the queue. A waiter that got its slot while it was stopped passes it on."""
        with self._lock:
            is_queued = turn in self._queue
            if is_queued:
                self._queue.remove(turn)
        if not is_queued:
            self.give()
