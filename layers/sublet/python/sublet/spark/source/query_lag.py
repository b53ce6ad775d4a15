"""Reports how far a query is behind its shards' tips, as values and as the library's metrics.

Once per trigger Spark asks a source for the text that `query.lastProgress` shows as its `latestOffset`, and passes it
to listeners, also over Spark Connect. A source in Python has no other way to report anything: its `metrics` stay empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from sublet.aws.metrics import EmfMetrics
from sublet.metric_names import Metric
from sublet.ports import Clock, Metrics
from sublet.protocol.stream_key import own_id, stream_key_of
from sublet.spark.stream_option import reported_stream
from sublet.system.clock import SystemClock

SHOWN_EVERY = timedelta(minutes=1)
"""CloudWatch's resolution."""

_MILLISECOND = timedelta(milliseconds=1)


class QueryProgress(Protocol):
    """Spark's StreamingQueryProgress."""

    @property
    def json(self) -> str: ...


class Query(Protocol):
    """A StreamingQuery, classic or Connect's."""

    @property
    def lastProgress(self) -> QueryProgress | None: ...  # noqa: N802


class Queries(Protocol):
    """`spark.streams`."""

    def get(self, id: str) -> Query | None: ...  # noqa: A002


class ShardLag(NamedTuple):
    """The lag of one shard. `behind`: how far the end of the last planned batch is behind the shard's tip."""

    stream: str
    shard_id: str
    behind: timedelta


def lag(query: Query) -> tuple[ShardLag, ...]:
    """The lag of each shard that the query currently reads, as of its last trigger. Empty before the first, and for
    other sources."""
    progress = query.lastProgress
    return () if progress is None else lag_of(progress.json)


def lag_of(progress: str) -> tuple[ShardLag, ...]:
    """Does what `lag` does for a query's progress as JSON."""
    return tuple(
        _shard_lag(offset["stream"], name, millis * _MILLISECOND)
        for offset, _ in _sources(progress)
        for name, millis in offset["millisBehindLatest"].items()
    )


def _shard_lag(stream: str, name: str, behind: timedelta) -> ShardLag:
    """`name`: the shard's id; in a query of several streams, the ids of stream and shard."""
    key = stream_key_of(name)
    return ShardLag(stream if key is None else key.stream, own_id(name), behind)


def report_lag(spark: SparkSession, application: str, stream: str) -> LagListener:
    """Write metrics of this session's queries on the stream to standard output, in CloudWatch's embedded format, as
    the fleet does: `millis_behind_latest` of each shard, and `records`. `stream`: as in their option `stream`, also if
    that names several. `spark.streams.removeListener` ends it.
    """
    listener = LagListener(spark.streams, stream, EmfMetrics(application), SystemClock())
    spark.streams.addListener(listener)
    return listener


class LagListener(StreamingQueryListener):
    """Puts metrics with each batch, and while a query is idle. Flushes them every minute, and when a query ends.

    Spark calls it on a separate thread, one event at a time.
    """

    def __init__(self, queries: Queries, stream: str, metrics: Metrics, clock: Clock) -> None:
        self._queries = queries
        self._stream = reported_stream(stream)
        self._metrics = metrics
        self._clock = clock
        self._flush_at: datetime = clock.steady() + SHOWN_EVERY

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Does nothing, because no lag is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for offset, rows in self._ours(event.progress):
            self._metrics.put(Metric.RECORDS, rows)
            self._put(offset)
        self._flush_if_due()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """The event only names its query, which may have ended since, or run another batch."""
        query = self._queries.get(str(event.id))
        if query is not None and query.lastProgress is not None:
            for offset, _ in self._ours(query.lastProgress):
                self._put(offset)
        self._flush_if_due()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: ARG002, N802
        self._metrics.flush()

    def _ours(self, progress: QueryProgress) -> Iterator[tuple[Mapping[str, Any], int]]:
        return (found for found in _sources(progress.json) if found[0]["stream"] == self._stream)

    def _put(self, offset: Mapping[str, Any]) -> None:
        for shard_id, millis in offset["millisBehindLatest"].items():
            self._metrics.put(Metric.MILLIS_BEHIND_LATEST, millis, shard_id=shard_id)

    def _flush_if_due(self) -> None:
        if self._clock.steady() >= self._flush_at:
            self._metrics.flush()
            self._flush_at = self._clock.steady() + SHOWN_EVERY


def _sources(progress: str) -> Iterator[tuple[Mapping[str, Any], int]]:
    """The reports of sublet's sources among the query's, with the rows of the last batch."""
    for source in json.loads(progress)["sources"]:
        told = source.get("latestOffset")
        try:
            offset = json.loads(told) if isinstance(told, str) else told
        except ValueError:
            continue  # another source's: its offsets need not be JSON
        if isinstance(offset, dict) and "millisBehindLatest" in offset:
            yield offset, source["numInputRows"]
