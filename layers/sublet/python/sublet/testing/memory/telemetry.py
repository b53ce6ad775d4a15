"""Log lines and metrics that tests can look at."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

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
    """None too for a shard that is not in trouble, as in CloudWatch."""


class CallDuration(NamedTuple):
    lasted: timedelta
    shard_id: str
    error: str | None


class MemoryMetrics:
    """The Metrics port. `measurements`: all that were put; `of_worst`: those of the worst shards alone; `durations`: of
    the handler's calls; `flushes`: how many calls of flush, and
    `last_flushes`: how many of these were the last.
    """

    def __init__(self) -> None:
        self.measurements: list[Measurement] = []
        self.of_worst: list[Measurement] = []
        self.durations: list[CallDuration] = []
        self.flushes = self.last_flushes = 0

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None, in_trouble: bool = True) -> None:
        self.measurements.append(Measurement(metric, value, shard_id if in_trouble else None))

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        self.of_worst.append(Measurement(metric, value, shard_id))

    def put_duration(self, lasted: timedelta, *, shard_id: str, error: str | None = None) -> None:
        self.durations.append(CallDuration(lasted, shard_id, error))

    def flush(self, *, is_last: bool = False) -> None:
        self.flushes += 1
        self.last_flushes += is_last

    def values(self, metric: Metric, shard_id: str | None = None) -> list[float]:
        """The values in order, of one shard or of all."""
        return [put.value for put in self.measurements if put.metric is metric and shard_id in (None, put.shard_id)]
