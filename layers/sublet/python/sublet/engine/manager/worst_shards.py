"""Puts the metrics of the worst shards, once a minute however often a process ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sublet.decisions.load.worst_shards import worst_shards
from sublet.metric_names import Metric
from sublet.ports import Ports
from sublet.protocol.lease import Lease

SHOWN_EVERY = timedelta(seconds=50)
"""How often they are put: CloudWatch's resolution is a minute, and a tick may come some seconds early."""


@dataclass(slots=True)
class WorstShardMetrics:
    """Puts them for one process."""

    _shown_at: datetime | None = None

    def show(self, leases: Iterable[Lease], ports: Ports) -> None:
        now = ports.clock.now()
        if self._shown_at is not None and abs(now - self._shown_at) < SHOWN_EVERY:
            return
        self._shown_at = now
        worst = worst_shards(leases, now)
        for shard_id, millis in worst.lags.items():
            ports.metrics.put_for_shard(Metric.MILLIS_BEHIND_LATEST, millis, shard_id)
        for shard_id, size in worst.bytes.items():
            ports.metrics.put_for_shard(Metric.BYTES, size, shard_id)
