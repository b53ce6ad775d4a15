"""Taking from the living: a worker takes longer to start than an owner waits between two heartbeats."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.worker.worker import LeaseWorker
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import WriteKind

from tests.doubles.engine_world import CONTINUOUS, SECOND, SHARD, EngineWorld, only, outcomes

LATENCY = timedelta(seconds=2)


def stolen(world: EngineWorld, why: ClaimReason = ClaimReason.STEAL, **changes: Any) -> SessionOutcome:
    """A claim on a lease of a live Java worker, which is then written to while the worker starts."""
    world.change_lease(lease_owner="java", lease_counter=7)
    item = replace(world.item(SHARD, why=why), dispatched_at=world.clock.now())
    world.clock.advance(LATENCY)
    world.change_lease(**{"lease_counter": 8, **changes})
    return only(world.window(item, lasts=SECOND)).outcome


def steal_world() -> EngineWorld:
    return EngineWorld(replace(CONTINUOUS, handover_wait=timedelta(0)))


def test_a_steal_outlasts_the_owners_heartbeats() -> None:
    assert stolen(steal_world()) is not SessionOutcome.COULD_NOT_ACQUIRE


@pytest.mark.parametrize("crashes", [2, 3])
def test_stolen_lease_with_crashes_is_not_released_at_once(
    crashes: int,
) -> None:
    """The lease manager knew of them when it sent the thief; the owner of now lives."""
    world = EngineWorld(replace(CONTINUOUS, handover_wait=timedelta(0)), shards=2)
    world.change_lease(lease_owner="java", lease_counter=7, crashes=crashes)
    item = replace(world.item(why=ClaimReason.STEAL), dispatched_at=world.clock.now())
    world.clock.advance(LATENCY)
    world.change_lease(lease_counter=8)
    assert outcomes(world.window(item, lasts=SECOND))[SHARD] is SessionOutcome.WINDOW_ENDED


def test_a_lease_that_its_owner_has_released_is_acquired_without_a_wait() -> None:
    """It may have been requested. No other worker is started for it, and none of its records are being handled."""
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    assert stolen(world, lease_owner=None) is not SessionOutcome.COULD_NOT_ACQUIRE
    assert world.handler.finished == [(SHARD, b"a")], "without waiting for a late checkpoint"


@pytest.mark.parametrize("changes", [{"lease_owner": "another"}, {"checkpoint_owner": "java"}])
def test_steal_is_refused_after_a_change_of_owner(changes: dict[str, Any]) -> None:
    assert stolen(steal_world(), **changes) is SessionOutcome.COULD_NOT_ACQUIRE


@pytest.mark.parametrize("why", [ClaimReason.EXPIRED, ClaimReason.FREE])
def test_an_expired_lease_that_moves_is_alive(why: ClaimReason) -> None:
    assert stolen(steal_world(), why) is SessionOutcome.COULD_NOT_ACQUIRE


def test_claim_older_than_failover_time_steals_nothing() -> None:
    world = steal_world()
    world.change_lease(lease_owner="java", lease_counter=7)
    item = replace(world.item(SHARD, why=ClaimReason.STEAL), dispatched_at=world.clock.now())
    world.clock.advance(CONTINUOUS.failover_time)
    world.change_lease(lease_counter=8)
    assert only(world.window(item, lasts=SECOND)).outcome is SessionOutcome.COULD_NOT_ACQUIRE


@pytest.mark.parametrize(
    ("why", "released_after", "acquired_after"),
    [(ClaimReason.STEAL, None, 5), (ClaimReason.STEAL, 2, 2), (ClaimReason.FREE, None, 0)],
    ids=["not given back", "given back", "unowned"],
)
def test_an_owner_is_asked_for_its_lease_for_a_while_and_then_stolen_from(
    why: ClaimReason, released_after: int | None, acquired_after: int
) -> None:
    world = steal_world()
    world.change_lease(lease_owner=None if why is ClaimReason.FREE else "another", lease_counter=7)
    item = replace(world.item(SHARD, why=why), dispatched_at=world.clock.now())
    if released_after is not None:
        world.at(released_after * SECOND, lambda: world.change_lease(lease_owner=None))
    world.window(item, worker=LeaseWorker(world.ports, world.handler, world.settings, asks=True))
    acquired = next(write.at for write in world.table.writes if write.kind is WriteKind.ACQUIRE and write.applied)
    assert (acquired - world.began) // SECOND == acquired_after


@pytest.mark.parametrize("max_leases", [1, 2])
def test_children_that_are_adopted_do_not_exceed_max_leases(max_leases: int) -> None:
    world = EngineWorld(replace(CONTINUOUS, max_leases_for_worker=max_leases))
    world.shards.split(SHARD)
    world.manager().tick()
    (item,) = world.dispatcher.take()
    report = world.window(item, lasts=5 * SECOND)
    held = [lease for lease in world.table.real.scan().leases if _is_held(lease, item)]
    assert len(held) == max_leases
    assert SHARD in outcomes(report)


def _is_held(lease: Lease, item: WorkerItem) -> bool:
    return lease.lease_owner == item.worker_id and not lease.is_ended
