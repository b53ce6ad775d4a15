"""A lease's metrics: its lag, bytes and records. Shown every minute of a window and at its end."""

from __future__ import annotations

from datetime import timedelta

from sublet.decisions.window import LeaseReport
from sublet.metric_names import Metric
from sublet.ports import Clock, Metrics

SHOWN_EVERY = timedelta(minutes=1)
"""CloudWatch's resolution."""


class LeaseMetrics:
    """Turns a lease's running totals into what was added since they were last shown."""

    def __init__(self, shard_id: str, metrics: Metrics, clock: Clock):
        self._shard_id = shard_id
        self._metrics = metrics
        self._clock = clock
        self._shown_at = clock.steady()
        self._bytes = self._records = 0

    def show_if_due(self, total: LeaseReport) -> None:
        if self._clock.steady() - self._shown_at >= SHOWN_EVERY:
            self.show(total)

    def show(self, total: LeaseReport) -> None:
        if total.millis_behind_latest is None:
            return  # never polled: there is nothing to say about the shard
        lag, shard_id = total.millis_behind_latest, self._shard_id
        self._metrics.put(Metric.MILLIS_BEHIND_LATEST, lag, shard_id=shard_id)
        self._metrics.put(Metric.BYTES, total.bytes - self._bytes, shard_id=shard_id)
        self._metrics.put(Metric.RECORDS, total.user_records - self._records, shard_id=shard_id)
        self._bytes, self._records, self._shown_at = total.bytes, total.user_records, self._clock.steady()
