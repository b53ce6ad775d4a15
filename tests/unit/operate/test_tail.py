"""Following all shards of a stream: from now on, in order, through its reshards."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

import pytest
from sublet.errors import ShardNotFound, StreamUnavailable
from sublet.operate.tail import LIMIT, Tail
from sublet.ports import PollRefusal
from sublet.protocol.aggregation import aggregate
from sublet.protocol.hash_keys import hash_key

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld

SECOND = timedelta(seconds=1)


def followed(world: EngineWorld, number: int, **given: object) -> list[tuple[str, bytes]]:
    since = given.pop("since", None)
    tail = Tail(world.ports, since, **given)  # type: ignore[arg-type]
    return [(shard_id, record.data) for shard_id, record in islice(tail.records(), number)]


def test_tail_shows_records_from_its_timestamp_on() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("before")
    world.clock.advance(5 * SECOND)
    since = world.clock.now()
    world.at(3 * SECOND, lambda: world.put("after"))
    assert followed(world, 1, since=since) == [(SHARD, b"after")]


def test_an_aggregates_records_are_shown_one_by_one() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("a", aggregate([("a", None, b"1"), ("b", None, b"2")]))
    assert followed(world, 2) == [(SHARD, b"1"), (SHARD, b"2")]


def test_a_reshard_is_followed_and_children_come_after_their_parents() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("parent")
    world.shards.split(SHARD)
    for key in "abcdefgh":
        world.shards.put(key, key.encode())
    found = followed(world, 9)
    assert found[0] == (SHARD, b"parent")
    assert sorted(data for _, data in found[1:]) == [key.encode() for key in "abcdefgh"]
    assert {shard_id for shard_id, _ in found[1:]} == {"shardId-000000000001", "shardId-000000000002"}


def test_a_child_that_is_older_than_the_moment_is_not_read_from_its_beginning() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.split(SHARD)
    world.shards.put("a", b"old")
    world.clock.advance(5 * SECOND)
    since = world.clock.now()
    world.at(3 * SECOND, lambda: world.shards.put("a", b"new"))
    ((_, data),) = followed(world, 1, since=since)
    assert data == b"new"


def test_a_merged_child_waits_for_both_parents() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.split(SHARD)
    left, right = "shardId-000000000001", "shardId-000000000002"
    for key in "abcdefgh":
        world.shards.put(key, b"parent")
    world.shards.merge(left, right)
    world.shards.put("a", b"child")
    assert [data for _, data in followed(world, 9)] == [b"parent"] * 8 + [b"child"]


def test_tail_follows_the_named_shards_and_their_children() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.split(SHARD)
    for key in "abcdefgh":
        world.shards.put(key, key.encode())
    only = "shardId-000000000002"
    ((shard_id, _),) = followed(world, 1, shard_ids=frozenset({only}))
    assert shard_id == only
    with pytest.raises(ShardNotFound):
        followed(world, 1, shard_ids=frozenset({"shardId-9"}))


def test_a_shard_that_only_refuses_ends_it_with_the_reason() -> None:
    world = EngineWorld(NO_WAITING)
    world.stream.disturb = lambda _: PollRefusal.THROTTLED
    with pytest.raises(StreamUnavailable, match="20 times in a row: throttled"):
        followed(world, 1)


def test_each_shard_is_read_at_most_once_a_second() -> None:
    world = EngineWorld(NO_WAITING)
    began = world.clock.steady()
    world.at(10 * SECOND, lambda: world.put("late"))
    followed(world, 1, since=world.clock.now())
    taken = world.clock.steady() - began
    assert len(world.stream.polls) <= taken / SECOND + 1


def test_grandchildren_that_are_listed_already_wait_for_all_pages_of_their_parent() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.split(SHARD)
    lower = next(key for key in "abcdefgh" if hash_key(key, None) < 2**127)
    expected = [str(number).encode() for number in range(LIMIT + 1)]
    for data in expected:
        world.shards.put(lower, data)
    world.shards.split("shardId-000000000001")
    world.shards.put(lower, b"grandchild")
    assert [data for _, data in followed(world, LIMIT + 2)] == [*expected, b"grandchild"]
