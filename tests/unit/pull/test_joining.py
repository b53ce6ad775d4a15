"""AWS cannot be reached while a program joins: the consumer waits and sends events, and raises nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sublet import Batch, Consumer
from sublet.decisions.pull.pull_events import EventKind
from sublet.errors import LeaseTableUnavailable, StreamUnavailable
from sublet.testing.memory import MemoryAccount

from tests.doubles.pulled import SECOND, PulledWorld
from tests.doubles.refusing_table import OutOfReach


class Outage:
    """Of DynamoDB: of the consumer's tables, for a while from the beginning on."""

    def __init__(self, world: PulledWorld, seconds: float) -> None:
        error = LeaseTableUnavailable("DynamoDB answered 500")
        self.table, self.sightings = OutOfReach(world.table, error), OutOfReach(world.sightings, error)
        given: Any = {"table": self.table, "sightings": self.sightings}
        self.ports = replace(world.ports(), **given)

        def end() -> None:
            world.sleep(seconds)
            self.table.refuses = self.sightings.refuses = False

        world.tasks.spawn(end)


@pytest.fixture
def world() -> PulledWorld:
    world = PulledWorld()
    world.put(["a1", "b1"])
    return world


def test_join_succeeds_when_the_table_answers_again_with_events(world: PulledWorld) -> None:
    began = world.clock.steady()
    with world.consumer(Outage(world, 20).ports) as consumer:
        assert next(consumer.messages()).data == b"a1"
    assert 20 * SECOND <= world.clock.steady() - began < 40 * SECOND
    assert [event.kind for event in world.events][:2] == [EventKind.DISCONNECTED, EventKind.RECONNECTED]
    assert "DynamoDB answered 500" in world.events[0].detail


def test_a_fetch_ends_at_its_expiry_and_its_program_is_not_kept(world: PulledWorld) -> None:
    began = world.clock.steady()
    consumer = world.consumer(Outage(world, 1000).ports)
    with consumer.fetch(2, expires=5) as records:
        assert list(records) == []
    assert world.clock.steady() - began == 5 * SECOND
    assert world.told(EventKind.DISCONNECTED) == 1


def test_failed_join_is_logged_and_retried_less_and_less_often(
    world: PulledWorld,
) -> None:
    outage = Outage(world, 1000)
    consumer = world.consumer(outage.ports)
    assert consumer.next(expires=60) is None
    assert outage.sightings.refused == 14
    lines = [line for line in world.log.lines if line.level == "warning"]
    assert {line.message for line in lines} == {"could not join; trying again"}
    assert [line.fields["again_after"] for line in lines[:5]] == [1, 2, 4, 5, 5]
    assert lines[0].fields["problem"] == "DynamoDB answered 500"


def test_consumer_with_a_handler_waits_for_the_table_too(world: PulledWorld) -> None:
    def handle(batch: Batch) -> None:
        seen.extend(record.data for record in batch.records)
        consumer.stop()

    seen: list[bytes] = []
    consumer = Consumer("orders", "events", handle, ports=Outage(world, 20).ports)
    consumer.run()
    assert seen[0] == b"a1"


def test_kinesis_is_waited_for_too(world: PulledWorld) -> None:
    account = MemoryAccount(clock=world.clock, tasks=world.tasks)
    account.create("events", 1)
    account.at("events").put("a", b"a1")
    way: Any = OutOfReach(account, StreamUnavailable("Kinesis answered 500"))
    way.refuses = False
    consumer = Consumer("orders", "events", account=way, on_event=world.events.append)
    consumer.create()

    def refuse_for_a_while() -> None:
        world.sleep(20)
        way.refuses = False

    way.refuses = True
    world.tasks.spawn(refuse_for_a_while)
    with consumer:
        record = consumer.next(expires=60)
        assert record is not None
        assert record.ack()
    assert [event.kind for event in world.events][:2] == [EventKind.DISCONNECTED, EventKind.RECONNECTED]


def test_consumer_with_a_handler_ends_when_told_to_leave_while_joining(world: PulledWorld) -> None:
    stop, leaving = world.tasks.signal(), world.tasks.signal()

    def leave() -> None:
        world.sleep(20)
        leaving.set()

    consumer = Consumer("orders", "events", print, ports=Outage(world, 1000).ports)
    world.tasks.spawn(leave)
    began = world.clock.steady()
    assert consumer._environment().join(stop, leaving) is None
    assert world.clock.steady() - began < 22 * SECOND
