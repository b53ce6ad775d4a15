"""The Metrics port over Powertools' EMF: log lines that CloudWatch turns into metrics, without an API call.

Every value has the dimension `application`. A shard's value is written twice: for the application alone, which alarms
over all shards use, and for the shard if `metrics_by_shard` says so, because CloudWatch bills each set of dimensions.
With `metrics_level=lean`, the application's line declares five metrics, and has a summary of all.

Powertools only serializes. Its Metrics class collects for one set of dimensions at a time, in state that the process
shares and that is not thread-safe, while a window's sessions put values of many shards at once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta

from aws_lambda_powertools.metrics.functions import is_metrics_disabled
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from sublet.aws.standard_output import STANDARD_OUTPUT, Lines, MetricsLogger
from sublet.metric_names import LEAN, NAMESPACE, OF_EXPORT, Attribute, Metric, MetricScope
from sublet.protocol.stream_key import own_id, stream_key_of
from sublet.settings import MetricsByShard, MetricsLevel, Settings

VALUES_MAX = 100
"""EMF's limit for values of one metric in a line, and for metrics in a line."""

PUT = "metrics"
"""With `metrics_level=lean`, the field of a line that has the least, the greatest and the sum of each metric's values.
"""

OF_STREAMS = frozenset({Metric.MILLIS_BEHIND_LATEST, Metric.BYTES, Metric.RECORDS, Metric.STREAM_STALLED_AGE})
"""In an application of several streams, each stream has these metrics; the last of them exists only there."""

COUNTED = {**LEAN, **OF_EXPORT}

OF_SHARDS = (MetricScope.SHARD, MetricScope.TROUBLED_SHARD)

_Dimensions = tuple[tuple[str, str], ...]


class EmfMetrics:
    """The Metrics port. Thread-safe. Values put since the last flush are lost if the process dies.

    Powertools' variable POWERTOOLS_METRICS_DISABLED turns it off.
    """

    def __init__(
        self,
        application: str,
        *,
        by_shard: MetricsByShard = MetricsByShard.ALL,
        level: MetricsLevel = MetricsLevel.FULL,
        output: Lines = STANDARD_OUTPUT,
    ) -> None:
        self._output = output
        self._application = (Attribute.APPLICATION.value, application)
        self._by_shard = by_shard
        self._is_lean = level is MetricsLevel.LEAN
        self._lock = threading.Lock()
        """Guards `_pending`. Not held while lines are written."""
        self._pending: dict[_Dimensions, dict[Metric, list[float]]] = {}

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None, in_trouble: bool = True) -> None:
        with self._lock:
            if metric.per is not MetricScope.STREAM:
                self._add((self._application,), metric, value)
            if shard_id is None:
                return
            if metric in OF_STREAMS and not self._is_lean and (stream := stream_key_of(shard_id)) is not None:
                self._add((self._application, (Attribute.STREAM.value, stream.stream)), metric, value)
            if self._has_its_own(metric) and (in_trouble or metric.per is not MetricScope.TROUBLED_SHARD):
                self._add((self._application, *shard_dimensions(shard_id)), metric, value)

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        if self._by_shard is MetricsByShard.WORST:
            with self._lock:
                self._add((self._application, *shard_dimensions(shard_id)), metric, value)

    def put_duration(self, lasted: timedelta, *, shard_id: str, error: str | None = None) -> None:
        """Nothing: each value of a call would be in the log. The other exports have it."""

    def _has_its_own(self, metric: Metric) -> bool:
        """Whether to put this metric for the shard too. With `worst`, only metrics about a shard in trouble are put for
        it.
        """
        having = {MetricsByShard.WORST: (MetricScope.TROUBLED_SHARD,), MetricsByShard.ALL: OF_SHARDS}
        return metric.per in having.get(self._by_shard, ())

    def flush(self, *, is_last: bool = False) -> None:  # noqa: ARG002 - nothing waits
        with self._lock:
            pending, self._pending = self._pending, {}
        if is_metrics_disabled() or not self._output.is_read:
            return
        for dimensions, metrics in pending.items():
            is_lean = self._is_lean and dimensions == (self._application,)
            for line in _lean_lines(dimensions, metrics) if is_lean else _lines(dimensions, metrics):
                self._output.write(line + "\n")

    def _add(self, dimensions: _Dimensions, metric: Metric, value: float) -> None:
        self._pending.setdefault(dimensions, {}).setdefault(metric, []).append(value)


def emf_metrics(settings: Settings, output: Lines | None = None) -> EmfMetrics:
    """`output`: None for the logger `sublet.metrics`."""
    return EmfMetrics(
        settings.application,
        by_shard=settings.metrics_by_shard,
        level=settings.metrics_level,
        output=output or MetricsLogger(),
    )


def shard_dimensions(shard_id: str) -> _Dimensions:
    """A shard's dimensions. In an application of several streams they have the stream's name, since shard ids repeat
    from stream to stream.
    """
    stream = stream_key_of(shard_id)
    named = () if stream is None else ((Attribute.STREAM.value, stream.stream),)
    return (*named, (Attribute.SHARD.value, own_id(shard_id)))


def _lean_lines(dimensions: _Dimensions, metrics: Mapping[Metric, list[float]]) -> Iterator[str]:
    """Declares the metrics of LEAN, each with the values of all that count as it. The first line has what was put of
    every metric, for CloudWatch Logs Insights, which cannot add up a list.
    """
    counted: dict[Metric, list[float]] = {}
    for metric, values in metrics.items():
        if (counted_as := COUNTED.get(metric)) is not None and (found := counted_as.of(values)):
            counted.setdefault(counted_as.metric, []).extend(found)
    put = {metric.value: {"min": min(each), "max": max(each), "sum": sum(each)} for metric, each in metrics.items()}
    fields: dict[str, object] = {**dict(dimensions), PUT: put}
    for declared in _declared(dimensions, counted):
        yield _line({**declared, **fields})
        fields = {}
    if fields:
        yield _line(fields)


def _lines(dimensions: _Dimensions, metrics: Mapping[Metric, list[float]]) -> Iterator[str]:
    yield from map(_line, _declared(dimensions, metrics))


def _line(content: Mapping[str, object]) -> str:
    return json.dumps(content, separators=(",", ":"))


def _declared(dimensions: _Dimensions, metrics: Mapping[Metric, list[float]]) -> Iterator[Mapping[str, object]]:
    """Makes as many lines as the metric with the most values needs, at 100 a line."""
    longest = max(map(len, metrics.values()), default=0)
    for first in range(0, longest, VALUES_MAX):
        emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, dimension_set=dict(dimensions), service="")
        part = {
            metric.value: {
                "Unit": metric.unit.value,
                "StorageResolution": 60,
                "Value": values[first : first + VALUES_MAX],
            }
            for metric, values in metrics.items()
            if values[first:]
        }
        yield emf.serialize_metric_set(metrics=part)
