"""lease_releasing: before a lease is given up, in time for a last checkpoint; and never of a lease that is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.window import SessionOutcome
from sublet.handler import Batch
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import Lease

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    only,
    raising,
)


def calls(world: EngineWorld) -> list[str]:
    return [name for name, _ in world.handler.calls]


def note_rows(world: EngineWorld) -> list[Lease]:
    """The lease's row as it stands in each call of lease_releasing."""
    rows: list[Lease] = []
    world.handler.on_releasing = lambda _: rows.append(world.table.lease())
    return rows


def test_a_lease_read_to_the_tip_is_still_ours_when_the_handler_is_notified() -> None:
    world = EngineWorld()
    world.put("a")
    rows = note_rows(world)
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert calls(world) == ["lease_acquired", "handle", "lease_releasing"]
    assert rows[0].lease_owner == "orders-lambda-0"
    assert world.table.lease().lease_owner is None


def test_a_checkpoint_of_an_earlier_batch_made_in_it_counts() -> None:
    """Of a handler that writes out what it has gathered, and then knows that the first of two was taken."""
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    numbers = world.put("a", "b")

    def flush(_: str) -> None:
        batch = world.handler.batches[-1]
        batch.checkpoint(batch.records[0])

    world.handler.script = lambda _: raising(ValueError())()
    world.handler.on_releasing = flush
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    row = world.table.lease()
    assert (row.checkpoint, row.lease_owner) == (Checkpoint(numbers[0]), None)


def test_a_lease_that_is_kept_for_the_next_window_is_not_being_released() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    assert only(world.window()).kept is not None
    assert calls(world) == ["lease_acquired", "handle"]


def test_a_window_that_is_stopped_keeps_nothing() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    stop = world.tasks.signal()
    world.at(5 * SECOND, stop.set)
    world.window(stop=stop)
    assert calls(world) == ["lease_acquired", "handle", "lease_releasing"]


def test_a_shard_that_ends_has_ended_and_is_not_released() -> None:
    world = EngineWorld()
    world.put("a")
    world.shards.split(SHARD)
    world.window(world.item(SHARD))
    assert [name for name, shard_id in world.handler.calls if shard_id == SHARD] == [
        "lease_acquired",
        "handle",
        "shard_ended",
    ]


def test_a_lease_that_another_has_taken_is_lost_and_not_released() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    world.at(5 * SECOND, world.steal)
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    assert calls(world) == ["lease_acquired", "handle", "lease_lost"]


def test_a_worker_that_wakes_up_too_late_asks_before_it_tells() -> None:
    """The handler stood still for longer than failover_time, and so did the heartbeats."""
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    world.put("a")

    def script(_: Batch) -> None:
        world.clock.advance(timedelta(minutes=5))
        world.steal()
        raise ValueError

    world.handler.script = script
    world.window(lasts=MINUTE)
    assert calls(world) == ["lease_acquired", "handle", "lease_lost"]


def test_a_lease_of_which_the_handler_would_not_take_note_is_not_released() -> None:
    world = EngineWorld()
    world.put("a")
    world.handler.on_acquired = lambda *_: raising(ValueError())()
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    assert set(calls(world)) == {"lease_acquired"}


def test_lease_releasing_is_called_before_a_hand_over() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    rows = note_rows(world)

    def ask() -> None:
        ours = world.table.lease()
        world.change_lease(lease_owner="java", checkpoint_owner=ours.lease_owner, lease_counter=ours.lease_counter + 1)

    world.at(5 * SECOND, ask)
    world.window()
    assert calls(world) == ["lease_acquired", "handle", "lease_releasing", "lease_lost"]
    assert rows[0].checkpoint_owner == "orders-lambda-0"


@pytest.mark.parametrize("fault", [ValueError(), SystemExit(1)])
def test_lease_is_released_though_lease_releasing_raises(fault: BaseException) -> None:
    world = EngineWorld()
    numbers = world.put("a")
    fail: Callable[[str], None] = raising(fault)
    world.handler.on_releasing = fail
    report = only(world.window())
    assert (report.outcome, report.handler_failures) == (SessionOutcome.CAUGHT_UP, 1)
    assert calls(world).count("lease_releasing") == 1
    row = world.table.lease()
    assert (row.checkpoint, row.lease_owner) == (Checkpoint(numbers[0]), None)


def test_lease_releasing_is_called_once_after_an_operator_ended_the_shard() -> None:
    """Only this rule prevents it: there was nothing to read, and the lease was not released."""
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=timedelta(0)))
    world.put("a")
    world.at(20 * SECOND, lambda: world.change_lease(checkpoint=SHARD_END))
    fail: Callable[[str], None] = raising(ValueError())
    world.handler.on_releasing = fail
    world.window()
    assert calls(world).count("lease_releasing") == 1
