"""Which shards have metrics of their own if not all have: those with the most lag, and those with the most bytes.

A worker sees only the shards of its own window, so it cannot know. The lease manager sees all shards, by the reports
that their owners write into the lease rows (`protocol.lag_report`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.protocol.lease import Lease

WORST = 10
"""How many shards of each measure."""

MINUTE = timedelta(minutes=1)
REPORTED_LATELY = timedelta(minutes=10)
"""An older rate says nothing about the present."""

MILLISECOND = timedelta(milliseconds=1)


class WorstShards(Struct, frozen=True):
    """Lag in milliseconds and bytes handled in a minute, by shard id."""

    lags: Mapping[str, int]
    bytes: Mapping[str, int]


def worst_shards(leases: Iterable[Lease], now: datetime) -> WorstShards:
    """The worst of the unfinished leases whose owners have reported; all of them if there are no more than WORST."""
    lags, rates = dict[str, int](), dict[str, int]()
    for lease in leases:
        report = lease.lag_report
        if report is None or lease.is_ended:
            continue
        if report.lag is not None:
            lags[lease.shard_id] = _lag(report.lag, now - report.at)
        if report.bytes_per_second is not None and now - report.at < REPORTED_LATELY:
            rates[lease.shard_id] = report.bytes_per_second * int(MINUTE.total_seconds())
    return WorstShards(_worst(lags), _worst(rates))


def _lag(lag: timedelta, since_then: timedelta) -> int:
    """The lag now: it has grown since the report, because the row still has the report's checkpoint."""
    return (lag + max(since_then, timedelta(0)) if lag else lag) // MILLISECOND


def _worst(figures: Mapping[str, int]) -> Mapping[str, int]:
    """Figures of the same power of two count as equal, and shard ids decide between them. So the chosen shards stay the
    same from tick to tick while all is well: each that is chosen within an hour is billed for it.
    """
    ranked = sorted(figures, key=lambda shard_id: (-figures[shard_id].bit_length(), shard_id))
    return {shard_id: figures[shard_id] for shard_id in ranked[:WORST]}
