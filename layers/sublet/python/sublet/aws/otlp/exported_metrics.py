"""The Metrics port over EMF and OTLP: what EMF has, it has as without this, and each shard is a series in OTLP.

A request is made at the end of a tick or window, and each minute within, outside of the handler's calls. The wait for
it is bounded, and whatever happens to it fails nothing: a request that was not taken counts in EMF, and its values are
in EMF alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sublet import __version__
from sublet.aws.metrics import EmfMetrics
from sublet.aws.otlp.endpoint import Endpoint
from sublet.metric_names import (
    ERROR_TYPE,
    MESSAGING_SYSTEM,
    PROCESS,
    PROCESS_DURATION,
    Attribute,
    Instrument,
    Kind,
    Metric,
    MetricScope,
)
from sublet.ports import Clock, Log
from sublet.protocol.histogram import Histogram
from sublet.protocol.otlp import Attributes, Series, Span, Temporality, metrics_request
from sublet.protocol.stream_key import own_id, stream_key_of

SENT_WITHIN = timedelta(seconds=2)
"""The longest that a tick or window waits for a request."""

SERIES_MAX = 1_000
"""The most values in one request: half a megabyte before it is compressed."""

STILL_SENDING = "the request before is still under way"


class OtlpSeries:
    """The values that were put since the last request. Not thread-safe.

    A gauge's value is the greatest since then, as alarms are on maxima. What a shard has only in trouble, and is zero,
    is put for the application alone: that no shard has it says that none is in trouble, in fewer bytes.

    `instance`: this process, for cumulative counters, which each process counts for itself. `by_shard`: whether each
    shard has a histogram of its own.
    """

    def __init__(
        self,
        application: str,
        stream: str | None,
        temporality: Temporality,
        now: datetime,
        instance: str = "",
        *,
        by_shard: bool = False,
    ) -> None:
        self._application = (Attribute.APPLICATION.otlp, application)
        self._stream = stream
        self._temporality = temporality
        self._gauges: dict[tuple[Instrument, Attributes], float] = {}
        self._counters: dict[tuple[Instrument, Attributes], float] = {}
        self._histograms: dict[tuple[Instrument, Attributes], Histogram] = {}
        self._by_shard = by_shard
        self._since = now
        itself = (("service.instance.id", instance),) if temporality is Temporality.CUMULATIVE else ()
        self._resource = (("service.name", application), MESSAGING_SYSTEM, *itself)

    def put(self, metric: Metric, value: float, shard_id: str | None) -> None:
        at = metric.elsewhere
        if at is None:
            return
        is_silent = metric.per is MetricScope.TROUBLED_SHARD and not value
        key, number = (at, self._attributes(shard_id, is_silent)), at.value(value, metric.unit)
        if at.kind is Kind.GAUGE:
            self._gauges[key] = max(number, self._gauges.get(key, number))
        elif number or self._temporality is Temporality.CUMULATIVE:
            self._counters[key] = self._counters.get(key, 0) + number

    def put_duration(self, lasted: timedelta, shard_id: str, error: str | None) -> None:
        failed = () if error is None else ((ERROR_TYPE, error),)
        attributes = (*self._attributes(shard_id, not self._by_shard), PROCESS, *failed)
        key = PROCESS_DURATION.instrument, attributes
        self._histograms.setdefault(key, Histogram()).add(lasted.total_seconds())

    def taken(self, now: datetime) -> Sequence[bytes]:
        """The requests with all values, which are no longer kept; one, unless there are very many. Empty if there are
        none.
        """
        found = [*self._found(self._gauges), *self._found(self._counters), *self._found(self._histograms)]
        span = Span(self._since, now)
        self._gauges = {}
        if self._temporality is Temporality.DELTA:
            self._counters, self._histograms, self._since = {}, {}, now
        parts = [found[first : first + SERIES_MAX] for first in range(0, len(found), SERIES_MAX)]
        return [metrics_request(part, span, self._temporality, self._resource, __version__) for part in parts]

    @staticmethod
    def _found(values: Mapping[tuple[Instrument, Attributes], float | Histogram]) -> Iterator[Series]:
        for (instrument, attributes), value in values.items():
            yield Series(instrument, attributes, value)

    def _attributes(self, shard_id: str | None, is_silent: bool) -> Attributes:
        several = None if shard_id is None else stream_key_of(shard_id)
        stream = self._stream if several is None else several.stream
        return (
            self._application,
            *(((Attribute.STREAM.otlp, stream),) if stream else ()),
            *(((Attribute.SHARD.otlp, own_id(shard_id)),) if shard_id and not is_silent else ()),
        )


class Sending:
    """Sends requests, one at a time, in a thread of their own: nothing in the standard library bounds a look-up of a
    name.
    """

    def __init__(self, endpoint: Endpoint, within: timedelta = SENT_WITHIN) -> None:
        self._endpoint, self._within = endpoint, within
        self._busy = threading.Lock()

    def send(self, requests: Sequence[bytes], *, is_last: bool = False) -> str | None:
        """What went wrong; None if the endpoint took all of them in time. The last request waits for the one before."""
        if not self._busy.acquire(timeout=self._within.total_seconds() if is_last else 0):
            return STILL_SENDING
        problems: list[str] = []
        over = threading.Event()

        def do() -> None:
            try:
                for request in requests:
                    self._endpoint.send(request)
            except Exception as problem:  # noqa: BLE001 - metrics fail nothing
                problems.append(f"{type(problem).__name__}: {problem}")
            finally:
                self._busy.release()
                over.set()

        try:
            threading.Thread(target=do, name="sublet-otlp", daemon=True).start()
        except RuntimeError as no_thread:
            self._busy.release()
            return f"{type(no_thread).__name__}: {no_thread}"
        if not over.wait(self._within.total_seconds()):
            return f"no answer within {self._within.total_seconds():g} s"
        return next(iter(problems), None)


class ExportedMetrics:
    """The Metrics port. Thread-safe. Powertools' variable POWERTOOLS_METRICS_DISABLED turns off the log lines alone.

    `apart`: the least time between two requests; what is put meanwhile waits for the next. A function has none, since
    it may be frozen after each window.
    """

    def __init__(
        self, emf: EmfMetrics, series: OtlpSeries, sending: Sending, clock: Clock, log: Log, apart: timedelta
    ) -> None:
        self._emf, self._series, self._sending = emf, series, sending
        self._clock, self._log, self._apart = clock, log, apart
        self._lock = threading.Lock()
        """Guards `_series` and `_sent_at`. Not held while a request is sent."""
        self._sent_at: datetime | None = None

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None, in_trouble: bool = True) -> None:
        self._emf.put(metric, value, shard_id=shard_id, in_trouble=in_trouble)
        with self._lock:
            self._series.put(metric, value, shard_id)

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        """In OTLP each shard's reader has put its values anyway."""
        self._emf.put_for_shard(metric, value, shard_id)

    def put_duration(self, lasted: timedelta, *, shard_id: str, error: str | None = None) -> None:
        with self._lock:
            self._series.put_duration(lasted, shard_id, error)

    def flush(self, *, is_last: bool = False) -> None:
        """EMF first: its lines are safe if this process is killed now."""
        self._emf.flush()
        if not (requests := self._due(is_last=is_last)):
            return
        problem = self._sending.send(requests, is_last=is_last)
        self._emf.put(Metric.METRICS_EXPORTS_FAILED, 0 if problem is None else 1)
        if problem is not None or is_last:
            self._emf.flush()
        if problem is not None:
            self._log.warning("metrics could not be exported: CloudWatch has them from the log alone", problem=problem)

    def _due(self, *, is_last: bool) -> Sequence[bytes]:
        with self._lock:
            now = self._clock.steady()
            if not is_last and self._sent_at is not None and now - self._sent_at < self._apart:
                return ()
            self._sent_at = now
            return self._series.taken(self._clock.now())
