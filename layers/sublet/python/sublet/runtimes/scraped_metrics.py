"""What Prometheus may scrape of this process: the values that its consumers put, and what its producers have done.

Kept here without Prometheus' library, and only once somebody asks for it: `Scraped.turn_on`. The names are those of
`metric_names`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol
from weakref import WeakSet

from sublet.metric_names import ERROR_TYPE, OF_PRODUCERS, PROCESS_DURATION, Attribute, Instrument, Kind, Metric
from sublet.ports import Clock, Metrics
from sublet.protocol.histogram import Histogram
from sublet.protocol.stream_key import own_id, stream_key_of
from sublet.settings import MetricsByShard, Settings

GAUGE_LASTS = timedelta(minutes=3)
"""A gauge that is no longer put goes, since its shard may have another reader. Windows put each value once a minute."""

COUNTER_LASTS = timedelta(hours=1)
"""A counter stays for longer, so that a lease that comes back goes on counting; but the shards of years of reshards do
not add up.
"""

ERROR_LABEL = ERROR_TYPE.replace(".", "_")


class Sample(NamedTuple):
    """One value. `labels`: by Prometheus' names; a metric's samples may have different ones."""

    instrument: Instrument
    meaning: str
    labels: Mapping[str, str]
    value: float | Histogram


class _Kept(NamedTuple):
    value: float
    at: datetime


class ConsumerValues:
    """The values of one application in this process, from one session to the next. Thread-safe."""

    def __init__(self, application: str, stream: str | None, *, by_shard: bool = False) -> None:
        """`by_shard`: whether each shard has a histogram of its own."""
        self._by_shard = by_shard
        self._application, self._stream = application, stream
        self._lock = threading.Lock()
        """Guards the values, and is held for moments only: a handler's thread may wait for it."""
        self._values: dict[tuple[Metric, str | None], _Kept] = {}
        self._durations: dict[tuple[tuple[str, str], ...], tuple[Histogram, datetime]] = {}
        self._holders: dict[object, Callable[[], int]] = {}
        """How many leases each of the application's consumers that run in this process holds now."""

    @contextmanager
    def holding(self, held: Callable[[], int]) -> Iterator[None]:
        """While the block runs, `held` is counted too."""
        holder = object()
        self._holders[holder] = held
        try:
            yield
        finally:
            del self._holders[holder]

    def put(self, metric: Metric, value: float, shard_id: str | None, now: datetime) -> None:
        at = metric.elsewhere
        if at is None or metric is Metric.WORKER_LEASES:
            return
        key, number = (metric, shard_id), at.value(value, metric.unit)
        with self._lock:
            before = self._values.get(key)
            is_more = at.kind is Kind.COUNTER and before is not None
            self._values[key] = _Kept(before.value + number if is_more and before else number, now)

    def put_duration(self, lasted: timedelta, shard_id: str, error: str | None, now: datetime) -> None:
        labels = {**self._labels(shard_id), **({} if error is None else {ERROR_LABEL: error})}
        if not self._by_shard:
            del labels[Attribute.SHARD.value]
        key = tuple(labels.items())
        with self._lock:
            histogram = self._durations[key][0] if key in self._durations else Histogram()
            histogram.add(lasted.total_seconds())
            self._durations[key] = histogram, now

    def _duration_samples(self, now: datetime) -> Iterator[Sample]:
        with self._lock:
            kept = {key: each for key, each in self._durations.items() if now - each[1] <= COUNTER_LASTS}
            self._durations = kept
            found = [(key, histogram.copy()) for key, (histogram, _) in kept.items()]
        for key, histogram in found:
            yield Sample(*PROCESS_DURATION, dict(key), histogram)

    def samples(self, now: datetime, gauge_lasts: timedelta) -> Iterator[Sample]:
        yield from self._duration_samples(now)
        lasts = {Kind.GAUGE: gauge_lasts, Kind.COUNTER: COUNTER_LASTS}
        with self._lock:
            for (metric, shard_id), kept in list(self._values.items()):
                assert metric.elsewhere is not None
                if now - kept.at > lasts[metric.elsewhere.kind]:
                    del self._values[metric, shard_id]
            values = list(self._values.items())
        for (metric, shard_id), kept in values:
            assert metric.elsewhere is not None
            yield Sample(metric.elsewhere, metric.meaning, self._labels(shard_id), kept.value)
        holders = list(self._holders.values())
        if holders and (leases := Metric.WORKER_LEASES.elsewhere) is not None:
            yield Sample(leases, Metric.WORKER_LEASES.meaning, self._labels(None), sum(held() for held in holders))

    def _labels(self, shard_id: str | None) -> Mapping[str, str]:
        return labels_of(self._application, self._stream, shard_id)


def labels_of(application: str, stream: str | None, shard_id: str | None) -> Mapping[str, str]:
    """`stream`: of an application that reads one alone; otherwise a shard's own name has it."""
    several = None if shard_id is None else stream_key_of(shard_id)
    named = stream if several is None else several.stream
    return {
        Attribute.APPLICATION.value: application,
        **({Attribute.STREAM.value: named} if named else {}),
        **({Attribute.SHARD.value: own_id(shard_id)} if shard_id else {}),
    }


class ScrapedMetrics:
    """The Metrics port: keeps what a scrape shows, and passes each value on."""

    def __init__(self, inner: Metrics, values: ConsumerValues, clock: Clock) -> None:
        self._inner, self._values, self._clock = inner, values, clock

    def put(self, metric: Metric, value: float, *, shard_id: str | None = None, in_trouble: bool = True) -> None:
        self._inner.put(metric, value, shard_id=shard_id, in_trouble=in_trouble)
        self._values.put(metric, value, shard_id, self._clock.steady())

    def put_for_shard(self, metric: Metric, value: float, shard_id: str) -> None:
        """Each shard's reader has put its values anyway."""
        self._inner.put_for_shard(metric, value, shard_id)

    def put_duration(self, lasted: timedelta, *, shard_id: str, error: str | None = None) -> None:
        self._inner.put_duration(lasted, shard_id=shard_id, error=error)
        self._values.put_duration(lasted, shard_id, error, self._clock.steady())

    def flush(self, *, is_last: bool = False) -> None:
        self._inner.flush(is_last=is_last)


class ProducerCounts(Protocol):
    """`sublet.Producer`'s loop: `counts` has a number for each name in OF_PRODUCERS."""

    @property
    def stream(self) -> str: ...

    def counts(self) -> Mapping[str, float]: ...


class Scraped:
    """Everything of this process. Off until `turn_on`: then it keeps nothing, and nobody pays for it."""

    def __init__(self) -> None:
        self.is_on = False
        self._lock = threading.Lock()
        """Guards all of these."""
        self._consumers: dict[tuple[str, str | None], ConsumerValues] = {}
        self._clock: Clock | None = None
        self._gauge_lasts = GAUGE_LASTS
        self._producers: WeakSet[ProducerCounts] = WeakSet()
        self._ended: dict[str, dict[str, float]] = {}
        """What producers that are closed had counted, by stream."""

    def turn_on(self) -> None:
        """For consumers and producers that start from now on."""
        self.is_on = True

    def values_of(self, settings: Settings, clock: Clock, gauge_lasts: timedelta = GAUGE_LASTS) -> ConsumerValues:
        stream = settings.stream if settings.streams is None else None
        with self._lock:
            self._clock, self._gauge_lasts = clock, max(gauge_lasts, self._gauge_lasts)
            key = settings.application, stream
            by_shard = settings.metrics_by_shard is MetricsByShard.ALL
            return self._consumers.setdefault(key, ConsumerValues(*key, by_shard=by_shard))

    def add_producer(self, producer: ProducerCounts) -> None:
        with self._lock:
            self._producers.add(producer)

    def end_producer(self, producer: ProducerCounts) -> None:
        """It is closed: its counters stay, and its gauges go."""
        with self._lock:
            if producer in self._producers:
                self._producers.discard(producer)
                self._add(self._ended, producer, {Kind.COUNTER})

    @staticmethod
    def _add(totals: dict[str, dict[str, float]], producer: ProducerCounts, kinds: set[Kind]) -> None:
        total = totals.setdefault(producer.stream, {})
        for name, count in producer.counts().items():
            if OF_PRODUCERS[name].instrument.kind in kinds:
                total[name] = total.get(name, 0) + count

    def samples(self) -> Iterator[Sample]:
        with self._lock:
            consumers, clock = list(self._consumers.values()), self._clock
            totals = {stream: dict(counts) for stream, counts in self._ended.items()}
            for producer in list(self._producers):
                self._add(totals, producer, set(Kind))
        if clock is not None:
            for values in consumers:
                yield from values.samples(clock.steady(), self._gauge_lasts)
        for stream, counts in totals.items():
            for name, count in counts.items():
                yield Sample(*OF_PRODUCERS[name], {Attribute.STREAM.value: stream}, count)


SCRAPED = Scraped()
"""Of this process: Prometheus' own registry is one for a process, too."""
