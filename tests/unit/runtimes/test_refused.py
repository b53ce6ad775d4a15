"""A process whose calls AWS refuses, at its start or after it has worked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.errors import (
    AwsNotConfigured,
    LeaseTableAccessDenied,
    LeaseTableError,
    LeaseTableKeyUnexpected,
    LeaseTableNotFound,
    StreamAccessDenied,
    StreamNotAdopted,
    StreamNotFound,
)
from sublet.metric_names import Metric

from tests.doubles.processes import ProcessWorld, Running

SECOND = timedelta(seconds=1)

REFUSALS = [
    AwsNotConfigured("AWS does not accept these credentials (ExpiredTokenException)"),
    AwsNotConfigured("AWS cannot be called from here: the broker is unavailable"),
    LeaseTableAccessDenied("not authorized to perform dynamodb:Scan"),
    LeaseTableError("DynamoDB's error: ReplicatedWriteConflictException"),
    StreamAccessDenied("not authorized to perform kinesis:ListShards"),
    StreamNotFound("no stream events"),
]


def refuse(running: Running, problem: Exception, seconds: float, world: ProcessWorld) -> None:
    running.table.error, running.table.refuses = problem, True
    world.sleep(seconds)
    running.table.refuses = False


@pytest.mark.parametrize("problem", REFUSALS)
@pytest.mark.parametrize("seconds", [1, 300])
def test_a_process_that_has_worked_goes_on_after_a_refusal(problem: Exception, seconds: float) -> None:
    world = ProcessWorld(shards=2)
    world.produce(timedelta(seconds=1))
    running = world.start()
    world.sleep(30)
    refuse(running, problem, seconds, world)
    world.sleep(60)
    world.stop_producing()
    world.sleep(10)
    running.leave()
    assert not world.missing
    assert sum(world.metrics.values(Metric.TICKS_REFUSED)) == world.log.messages("warning").count(
        "tick refused; will retry"
    )


def test_a_refusal_is_repeated_within_seconds() -> None:
    world = ProcessWorld(shards=1, failover_time=timedelta(minutes=10), heartbeat_interval=timedelta(minutes=3))
    running = world.start()
    world.sleep(1)
    world.stream.put("key", b"first")
    world.sleep(400 - 3)  # the next tick is after two thirds of failover_time
    refuse(running, REFUSALS[0], 6, world)
    before = world.sightings.loads
    world.sleep(10)
    assert world.sightings.loads > before
    assert sum(world.metrics.values(Metric.TICKS_REFUSED)) == 3
    running.leave()


def test_a_refusal_that_lasts_ends_the_process_after_its_patience() -> None:
    world = ProcessWorld(shards=1)
    running = world.start(refusal_patience=timedelta(minutes=7))
    world.sleep(30)
    running.table.error, running.table.refuses = REFUSALS[0], True
    began = world.clock.steady()
    with pytest.raises(AwsNotConfigured):
        running.task.result()
    assert timedelta(minutes=7) <= world.clock.steady() - began < timedelta(minutes=8)


def test_a_success_in_between_begins_the_patience_again() -> None:
    world = ProcessWorld(shards=1)
    running = world.start()
    for _ in range(6):
        world.sleep(60)
        refuse(running, REFUSALS[0], 540, world)
    running.leave()


@pytest.mark.parametrize("problem", REFUSALS)
def test_a_process_that_has_not_worked_yet_ends_at_once(problem: Exception) -> None:
    world = ProcessWorld(shards=1)
    running = world.start()
    running.table.error, running.table.refuses = problem, True
    began = world.clock.steady()
    with pytest.raises(type(problem)):
        running.task.result()
    assert world.clock.steady() - began < timedelta(seconds=1)


@pytest.mark.parametrize(
    "problem",
    [
        LeaseTableNotFound("no table orders"),
        LeaseTableKeyUnexpected("table orders is another"),
        StreamNotAdopted("the leases are another stream's"),
    ],
)
def test_process_ends_at_once_on_an_error_that_does_not_pass(problem: Exception) -> None:
    world = ProcessWorld(shards=1)
    running = world.start()
    world.sleep(30)
    running.table.error, running.table.refuses = problem, True
    began = world.clock.steady()
    with pytest.raises(type(problem)):
        running.task.result()
    assert world.clock.steady() - began < timedelta(seconds=30)


@pytest.mark.parametrize("problem", REFUSALS[:4])
def test_patience_extends_no_lease(problem: Exception) -> None:
    """Without a write within failover_time the handler stops, whatever the process waits for."""
    world = ProcessWorld(shards=2)
    world.produce(timedelta(seconds=1))
    running = world.start()
    world.sleep(30)
    began, lasts = world.clock.steady(), timedelta(minutes=2)
    refuse(running, problem, lasts.total_seconds(), world)
    settings = running.process.settings
    ends = began + settings.failover_time + SECOND
    late = [data for seen in world.handled.values() for at, data in seen if ends < at <= began + lasts]
    assert late == []
    world.stop_producing()
    world.sleep(60)
    running.leave()
    assert not world.missing
