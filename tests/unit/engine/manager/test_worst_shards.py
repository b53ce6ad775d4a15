"""Ticks put the metrics of the worst shards, once a minute, and only by shard."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sublet.metric_names import Metric
from sublet.operate.rules.prices import METRICS_OF_WORST
from sublet.protocol.lag_report import LagReport

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SHARD, EngineWorld

RATE = 100


def test_ticks_put_lag_and_bytes_of_the_worst_shards_once_a_minute() -> None:
    world = EngineWorld(replace(CONTINUOUS, failover_time=timedelta(minutes=10)), shards=2)
    report = LagReport(world.clock.now(), timedelta(seconds=5), None, RATE)
    world.change_lease(lag_report=report, lease_owner="other")
    manager = world.manager()
    for _ in range(6):
        manager.tick()
        world.clock.advance(MINUTE / 3)
    put = [(one.metric, one.shard_id, one.value) for one in world.metrics.of_worst]
    assert put == [
        (Metric.MILLIS_BEHIND_LATEST, SHARD, 5_000),
        (Metric.BYTES, SHARD, 60 * RATE),
        (Metric.MILLIS_BEHIND_LATEST, SHARD, 65_000),
        (Metric.BYTES, SHARD, 60 * RATE),
    ]
    assert len({metric for metric, _, _ in put}) == METRICS_OF_WORST, "`sublet cost` counts them"
