"""Metrics in memory."""

from __future__ import annotations

from dataclasses import dataclass

from sublet.metric_names import Metric


@dataclass(frozen=True, slots=True)
class Measurement:
    metric: Metric
    value: float
    shard_id: str | None = None


class MemoryMetrics:
    """The Metrics port. `measurements`: all that were put; `of_worst`: those of the worst shards alone; `flushes`: how
    many calls of flush.
    """

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []
        self.of_worst: list[Measurement] = []
        self.flushes = 0

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None) -> None:
        self.measurements.append(Measurement(metric, value, shard_id))

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        self.of_worst.append(Measurement(metric, value, shard_id))

    def flush(self) -> None:
        self.flushes += 1

    def values(self, metric: Metric, shard_id: str | None = None) -> list[float]:
        """The values in order, of one shard or of all."""
        return [put.value for put in self.measurements if put.metric is metric and shard_id in (None, put.shard_id)]
