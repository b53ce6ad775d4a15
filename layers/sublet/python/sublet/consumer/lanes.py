"""Calls side by side, each partition key's in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta

from sublet.consumer.record import Record
from sublet.ports import Task, Tasks
from sublet.protocol.finished_ahead import lane_of

LONG = timedelta(days=1)


class Lane:
    """Records whose keys fall to the same thread, and that thread."""

    def __init__(self, call: Callable[[Record], None], tasks: Tasks) -> None:
        self.waiting: deque[Record] = deque()
        self._call = call
        self._tasks = tasks
        self._changed = tasks.signal()
        self._is_over = False
        self._running: Task[None] = tasks.spawn(self._run)

    def put(self, record: Record) -> None:
        self.waiting.append(record)
        self._changed.set()

    def finish(self) -> None:
        """Return when it has called for all that it has."""
        self._is_over = True
        self._changed.set()
        self._running.result()

    def _run(self) -> None:
        while True:
            self._changed = self._tasks.signal()  # before the look: what is put after it sets this one
            is_over = self._is_over
            while self.waiting:
                self._call(self.waiting.popleft())
            if is_over:
                return
            self._changed.wait(LONG)


class Lanes:
    """So many of them. At most `bound` records wait in all, so that one hot key does not keep others' records from their lanes
    before that. For one thread that puts."""

    def __init__(self, call: Callable[[Record], None], count: int, bound: int, tasks: Tasks) -> None:
        self._call = call
        self._bound = bound
        self._tasks = tasks
        self._called = tasks.signal()
        self._lanes = [Lane(self._call_and_tell, tasks) for _ in range(count)]

    def put(self, record: Record) -> None:
        """Into the lane of its key; waits while too many wait."""
        while True:
            self._called = self._tasks.signal()
            if sum(len(lane.waiting) for lane in self._lanes) < self._bound:
                break
            self._called.wait(LONG)
        self._lanes[lane_of(record.user_record.order_key, len(self._lanes))].put(record)

    def _call_and_tell(self, record: Record) -> None:
        self._called.set()
        self._call(record)

    def finish(self) -> None:
        """Return when all have been called for."""
        for lane in self._lanes:
            lane.finish()
