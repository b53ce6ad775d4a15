"""Metrics, log lines and traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sublet.metric_names import Metric
    from sublet.protocol.records import UserRecord


class Metrics(Protocol):
    """Numbers for dashboards and alarms. Never raises."""

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None, in_trouble: bool = True) -> None:
        """One value, for the whole application or for one shard. `in_trouble`: whether the shard is, for a metric of
        shards in trouble (`MetricScope`): in CloudWatch's bill a shard has that metric only then.
        """

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        """Put one value for one of the worst shards, but not for the application. This has an effect only with
        `metrics_by_shard=worst`: with `all` each shard's reader puts the value, and with `none` no shard has metrics.
        """

    def put_duration(self, lasted: timedelta, *, shard_id: str, error: str | None = None) -> None:
        """How long a call of the handler took. `error`: the class of what it raised. EMF does not have it."""

    def flush(self, *, is_last: bool = False) -> None:
        """Write what was put. The engine calls it at the end of a tick or window, and at least each minute within.
        `is_last`: the process ends, so nothing may wait for a later one.
        """


class Log(Protocol):
    """Structured log lines: a constant message and fields. Never given a payload or a credential. A field must not have
    the name of an attribute of `logging.LogRecord`, such as `name`: Python's logging refuses it.
    """

    def info(self, message: str, **fields: object) -> None: ...

    def warning(self, message: str, **fields: object) -> None: ...

    def error(self, message: str, **fields: object) -> None: ...


class CallSpan(Protocol):
    """The span of one handler call. Never raises."""

    def around(self, work: Callable[[], None]) -> Callable[[], None]:
        """The same work, with this span as the current one of its thread."""

    def end(self, failure: BaseException | None) -> None:
        """The call is over: with what it raised, HandlerOverdue if it was given up, or None."""


class Traces(Protocol):
    """Spans of handler calls, for a program that has a tracer. Never raises."""

    def begin_call(self, shard_id: str, records: Sequence[UserRecord], attempt: int) -> CallSpan | None:
        """`shard_id`: with its stream's name if the application reads several. None: the program has no tracer."""
