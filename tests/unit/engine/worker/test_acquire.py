"""Acquiring what a worker item names: a table out of reach, leases that are asked for, and what crashed attempts
leave.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.crash_caution import CrashCaution
from sublet.decisions.session.window import SessionOutcome, WindowReport
from sublet.engine.worker.worker import LeaseWorker
from sublet.errors import LeaseTableUnavailable
from sublet.metric_names import Metric
from sublet.protocol.lease_writes import WriteKind, delete

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SECOND, SHARD, EngineWorld, only, outcomes, raising

OTHER = "shardId-000000000001"
OUT_OF_REACH = LeaseTableUnavailable("timed out")


@pytest.mark.parametrize(
    ("lasts", "asked_at"),
    [(5 * 60, [0, 1, 3, 7, 15, 31]), (10, [0, 1, 3, 7]), (8, [0, 1, 3, 7]), (7, [0, 1, 3])],
)
def test_an_unreachable_table_is_asked_again_with_backoff_and_each_failure_is_logged(
    lasts: int, asked_at: list[int]
) -> None:
    world = EngineWorld()
    asked: list[float] = []

    def fail(*_: object) -> None:
        asked.append(world.seconds())
        raise OUT_OF_REACH

    world.table.disturb = fail  # type: ignore[assignment]
    assert only(world.window(lasts=lasts * SECOND)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert asked == asked_at
    told = [line.fields for line in world.log.lines if line.message == "lease table unavailable"]
    assert told == [{"lease_key": SHARD, "problem": "timed out"}] * len(asked_at)
    assert sum(world.metrics.values(Metric.LEASES_FAILED, SHARD)) == 1


def asking(world: EngineWorld) -> WindowReport:
    """A worker that asks the owner for the lease before it steals."""
    world.change_lease(lease_owner="another", lease_counter=7)
    item = replace(world.item(SHARD, why=ClaimReason.STEAL), dispatched_at=world.clock.now())
    worker = LeaseWorker(world.ports, world.handler, world.settings, asks=True)
    return world.window(item, lasts=MINUTE, worker=worker)


def acquired_after(world: EngineWorld) -> float:
    return next(
        (write.at - world.began).total_seconds()
        for write in world.table.writes
        if write.kind is WriteKind.ACQUIRE and write.applied
    )


def test_acquire_waits_five_seconds_for_a_requested_lease() -> None:
    world = EngineWorld(CONTINUOUS)
    asking(world)
    assert acquired_after(world) == 5


def test_a_table_out_of_reach_while_an_owner_is_asked_is_asked_on() -> None:
    world = EngineWorld(CONTINUOUS)
    world.table.disturb_get = raising(OUT_OF_REACH)
    world.at(2 * SECOND, lambda: setattr(world.table, "disturb_get", lambda _: None))
    world.at(3 * SECOND, lambda: world.change_lease(lease_owner=None))
    asking(world)
    assert 3 <= acquired_after(world) < 3.5


@pytest.mark.parametrize("asks", [True, False])
def test_steal_fails_when_the_row_is_deleted_meanwhile(asks: bool) -> None:
    world = EngineWorld(CONTINUOUS)
    world.change_lease(lease_owner="another", lease_counter=7)
    item = replace(world.item(SHARD, why=ClaimReason.STEAL), dispatched_at=world.clock.now())
    world.table.real.apply(delete(world.table.lease()))
    worker = LeaseWorker(world.ports, world.handler, world.settings, asks=asks)
    report = world.window(item, lasts=MINUTE, worker=worker)
    assert only(report).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert world.seconds() < 1, "there is no other worker to ask"


def crashed_attempt(world: EngineWorld, *lease_keys: str, crashes: int) -> WorkerItem:
    """An item of these leases that an attempt at it had acquired when it died. `crashes`: of each lease, before
    that.
    """
    item = world.item(*lease_keys)
    for lease_key in lease_keys:
        world.steal(lease_key, item.worker_id, f"{item.item_id}/crashed")
        world.change_lease(lease_key, crashes=crashes)
    return item


@pytest.mark.parametrize(
    ("crashes", "names", "outcome"),
    [
        (0, (SHARD, OTHER), SessionOutcome.CAUGHT_UP),
        (CrashCaution.ALONE - 1, (SHARD, OTHER), SessionOutcome.TRIED_APART),
        (CrashCaution.ALONE - 1, (SHARD,), SessionOutcome.CAUGHT_UP),
        (CrashCaution.PAUSES - 1, (SHARD, OTHER), SessionOutcome.LEFT_ALONE),
        (CrashCaution.PAUSES - 1, (SHARD,), SessionOutcome.LEFT_ALONE),
    ],
)
def test_leases_of_a_crashed_attempt_are_retried_with_more_care_per_crash(
    crashes: int, names: tuple[str, ...], outcome: SessionOutcome
) -> None:
    world = EngineWorld(shards=2)
    report = world.window(crashed_attempt(world, *names, crashes=crashes))
    assert outcomes(report) == dict.fromkeys(names, outcome)
    assert {world.table.lease(name).lease_owner for name in names} == {None}
    assert world.table.lease().crashes == (0 if outcome is SessionOutcome.CAUGHT_UP else crashes + 1)
