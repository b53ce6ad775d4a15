"""Log lines and metrics that tests can look at."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from sublet.metric_names import Metric

RESERVED = frozenset({*logging.makeLogRecord({}).__dict__, "message", "asctime"})
"""Field names that Python's logging refuses: a line with one of them would raise."""


@dataclass(frozen=True, slots=True)
class LogLine:
    level: str
    message: str
    fields: Mapping[str, object]

    def __post_init__(self) -> None:
        if refused := RESERVED & self.fields.keys():
            raise KeyError(f"logging refuses a field of this name: {', '.join(sorted(refused))}")


class MemoryLog:
    """The Log port."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []

    def info(self, message: str, **fields: object) -> None:
        self.lines.append(LogLine("info", message, fields))

    def warning(self, message: str, **fields: object) -> None:
        self.lines.append(LogLine("warning", message, fields))

    def error(self, message: str, **fields: object) -> None:
        self.lines.append(LogLine("error", message, fields))

    def messages(self, level: str | None = None) -> list[str]:
        """The messages in order, of one level or of all."""
        return [line.message for line in self.lines if level in (None, line.level)]


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
