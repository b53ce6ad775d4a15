"""How often a held lease is written when nothing arrives: often enough to keep it, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from sublet.decisions.session.window import SessionOutcome
from sublet.handler import Batch
from sublet.protocol.lease_writes import LeaseWrite, WriteKind

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    SECOND,
    EngineWorld,
    Result,
    most_in,
    only,
    outcomes,
)

TEN_LEASES = 10


def test_idle_lease_is_written_at_most_six_times_a_minute_without_a_long_gap() -> None:
    """Each write costs money; a gap of failover_time costs the lease."""
    world = EngineWorld(CONTINUOUS, shards=2)
    world.window(lasts=5 * MINUTE)
    for key in ("shardId-000000000000", "shardId-000000000001"):
        moments = [write.at for write in world.table.writes if write.lease_key == key]
        assert most_in(MINUTE, moments) <= 6
        gaps = [after - before for before, after in pairwise(moments)]
        assert max(gaps) <= CONTINUOUS.heartbeat_interval * 1.1


def test_no_row_is_written_between_catch_up_windows() -> None:
    world = EngineWorld()
    world.window()
    before = list(world.table.writes)
    world.clock.advance(10 * MINUTE)
    assert world.table.writes == before
    assert world.table.lease().lease_owner is None


def test_a_checkpoint_is_a_heartbeat() -> None:
    """A busy lease needs no writes of their own for it."""
    world = EngineWorld(CONTINUOUS)
    for second in range(60):
        world.at(second * SECOND, lambda second=second: world.put(f"{second}"))  # type: ignore[misc]
    world.window()
    kinds = world.table.kinds()
    assert WriteKind.CHECKPOINT in kinds
    assert kinds.count(WriteKind.HEARTBEAT) <= 1
    assert most_in(MINUTE, (write.at for write in world.table.writes)) <= 7, "six, and the last one at the end"


def test_leases_are_heartbeat_during_a_call_longer_than_failover_time() -> None:
    world = EngineWorld(shards=3)
    for shard in range(3):
        world.put("a", shard=shard, of=3)
    world.handler.script = lambda _: world.tasks.sleep(3 * world.settings.failover_time)
    report = world.window(lasts=20 * MINUTE)
    assert set(outcomes(report).values()) == {SessionOutcome.CAUGHT_UP}
    assert world.table.kinds().count(WriteKind.HEARTBEAT) >= 3 * 8


def test_a_faster_heartbeat_interval_is_kept_too() -> None:
    fast = replace(CONTINUOUS, heartbeat_interval=SECOND, failover_time=3 * SECOND)
    world = EngineWorld(fast)
    world.window(lasts=MINUTE / 2)
    moments = [write.at for write in world.table.writes]
    gaps = [after - before for before, after in pairwise(moments)]
    assert max(gaps) <= timedelta(seconds=1.1)
    assert most_in(10 * SECOND, moments) <= 10


def test_lost_lease_does_not_end_the_heartbeats_of_the_others() -> None:
    world = EngineWorld(CONTINUOUS, shards=TEN_LEASES)
    world.at(5 * SECOND, world.steal)
    report = world.window(lasts=2 * MINUTE)
    assert list(outcomes(report).values()) == [SessionOutcome.LEASE_LOST] + [SessionOutcome.WINDOW_ENDED] * (
        TEN_LEASES - 1
    )


def test_an_unexpected_fault_in_one_lease_s_heartbeat_ends_that_lease_only() -> None:
    """An expired token, a denied permission, a bug: the others are heartbeaten on, and this one again when it has
    passed.
    """
    world = EngineWorld(CONTINUOUS, shards=2)
    odd, failures = "shardId-000000000000", 2

    def disturb(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        nonlocal failures
        if write.kind is WriteKind.HEARTBEAT and write.lease_key == odd and failures > 0:
            failures -= 1
            raise ZeroDivisionError
        return apply()

    world.table.disturb = disturb
    report = world.window(lasts=3 * MINUTE)
    assert set(outcomes(report).values()) == {SessionOutcome.WINDOW_ENDED}
    assert world.table.kinds(odd).count(WriteKind.HEARTBEAT) >= 14
    assert "ZeroDivisionError" in str([line.fields for line in world.log.lines if line.level == "error"])


def test_lease_is_lost_when_heartbeats_fail_for_failover_time() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    odd = "shardId-000000000000"

    def disturb(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if write.kind is not WriteKind.ACQUIRE and write.lease_key == odd:
            raise ZeroDivisionError
        return apply()

    world.table.disturb = disturb
    report = world.window(lasts=3 * MINUTE)
    assert outcomes(report) == {odd: SessionOutcome.LEASE_LOST, "shardId-000000000001": SessionOutcome.WINDOW_ENDED}


@pytest.mark.parametrize("by", [-10 * MINUTE, 10 * MINUTE])
def test_heartbeats_polls_and_the_windows_end_survive_a_jump_of_the_wall_clock(
    by: timedelta,
) -> None:
    world = EngineWorld(CONTINUOUS)
    world.at(30 * SECOND, lambda: world.clock.jump(by))
    world.at(90 * SECOND, lambda: world.put("after the jump"))
    report = world.window(lasts=3 * MINUTE)
    assert world.seconds() < 3 * 60 + 5 + abs(by.total_seconds()), "by the wall"
    assert only(report).outcome is SessionOutcome.WINDOW_ENDED
    assert world.handler.data() == [b"after the jump"]
    moments = [at for at, _ in world.stream.polls]
    assert len(moments) > 80
    assert 17 <= len(world.table.writes) <= 22


def test_a_machine_that_was_suspended_asks_before_it_calls_the_handler_again() -> None:
    """Its steady clock stood still, and says that nothing has happened; the wall clock knows better."""
    world = EngineWorld(CONTINUOUS)
    world.put("first")

    def suspended(_: Batch) -> None:
        world.clock.suspend(10 * MINUTE)
        world.steal()
        world.put("another owner's")

    world.handler.script = suspended
    report = world.window(lasts=3 * MINUTE)
    assert only(report).outcome is SessionOutcome.LEASE_LOST
    assert world.handler.data() == [b"first"]
