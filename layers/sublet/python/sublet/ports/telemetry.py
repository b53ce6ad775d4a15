"""Metrics and log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sublet.metric_names import Metric


class Metrics(Protocol):
    """Numbers for dashboards and alarms. Never raises."""

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None) -> None:
        """One value, for the whole application or for one shard."""

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        """Put one value for one of the worst shards, but not for the application. This has an effect only with
        `metrics_by_shard=worst`: with `all` each shard's reader puts the value, and with `none` no shard has metrics.
        """

    def flush(self) -> None:
        """Write what was put. The engine calls it at the end of a tick or window, and at least each minute within."""


class Log(Protocol):
    """Structured log lines: a constant message and fields. Never given a payload or a credential. A field must not have
    the name of an attribute of `logging.LogRecord`, such as `name`: Python's logging refuses it.
    """

    def info(self, message: str, **fields: object) -> None: ...

    def warning(self, message: str, **fields: object) -> None: ...

    def error(self, message: str, **fields: object) -> None: ...
