"""Each call with records has a duration, a failed one with its error."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.handler import Batch
from sublet.pull.pull_handler import PullHandler
from sublet.settings import Settings
from sublet.testing import MemoryConsumer

from tests.doubles.engine_world import MINUTE, NO_WAITING, SECOND, SHARD, EngineWorld


def test_each_call_has_a_duration_and_a_failed_one_its_error() -> None:
    consumer = MemoryConsumer(batch_size=1)
    consumer.put(("key", b"1"), ("key", b"2"))
    calls: list[Batch] = []

    def handle(batch: Batch) -> None:
        calls.append(batch)
        consumer.clock.advance(len(calls) * SECOND)
        if len(calls) == 1:
            raise LookupError

    consumer.consume(handle)
    assert [(each.lasted, each.error) for each in consumer.metrics.durations] == [
        (SECOND, "LookupError"),
        (2 * SECOND, None),
        (3 * SECOND, None),
    ]
    assert len(consumer.metrics.durations[0].shard_id) == len(SHARD)


@pytest.mark.parametrize(("timeout", "error"), [(MINUTE, "HandlerOverdue"), (5 * MINUTE, None)])
def test_a_call_that_is_given_up_lasted_until_then(timeout: timedelta, error: str | None) -> None:
    settings: Settings = replace(NO_WAITING, handler_timeout=timeout)
    world = EngineWorld(settings)
    world.shards.put("key", b"{}", 0)
    world.handler.script = lambda _: world.tasks.sleep(3 * MINUTE)
    world.window()
    [found] = world.metrics.durations
    assert (found.lasted, found.error) == (min(timeout, 3 * MINUTE), error)


def test_a_call_that_waits_for_a_program_has_no_duration() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"{}", 0)
    vars(world.handler)["is_pulled"] = PullHandler.is_pulled
    world.window()
    assert world.handler.data() == [b"{}"]
    assert world.metrics.durations == []
