"""The handled positions of leases, for the shards that answer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.engine.position_times import positions
from sublet.errors import ShardNotFound, StreamAccessDenied, StreamUnavailable
from sublet.ports import PollRefusal
from sublet.protocol.checkpoint import LATEST, SHARD_END

from tests.doubles.engine_world import SHARD, EngineWorld, raising

OTHER = "shardId-000000000001"


def found(world: EngineWorld) -> set[str]:
    return set(positions(world.table.real.scan().leases, world.ports))


def test_every_lease_that_has_not_ended_has_a_position() -> None:
    world = EngineWorld(shards=2)
    assert found(world) == {SHARD, OTHER}
    world.change_lease(checkpoint=SHARD_END)
    assert found(world) == {OTHER}


@pytest.mark.parametrize("problem", [ShardNotFound("no such shard"), StreamUnavailable("timed out")])
def test_handled_positions_leave_out_a_missing_or_unreachable_shard(
    problem: Exception,
) -> None:
    world = EngineWorld(shards=2)
    works = world.stream.disturb_open
    world.stream.disturb_open = lambda shard_id: raising(problem)() if shard_id == SHARD else works(shard_id)
    assert found(world) == {OTHER}


def test_a_lease_at_latest_has_a_position_when_it_was_opened() -> None:
    """Until then, what the stream kept before is not what the shard is behind."""
    world = EngineWorld()
    world.put("kept from before")
    world.clock.advance(timedelta(hours=1))
    world.change_lease(checkpoint=LATEST)
    assert found(world) == set()
    world.change_lease(start_at=world.clock.now() - timedelta(minutes=1))
    (position,) = positions(world.table.real.scan().leases, world.ports).values()
    assert position.lag == timedelta(0)


def test_a_throttled_shard_has_no_position() -> None:
    world = EngineWorld()
    world.stream.disturb = lambda _: PollRefusal.THROTTLED
    assert found(world) == set()


def test_a_refusal_for_good_is_raised() -> None:
    world = EngineWorld()
    world.stream.disturb_open = raising(StreamAccessDenied("denied"))
    with pytest.raises(StreamAccessDenied):
        found(world)
