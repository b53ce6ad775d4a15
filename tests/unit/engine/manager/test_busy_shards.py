"""A tick names a hot shard in the log, with the command that says why, and does not repeat itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sublet.protocol.lag_report import LagReport

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SHARD, EngineWorld


def test_ticks_name_a_hot_shard_every_five_minutes_while_it_is_hot() -> None:
    world = EngineWorld(replace(CONTINUOUS, failover_time=timedelta(minutes=30)), shards=2)
    manager = world.manager()
    for minute in range(12):
        rate = 900_000 if minute < 9 else 10
        report = LagReport(world.clock.now(), timedelta(0), None, rate)
        world.change_lease(lag_report=report, lease_owner="other")
        manager.tick()
        said = [line for line in world.log.lines if "a shard is hot" in str(line)]
        world.clock.advance(MINUTE)
    assert len(said) == 2
    command = f"sublet hot --application orders --stream events --shard {SHARD}"
    assert all(command in str(line) and "900000" in str(line) for line in said)
