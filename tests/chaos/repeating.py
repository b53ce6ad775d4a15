"""Repeats an action in a thread of its own, until a block ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Repeating:
    """`failure`: the exception that ended it early."""

    def __init__(self, every: float, action: Callable[[], object]) -> None:
        self.failure: BaseException | None = None
        self._every, self._action = every, action
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """After the current turn."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        """At fixed times, however long a turn takes; missed turns are skipped."""
        due = time.monotonic()
        while not self._over.wait(max(due - time.monotonic(), 0)):
            try:
                self._action()
            except BaseException as failure:  # noqa: BLE001 -- a reader of `failure` raises it
                self.failure = failure
                return
            due = max(due + self._every, time.monotonic())


@contextmanager
def repeating(every: float, action: Callable[[], object]) -> Iterator[Repeating]:
    """Every so many seconds. An exception that ended it early is raised at the end of the block."""
    repeated = Repeating(every, action)
    repeated.start()
    try:
        yield repeated
    finally:
        repeated.stop()
    if repeated.failure is not None:
        raise repeated.failure
