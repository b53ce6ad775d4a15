"""A lease's row tells of a handler that fails: the error's class, the attempt, and since when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sublet.engine.calls.call_limits import HandlerCall
from sublet.engine.calls.failing_calls import FailingCalls
from sublet.handler import Batch
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.handler_failure import HandlerFailure
from sublet.protocol.lease import Lease
from sublet.protocol.lease_attributes import ROW_BYTES_MAX, bytes_of
from sublet.protocol.lease_row import encode_row
from sublet.testing.memory.clock import BEGINNING

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SECOND, SHARD, EngineWorld, raising

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:aside"
HOUR = timedelta(hours=1)
FAILING = replace(CONTINUOUS, handler_attempts=50, batch_size=1)


class SecretOrder(ValueError):
    """Its message has a record's data."""


def rows_at(world: EngineWorld, *after: timedelta) -> list[HandlerFailure | None]:
    """What the row says so long after now, once the window has run."""
    found: list[HandlerFailure | None] = []
    for at in after:
        world.at(at, lambda: found.append(world.table.lease().failing))
    return found


def failing_until(world: EngineWorld, until: datetime) -> Callable[[Batch], None]:
    def script(batch: Batch) -> None:
        if world.clock.now() < until:
            raise SecretOrder(str(batch.records[0].data))

    return script


def test_row_tells_the_error_and_since_when_while_a_batch_fails() -> None:
    world = EngineWorld(FAILING)
    world.put("a")
    began = world.clock.now()
    world.handler.script = raising(SecretOrder("card 4111"))
    found = rows_at(world, 2 * MINUTE, 4 * MINUTE)
    world.window(lasts=5 * MINUTE)
    early, late = found
    assert early is not None
    assert late is not None
    assert early.error == late.error == "SecretOrder"
    assert early.attempt < late.attempt <= len(world.handler.batches)
    assert timedelta(0) <= early.since - began < 2 * SECOND
    assert early.since == late.since
    assert world.table.lease().failing == late._replace(attempt=len(world.handler.batches))
    assert "4111" not in str(encode_row(world.table.lease()))
    assert bytes_of(encode_row(world.table.lease())) <= ROW_BYTES_MAX


def test_a_window_that_fails_again_goes_on_counting_and_keeps_the_moment() -> None:
    world = EngineWorld(FAILING)
    world.put("a")
    world.handler.script = raising(SecretOrder())
    world.window(lasts=3 * MINUTE)
    before = world.table.lease().failing
    world.clock.advance(HOUR)
    world.window(lasts=3 * MINUTE)
    after = world.table.lease().failing
    assert before is not None
    assert after == HandlerFailure("SecretOrder", len(world.handler.batches), before.since)


def test_heartbeats_keep_the_last_failure_until_the_next_windows_first_call_ends() -> None:
    world = EngineWorld(FAILING)
    world.put("a")
    world.handler.script = raising(SecretOrder())
    world.window(lasts=MINUTE)
    before = world.table.lease().failing
    world.handler.script = lambda _: world.tasks.sleep(2 * MINUTE)
    found = rows_at(world, MINUTE)
    world.window(lasts=5 * MINUTE)
    assert found == [before]
    assert before is not None
    assert world.table.lease().failing is None


def test_failure_is_cleared_on_progress_and_restarts_with_the_next_failing_record() -> None:
    world = EngineWorld(FAILING)
    world.put("a", "b")
    began = world.clock.now()
    fails_at_first = failing_until(world, began + MINUTE)

    def script(batch: Batch) -> None:
        if batch.records[0].data == b"a":
            fails_at_first(batch)
        else:
            raise KeyError("b")

    world.handler.script = script
    found = rows_at(world, MINUTE / 2, 4 * MINUTE)
    world.window(lasts=5 * MINUTE)
    first, second = found
    assert first is not None
    assert second is not None
    assert (first.error, second.error) == ("SecretOrder", "KeyError")
    assert second.since >= began + MINUTE
    world.handler.script = lambda _: None
    world.window(lasts=MINUTE)
    assert world.table.lease().failing is None


def test_a_success_whose_checkpoint_is_not_due_clears_it_with_a_heartbeat() -> None:
    world = EngineWorld(replace(FAILING, checkpoint_interval=HOUR))
    world.put("a")
    world.handler.script = failing_until(world, world.clock.now() + MINUTE)
    found = rows_at(world, MINUTE / 2, 3 * MINUTE)
    world.window(lasts=5 * MINUTE)
    assert [None if each is None else each.error for each in found] == ["SecretOrder", None]


def test_row_names_the_lane_that_has_failed_for_longest() -> None:
    world = EngineWorld(replace(FAILING, parallelization_factor=4))
    world.put(*map(str, range(20)))
    first: list[bytes] = []

    def script(batch: Batch) -> None:
        data = batch.records[0].data
        if not first:
            first.append(data)
        if data == first[0]:
            raise SecretOrder
        if data == b"19":
            world.tasks.sleep(MINUTE)
            raise KeyError

    world.handler.script = script
    found = rows_at(world, 4 * MINUTE)
    world.window(lasts=5 * MINUTE)
    (said,) = found
    assert said is not None
    assert said.error == "SecretOrder"


def test_a_record_that_is_set_aside_fails_no_more() -> None:
    world = EngineWorld(
        replace(
            FAILING,
            maximum_retry_attempts=1,
            checkpoint_interval=HOUR,
            on_failure=QUEUE,
        )
    )
    world.put("a")
    world.handler.script = raising(SecretOrder())
    world.window(lasts=3 * MINUTE)
    assert world.table.lease().failing is None


@pytest.mark.parametrize("what", ["on_acquired", "on_ended"])
def test_failure_of_another_handler_function_is_noted_too(what: str) -> None:
    world = EngineWorld(FAILING)
    world.put("a")

    def refuse(*_: object) -> None:
        raise SecretOrder

    setattr(world.handler, what, refuse)
    if what == "on_ended":
        world.shards.split(SHARD)
    world.window(lasts=3 * MINUTE)
    said = world.table.lease().failing
    assert said is not None
    assert said.error == "SecretOrder"


def test_a_call_that_hangs_is_overdue() -> None:
    world = EngineWorld(replace(FAILING, handler_timeout=MINUTE))
    world.put("a")
    world.handler.script = lambda _: world.tasks.sleep(HOUR)
    world.window(lasts=10 * MINUTE)
    said = world.table.lease().failing
    assert said is not None
    assert (said.error, said.attempt) == ("HandlerOverdue", 1)


@pytest.mark.parametrize(("held_up", "finished"), [(True, 0), (False, 1)])
def test_a_call_that_was_held_up_or_got_further_has_not_failed(held_up: bool, finished: int) -> None:
    """The next call is with other records, or was not tried at all."""
    failing = FailingCalls(Lease(SHARD, TRIM_HORIZON))
    call = HandlerCall(SHARD, SHARD, "handle", failure=SecretOrder())
    failing.failed(1, call, BEGINNING, None)
    assert failing.at(TRIM_HORIZON) is not None
    failing.failed(1, replace(call, is_held_up=held_up, finished=finished), BEGINNING, None)
    assert failing.at(TRIM_HORIZON) is None
