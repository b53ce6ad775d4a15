"""The Tasks port over threads."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from sublet.ports import Signal, Task

T = TypeVar("T")

IDLE_SECONDS = 5.0
"""A busy shard's next page is asked for long before."""


class ThreadTasks:
    """A thread per task. One that is done waits a while for the next task: to start a thread costs more than to fetch a page.

    They are daemons: a process that is told to exit does not wait for a handler that hangs. concurrent.futures' pool, whose
    Future serves here, is no match: it joins its threads at exit, and holds to a number of them, while here tasks wait for each
    other, so that each needs a thread. A thousand idle shards in one process are 1,400 threads, 44 MiB and 7% of a CPU.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._idle: list[_Thread] = []
        self._process = os.getpid()

    def spawn(self, work: Callable[[], T]) -> Task[T]:
        task: Future[T] = Future()

        def run() -> Callable[[], None]:
            try:
                value = work()
            except BaseException as failure:  # noqa: BLE001 - whatever it is, it belongs to who waits for the result
                return partial(task.set_exception, failure)
            return partial(task.set_result, value)

        if self._process != os.getpid():  # forked: the threads are the parent's
            self._process = os.getpid()
            self._idle.clear()
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = _Thread(self._idle, self._idle_seconds)
        thread.given.put(run)
        return task

    def lock(self) -> AbstractContextManager[object]:
        return threading.Lock()

    def slots(self, count: int) -> AbstractContextManager[object]:
        return threading.BoundedSemaphore(count)

    def signal(self) -> Signal:
        return ThreadSignal()


class ThreadSignal:
    """The Signal port. A signal handler may set it in the midst of anything that its thread does with it, where
    threading.Event, which has a lock of its own, would wait for itself.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: deque[Callable[[], None]] = deque()
        """Of each who waits what releases its lock, and what is to be done then: taken out by whoever calls it."""

    def set(self) -> None:
        self._is_set = True
        with suppress(IndexError):
            while True:
                self._waiting.popleft()()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: timedelta) -> bool:
        if self._is_set:
            return True
        told = threading.Lock()
        told.acquire()
        self._waiting.append(told.release)
        if not self._is_set:  # looked at after that: who sets it from now on sees who waits
            told.acquire(timeout=max(timeout.total_seconds(), 0))
        self._forget(told.release)
        return self._is_set

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._waiting.append(callback)
        if self._is_set:  # the thread that set it may not have seen this callback
            self.set()
        return partial(self._forget, callback)

    def _forget(self, callback: Callable[[], None]) -> None:
        with suppress(ValueError):
            self._waiting.remove(callback)


class _Thread:
    """A thread, and what it is given to do: by who made it, or by who has taken it out of the idle ones."""

    def __init__(self, idle: list[_Thread], idle_seconds: float) -> None:
        self.given: SimpleQueue[Callable[[], Callable[[], None]]] = SimpleQueue()
        self._idle = idle
        self._idle_seconds = idle_seconds
        threading.Thread(target=self._run, daemon=True, name="sublet-task").start()

    def _run(self) -> None:
        """Idle before anybody learns that the work is done, so that who waited for it can give the next."""
        while (work := self._next()) is not None:
            tell = work()
            del work  # else a page would stay in memory until the next one
            self._idle.append(self)
            tell()
            del tell

    def _next(self) -> Callable[[], Callable[[], None]] | None:
        try:
            return self.given.get(timeout=self._idle_seconds)
        except Empty:
            pass
        try:
            self._idle.remove(self)
        except ValueError:  # taken out at this very moment
            return self.given.get()
        return None
