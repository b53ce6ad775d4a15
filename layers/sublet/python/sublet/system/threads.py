"""The Tasks port over threads."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from sublet.ports import Signal

T = TypeVar("T")

IDLE_SECONDS = 5.0
"""Much longer than a busy shard waits for its next page."""


class ThreadTasks:
    """A thread per task. A finished thread waits a while for another task, since starting a thread costs more than
    fetching a page.

    The threads are daemons: an exiting process does not wait for a hung handler. concurrent.futures' pool does not fit:
    it joins its threads at exit and limits their number, while here tasks wait for each other, so that each needs a
    thread. A thousand idle shards in one process are 1,400 threads, 44 MiB and 7% of a CPU.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._idle: list[_Thread] = []
        self._process = os.getpid()

    def spawn(self, work: Callable[[], T]) -> ThreadTask[T]:
        task = ThreadTask(work)
        if self._process != os.getpid():  # after a fork the threads are the parent's
            self._process = os.getpid()
            self._idle.clear()
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = _Thread(self._idle, self._idle_seconds)
        thread.given.put(task)
        return task

    def lock(self) -> AbstractContextManager[object]:
        return threading.Lock()

    def slots(self, count: int) -> AbstractContextManager[object]:
        return threading.BoundedSemaphore(count)

    def signal(self) -> Signal:
        return ThreadSignal()


class ThreadTask(Generic[T]):
    """The Task port. It has one lock, held until the task is over: concurrent.futures' Future takes several for each
    call of a handler.
    """

    __slots__ = ("_failure", "_under_way", "_value", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._failure: BaseException | None = None
        self._under_way = threading.Lock()
        self._under_way.acquire()

    def result(self) -> T:
        with self._under_way:
            pass
        if self._failure is not None:
            raise self._failure
        return self._value

    def run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as failure:  # noqa: BLE001 - whatever it is, `result` raises it
            self._failure = failure
        del self._work  # otherwise a page would stay in memory as long as the task

    def end(self) -> None:
        """Called after `run`: wakes those who wait for the result."""
        self._under_way.release()


class ThreadSignal:
    """The Signal port. A signal handler may set it at any point of its own thread's calls here; threading.Event has a
    lock, and would deadlock on it.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: deque[Callable[[], None]] = deque()
        """The release of each waiter's lock, and the callbacks; each is removed by the thread that calls it."""

    def set(self) -> None:
        self._is_set = True
        try:  # `suppress` costs more than what it runs
            while True:
                self._waiting.popleft()()
        except IndexError:
            pass

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: timedelta) -> bool:
        if self._is_set:
            return True
        wake = threading.Lock()
        wake.acquire()
        self._waiting.append(wake.release)
        # checked after the append, so that a set() from now on sees this waiter
        if self.is_set() or not wake.acquire(timeout=max(timeout.total_seconds(), 0)):
            self._forget(wake.release)
        return self._is_set

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._waiting.append(callback)
        if self._is_set:  # the thread that set it may not have seen this callback
            self.set()
        return partial(self._forget, callback)

    def _forget(self, callback: Callable[[], None]) -> None:
        if callback in self._waiting:
            with suppress(ValueError):  # `set` takes it at this very moment
                self._waiting.remove(callback)


class _Thread:
    """A thread and its queue of tasks, filled by the one that created it or took it from the idle threads."""

    def __init__(self, idle: list[_Thread], idle_seconds: float) -> None:
        self.given: SimpleQueue[ThreadTask[Any]] = SimpleQueue()
        self._idle = idle
        self._idle_seconds = idle_seconds
        threading.Thread(target=self._run, daemon=True, name="sublet-task").start()

    def _run(self) -> None:
        """The thread is idle before the task ends, so that the waiter for its result can reuse it."""
        while (task := self._next()) is not None:
            task.run()
            self._idle.append(self)
            task.end()
            del task  # otherwise its value would stay in memory until the next one

    def _next(self) -> ThreadTask[Any] | None:
        try:
            return self.given.get(timeout=self._idle_seconds)
        except Empty:
            pass
        try:
            self._idle.remove(self)
        except ValueError:  # taken at this very moment
            return self.given.get()
        return None
