"""A program that pulls, while an operator pauses and resumes its consumer."""

from __future__ import annotations

from collections.abc import Iterable

from sublet.decisions.status.shard_status import ShardState
from sublet.decisions.status.status_rules import Status
from sublet.protocol.control import Control, Order, Pause
from sublet.pull.record import Record

from tests.doubles.pulled import PulledWorld


def data(records: Iterable[Record]) -> list[str]:
    return [record.data.decode() for record in records]


def pause(world: PulledWorld) -> None:
    ordered = Pause(Order.PAUSE, world.clock.now(), "anna@desk")
    assert world.control.keep_control(Control(ordered, round=world.control.control().round))


def resume(world: PulledWorld) -> None:
    assert world.control.keep_control(Control(round=world.control.control().round))


def fetched(world: PulledWorld, records: Iterable[Record]) -> list[str]:
    """Acknowledged as they come."""
    found = []
    for record in records:
        found.append(record.data.decode())
        assert record.ack()
    return found


def test_paused_consumer_gets_nothing_until_resumed() -> None:
    world = PulledWorld()
    world.put(["a1"])
    with world.consumer() as consumer:
        assert fetched(world, consumer.fetch(1)) == ["a1"]
        pause(world)
        world.sleep(15)
        assert world.owners == {None}
        world.put(["a2"])
        assert data(consumer.fetch(1, expires=60)) == []
        (shard,) = consumer.info().shards
        assert (shard.state, shard.status) == (ShardState.UNOWNED, Status.PAUSED)
        assert shard.pause is not None
        assert shard.pause.by == "anna@desk"
        resume(world)
        assert fetched(world, consumer.fetch(1, expires=60)) == ["a2"]


def test_records_acknowledged_before_a_pause_are_checkpointed() -> None:
    world = PulledWorld()
    world.put(["a1", "a2"])
    with world.consumer() as consumer:
        first, second = consumer.fetch(2)
        assert first.ack()
        pause(world)
        world.sleep(15)
        (checkpoint,) = world.checkpoints.values()
        assert checkpoint.sequence_number == first.sequence_number
        assert not second.ack(), "its lease is released: it comes again"
        resume(world)
        assert fetched(world, consumer.fetch(1, expires=60)) == ["a2"]
