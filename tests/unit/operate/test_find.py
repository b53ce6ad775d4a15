"""A time's place in a shard, found by reading no more than is needed, on streams that are walked."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from sublet.operate.positions.find import place_of, places_of
from sublet.operate.rules.seek import FoundPosition
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import Checkpoint
from sublet.testing.memory.walk import drawn

from tests.doubles.engine_world import NO_WAITING, EngineWorld

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def world_with(
    gaps: list[timedelta], advance: timedelta | None = None
) -> tuple[EngineWorld, list[tuple[datetime, str]]]:
    """One shard with a record after each pause; when each arrived, and its sequence number."""
    world = EngineWorld(NO_WAITING, advance=advance)
    put = []
    for gap in gaps:
        world.clock.advance(gap)
        put.append((world.clock.now(), world.shards.put("key", b"data")))
    world.clock.advance(MINUTE)
    return world, put


def found_at(world: EngineWorld, moment: datetime) -> FoundPosition:
    (shard,) = world.shards.list_shards()
    return place_of(shard, moment, world.ports)


def test_the_last_record_before_the_time() -> None:
    world, put = world_with([HOUR] * 6)
    for (_, before), (moment, _) in pairwise(put):
        assert found_at(world, moment) == FoundPosition(Checkpoint(before), True)
        assert found_at(world, moment - timedelta(seconds=1)) == FoundPosition(Checkpoint(before), True)
    assert found_at(world, put[0][0]) == FoundPosition(None, True)
    assert found_at(world, world.clock.now()) == FoundPosition(Checkpoint(put[-1][1]), True)


@pytest.mark.parametrize("seed", range(10))
def test_find_is_right_on_any_stream_at_any_time(seed: int) -> None:
    print(f"seed {seed}")
    chance = Random(seed)
    pauses = [timedelta(milliseconds=1), timedelta(seconds=3), MINUTE, HOUR, 9 * HOUR]
    gaps = [chance.choice(pauses) * (0.5 + chance.random()) for _ in range(60)]
    world, put = world_with(gaps, advance=drawn(Random(seed))())
    for _ in range(8):
        near, off_by = chance.choice(put)[0], chance.choice((-1, 0, 1)) * chance.choice(pauses)
        moment = min(near + off_by, world.clock.now())
        before = [number for arrived, number in put if arrived < moment]
        assert found_at(world, moment) == FoundPosition(Checkpoint(before[-1]) if before else None, True), moment


def test_a_closed_shard_that_held_nothing_more_is_recognized() -> None:
    world, put = world_with([HOUR, HOUR])
    world.shards.split(world.shards.list_shards()[0].shard_id)
    world.clock.advance(HOUR)
    closed, *children = world.shards.list_shards()
    assert place_of(closed, world.clock.now(), world.ports) == FoundPosition(Checkpoint(put[-1][1]), False)
    assert place_of(closed, put[1][0], world.ports) == FoundPosition(Checkpoint(put[0][1]), True)
    assert places_of(children, world.clock.now(), world.ports) == {
        child.shard_id: FoundPosition(None, True) for child in children
    }


def test_an_empty_closed_shard_holds_nothing_at_any_time() -> None:
    world, _ = world_with([])
    world.shards.split(world.shards.list_shards()[0].shard_id)
    assert place_of(world.shards.list_shards()[0], world.clock.now() - HOUR, world.ports) == FoundPosition(None, False)


def test_find_takes_an_aggregate_before_the_time_as_a_whole() -> None:
    world, _ = world_with([HOUR])
    number = world.shards.put("key", aggregate([("key", None, b"a"), ("key", None, b"b")]))
    world.clock.advance(HOUR)
    assert found_at(world, world.clock.now()) == FoundPosition(Checkpoint(number, 1), True)


def test_a_dense_stream_is_not_read_from_its_beginning() -> None:
    """A record each second for three hours, and none in the last two."""
    world, put = world_with([timedelta(seconds=1)] * 10_000)
    world.clock.advance(2 * HOUR)
    began = world.clock.steady()
    assert found_at(world, world.clock.now()) == FoundPosition(Checkpoint(put[-1][1]), True)
    assert world.clock.steady() - began < MINUTE, "it pauses for half a second after each page"
