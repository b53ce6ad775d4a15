"""The shards of a process that are waited with: until their next poll is due, or somebody asks for records."""

from __future__ import annotations

from datetime import datetime, timedelta

from sublet.ports import Signal, Tasks


class QuietShards:
    """Safe for threads. `asked_at`: when somebody last began to ask, by the steady clock."""

    def __init__(self, tasks: Tasks) -> None:
        self.asked_at: datetime | None = None
        self._tasks = tasks
        self._waiting: dict[Signal, None] = {}

    def ask(self, now: datetime) -> None:
        """Somebody begins to: whoever waits looks whether that changes anything."""
        self.asked_at = now
        for waiting in list(self._waiting):
            waiting.set()

    def wait(self, duration: timedelta, stop: Signal, seen: datetime | None) -> None:
        """For so long, or until `stop` is set, or somebody has asked since `seen`, which is `asked_at` as it was known."""
        over = self._tasks.signal()
        self._waiting[over] = None
        forget = stop.then(over.set)
        try:
            if self.asked_at == seen:
                over.wait(duration)
        finally:
            forget()
            del self._waiting[over]
