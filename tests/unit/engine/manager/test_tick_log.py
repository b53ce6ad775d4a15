"""The lease manager logs its intervals, limits and target, in one line each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sublet.engine.manager.tick import log_start
from sublet.settings import Mode, Settings
from sublet.testing.memory import MemoryLog

from tests.doubles.engine_world import CONTINUOUS, SHARD, EngineWorld

SETTINGS = Settings(application="orders", stream="orders", mode=Mode.CONTINUOUS, worker_id="zone-a:1")


def test_lease_manager_logs_its_intervals_and_limits_at_its_start() -> None:
    log = MemoryLog()
    log_start(log, SETTINGS, timedelta(seconds=20))
    (line,) = log.lines
    assert (line.level, line.message) == ("info", "lease manager starts")
    assert line.fields == {
        "mode": "continuous",
        "worker_ids": ("zone-a:1",),
        "tick_interval": "20s",
        "failover_time": "30s",
        "heartbeat_interval": "10s",
        "fair_share": True,
        "balance": "lease",
        "max_leases_for_worker": 10_000,
        "leases_to_acquire": 1_000,
        "max_leases_to_steal_at_one_time": 1,
    }


def test_catch_up_manager_logs_no_tick_interval_and_no_steals() -> None:
    log = MemoryLog()
    log_start(log, replace(SETTINGS, mode=Mode.CATCH_UP))
    (line,) = log.lines
    assert "tick_interval" not in line.fields
    assert line.fields["max_leases_to_steal_at_one_time"] == 0


def test_a_tick_that_takes_nothing_says_nothing() -> None:
    world = EngineWorld(CONTINUOUS)
    world.change_lease(SHARD, lease_owner="java", lease_counter=7)
    world.manager().tick()
    assert "leases chosen" not in [line.message for line in world.log.lines]


def test_tick_logs_its_target_and_chosen_leases() -> None:
    world = EngineWorld(CONTINUOUS, shards=3)
    world.change_lease(SHARD, lease_owner="java", lease_counter=7)
    world.manager().tick()
    (tick,) = [line for line in world.log.lines if line.message == "leases chosen"]
    assert tick.fields == {
        "leases": 3,
        "available": 2,
        "workers": 2,
        "target": 2,
        "held": 0,
        "chosen": 2,
        "stolen": 0,
    }
    assert [line.fields["why"] for line in world.log.lines if line.message == "lease chosen"] == ["free"] * 2
