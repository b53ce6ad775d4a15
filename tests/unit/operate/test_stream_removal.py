"""Removing the leases of a stream that an application of several streams does not read any more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from sublet.decisions.streams.stream_status import StreamStanding
from sublet.errors import RemovalRefused, StreamError, StreamUnavailable
from sublet.operate.stream_removal import chosen, remove, standings
from sublet.ports import Stream
from sublet.reading.several_streams import StreamOfSeveral

from tests.doubles.several_streams import CountedStream, SeveralWorld

HOUR = timedelta(hours=1)


def look(world: SeveralWorld) -> tuple[StreamStanding, ...]:
    return standings(world.table, world.sightings, world.settings, world.clock.now)


def words(world: SeveralWorld) -> dict[str, str]:
    return {each.stream.stream: each.status.value for each in look(world)}


def remove_named(world: SeveralWorld, name: str, stream: Stream | None = None) -> int:
    standing = chosen(look(world), name)
    real = stream or world.ports().streams.of(standing.stream)  # type: ignore[union-attr]
    return remove(standing, world.table, world.sightings, real, world.settings, world.clock.now())


def world_of_two(streams: Sequence[str] = ("orders", "payments")) -> SeveralWorld:
    world = SeveralWorld("orders,payments", *streams)
    world.manager().tick()
    return world


def test_stream_cannot_be_removed_while_a_lease_manager_names_it() -> None:
    world = world_of_two()
    assert words(world) == {"orders": "READ", "payments": "READ"}
    with pytest.raises(RemovalRefused, match="take it out of the setting streams, and wait until 1h have passed"):
        remove_named(world, "orders")
    assert len(world.leases()) == 2


def test_deleted_stream_may_be_removed_before_a_lease_manager_noticed() -> None:
    world = world_of_two()
    world.streams["orders"].real.delete()
    assert words(world)["orders"] == "READ"
    assert remove_named(world, "orders") == 1
    assert words(world) == {"payments": "READ"}


def test_unnamed_stream_has_left_and_may_be_removed_after_former_streams_wait() -> None:
    world = world_of_two()
    for _ in range(3):
        world.clock.advance(HOUR / 2)
        world.manager("payments").tick()
    assert words(world) == {"orders": "LEFT", "payments": "READ"}
    orders = world.shard("orders")
    assert remove_named(world, "orders") == 1
    assert orders not in world.leases()
    assert words(world) == {"payments": "READ"}
    with pytest.raises(RemovalRefused, match="no leases of a stream orders"):
        remove_named(world, "orders")


def test_a_new_lease_manager_does_not_begin_the_wait_again() -> None:
    """KCL counts it in its leader's memory, from the start of each leader."""
    world = world_of_two()
    for _ in range(12):
        world.clock.advance(HOUR / 12 + timedelta(seconds=1))
        world.manager("payments").tick()
    assert words(world)["orders"] == "LEFT"


def test_a_stream_with_a_live_worker_stays() -> None:
    world = world_of_two()
    row = world.table.row(world.shard("orders")) or {}
    world.table.put_row({**row, "leaseOwner": {"S": "java"}})
    world.clock.advance(2 * HOUR)
    with pytest.raises(RemovalRefused, match="java reads stream orders"):
        remove_named(world, "orders")


def test_the_owner_is_not_live_whose_counter_stood_still() -> None:
    world = world_of_two()
    row = world.table.row(world.shard("orders")) or {}
    world.table.put_row({**row, "leaseOwner": {"S": "java"}})
    world.manager("payments").tick()
    world.clock.advance(2 * HOUR)
    assert remove_named(world, "orders") == 1


def test_leases_that_no_lease_manager_of_ours_has_named_are_noted_first() -> None:
    """They may be a KCL fleet's."""
    world = world_of_two()
    world.sightings.forget_stream(world.key("orders"))
    assert words(world)["orders"] == "UNKNOWN"
    with pytest.raises(RemovalRefused, match="another program may read it"):
        remove_named(world, "orders")
    assert words(world)["orders"] == "READ"
    world.clock.advance(HOUR)
    assert remove_named(world, "orders") == 1


@pytest.mark.parametrize("fault", [None, StreamUnavailable("not now"), StreamError("odd")])
def test_leases_of_a_gone_stream_are_removed_only_if_kinesis_confirms_it(fault: StreamError | None) -> None:
    world = world_of_two()
    orders = world.streams["orders"]
    world.streams["orders"].real.delete()
    key = chosen(look(world), "orders").stream
    known = world.sightings.load().streams[key]
    world.sightings.keep_streams({key: type(known)(known.named_at, world.clock.now())})
    assert words(world)["orders"] == "GONE"
    again = world.create("orders") if fault is None else orders.real
    there = CountedStream(again, world.clock, [])
    if fault is not None:
        there.fails["describe"] = fault
        with pytest.raises(RemovalRefused, match="does not say whether it is there"):
            remove_named(world, "orders", StreamOfSeveral(key, there))
    else:
        with pytest.raises(RemovalRefused, match="Kinesis describes stream orders"):
            remove_named(world, "orders", StreamOfSeveral(key, there))
    there.real.delete()
    there.fails.clear()
    assert remove_named(world, "orders", StreamOfSeveral(key, there)) == 1


def test_stream_key_tells_two_streams_of_one_name_apart() -> None:
    world = world_of_two()
    old = world.key("orders")
    world.delete("orders")
    world.clock.advance(HOUR / 4)
    world.create("orders")
    world.manager().tick()
    with pytest.raises(RemovalRefused, match="there are several streams orders"):
        chosen(look(world), "orders")
    assert [chosen(look(world), str(key)).status for key in (old, world.key("orders"))] == ["GONE", "READ"]
    assert remove_named(world, str(old)) == 1
    assert {each.stream for each in look(world)} == {world.key("orders"), world.key("payments")}


def test_lease_that_changed_since_the_look_is_not_removed() -> None:
    world = world_of_two()
    world.clock.advance(2 * HOUR)
    standing = chosen(look(world), "orders")
    row = world.table.row(world.shard("orders")) or {}
    world.table.put_row({**row, "leaseCounter": {"N": "9"}})
    with pytest.raises(RemovalRefused, match="0 leases were removed; 1 has changed meanwhile: look again"):
        remove(standing, world.table, world.sightings, world.streams["orders"], world.settings, world.clock.now())
    assert len(world.leases()) == 2
