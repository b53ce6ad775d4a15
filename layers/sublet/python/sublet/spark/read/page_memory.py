"""The memory of one task's pages: those that are fetched, and whose rows Spark has not taken yet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from sublet.ports import Clock, Refusal
from sublet.protocol.records import Page
from sublet.spark.read.task_sleep import ReadingOver

POLL_REPLY_MAX = 10 * 2**20
"""The most data of a page."""

RECORD_OVERHEAD = 300
"""The bytes of a stream record in memory, beside its data."""

WHILE_POLLED = 4
"""How much memory a poll takes, in sizes of its page: the reply's text, which is a third larger, in two copies, and the
records.
"""

UNKNOWN_RECORD = 4096
"""The size of a record that is assumed until one has come."""


class PageBudget:
    """Memory that the threads of a task share. A thread that finds too little waits for it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size
        self._changed = threading.Condition()
        self._next = threading.Lock()
        """Held by the thread whose turn it is. Otherwise small pages would always come before a large one."""
        self._is_over = False

    @property
    def used(self) -> int:
        return self._size - self._left

    def take(self, size: int) -> None:
        """Waits until there is so much, or until nothing is used. Raises ReadingOver."""
        with self._next, self._changed:
            while not self._is_over and self._left < size and self._left < self._size:
                self._changed.wait()
            if self._is_over:
                raise ReadingOver
            self._left -= size

    def free(self, size: int) -> None:
        with self._changed:
            self._left += size
            self._changed.notify()

    def close(self) -> None:
        """Ends all waits, now and later."""
        with self._changed:
            self._is_over = True
            self._changed.notify()


@dataclass(slots=True)
class PageMemory:
    """One shard's part of its task's budget. For one thread.

    record_bytes  the size of its records, if known
    waited        how long its polls have waited for memory: this is the consumer's time, not Kinesis'
    """

    budget: PageBudget
    record_bytes: int | None
    clock: Clock
    waited: timedelta = field(default=timedelta(0), init=False)
    _held: int = field(default=0, init=False)

    def poll(self, read: Callable[[int], Page | Refusal], limit: int) -> Page | Refusal:
        """Waits for memory, and reads. The page's memory is held until the next poll, unless it is handed over."""
        self.budget.free(self.hand_over())
        reserved = WHILE_POLLED * min(limit * (self.record_bytes or UNKNOWN_RECORD), POLL_REPLY_MAX)
        since = self.clock.steady()
        self.budget.take(reserved)
        self.waited += self.clock.steady() - since
        try:
            reply = read(limit)
            if isinstance(reply, Page) and reply.records:
                self._held = reply.data_bytes + RECORD_OVERHEAD * len(reply.records)
                self.record_bytes = self._held // len(reply.records)
        finally:
            self.budget.free(reserved - self._held)
        return reply

    def hand_over(self) -> int:
        """Returns what is held for the last page; the caller frees it."""
        held, self._held = self._held, 0
        return held
