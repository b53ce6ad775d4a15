"""A plan of a seek that waits while others move the leases: it is carried out only where it is still true."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.errors import SeekRefused
from sublet.operate.positions.planned_seek import PlannedSeek, carry_out, planned, seek_of
from sublet.operate.positions.seek import went_back
from sublet.operate.positions.seek_target import at_place, before_the_last
from sublet.operate.positions.seek_time import place
from sublet.operate.positions.snapshots import seeks_made
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, Position
from sublet.protocol.lease_writes import WriteKind, acquire, pin
from sublet.protocol.write_clauses import SEEK_LEAP
from sublet.settings import StartPosition

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld

MINUTE = timedelta(minutes=1)
OTHER = "shardId-000000000001"


def put(world: EngineWorld, count: int, first: int = 0) -> None:
    """One record a minute, in all shards in turn."""
    for number in range(first, first + count):
        world.shards.put(f"key-{number % 7}", b"%d" % number)
        world.clock.advance(MINUTE)


def handled(shards: int = 2) -> EngineWorld:
    world = EngineWorld(NO_WAITING, shards=shards)
    put(world, 60)
    consume(world)
    return world


def consume(world: EngineWorld) -> list[int]:
    before = len(world.handler.finished)
    for _ in range(4):
        world.manager().tick()
        world.window()
    return sorted(int(data) for _, data in world.handler.finished[before:])


def plan(world: EngineWorld, to: str, *, knows_seeks: bool = True) -> PlannedSeek:
    seeks = seeks_made(world.snapshots) if knows_seeks else None
    shards = world.shards.list_shards()
    target = at_place(place(to), shards, (), world.ports)
    return planned("orders", None, world.table.real.scan(), shards, target, world.ports, seeks=seeks)


def execute(world: EngineWorld, found: PlannedSeek, by: str = "") -> None:
    carry_out(found, seek_of(found, world.ports), world.snapshots, by)


def rows(world: EngineWorld) -> list[Lease]:
    return list(world.table.real.scan().leases)


@pytest.mark.parametrize("theirs", ["earliest", "45m", "latest"])
def test_plan_is_refused_after_a_later_seek(theirs: str) -> None:
    world = handled()
    put(world, 10, 60)
    ours = plan(world, "20m")
    execute(world, plan(world, theirs), "anna@desk")
    before = rows(world)
    with pytest.raises(SeekRefused, match=r"Nothing was moved[:.]") as refused:
        execute(world, ours)
    assert "Make a new plan" in str(refused.value)
    assert rows(world) == before


def test_the_refusal_says_whose_seek_it_was() -> None:
    world = handled()
    execute(world, plan(world, "latest"))
    world.clock.advance(MINUTE)
    ours = plan(world, "20m")
    execute(world, plan(world, "30m"), "anna@desk")
    consume(world)
    with pytest.raises(SeekRefused, match=r"at 2026-\S+ by anna@desk: seek to 30m"):
        execute(world, ours)


def test_plan_is_refused_after_a_later_seek_whose_records_were_handled_again() -> None:
    world = handled()
    ours = plan(world, "20m")
    execute(world, plan(world, "30m"))
    put(world, 10, 60)
    consume(world)
    with pytest.raises(SeekRefused, match="Make a new plan"):
        execute(world, ours)


def test_a_row_that_a_hand_has_set_back_is_seen_by_its_position() -> None:
    world = handled()
    ours = plan(world, "20m")
    world.change_lease(checkpoint=Checkpoint("5"))
    before = rows(world)
    with pytest.raises(SeekRefused, match=f"lease {SHARD} was moved back after the plan was made. N"):
        execute(world, ours)
    assert rows(world) == before
    assert not world.snapshots.snapshots(), "a seek that moves nothing is not the last one"


def test_seek_checks_all_leases_before_it_moves_the_first() -> None:
    world = handled()
    ours = plan(world, "20m")
    last = ours.plan.moves[-1].lease_key
    world.put_lease(replace(world.table.lease(last), checkpoint=Checkpoint("5")))
    before = rows(world)
    with pytest.raises(SeekRefused, match=f"lease {last} was moved back"):
        execute(world, ours)
    assert rows(world) == before


def test_seek_executes_after_the_fleet_has_read_on_since_the_plan() -> None:
    world = handled()
    ours = plan(world, "30m")
    put(world, 10, 60)
    assert consume(world) == list(range(60, 70))
    execute(world, ours)
    assert consume(world) == list(range(31, 70))


@pytest.mark.parametrize("theirs", ["earliest", "latest"])
def test_seek_stops_at_another_seek_and_names_the_leases_it_moved(theirs: str) -> None:
    """Its snapshot is not kept yet when ours looks for newer ones."""
    world = handled()
    put(world, 10, 60)
    ours, other = plan(world, "20m"), plan(world, theirs)
    first, second = (move.lease_key for move in ours.plan.moves)
    started = positions(world)

    def meanwhile(key: str) -> None:
        if key == second:
            world.table.disturb_get = lambda _: None
            seek = seek_of(other, world.ports)
            seek.plan = replace(other.plan, moves=tuple(m for m in other.plan.moves if m.lease_key == second))
            seek.run()

    world.table.disturb_get = meanwhile
    with pytest.raises(SeekRefused) as refused:
        execute(world, ours)
    assert f"1 lease was moved already: {first}. `sublet undo` moves them back." in str(refused.value)
    moved = {move.lease_key: move.then for move in other.plan.moves}
    assert world.table.lease(second).position == moved[second]
    shards = world.shards.list_shards()
    undo = before_the_last("orders", world.snapshots, shards, world.ports)
    assert undo.only == (first,)
    assert undo.positions[first] == started[first]


def positions(world: EngineWorld) -> dict[str, Position]:
    return {lease.lease_key: lease.position for lease in rows(world)}


def test_a_heartbeat_between_the_look_and_the_write_is_no_seek() -> None:
    world = handled()
    ours = plan(world, "20m")
    first = ours.plan.moves[0].lease_key

    def meanwhile(key: str) -> None:
        world.table.disturb_get = lambda _: None
        world.table.real.apply(acquire(world.table.lease(key).fence, "worker-2", "w/1"))

    world.table.disturb_get = meanwhile
    execute(world, ours)
    assert world.table.lease(first).position == ours.plan.moves[0].then


def test_a_lost_answer_to_our_own_write_is_no_seek_of_somebody_else() -> None:
    world = handled()
    ours = plan(world, "20m")
    world.table.lose_response_of(WriteKind.SEEK)
    execute(world, ours)
    assert {move.lease_key: move.then for move in ours.plan.moves} == positions(world)


def test_lease_pinned_at_latest_since_the_plan_does_not_count_as_moved() -> None:
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition.parse("LATEST")))
    put(world, 3)
    world.put_lease(Lease(SHARD, LATEST, 1, "worker-1", holder="w/1", holder_counter=1))
    ours = plan(world, "earliest")
    world.table.real.apply(pin(world.table.lease(), world.clock.now()))
    execute(world, ours)
    assert world.table.lease().checkpoint == TRIM_HORIZON


@pytest.mark.parametrize(
    ("planned_on", "now", "back"),
    [
        (Checkpoint("9"), Checkpoint("8"), True),
        (Checkpoint("10"), Checkpoint("9"), True),
        (Checkpoint("9", 2), Checkpoint("9", 1), True),
        (Checkpoint("9"), TRIM_HORIZON, True),
        (Checkpoint("9"), AT_TIMESTAMP, True),
        (Checkpoint("9"), LATEST, True),
        (Checkpoint("9"), Checkpoint("9"), False),
        (Checkpoint("9"), Checkpoint("10"), False),
        (Checkpoint("9"), SHARD_END, False),
        (LATEST, TRIM_HORIZON, False),
        (LATEST, Checkpoint("1"), False),
        (TRIM_HORIZON, AT_TIMESTAMP, False),
    ],
)
def test_position_went_back_only_if_no_fleet_can_come_to_it(
    planned_on: Checkpoint, now: Checkpoint, back: bool
) -> None:
    assert went_back(Position(planned_on), Position(now)) is back


def test_a_seek_shows_in_the_counter() -> None:
    """What `why_not` goes by between two writes."""
    world = handled(1)
    before = world.table.lease().lease_counter
    execute(world, plan(world, "20m"))
    assert world.table.lease().lease_counter >= before + SEEK_LEAP
