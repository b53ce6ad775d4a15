"""Processes that start together agree on an application's first leases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

from sublet.decisions.manager.joins_and_drains import LOOK_EVERY, Announcement, AnnouncementKind
from sublet.decisions.manager.tick_plan import TickLook, TickPlan, plan_tick
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import FULL_RANGE, Shard
from sublet.settings import Mode, Settings
from sublet.testing.memory.clock import BEGINNING

SETTINGS = Settings(application="orders", stream="events", worker_id="me", mode=Mode.CONTINUOUS)
NOW = BEGINNING + timedelta(hours=1)
SHARD = Shard("shardId-000000000000", FULL_RANGE)
FREE = Lease(SHARD.shard_id, TRIM_HORIZON)


def planned(leases: list[Lease], *joined: str, ago: timedelta = timedelta(0)) -> TickPlan:
    announced = {worker_id: Announcement(AnnouncementKind.JOINS, NOW - ago) for worker_id in joined}
    scan = LeaseScan(tuple(leases))
    look = TickLook(
        scan,
        [replace(SHARD, shard_id=lease.shard_id) for lease in leases] or [SHARD],
        {},
        NOW,
        announced=announced,
    )
    return plan_tick(look, Random(0), SETTINGS, asks=True)


def test_a_joining_process_takes_the_first_leases_a_second_after_it_creates_them() -> None:
    plan = planned([], "me")
    assert (len(plan.sync.create), plan.choices) == (1, ())
    assert plan.others.next_look.after == LOOK_EVERY
    assert [choice.worker_id for choice in planned([FREE], "me").choices] == ["me"]
    assert [choice.worker_id for choice in planned([]).choices] == ["me"], "it has not: it takes what is free, once"


def test_a_joining_process_counts_for_a_few_seconds_before_it_holds_a_lease() -> None:
    four = [replace(FREE, lease_key=f"shardId-00000000000{number}") for number in range(4)]
    assert len(planned(four, "me", "another").choices) == 2
    assert len(planned(four, "me", "another", ago=timedelta(seconds=6)).choices) == 4
