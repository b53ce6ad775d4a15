"""The session, the heartbeats and the handler's threads change one Progress: a switch between any two of its steps
loses nothing.

Each read and each write of a field of Progress may let another task run, as a thread may be interrupted between any two
instructions. Without its lock the same tasks make a position go back: so the lock is what keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from sublet.decisions.time_and_chance import Instant
from sublet.engine.lease.held import HeldLease
from sublet.engine.lease.progress import Progress
from sublet.engine.lease.steps import acquire_lease
from sublet.ports import Applied, Ports, Refused
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, LeaseFence
from sublet.protocol.lease_writes import LeaseWrite
from sublet.testing.simulation.scheduler import SECOND, Process, Scheduler, SimTasks, SkewedClock

from tests.doubles.engine_world import CONTINUOUS, SHARD, EngineWorld

SETTINGS = replace(CONTINUOUS, checkpoint_interval=timedelta(microseconds=20))
FIELDS = ("finished", "written", "handed", "passed", "_moves", "_written_at")
NEVER_BACK = ("finished", "written")
LAST = 12
SEEDS = range(60)

Lock = Callable[[SimTasks], AbstractContextManager[object]]


class Switching:
    """A field whose reads and writes may let other tasks run. It notes when a position goes back."""

    def __init__(self, name: str, race: Race) -> None:
        self._name = name
        self._race = race

    def __get__(self, progress: Progress, _: type[Progress]) -> object:
        value: object = progress.__dict__[self._name]
        self._race.switch()
        return value

    def __set__(self, progress: Progress, value: Checkpoint) -> None:
        self._race.switch()
        before = progress.__dict__.get(self._name)
        if self._name in NEVER_BACK and before is not None and value < before:
            self._race.found.append(f"{self._name} goes back from {before} to {value}")
        progress.__dict__[self._name] = value


class Race:
    """One lease of which the session handles LAST records, while heartbeats write and threads of the handler
    checkpoint.
    """

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler(Random(seed))
        self.process = Process("worker")
        self.tasks = SimTasks(self.scheduler, self.process)
        self.world = EngineWorld(SETTINGS)
        self.world.table.disturb = self._slowly
        self.found: list[str] = []
        self.positions = [Checkpoint(number) for number in self.world.put(*(str(n) for n in range(LAST)))]

    def switch(self) -> None:
        if self.scheduler.chance.random() < 0.3:
            self.scheduler.sleep(0)

    def _slowly(self, _: LeaseWrite, apply: Callable[[], Applied | Refused]) -> Applied | Refused:
        self.scheduler.sleep(self.scheduler.chance.randrange(20))
        return apply()

    def run(self, lock: Lock) -> None:
        done = self.scheduler.spawn(self.process, lambda: self._lease(lock))
        self.scheduler.run_until(60 * SECOND)
        assert done.is_done, "a task waits for ever"
        done.result()

    def _lease(self, lock: Lock) -> None:
        clock = SkewedClock(self.scheduler, self.process)
        ports: Ports = replace(self.world.ports, tasks=self.tasks, clock=clock)
        row = acquire_lease(ports.table, LeaseFence(SHARD, None, 0), "worker", "holder")
        assert isinstance(row, Lease)
        stop = self.tasks.signal()
        held = HeldLease(row, Instant(clock.now(), clock.steady()), ports, timedelta(minutes=1), stop)
        progress = Progress(held, SETTINGS, clock, stop, lock(self.tasks))
        handled: list[Checkpoint] = []

        def session() -> None:
            for position in self.positions:
                progress.begin_call(position, 1)
                handled.append(position)
                self.scheduler.sleep(self.scheduler.chance.randrange(10))
                progress.end_call(position)
                progress.write_if_due()

        def handlers_thread() -> None:
            for _ in range(LAST):
                self.scheduler.sleep(self.scheduler.chance.randrange(20))
                if handled:
                    progress.checkpoint(self.scheduler.chance.choice(handled))

        def heartbeats() -> None:
            for _ in range(LAST):
                self.scheduler.sleep(self.scheduler.chance.randrange(20))
                progress.heartbeat_if_due(timedelta(0), timedelta(microseconds=5))

        for task in [self.tasks.spawn(work) for work in (session, handlers_thread, handlers_thread, heartbeats)]:
            task.result()
        progress.write()
        last = self.positions[-1]
        if (progress.finished, progress.written, self.world.table.lease().checkpoint) != (last, last, last):
            self.found.append(f"it ends at {progress.finished}, {progress.written} is written, of {last}")


def races(monkeypatch: pytest.MonkeyPatch, lock: Lock) -> list[str]:
    found = []
    for seed in SEEDS:
        race = Race(seed)
        with monkeypatch.context() as patched:
            for name in FIELDS:
                patched.setattr(Progress, name, Switching(name, race), raising=False)
            race.run(lock)
        found += [f"seed {seed}: {each}" for each in race.found]
    return found


def test_no_position_goes_back_and_the_last_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert races(monkeypatch, SimTasks.lock) == []


def test_progress_goes_back_without_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test would notice."""
    found = races(monkeypatch, lambda _: nullcontext())
    assert any("finished goes back" in each for each in found)
