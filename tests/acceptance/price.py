"""Computes what a run on a real account costs before it begins, from the library's prices and those listed here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sublet.operate.rules.prices import (
    ALARM,
    ALARMED_METRICS,
    DASHBOARD,
    FAN_OUT_SHARD_HOUR,
    GIGABYTE_SECOND,
    HOURS,
    METRIC,
    METRICS,
    METRICS_BY_SHARD,
    READ_UNIT,
    SHARD_HOUR,
    TRANSITION,
    WRITE_UNIT,
)

PUT_UNIT = 0.014e-6
"""A payload unit of 25 KB."""
ON_DEMAND_STREAM_HOUR = 0.04
KEY = 1.00
"""A customer-managed key, per month. A key that is scheduled for deletion costs nothing."""
BESIDE_IDLE = timedelta(minutes=90)
"""The time of the steps that do not wait for the idle shard, mostly deployments, and of the removal."""
MARGIN = 2
"""Each price is doubled, for retries and rounding up to a minute, an hour or a month."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a step creates, and keeps until the removal before the idle walk. `records`: as a part of the plan's;
    `waits`: also until the end of the walk.
    """

    consumers: int = 0
    shards: int = 0
    on_demand: int = 0
    fan_out_shards: int = 0
    keys: int = 0
    records: float = 0
    waits: bool = False

    def dollars(self, records: int, idle: timedelta) -> float:
        """US$ in us-east-1, without free tiers."""
        hours = (BESIDE_IDLE + (idle if self.waits else timedelta(0))) / timedelta(hours=1)
        ticks, put = 60 * hours * self.consumers, records * self.records
        watched = METRIC * (METRICS + 4 * METRICS_BY_SHARD) + ALARM * ALARMED_METRICS + DASHBOARD
        return MARGIN * (
            hours * (self.shards * SHARD_HOUR + self.on_demand * ON_DEMAND_STREAM_HOUR)
            + hours * self.fan_out_shards * FAN_OUT_SHARD_HOUR
            + put * (2 * PUT_UNIT + 4 * WRITE_UNIT)
            + ticks * (10 * 0.5 * GIGABYTE_SECOND + 5 * TRANSITION + 100 * READ_UNIT)
            + hours / HOURS * (self.consumers * watched + self.keys * KEY)
        )
