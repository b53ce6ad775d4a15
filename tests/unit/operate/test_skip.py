"""Past the records that a shard is stuck on: none is lost, none is skipped that was not shown, and undo goes back."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sublet.errors import DestinationRefused, SeekRefused
from sublet.handler import Batch
from sublet.operate.positions.seek import SeekRun
from sublet.operate.positions.seek_target import before_the_last
from sublet.operate.positions.skip import PlannedSkip, planned_skip, skip
from sublet.operate.rules.seek import plan_seek
from sublet.operate.rules.skip import BYTES_MAX
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.stream_info import Placement

from tests.doubles.engine_world import NO_WAITING, SHARD, EngineWorld, Result, lease_of

STUCK = replace(NO_WAITING, handler_backoff=timedelta(milliseconds=1))


def plan(world: EngineWorld, records: int = 1, shard: str = SHARD) -> PlannedSkip:
    scan, shards = world.table.real.scan(), world.shards.list_shards()
    return planned_skip(shard, records, None, scan, shards, world.ports, world.settings)


def carry_out(world: EngineWorld, found: PlannedSkip) -> None:
    skip(found, world.destination, world.snapshots, "anna@desk", world.ports, world.settings)


def stuck_world(*data: str, on: str = "poison") -> EngineWorld:
    """Its handler raises for one record, again and again; the ones before it are checkpointed."""
    world = EngineWorld(replace(STUCK, batch_size=1))
    world.put(*data)

    def handle(batch: Batch) -> None:
        if batch.records[0].data == on.encode():
            raise ValueError("cannot read it")

    world.handler.script = handle
    world.window()
    return world


def test_skip_sets_the_record_aside_and_the_stuck_shard_goes_on() -> None:
    world = stuck_world("1", "poison", "3")
    assert world.handler.data() == [b"1"]
    found = plan(world)
    assert [record.data for record in found.plan.records] == [b"poison"]
    assert world.destination.taken == []
    carry_out(world, found)
    world.window()
    assert world.handler.data() == [b"1", b"3"]
    (batch,) = world.destination.taken
    assert [record.data for record in batch.records] == [b"poison"]
    assert (batch.condition, batch.holder) == ("Skipped", "anna@desk")
    assert batch.has_raised


def test_skip_plans_as_many_records_as_asked_for_or_as_there_are() -> None:
    world = EngineWorld()
    world.put("1", "2", "3")
    assert [record.data for record in plan(world, 2).plan.records] == [b"1", b"2"]
    found = plan(world, 10)
    assert [record.data for record in found.plan.records] == [b"1", b"2", b"3"]
    assert found.plan.what == f"skip past 3 records of {SHARD}"


def test_skip_passes_single_user_records_of_an_aggregate() -> None:
    world = EngineWorld()
    world.shards.put("k", aggregate([("k", None, b"%d" % number) for number in range(4)]))
    carry_out(world, plan(world, 2))
    lease = world.table.lease()
    assert lease.checkpoint.sub_sequence_number == 1
    world.window()
    assert world.handler.data() == [b"2", b"3"]


@pytest.mark.parametrize("may_be_placed", [False, True])
def test_skip_does_not_count_aggregates_dropped_before_the_handler(may_be_placed: bool) -> None:
    """An aggregate outside its shard's hash keys is dropped, unless Kinesis may have placed it there."""
    world = EngineWorld(shards=2)
    world.put("1", shard=0, of=2)
    stray = aggregate([(f"key-{number}", str(2**128 - 1), b"stray") for number in range(3)])
    world.shards.put("key", stray, 0)
    world.put("poison", shard=0, of=2)
    if may_be_placed:
        placed = world.shards.describe()
        world.sightings.keep_placement(Placement(None, placed.at), placed.at)
    found = plan(world, 2)
    data = [record.data for record in found.plan.records]
    assert data == ([b"1", b"stray"] if may_be_placed else [b"1", b"poison"])


ORDERS = json.dumps({"Filters": [{"Pattern": {"data": {"kind": ["order"]}}}]})


def test_skip_does_not_count_filtered_records() -> None:
    world = EngineWorld(replace(STUCK, filter_criteria=ORDERS))
    noise, poison, good = '{"kind": "noise"}', '{"kind": "order", "bad": 1}', '{"kind": "order"}'
    world.put(noise, noise, noise, poison, noise, good)
    found = plan(world)
    assert [record.data for record in found.plan.records] == [poison.encode()]
    carry_out(world, found)
    world.window()
    assert world.handler.data() == [good.encode()]
    assert [record.data for batch in world.destination.taken for record in batch.records] == [poison.encode()]


def test_an_aggregate_that_the_handler_gets_whole_is_skipped_whole() -> None:
    world = EngineWorld(replace(STUCK, deaggregate=False))
    put = aggregate([("k", None, b"%d" % number) for number in range(4)])
    world.shards.put("k", put)
    world.put("last")
    found = plan(world)
    assert [record.data for record in found.plan.records] == [put]
    carry_out(world, found)
    world.window()
    assert world.handler.data() == [b"last"]
    assert [record.data for batch in world.destination.taken for record in batch.records] == [put]


def test_records_finished_ahead_in_another_form_are_not_passed_over() -> None:
    world = EngineWorld(replace(NO_WAITING, deaggregate=False))
    numbers = world.put("1", "2")
    lease = world.table.lease()
    ahead = FinishedAhead((Checkpoint(numbers[0]),))
    world.put_lease(replace(lease, noted_ahead=ahead, noted_ahead_counter=lease.lease_counter))
    assert [record.data for record in plan(world).plan.records] == [b"1"]


def test_undo_brings_skipped_records_back() -> None:
    world = stuck_world("1", "poison", "3")
    before = world.table.lease().position
    carry_out(world, plan(world))
    shards = world.shards.list_shards()
    back = before_the_last("orders", world.snapshots, shards, world.ports)
    assert back.what.startswith(f"undo skip past 1 record of {SHARD}")
    SeekRun(plan_seek(world.table.real.scan(), shards, back.positions, back.only), world.ports, "undo").run()
    assert world.table.lease().position == before


def test_skip_moves_nothing_if_the_destination_refuses() -> None:
    world = stuck_world("poison")
    before = world.table.lease()
    world.destination.refusals = 1
    with pytest.raises(DestinationRefused):
        carry_out(world, plan(world))
    assert world.table.lease() == before
    assert world.snapshots.snapshots() == ()


def test_skip_is_refused_when_the_owner_has_moved_on() -> None:
    world = EngineWorld()
    first, second = world.put("1", "2")
    found = plan(world)
    world.change_lease(checkpoint=Checkpoint(first))
    with pytest.raises(SeekRefused, match="changed after the plan was made"):
        carry_out(world, found)
    assert world.destination.taken == []
    assert world.table.lease().checkpoint == Checkpoint(first)
    assert second


def test_a_lease_that_moves_on_in_the_last_moment_stays_where_it_is() -> None:
    world = EngineWorld()
    first, second, _ = world.put("1", "2", "3")
    found = plan(world)

    def owner_is_faster(write: LeaseWrite, apply: object) -> Result:
        if write.kind is WriteKind.SEEK and world.table.lease().checkpoint == TRIM_HORIZON:
            lease = world.table.lease()
            world.put_lease(replace(lease, checkpoint=Checkpoint(second), lease_counter=lease.lease_counter + 1))
        return world.table.real.apply(write)

    world.table.disturb = owner_is_faster
    with pytest.raises(SeekRefused, match="moved on after the plan was made"):
        carry_out(world, found)
    assert world.table.lease().checkpoint == Checkpoint(second)
    assert first


def test_a_heartbeat_in_between_does_not_matter() -> None:
    world = EngineWorld()
    world.put("1")
    world.steal()
    found = plan(world)
    world.change_lease(lease_counter=99)
    carry_out(world, found)
    assert world.table.lease().checkpoint == found.plan.records[-1].checkpoint
    assert world.table.lease().lease_owner is None, "its owner has to stop"


def test_records_that_are_finished_ahead_are_passed_over() -> None:
    """Handled in parallel: they are done, though the checkpoint is before them."""
    world = EngineWorld(replace(NO_WAITING, batch_size=1))
    numbers = world.put("1", "2", "3")
    lease = world.table.lease()
    done = Checkpoint(numbers[0])
    ahead = FinishedAhead((done,))
    world.put_lease(replace(lease, noted_ahead=ahead, noted_ahead_counter=lease.lease_counter))
    assert [record.data for record in plan(world).plan.records] == [b"2"]


def test_too_many_bytes_are_refused_with_the_number_of_records_that_fit() -> None:
    world = EngineWorld()
    for number in range(8):
        world.shards.put("k", b"%d" % number * (BYTES_MAX // 7))
    with pytest.raises(SeekRefused, match="skip 7 or fewer"):
        plan(world, 8)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"checkpoint": SHARD_END}, "handled to its end"),
        ({"checkpoint_owner": "java-1", "lease_owner": "java-2"}, "being handed over from java-1 to java-2"),
    ],
)
def test_skip_is_refused_with_the_reason(changes: dict[str, Any], says: str) -> None:
    world = EngineWorld()
    world.put("1")
    world.change_lease(**changes)
    with pytest.raises(SeekRefused, match=says):
        plan(world)


def test_skip_is_refused_when_nothing_waits_or_no_such_shard() -> None:
    with pytest.raises(SeekRefused, match="nothing waits in shard"):
        plan(EngineWorld())
    with pytest.raises(SeekRefused, match="the stream has no shard shardId-7"):
        plan(EngineWorld(), shard="shardId-7")
    with pytest.raises(SeekRefused, match="has no lease yet"):
        plan(EngineWorld(leases=False))


def test_a_row_that_cannot_be_read_is_repaired_first() -> None:
    world = EngineWorld()
    world.table.real.put_row({"leaseKey": {"S": SHARD}, "leaseCounter": {"S": "many"}})
    with pytest.raises(SeekRefused, match="cannot be read"):
        plan(world)


def test_a_child_whose_parent_is_not_finished_has_not_begun() -> None:
    world = EngineWorld()
    child, _ = world.shards.split(SHARD)
    shards = {shard.shard_id: shard for shard in world.shards.list_shards()}
    world.put_lease(lease_of(shards[child]))
    world.shards.put("k", b"data")
    with pytest.raises(SeekRefused, match=f"its records come after those of {SHARD}"):
        plan(world, shard=child)
