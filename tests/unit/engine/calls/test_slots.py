"""The handler's slots, and leases that end while another lease's call has the only one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from sublet.engine.calls.slots import CallSlots
from sublet.engine.worker.worker import LeaseWorker
from sublet.handler import Batch, Handler
from sublet.handlers.load import handler_of
from sublet.settings import HandlerContract, Settings

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SECOND, EngineWorld

HANGS, WAITS, IDLE = (f"shardId-{number:012}" for number in range(3))


class Functions:
    """A handler whose call for HANGS lasts for ten minutes."""

    def __init__(self, world: EngineWorld) -> None:
        self.world, self.called = world, list[str]()

    def handle(self, batch: Batch) -> None:
        self.called.append(batch.shard_id)
        if batch.shard_id == HANGS:
            self.world.tasks.sleep(10 * MINUTE)


class Flushing(Functions):
    def lease_releasing(self, shard_id: str) -> None:
        self.called.append(f"releasing {shard_id}")


def released_while_a_call_hangs(world: EngineWorld, handler: Handler) -> set[str]:
    """Put a record into HANGS, then one into WAITS, whose call has to wait. Stop after a minute. Returns the leases
    that are released ten seconds later.
    """
    stop, released = world.tasks.signal(), set[str]()

    def look() -> None:
        released.update(key for key in (HANGS, WAITS, IDLE) if world.table.lease(key).lease_owner is None)

    world.put("hangs", shard=0, of=3)
    world.at(20 * SECOND, lambda: world.put("waits", shard=1, of=3))
    world.at(MINUTE, stop.set)
    world.at(MINUTE + 10 * SECOND, look)
    worker = LeaseWorker(world.ports, handler, world.settings)
    worker.run_window(world.item(), "window-1", world.clock.steady() + 14 * MINUTE, stop)
    assert all(world.table.lease(key).lease_owner is None for key in (HANGS, WAITS, IDLE))
    return released


def test_other_leases_are_released_although_a_call_hangs_in_the_only_slot() -> None:
    """The batch that waits for the slot is called by the next owner."""
    world = EngineWorld(CONTINUOUS, shards=3)
    functions = Functions(world)
    assert released_while_a_call_hangs(world, handler_of(functions)) == {WAITS, IDLE}
    assert functions.called == [HANGS]


def test_a_lambda_handler_has_nothing_to_say_at_a_release() -> None:
    settings: Settings = replace(CONTINUOUS, handler_contract=HandlerContract.LAMBDA_EVENT)
    world = EngineWorld(settings, shards=3)

    def function(event: object, context: object) -> None:
        world.tasks.sleep(10 * MINUTE)

    handler = handler_of(function, settings)
    assert released_while_a_call_hangs(world, handler) == {WAITS, IDLE}


def test_lease_releasing_still_waits_for_the_slot() -> None:
    """A handler need not be safe for threads."""
    world = EngineWorld(CONTINUOUS, shards=3)
    functions = Flushing(world)
    assert IDLE not in released_while_a_call_hangs(world, handler_of(functions))
    assert functions.called[0] == HANGS
    assert sorted(functions.called[1:]) == [f"releasing {key}" for key in (HANGS, WAITS, IDLE)]


def test_a_slot_that_comes_while_the_waiter_stops_goes_to_the_next_one() -> None:
    """Otherwise the next one would wait beside a free slot."""
    world = EngineWorld()
    slots, stop, took = CallSlots(1, world.tasks), world.tasks.signal(), list[bool]()
    assert slots.take(None)
    first = world.tasks.spawn(lambda: took.append(slots.take(stop)))
    world.tasks.sleep(SECOND)
    second = world.tasks.spawn(lambda: took.append(slots.take(None)))
    world.tasks.sleep(SECOND)
    slots.give()
    stop.set()
    first.result()
    second.result()
    assert took == [False, True]


def test_a_slot_goes_to_the_one_that_has_waited_longest() -> None:
    """Otherwise a shard with many records, whose next batch is there at once, would keep the others waiting."""
    world = EngineWorld()
    slots, took = CallSlots(1, world.tasks), list[str]()

    def take(name: str) -> None:
        slots.take(None)
        took.append(name)
        slots.give()

    assert slots.take(None)
    waiting = [world.tasks.spawn(partial(take, name)) for name in ("first", "second")]
    world.tasks.sleep(SECOND)
    slots.give()
    take("its holder again")
    for each in waiting:
        each.result()
    assert took == ["first", "second", "its holder again"]


@pytest.mark.parametrize("count", [1, 2])
def test_call_slots_admit_as_many_as_there_are(count: int) -> None:
    world = EngineWorld()
    slots, stop = CallSlots(count, world.tasks), world.tasks.signal()
    assert [slots.take(None) for _ in range(count)] == [True] * count
    stop.set()
    assert not slots.take(stop)
    slots.give()
    assert slots.take(None)
