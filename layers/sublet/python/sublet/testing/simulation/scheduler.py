"""Simulated time and processes: one task runs at a time, and a task stops only where it sleeps or waits.

Simulated time decides which task runs next, and the random seed decides the time: each call of a port sleeps for a
random latency. So every interleaving of port calls can happen, and the same seed repeats it exactly.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from random import Random
from types import TracebackType
from typing import Generic, TypeVar

from sublet.testing.memory.clock import BEGINNING

try:
    from greenlet import getcurrent, greenlet
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "sublet.testing.simulate needs greenlet: install sublet with its extra testing", name=missing.name
    ) from missing

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000
"""A second in microseconds, the scheduler's unit."""


class Crashed(BaseException):
    """Unwinds the tasks of a dead process. Each port of a dead process raises it, so unwinding writes nothing."""


class Process:
    """A unit that can die or pause as a whole: one Lambda invocation, one container, one Java worker."""

    def __init__(self, name: str, skew: timedelta = timedelta(0), chaotic: bool = True) -> None:
        self.name = name
        self.skew = skew
        self.chaotic = chaotic
        """Whether faults may hit it. The world's own processes (producer, Step Functions) are spared."""
        self.is_java = self.is_older = False
        self.may_not_write = False
        """True if it was given another stream than that of the application's leases."""
        self.started_at = 0
        self.is_dead = False
        self.frozen_until = 0
        self.has_jumped = False
        """True if its wall clock has jumped, so that durations by it are not reliable."""
        self.suspended = timedelta(0)
        """How long its machine was suspended. Its steady clock is behind by that time."""
        self.tasks: list[SimTask[object]] = []
        self.on_death: list[Callable[[], None]] = []


class SimTask(Generic[T_co]):
    """The Task port: a greenlet of a process."""

    def __init__(self, scheduler: Scheduler, process: Process, work: Callable[[], T_co]) -> None:
        self._scheduler = scheduler
        self._work = work
        self._value: T_co | None = None
        self.error: BaseException | None = None
        self.process = process
        self.greenlet = greenlet(self._run, scheduler.hub)
        self.is_done = False
        self.wait = 0
        """Counts its waits, so that a wake-up for an earlier wait is recognized as stale."""
        self._waiting: list[SimTask[object]] = []

    def _run(self) -> None:
        try:
            self._value = self._work()
        except Crashed as crashed:
            self.error = crashed
        except Exception as error:  # noqa: BLE001 - the task's own failure: result() raises it
            self.error = error
        self.is_done = True
        for task in self._waiting:
            self._scheduler.wake(task)

    def result(self) -> T_co:
        while not self.is_done:
            self._waiting.append(self._scheduler.current)
            self._scheduler.block()
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]


class Scheduler:
    """The world's time, in microseconds since BEGINNING, and the queue of wake-ups."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.now_us = 0
        self.hub = getcurrent()
        self.steps = 0
        self.is_stopped = False
        self.current: SimTask[object]
        self._queue: list[tuple[int, float, int, SimTask[object], int]] = []
        self._serial = 0

    def now(self) -> datetime:
        """The true time: this is the Clock port of the stream and of the world itself."""
        return BEGINNING + MICROSECOND * self.now_us

    steady = now

    def spawn(self, process: Process, work: Callable[[], T]) -> SimTask[T]:
        task: SimTask[T] = SimTask(self, process, work)
        process.tasks = [*(other for other in process.tasks if not other.is_done), task]
        self._push(self.now_us, task)
        return task

    def sleep(self, microseconds: int) -> None:
        """Let the current task sleep for this long, or longer if its process is paused."""
        self._push(self.now_us + microseconds, self.current)
        self.block()

    def block(self) -> None:
        """Let the current task wait until another wakes it."""
        self.check_alive()
        self.hub.switch()
        self.check_alive()

    def check_alive(self) -> None:
        if self.current.process.is_dead:
            raise Crashed

    def wake(self, task: SimTask[object]) -> None:
        self._push(self.now_us, task)

    def kill(self, process: Process) -> None:
        """Let the process die at once: none of its tasks continues."""
        process.is_dead = True
        for task in process.tasks:
            if not task.is_done:
                self._push(self.now_us, task)
        for tell in process.on_death:
            tell()

    def run_until(self, microseconds: int) -> None:
        """Run the world up to the moment."""
        while self._queue and self._queue[0][0] <= microseconds and not self.is_stopped:
            due, _, _, task, wait = heapq.heappop(self._queue)
            if task.is_done or (wait != task.wait and not task.process.is_dead):
                continue
            if task.process.frozen_until > due and not task.process.is_dead:
                self._push(task.process.frozen_until, task)
                continue
            self.now_us = max(self.now_us, due)
            self.steps += 1
            task.wait += 1
            self.current = task
            if task.process.is_dead:
                task.greenlet.throw(Crashed) if task.greenlet else self._never_started(task)
            else:
                task.greenlet.switch()
        if not self.is_stopped:
            self.now_us = max(self.now_us, microseconds)

    def close(self, processes: list[Process]) -> None:
        """End the world: unwind the remaining tasks, so that no greenlet outlives it."""
        for process in processes:
            process.is_dead = True
            for task in process.tasks:
                if not task.is_done and task.greenlet:
                    self.current = task
                    task.greenlet.throw(Crashed)

    def _never_started(self, task: SimTask[object]) -> None:
        task.is_done = True
        task.error = Crashed()

    def _push(self, due: int, task: SimTask[object]) -> None:
        self._serial += 1
        heapq.heappush(self._queue, (due, self.chance.random(), self._serial, task, task.wait))


class SimSignal:
    """The Signal port."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: list[SimTask[object]] = []
        self._callbacks: list[Callable[[], None]] = []

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            while self._callbacks:
                self._callbacks.pop(0)()
            for task in self._waiting:
                self._scheduler.wake(task)
            self._waiting.clear()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: timedelta) -> bool:
        scheduler = self._scheduler
        if not self._is_set:
            me = scheduler.current
            self._waiting.append(me)
            scheduler.sleep(max(timeout // MICROSECOND, 0))
            if not self._is_set:
                self._waiting.remove(me)
        return self._is_set

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self._is_set:
            callback()
        else:
            self._callbacks.append(callback)
        return partial(self._forget, callback)

    def _forget(self, callback: Callable[[], None]) -> None:
        if callback in self._callbacks:
            self._callbacks.remove(callback)


class SimSlots(AbstractContextManager[object]):
    """The lock and the semaphore of the Tasks port. They are not fair: chance decides who is next."""

    def __init__(self, scheduler: Scheduler, count: int) -> None:
        self._scheduler = scheduler
        self._free = count
        self._waiting: list[SimTask[object]] = []

    def __enter__(self) -> None:
        scheduler = self._scheduler
        scheduler.check_alive()
        while self._free == 0:
            self._waiting.append(scheduler.current)
            scheduler.block()
        self._free -= 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._free += 1
        for task in self._waiting:
            self._scheduler.wake(task)
        self._waiting.clear()


class SimTasks:
    """The Tasks port of one process."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self._scheduler = scheduler
        self._process = process

    def spawn(self, work: Callable[[], T]) -> SimTask[T]:
        return self._scheduler.spawn(self._process, work)

    def lock(self) -> SimSlots:
        return SimSlots(self._scheduler, 1)

    def slots(self, count: int) -> SimSlots:
        return SimSlots(self._scheduler, count)

    def signal(self) -> SimSignal:
        return SimSignal(self._scheduler)


class SkewedClock:
    """The Clock port of one process: the wall clock is off by its skew."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self._scheduler = scheduler
        self._process = process

    def now(self) -> datetime:
        return self._scheduler.now() + self._process.skew

    def steady(self) -> datetime:
        return self._scheduler.now() - self._process.suspended
