"""Concurrency for tests: real threads that take turns, on a clock that moves only when all of them wait.

One thread runs at a time. The turn passes only where the engine waits (for a signal, a task's result, a lock, a slot),
to the thread that has waited longest and can go on. If none can, the clock jumps to the earliest end of a timed wait: a
window of 14 minutes takes milliseconds, and every run is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Generic, TypeVar, cast

from sublet.ports import Signal, Task
from sublet.testing.memory import FakeClock

T = TypeVar("T")

TURNS_MAX = 200_000
"""A test that takes more turns than this does not end."""


class Stuck(AssertionError):
    """No thread can go on: a deadlock, or an endless loop."""


class _Waiting:
    def __init__(self, ready: Callable[[], bool], until: datetime | None):
        self.ready = ready
        self.until = until
        self.turn = threading.Lock()
        self.turn.acquire()

    def can_go_on(self, now: datetime) -> bool:
        return (self.until is not None and now >= self.until) or self.ready()


class TurnTaking:
    """The Tasks port. The thread that creates it has the first turn."""

    def __init__(self, clock: FakeClock, turns_max: int = TURNS_MAX):
        self._clock = clock
        self._turns_max = turns_max
        self._waiting: list[_Waiting] = []
        self._turns = 0
        self._stuck: Stuck | None = None

    def spawn(self, work: Callable[[], T]) -> Task[T]:
        start = _Waiting(lambda: True, None)
        self._waiting.append(start)
        task = _Task(self, work)
        threading.Thread(target=self._run, args=(start, task), daemon=True).start()
        return task

    def lock(self) -> AbstractContextManager[object]:
        return _Slots(self, 1)

    def slots(self, count: int) -> AbstractContextManager[object]:
        return _Slots(self, count)

    def signal(self) -> Signal:
        return _Signal(self)

    def sleep(self, duration: timedelta) -> None:
        """Lets the others run meanwhile, so that a handler in a test seems to work for a while."""
        self.wait(lambda: False, self.after(duration))

    def after(self, duration: timedelta) -> datetime:
        """Returns the moment after this duration."""
        return self._clock.steady() + duration

    def wait(self, ready: Callable[[], bool], until: datetime | None = None) -> None:
        if ready():
            return
        me = _Waiting(ready, until)
        self._waiting.append(me)
        self._pass_turn()
        me.turn.acquire()
        if self._stuck is not None:
            raise self._stuck

    def _run(self, start: _Waiting, task: _Task[T]) -> None:
        start.turn.acquire()
        if self._stuck is None:
            task.run()
            self._pass_turn()

    def _pass_turn(self) -> None:
        self._turns += 1
        following = None if self._turns > self._turns_max else self._following()
        if following is not None:
            self._waiting.remove(following)
            following.turn.release()
            return
        why = "too many turns" if self._turns > self._turns_max else "a deadlock"
        self._stuck = Stuck(f"{why}: {len(self._waiting)} tasks wait at {self._clock.steady()}")
        for waiting in self._waiting:
            waiting.turn.release()

    def _following(self) -> _Waiting | None:
        while True:
            now = self._clock.steady()
            for waiting in self._waiting:
                if waiting.can_go_on(now):
                    return waiting
            ends = [waiting.until for waiting in self._waiting if waiting.until is not None]
            if not ends:
                return None
            self._clock.set(min(ends))


class _Task(Generic[T]):
    def __init__(self, turns: TurnTaking, work: Callable[[], T]):
        self._turns = turns
        self._work = work
        self._value: T | None = None
        self._fault: BaseException | None = None
        self._is_over = False

    def run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as fault:  # noqa: BLE001 -- result() raises it
            self._fault = fault
        self._is_over = True

    def result(self) -> T:
        self._turns.wait(lambda: self._is_over)
        if self._fault is not None:
            raise self._fault
        return cast("T", self._value)


class _Signal:
    def __init__(self, turns: TurnTaking):
        self._turns = turns
        self._is_set = False
        self._callbacks: list[Callable[[], None]] = []

    def set(self) -> None:
        self._is_set = True
        while self._callbacks:
            self._callbacks.pop(0)()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: timedelta) -> bool:
        self._turns.wait(self.is_set, self._turns.after(timeout))
        return self._is_set

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        if self._is_set:
            self.set()
        return partial(_forget, self._callbacks, callback)


def _forget(callbacks: list[Callable[[], None]], callback: Callable[[], None]) -> None:
    if callback in callbacks:
        callbacks.remove(callback)


class _Slots:
    def __init__(self, turns: TurnTaking, count: int):
        self._turns = turns
        self._free = count

    def __enter__(self) -> None:
        self._turns.wait(lambda: self._free > 0)
        self._free -= 1

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._free += 1
