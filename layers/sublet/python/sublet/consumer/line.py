"""Shards that may have something to hand out, in the order of their turns, and what is to come again when."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime

from sublet.consumer.shard_queue import ShardQueue


class Line:
    """Not safe for threads: its buffer has the lock."""

    def __init__(self, queues: Mapping[str, ShardQueue]) -> None:
        self._queues = queues
        self._line: deque[ShardQueue] = deque()
        self._due_at: datetime | None = None
        """Nothing is to come again before."""

    def __bool__(self) -> bool:
        return bool(self._line)

    def add(self, queue: ShardQueue) -> None:
        """As the last, unless it stands there already."""
        if not queue.is_in_line:
            queue.is_in_line = True
            self._line.append(queue)

    def next(self) -> tuple[ShardQueue, int] | None:
        """The first that has something, and the number of that. It stands there no more."""
        while self._line:
            queue = self._line.popleft()
            number = queue.next() if queue.is_open else None
            queue.is_in_line = False
            if number is not None:
                return queue, number
        return None

    def look(self, now: datetime) -> dict[ShardQueue, int]:
        """Have what is due come again. How many were forgotten, by shard."""
        forgotten: dict[ShardQueue, int] = {}
        if self._due_at is None or now < self._due_at:
            return forgotten
        for queue in self._queues.values():
            if overdue := queue.acknowledging.look(now):
                forgotten[queue] = len(overdue)
            if queue.has_next:
                self.add(queue)
        self._due_at = self.next_at()
        return forgotten

    def due_by(self, moment: datetime) -> None:
        """Something is to come again then."""
        self._due_at = moment if self._due_at is None else min(self._due_at, moment)

    def next_at(self) -> datetime | None:
        """When something is to come again, if nobody says anything until then."""
        moments = (queue.acknowledging.next_at() for queue in self._queues.values())
        return min((at for at in moments if at is not None), default=None)

    def mend(self) -> None:
        """After a change that an exception has cut in two: all of them may have something."""
        self._line = deque(self._queues.values())
        for queue in self._line:
            queue.is_in_line = True
        self._due_at = self.next_at()
