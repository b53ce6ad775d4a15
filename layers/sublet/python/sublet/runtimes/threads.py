"""The Tasks port over threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Generic, TypeVar

from sublet.ports import Signal, Task

T = TypeVar("T")


class ThreadTasks:
    """A thread per task. They are daemons: a process that is told to exit does not wait for a handler that hangs."""

    def spawn(self, work: Callable[[], T]) -> Task[T]:
        return _Running(work)

    def lock(self) -> AbstractContextManager[object]:
        return threading.Lock()

    def slots(self, count: int) -> AbstractContextManager[object]:
        return threading.BoundedSemaphore(count)

    def signal(self) -> Signal:
        return ThreadSignal()


class ThreadSignal:
    """The Signal port."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: timedelta) -> bool:
        return self._event.wait(max(timeout.total_seconds(), 0))


class _Running(Generic[T]):
    """A thread, and what came of it: one value or one exception."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._values: list[T] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="sublet-task")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._values.append(self._work())
        except BaseException as failure:  # noqa: BLE001 - whatever it is, it belongs to who waits for the result
            self._failure = failure

    def result(self) -> T:
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._values[0]
