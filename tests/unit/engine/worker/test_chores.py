"""What a window does beside heartbeats neither delays them nor stops the rest."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from sublet.metric_names import Metric
from sublet.ports import Task
from sublet.protocol.control import Control
from sublet.testing.memory import MemoryControlStore

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SECOND, EngineWorld


class Reading(MemoryControlStore):
    """`control` does this instead of reading."""

    def __init__(self, instead: Callable[[], Any]) -> None:
        super().__init__()
        self.instead = instead

    def control(self) -> Control:
        self.instead()
        return super().control()


def test_a_call_that_hangs_delays_no_heartbeat() -> None:
    world = EngineWorld(CONTINUOUS)
    world.control = Reading(lambda: world.tasks.sleep(MINUTE))
    world.window(lasts=3 * MINUTE)
    moments = [write.at for write in world.table.writes]
    assert max(after - before for before, after in pairwise(moments)) <= CONTINUOUS.heartbeat_interval * 1.1


def test_a_chore_that_fails_stops_no_other_and_the_window_raises_its_error() -> None:
    world = EngineWorld(CONTINUOUS)

    def fail() -> None:
        raise ZeroDivisionError

    world.control = Reading(fail)
    with pytest.raises(ZeroDivisionError):
        world.window(lasts=3 * MINUTE)
    assert len(world.metrics.values(Metric.WORKER_LEASES)) >= 2, "each minute"
    assert len(world.table.writes) >= 17
    assert world.table.lease().lease_owner is None


def test_worker_heartbeats_without_threads_and_does_chores_later() -> None:
    world = EngineWorld(CONTINUOUS)
    reads: list[float] = []
    world.control = Reading(lambda: reads.append(world.seconds()))
    spawn, are_there = world.tasks.spawn, 30 * SECOND

    def spawn_again_later(work: Callable[[], object]) -> Task[object]:
        if 5 <= world.seconds() < are_there.total_seconds():
            raise RuntimeError("can't start new thread")
        return spawn(work)

    world.tasks.spawn = spawn_again_later  # type: ignore[method-assign, assignment]
    world.window(lasts=2 * MINUTE)
    assert 30 <= reads[0] < 32
    moments = [write.at for write in world.table.writes]
    assert max(after - before for before, after in pairwise(moments)) <= CONTINUOUS.heartbeat_interval * 1.1


def test_a_short_window_starts_no_task_for_chores() -> None:
    """A thread costs as much as a write."""
    world = EngineWorld()
    world.put("a")
    spawn, started = world.tasks.spawn, []

    def count(work: Callable[[], object]) -> Task[object]:
        started.append(work)
        return spawn(work)

    world.tasks.spawn = count  # type: ignore[method-assign, assignment]
    world.window()
    assert world.seconds() < 5
    assert not [work for work in started if "Upkeep" in getattr(work, "__qualname__", "")]
