"""CloudWatch's figures of a stream, a queue and an account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sublet.metric_names import NAMESPACE, Metric
from sublet.operate.rules.examination import ThrottledCounts, Volume
from sublet.operate.rules.last_hour import RecordedHour

PERIODS = (
    (timedelta(days=15), timedelta(minutes=1)),
    (timedelta(days=63), timedelta(minutes=5)),
    (timedelta.max, timedelta(hours=1)),
)
"""CloudWatch keeps figures of each length for this long."""
QUERIES_MAX = 500
"""GetMetricData takes at most this many queries."""
MILLISECOND, MINUTE, HOUR = timedelta(milliseconds=1), timedelta(minutes=1), timedelta(hours=1)
OF_AN_HOUR = {Metric.MILLIS_BEHIND_LATEST: "Maximum", Metric.BYTES: "Sum", Metric.LOST_LEASES: "Sum"}
FAILED_EXECUTIONS = ("ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted")
LATE = timedelta(minutes=3)
"""Kinesis' figures are complete after this."""


class Series(NamedTuple):
    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str = "Sum"


class CloudWatchFigures:
    """CloudWatch's figures up to `now`, which it reaches some minutes later."""

    def __init__(self, cloudwatch: Any, now: datetime) -> None:
        self._cloudwatch, self._now = cloudwatch, now

    def incoming(self, stream: str, over: timedelta) -> Volume:
        bytes_in, records_in = (
            sum(values)
            for values in self.values([_of_stream(stream, name) for name in ("IncomingBytes", "IncomingRecords")], over)
        )
        return Volume(bytes_in / over.total_seconds(), records_in / over.total_seconds())

    def incoming_by_shard(self, stream: str, shard_ids: Sequence[str], over: timedelta) -> Mapping[str, Volume]:
        seconds = over.total_seconds()
        metrics = [
            _of_shard(stream, shard_id, name) for shard_id in shard_ids for name in ("IncomingBytes", "IncomingRecords")
        ]
        found = self.values(metrics, over)
        pairs = zip(shard_ids, found[::2], found[1::2], strict=True)
        return {
            shard_id: Volume(sum(sizes) / seconds, sum(counts) / seconds)
            for shard_id, sizes, counts in pairs
            if sizes or counts
        }

    def throttled(self, stream: str, over: timedelta) -> ThrottledCounts:
        names = "WriteProvisionedThroughputExceeded", "ReadProvisionedThroughputExceeded"
        writes, reads = self.values([_of_stream(stream, name) for name in names], over)
        return ThrottledCounts(round(sum(writes)), round(sum(reads)))

    def last_hour(self, application: str) -> RecordedHour:
        """The last hour as the application has put it, whatever its runtime."""
        lags, sizes, lost = self._by_time(
            [_of_application(application, metric, statistic) for metric, statistic in OF_AN_HOUR.items()],
            HOUR,
        )
        return RecordedHour(
            {at: millis / 1000 for at, millis in lags},
            {at: size / 1024 / MINUTE.total_seconds() for at, size in sizes},
            {**{at: 0.0 for at, _ in lags}, **dict(lost)},
        )

    def lags(
        self, application: str, of: Sequence[tuple[str, str]], over: timedelta, each: timedelta
    ) -> Mapping[datetime, timedelta]:
        """See Inspection.lags. `of`: the dimensions of one shard or stream, or none."""
        dimensions = (("application", application), *of)
        series = Series(NAMESPACE, Metric.MILLIS_BEHIND_LATEST.value, dimensions, "Maximum")
        (found,) = self._some([series], over, each)
        return {at: millis * MILLISECOND for at, millis in found}

    def subscribed(self, stream: str, consumers: Sequence[str], over: timedelta) -> frozenset[str]:
        """Those of the stream's registered consumers that have begun a subscription. One lasts at most five minutes."""
        found = self.values([_of_consumer(stream, name) for name in consumers], over)
        return frozenset(name for name, values in zip(consumers, found, strict=True) if sum(values))

    def last_failed_execution(self, state_machine: str, over: timedelta) -> datetime | None:
        """The minute in which an execution last failed, timed out or was aborted."""
        of = (("StateMachineArn", state_machine),)
        found = self._by_time([Series("AWS/States", name, of) for name in FAILED_EXECUTIONS], over)
        return max((at for values in found for at, value in values if value), default=None)

    def most_concurrent(self, over: timedelta) -> float:
        (most,) = self.values([Series("AWS/Lambda", "ConcurrentExecutions", (), "Maximum")], over)
        return max(most, default=0)

    def oldest_message(self, queue: str, over: timedelta) -> timedelta | None:
        """The age of the queue's oldest message; None without a figure, as for a queue that has been idle for hours."""
        metric = Series("AWS/SQS", "ApproximateAgeOfOldestMessage", (("QueueName", queue),), "Maximum")
        ((*ages,),) = self.values([metric], over)
        return timedelta(seconds=ages[0]) if ages else None

    def values(self, metrics: Sequence[Series], over: timedelta) -> list[list[float]]:
        """Each metric's values, the newest first: one for each minute that has one; for more than two weeks, for each
        five minutes or hour. `over` ends where figures are complete.
        """
        return [[value for _, value in found] for found in self._by_time(metrics, over)]

    def _by_time(self, metrics: Sequence[Series], over: timedelta) -> list[list[tuple[datetime, float]]]:
        """The same, each value with the beginning of its minute, or of its five minutes or hour."""
        found: list[list[tuple[datetime, float]]] = []
        for start in range(0, len(metrics), QUERIES_MAX):
            found += self._some(metrics[start : start + QUERIES_MAX], over)
        return found

    def _some(
        self, metrics: Sequence[Series], over: timedelta, each: timedelta = MINUTE
    ) -> list[list[tuple[datetime, float]]]:
        until = (self._now - LATE).replace(second=0, microsecond=0)  # CloudWatch counts minutes from the StartTime
        period = max(each, next(period for kept, period in PERIODS if over + LATE <= kept))
        values: dict[str, list[tuple[datetime, float]]] = {f"m{index}": [] for index in range(len(metrics))}
        pages = self._cloudwatch.get_paginator("get_metric_data").paginate(
            StartTime=until - over,
            EndTime=until,
            ScanBy="TimestampDescending",
            MetricDataQueries=[_query(name, metric, period) for name, metric in zip(values, metrics, strict=True)],
        )
        for page in pages:
            for result in page["MetricDataResults"]:
                values[result["Id"]] += zip(result["Timestamps"], result["Values"], strict=True)
        return list(values.values())


def _of_stream(stream: str, name: str) -> Series:
    return Series("AWS/Kinesis", name, (("StreamName", stream),))


def _of_consumer(stream: str, name: str) -> Series:
    return Series("AWS/Kinesis", "SubscribeToShard.Success", (("StreamName", stream), ("ConsumerName", name)))


def _of_application(application: str, metric: Metric, statistic: str) -> Series:
    return Series(NAMESPACE, metric.value, (("application", application),), statistic)


def _of_shard(stream: str, shard_id: str, name: str) -> Series:
    return Series("AWS/Kinesis", name, (("StreamName", stream), ("ShardId", shard_id)))


def _query(name: str, metric: Series, period: timedelta) -> Mapping[str, Any]:
    dimensions = [{"Name": key, "Value": value} for key, value in metric.dimensions]
    of = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
    stat = {"Metric": of, "Period": round(period.total_seconds()), "Stat": metric.statistic}
    return {"Id": name, "MetricStat": stat}
