"""How a tick's decisions combine, where no single one decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.tick_plan import TickLook, TickPlan, plan_tick
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import FULL_RANGE, HashKeyRange, Shard
from sublet.settings import Mode, Settings
from sublet.testing.memory.clock import BEGINNING

NOW = BEGINNING
SETTINGS = Settings(application="orders", stream="events", mode=Mode.CONTINUOUS, failover_time=timedelta(seconds=30))
HALVES = HashKeyRange(0, 2**127 - 1), HashKeyRange(2**127, 2**128 - 1)
FREE = [Lease(f"shardId-{n}", Checkpoint("100"), 7, hash_key_range=half) for n, half in enumerate(HALVES)]
LISTED = [Shard(f"shardId-{n}", half) for n, half in enumerate(HALVES)]


def planned(leases: list[Lease], shards: list[Shard], settings: Settings = SETTINGS) -> TickPlan:
    """By a tick that has seen every owner's lease stand still for a minute."""
    long_ago = NOW - timedelta(minutes=1)
    sightings = {each.lease_key: Sighting(each.lease_counter, each.actual_owner, long_ago) for each in leases}
    return plan_tick(TickLook(LeaseScan(tuple(leases)), tuple(shards), sightings, NOW), Random(0), settings)


@pytest.mark.parametrize(("most", "leases_max"), [(4, None), (3, 2)])
def test_worker_may_read_children_up_to_max_leases_for_worker(most: int, leases_max: int | None) -> None:
    plan = planned(FREE, LISTED, replace(SETTINGS, max_leases_for_worker=most))
    assert not plan.announces
    (item,) = plan.items
    assert (len(item.claims), item.leases_max) == (2, leases_max)


@pytest.mark.parametrize(("checkpoint", "chosen"), [(TRIM_HORIZON, []), (SHARD_END, ["shardId-9"])])
def test_children_of_a_shard_that_is_not_listed_wait_until_the_tick_has_asked_for_it(
    checkpoint: Checkpoint, chosen: list[str]
) -> None:
    parent = Lease("shardId-8", checkpoint, hash_key_range=FULL_RANGE)
    child = Lease("shardId-9", TRIM_HORIZON, parent_shard_ids=frozenset({"shardId-8"}), hash_key_range=FULL_RANGE)
    plan = planned([parent, child], [Shard("shardId-9", FULL_RANGE, parent_shard_id="shardId-8")])
    assert [choice.lease.lease_key for choice in plan.choices] == chosen


def test_unclaimed_are_available_leases_that_no_worker_is_started_for() -> None:
    expired = replace(FREE[1], lease_owner="gone")
    one_each = replace(SETTINGS, leases_to_acquire=1)
    assert planned([FREE[0], expired], LISTED, one_each).unclaimed_leases == 1
    ended = replace(FREE[1], checkpoint=SHARD_END)
    assert planned([FREE[0], ended], LISTED, one_each).unclaimed_leases == 0


def test_a_hole_of_one_key_leaves_its_shard_without_a_lease() -> None:
    """In the tick's figures: `total_leases` are the shards that a lease cares for."""
    (_, middle), (after, last) = ((half.starting, half.ending) for half in HALVES)
    for lower, upper in (
        (HashKeyRange(1, middle), HALVES[1]),
        (HashKeyRange(0, middle - 1), HALVES[1]),
        (HALVES[0], HashKeyRange(after + 1, last)),
        (HALVES[0], HashKeyRange(after, last - 1)),
    ):
        plan = planned([replace(FREE[0], hash_key_range=lower), replace(FREE[1], hash_key_range=upper)], LISTED)
        assert (plan.total_leases, plan.total_shards) == (1, 2)


def test_children_of_an_ended_lease_that_goes_wait_for_nothing() -> None:
    """Its children have gone on: that the service has forgotten the shard is what lets the lease go."""
    parent = Lease("shardId-8", SHARD_END, hash_key_range=FULL_RANGE, child_shard_ids=frozenset({"shardId-9"}))
    child = Lease(
        "shardId-9",
        Checkpoint("100"),
        7,
        parent_shard_ids=frozenset({"shardId-8"}),
        hash_key_range=FULL_RANGE,
    )
    plan = planned([parent, child], [Shard("shardId-9", FULL_RANGE)])
    assert [deletion.lease.lease_key for deletion in plan.deletions] == ["shardId-8"]
    assert [choice.lease.lease_key for choice in plan.choices] == ["shardId-9"]


def test_a_closed_shard_counts_until_its_lease_has_ended() -> None:
    closed = [replace(LISTED[0], is_open=False), LISTED[1]]
    plan = planned(FREE, closed)
    assert (plan.total_shards, plan.total_leases) == (2, 2)
    ended = planned([replace(FREE[0], checkpoint=SHARD_END, child_shard_ids=frozenset("c")), FREE[1]], closed)
    assert ended.total_shards == 1
