"""A burst of prompts: forty windows end in one second, and each wants a tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

import pytest
from sublet.decisions.manager.dispatching import WORKER_STARTS_WITHIN, DispatchedWorker
from sublet.decisions.manager.packing import WorkerItem
from sublet.engine.manager.tick import LeaseManager
from sublet.ports import Applied, Remembered
from sublet.protocol.lease_writes import acquire, release
from sublet.testing.memory import MemoryDispatcher, MemorySightingStore

from tests.doubles.engine_world import CONTINUOUS, NO_WAITING, SECOND, EngineWorld
from tests.exploring import explores

TICK_LASTS = timedelta(milliseconds=300)


class SlowStore(MemorySightingStore):
    """A look takes a while, so that ticks overlap."""

    def __init__(self, world: EngineWorld) -> None:
        super().__init__()
        self.world = world
        self.looks = 0

    def load(self) -> Remembered:
        self.looks += 1
        self.world.tasks.sleep(TICK_LASTS / 2)
        seen = super().load()
        self.world.tasks.sleep(TICK_LASTS / 2)
        return seen

    def keep_dispatched(self, dispatched: Mapping[str, DispatchedWorker], seen_round: int) -> bool:
        self.world.tasks.sleep(TICK_LASTS / 10)
        return super().keep_dispatched(dispatched, seen_round)


@dataclass
class Storm:
    """Items' windows that end within a second; then each prompts, and what is dispatched starts a second or two
    later.
    """

    world: EngineWorld
    store: SlowStore
    chance: Random = field(default_factory=lambda: Random(1))
    started: list[WorkerItem] = field(default_factory=list)
    acquired: int = 0
    delays: list[timedelta] = field(default_factory=list)

    def window_ends(self, item: WorkerItem) -> None:
        world = self.world
        world.tasks.sleep(self.chance.random() * SECOND)
        for claim in item.claims:
            lease = world.table.lease(claim.lease_key)
            assert isinstance(world.table.real.apply(release(lease)), Applied)
        released = world.clock.now()
        self.run(prompted=True)
        self.delays.append(world.clock.now() - released)

    def run(self, *, prompted: bool) -> None:
        world, dispatcher = self.world, MemoryDispatcher()
        manager = LeaseManager(
            replace(world.ports, sightings=self.store, chance=Random(self.chance.random())),
            dispatcher,
            world.settings,
        )
        if prompted:
            manager.prompted()
        else:
            manager.tick()
        for item in dispatcher.take():
            world.tasks.spawn(lambda item=item: self.work(item))  # type: ignore[misc]

    def work(self, item: WorkerItem) -> None:
        self.started.append(item)
        self.world.tasks.sleep((1 + self.chance.random()) * SECOND)
        for claim in item.claims:
            fence = self.world.table.lease(claim.lease_key).fence
            if (fence.lease_owner, fence.lease_counter) == (claim.lease_owner, claim.lease_counter):
                self.world.table.real.apply(acquire(fence, item.worker_id, item.item_id))
                self.acquired += 1


def storm_of(shards: int) -> Storm:
    world = EngineWorld(replace(NO_WAITING, leases_to_acquire=10_000), shards=shards)
    storm = Storm(world, SlowStore(world))
    storm.run(prompted=False)
    world.tasks.sleep(3 * SECOND)
    assert storm.acquired == shards
    return storm


@pytest.mark.parametrize("shards", [400, pytest.param(10_000, marks=explores)])
def test_a_burst_of_prompts_starts_as_many_workers_as_there_is_work_for(shards: int) -> None:
    storm = storm_of(shards)
    first, storm.started, storm.acquired, storm.store.looks = list(storm.started), [], 0, 0
    tasks = [storm.world.tasks.spawn(lambda i=item: storm.window_ends(i)) for item in first]  # type: ignore[misc]
    tasks += [storm.world.tasks.spawn(lambda: storm.run(prompted=False)) for _ in range(3)]
    for task in tasks:
        task.result()
    storm.world.tasks.sleep(5 * SECOND)
    assert storm.acquired == shards
    assert max(storm.delays) < 2 * SECOND
    assert len(storm.started) <= 1.1 * len(first)
    assert storm.store.looks < 15, "the scheduled ones, and one after the other for all prompts"


def test_a_dispatched_lease_whose_worker_never_came_is_dispatched_again() -> None:
    world = EngineWorld()
    world.manager().tick()
    world.manager().tick()
    assert len(world.dispatcher.take()) == 1
    world.clock.advance(WORKER_STARTS_WITHIN)
    world.manager().tick()
    assert len(world.dispatcher.take()) == 1


def test_dispatched_claims_count_as_held() -> None:
    """Three ticks before the first one's workers have acquired anything."""
    world = EngineWorld(replace(CONTINUOUS, max_leases_for_worker=10, leases_to_acquire=10), shards=100)
    for _ in range(3):
        world.manager().tick()
    assert sum(len(item.claims) for item in world.dispatcher.take()) == 10


def test_a_prompt_whose_tick_fails_leaves_the_next_one_to_begin() -> None:
    world = EngineWorld()
    world.stream.disturb_identity = _fails
    with pytest.raises(ZeroDivisionError):
        world.manager().prompted()
    world.stream.disturb_identity = lambda: None
    assert world.manager().prompted()


def _fails() -> None:
    raise ZeroDivisionError
