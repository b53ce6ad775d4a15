"""Computes what a run on a real account costs before it begins, from the library's prices and those listed here."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

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
    TRANSITION,
    WRITE_UNIT,
)

SHARD_HOUR = 0.015
PUT_UNIT = 0.014e-6
"""A payload unit of 25 KB."""
ON_DEMAND_STREAM_HOUR = 0.04
KEY = 1.00
"""A customer-managed key, per month. A key that is scheduled for deletion costs nothing."""
BESIDE_IDLE = timedelta(minutes=45)
"""The time of the steps that do not wait for the idle shard, mostly deployments."""
CONSUMERS = 4
SHARDS = 8
"""The most at once, in the provisioned streams together."""
MARGIN = 2
"""The total is doubled, for retries and rounding up to a minute, an hour or a month."""


class Line(NamedTuple):
    what: str
    dollars: float


def estimate(records: int, idle: timedelta) -> list[Line]:
    """US$ in us-east-1, without free tiers; the last line is the total that a user agrees to."""
    hours = (idle + BESIDE_IDLE) / timedelta(hours=1)
    of_month = hours / HOURS
    ticks = 60 * hours * CONSUMERS
    lines = [
        Line(
            f"Kinesis: {SHARDS} shards and an on-demand stream",
            hours * (SHARDS * SHARD_HOUR + ON_DEMAND_STREAM_HOUR),
        ),
        Line("Kinesis: puts", records * 2 * PUT_UNIT),
        Line("Lambda", ticks * 10 * 0.5 * GIGABYTE_SECOND),
        Line("Step Functions", ticks * 5 * TRANSITION),
        Line("DynamoDB", records * 4 * WRITE_UNIT + ticks * 100 * READ_UNIT + 0.02),
        Line(
            "CloudWatch: metrics, alarms, dashboards",
            of_month * CONSUMERS * (METRIC * (METRICS + 4 * METRICS_BY_SHARD) + ALARM * ALARMED_METRICS + DASHBOARD),
        ),
        Line("Kinesis: two registered consumers", hours * 2 * 2 * FAN_OUT_SHARD_HOUR),
        Line("KMS: a key", of_month * KEY),
    ]
    return [*lines, Line("in all, at most", MARGIN * sum(line.dollars for line in lines))]
