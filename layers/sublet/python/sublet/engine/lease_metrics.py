"""The seed's per-lease metrics: millis_behind_latest, bytes, records. Shown every minute of a window and at its end."""

from __future__ import annotations

from datetime import timedelta

from sublet.decisions.window import LeaseReport
from sublet.ports import Clock, Metrics, Unit

SHOWN_EVERY = timedelta(minutes=1)
"""CloudWatch's resolution."""


class LeaseMetrics:
    """Turns a lease's running totals into what was added since they were last shown."""

    def __init__(self, shard_id: str, metrics: Metrics, clock: Clock):
        self._shard_id = shard_id
        self._metrics = metrics
        self._clock = clock
        self._shown_at = clock.now()
        self._bytes = self._records = 0

    def show_if_due(self, total: LeaseReport) -> None:
        if self._clock.now() - self._shown_at >= SHOWN_EVERY:
            self.show(total)

    def show(self, total: LeaseReport) -> None:
        if total.millis_behind_latest is None:
            return  # never polled: there is nothing to say about the shard
        self._metrics.put(
            "millis_behind_latest", total.millis_behind_latest, Unit.MILLISECONDS, shard_id=self._shard_id
        )
        self._metrics.put("bytes", total.bytes - self._bytes, Unit.BYTES, shard_id=self._shard_id)
        self._metrics.put("records", total.user_records - self._records, Unit.COUNT, shard_id=self._shard_id)
        self._bytes, self._records, self._shown_at = total.bytes, total.user_records, self._clock.now()
