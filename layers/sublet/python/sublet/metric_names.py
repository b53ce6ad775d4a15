"""Every metric: its name, unit, dimensions, source and meaning.

The engine puts metrics by these names, the alarms and the dashboard watch them, and the documents' tables are generated
from them. A metric is defined once: its text is its name in CloudWatch's embedded metric format (EMF), and its
instrument has its names elsewhere, by OpenTelemetry's semantic conventions for messaging where they have one:
https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, Self

NAMESPACE = "sublet"
"""In CloudWatch, for all metrics."""


class Unit(StrEnum):
    """The CloudWatch units that we use."""

    COUNT = "Count"
    MILLISECONDS = "Milliseconds"
    BYTES = "Bytes"


class MetricScope(StrEnum):
    """A metric's dimensions: a value for a shard counts for its application too.

    STREAM: put for one of several streams alone.
    TROUBLED_SHARD: each set of dimensions costs as much as a metric, so a shard gets one only while something is wrong
    with it.
    """

    APPLICATION = "application"
    SHARD = "application, shard_id"
    STREAM = "application, stream"
    TROUBLED_SHARD = "application; shard_id of one in trouble"


class PutBy(StrEnum):
    """Which part of the system measures it."""

    TICK = "tick"
    WINDOW = "window"
    BOTH = "tick, window"


class Attribute(StrEnum):
    """What a value is about. The text is the dimension in EMF and the label in Prometheus; `otlp` is OpenTelemetry's
    name for it.
    """

    otlp: str

    def __new__(cls, name: str, otlp: str) -> Self:
        attribute = str.__new__(cls, name)
        attribute._value_, attribute.otlp = name, otlp
        return attribute

    APPLICATION = "application", "messaging.consumer.group.name"
    STREAM = "stream", "messaging.destination.name"
    SHARD = "shard_id", "messaging.destination.partition.id"


MESSAGING_SYSTEM = "messaging.system", "aws_kinesis"
"""An attribute that the conventions require, and its value. They have none for Kinesis; this is as their `aws_sqs`."""


class Kind(StrEnum):
    """How values are put together. A gauge's last value counts; a counter's values add up; a histogram counts the
    values up to each bound.
    """

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


SECONDS, BYTES = "s", "By"
"""Units by UCUM. A unit in braces, as `{lease}`, only says what is counted."""

PROMETHEUS_UNITS = {SECONDS: "seconds", BYTES: "bytes"}


class Instrument(NamedTuple):
    """A metric outside of EMF. `name` and `unit` are OpenTelemetry's."""

    kind: Kind
    name: str
    unit: str

    @property
    def prometheus(self) -> str:
        """The name in Prometheus: with the unit, and `_total` if it counts, by OpenTelemetry's rules for Prometheus
        (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/).
        """
        unit = PROMETHEUS_UNITS.get(self.unit)
        total = "total" if self.kind is Kind.COUNTER else None
        return "_".join(part for part in (self.name.replace(".", "_"), unit, total) if part)

    def value(self, put: float, unit: Unit) -> float:
        """A value that was put in a CloudWatch unit, in this unit: seconds for milliseconds."""
        return put / 1_000 if unit is Unit.MILLISECONDS else put


def gauge(name: str, unit: str) -> Instrument:
    return Instrument(Kind.GAUGE, name, unit)


def counter(name: str, unit: str) -> Instrument:
    return Instrument(Kind.COUNTER, name, unit)


class Metric(StrEnum):
    """A metric: its text is its name in CloudWatch; the attributes describe it.

    `elsewhere`: the metric in OpenTelemetry and Prometheus. None: it is a maximum of others, which have each
    shard there, or about the export itself.
    """

    unit: Unit
    per: MetricScope
    put_by: PutBy
    meaning: str
    elsewhere: Instrument | None

    def __new__(
        cls, name: str, unit: Unit, per: MetricScope, put_by: PutBy, meaning: str, elsewhere: Instrument | None
    ) -> Self:
        metric = str.__new__(cls, name)
        metric._value_ = name
        metric.unit, metric.per, metric.put_by, metric.meaning = unit, per, put_by, meaning
        metric.elsewhere = elsewhere
        return metric

    TOTAL_SHARDS = (
        "total_shards",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Shards with records to come.",
        gauge("sublet.shards", "{shard}"),
    )
    TOTAL_LEASES = (
        "total_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "How many of those shards have a lease, or an ancestor with one. Fewer leases than shards: data loss ahead.",
        gauge("sublet.leases", "{lease}"),
    )
    UNCLAIMED_LEASES = (
        "unclaimed_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Leases without an owner that the limits do not let a worker take.",
        gauge("sublet.unclaimed_leases", "{lease}"),
    )
    QUIET_LEASES = (
        "quiet_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Free leases that no worker is sent for, because nothing waits in their shards or an operator has paused them.",
        gauge("sublet.quiet_leases", "{lease}"),
    )
    MALFORMED_ROWS = (
        "malformed_rows",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Rows of the lease table that KCL could not have written; only their shards wait.",
        gauge("sublet.malformed_rows", "{row}"),
    )
    CRASHING_LEASES = (
        "crashing_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        (
            "Leases without progress after three or more crashes, or after hung calls; each is tried alone, less and "
            "less often."
        ),
        gauge("sublet.crashing_leases", "{lease}"),
    )
    PAUSED_LEASES = (
        "paused_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Leases that an operator has paused or drained; put only while there are any.",
        gauge("sublet.paused_leases", "{lease}"),
    )
    WORKER_LEASES = (
        "worker_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Leases held in a window.",
        gauge("sublet.worker_leases", "{lease}"),
    )
    MILLIS_BEHIND_LATEST = (
        "millis_behind_latest",
        Unit.MILLISECONDS,
        MetricScope.SHARD,
        PutBy.BOTH,
        (
            "How far behind its tip the shard is read; it grows while nothing is done. A tick puts it for shards "
            "without a reader."
        ),
        gauge("sublet.lag", SECONDS),
    )
    CHECKPOINT_AGE = (
        "checkpoint_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "How long a lease with records to come has stood still; 0 while it moves or has none.",
        gauge("sublet.checkpoint_age", SECONDS),
    )
    UNREAD_AGE = (
        "unread_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.TICK,
        "How long a shard is known to have had records without a reader, or without progress.",
        gauge("sublet.unread_age", SECONDS),
    )
    OWNER_STALLED_AGE = (
        "owner_stalled_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.TICK,
        "How long a lease's checkpoint is known to have stood still while its owner heartbeats and records wait.",
        gauge("sublet.owner_stalled_age", SECONDS),
    )
    STANDSTILL_AGE = (
        "standstill_age",
        Unit.MILLISECONDS,
        MetricScope.APPLICATION,
        PutBy.BOTH,
        "With `metrics_level=lean`, the worst shard's `unread_age`, `owner_stalled_age` or `handler_call_age`.",
        None,
    )
    STREAM_STALLED_AGE = (
        "stream_stalled_age",
        Unit.MILLISECONDS,
        MetricScope.STREAM,
        PutBy.TICK,
        "With several streams: how long a shard of the stream is known to have stood still; put only while one does.",
        None,
    )
    HANDLER_CALL_AGE = (
        "handler_call_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "How long the handler's call under way has lasted; 0 between calls.",
        gauge("sublet.handler_call_age", SECONDS),
    )
    OLDEST_UNFINISHED_AGE = (
        "oldest_unfinished_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "With manual checkpointing: how long ago the oldest batch without a checkpoint was handed over; 0 without one.",
        gauge("sublet.oldest_unfinished_age", SECONDS),
    )
    LEASES_FAILED = (
        "leases_failed",
        Unit.COUNT,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "Leases given up because Kinesis or DynamoDB refused, or because of an unexpected fault.",
        counter("sublet.leases_failed", "{lease}"),
    )
    READS_REFUSED = (
        "reads_refused",
        Unit.COUNT,
        MetricScope.TROUBLED_SHARD,
        PutBy.BOTH,
        (
            "Shards that Kinesis refused to read for a reason that no retry removes: a permission, a key, a deleted "
            "stream."
        ),
        counter("sublet.reads_refused", "{read}"),
    )
    TICKS_REFUSED = (
        "ticks_refused",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        (
            "Ticks of a process that has worked, refused by AWS: they are repeated, and after refusal_patience the "
            "process ends."
        ),
        counter("sublet.ticks_refused", "{tick}"),
    )
    FAN_OUT_POLLED_INSTEAD = (
        "fan_out_polled_instead",
        Unit.COUNT,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        (
            "Shards that are polled although they are to be pushed, because the consumer is not registered; put as "
            "each is opened."
        ),
        counter("sublet.fan_out_polled_instead", "{shard}"),
    )
    THROTTLED_POLLS = (
        "throttled_polls",
        Unit.COUNT,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "Polls of a shard refused in a row: its read limit is used up, or Kinesis does not answer.",
        gauge("sublet.throttled_polls", "{poll}"),
    )
    BYTES = (
        "bytes",
        Unit.BYTES,
        MetricScope.SHARD,
        PutBy.WINDOW,
        "Bytes of the stream records whose user records the handler has finished.",
        counter("sublet.consumed", BYTES),
    )
    RECORDS = (
        "records",
        Unit.COUNT,
        MetricScope.SHARD,
        PutBy.WINDOW,
        "User records that the handler has finished.",
        counter("messaging.client.consumed.messages", "{message}"),
    )
    HANDLER_FAILURES = (
        "handler_failures",
        Unit.COUNT,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "Calls of the handler that raised.",
        counter("sublet.handler_failures", "{call}"),
    )
    HANDLER_ATTEMPTS = (
        "handler_attempts",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Failed attempts at the same records, earlier windows included; put with each call that fails.",
        gauge("sublet.handler_attempts", "{attempt}"),
    )
    RECORDS_SET_ASIDE = (
        "records_set_aside",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Records that were set aside and that the failure destination has accepted.",
        counter("sublet.records_set_aside", "{record}"),
    )
    DESTINATION_REFUSALS = (
        "destination_refusals",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "How often the failure destination did not accept records to be set aside; their shard waits.",
        counter("sublet.destination_refusals", "{refusal}"),
    )
    LOST_LEASES = (
        "lost_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Leases that another owner took while a window held them.",
        counter("sublet.lost_leases", "{lease}"),
    )
    LATE_CHECKPOINTS = (
        "late_checkpoints",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Checkpoints of lost leases that the new owner has not passed yet, written after the loss.",
        counter("sublet.late_checkpoints", "{checkpoint}"),
    )
    RECORDS_DROPPED_OUT_OF_RANGE = (
        "records_dropped_out_of_range",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "User records that KCL's hash-range rule dropped.",
        counter("sublet.records_dropped_out_of_range", "{record}"),
    )
    AGGREGATES_DELIVERED_WHOLE = (
        "aggregates_delivered_whole",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "KPL aggregates with an impossible index or hash key: the handler gets the whole stream record.",
        counter("sublet.aggregates_delivered_whole", "{aggregate}"),
    )
    DATA_GAP = (
        "data_gap",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.BOTH,
        "A checkpoint or the last record read was past retention, or a shard was never read to its end.",
        counter("sublet.data_gaps", "{gap}"),
    )
    METRICS_EXPORTS_FAILED = (
        "metrics_exports_failed",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.BOTH,
        "With `metrics_export=otlp`: requests with metrics that the endpoint did not take in time; 0 if it did.",
        None,
    )


class PrometheusMetric(NamedTuple):
    """A metric that EMF does not have."""

    instrument: Instrument
    meaning: str


PROCESS_DURATION = PrometheusMetric(
    Instrument(Kind.HISTOGRAM, "messaging.process.duration", SECONDS),
    "How long the handler's calls took, with those that failed.",
)
"""In OpenTelemetry and Prometheus: by stream, and with `metrics_by_shard=all` by shard."""

DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Of its buckets, in seconds, as the conventions state them."""

PROCESS = "messaging.operation.name", "process"
"""An attribute that the conventions require of it, and its value."""

ERROR_TYPE = "error.type"
"""The attribute of a call that failed: the exception's class. Prometheus' label is `error_type`."""

OF_PRODUCERS: Mapping[str, PrometheusMetric] = {
    "user_records": PrometheusMetric(
        counter("messaging.client.sent.messages", "{message}"), "User records that are known to be in the stream."
    ),
    "stream_records": PrometheusMetric(
        counter("sublet.producer.stream_records", "{record}"),
        "Stream records that these took: fewer where they are packed.",
    ),
    "calls": PrometheusMetric(counter("sublet.producer.calls", "{call}"), "PutRecords calls."),
    "retried": PrometheusMetric(
        counter("sublet.producer.retried", "{record}"), "Stream records that were put again after a refusal."
    ),
    "sent_again": PrometheusMetric(
        counter("sublet.producer.sent_again", "{message}"),
        "User records whose aggregate a reshard had made useless.",
    ),
    "given_up": PrometheusMetric(
        counter("sublet.producer.given_up", "{message}"), "User records that were given up; their futures raise."
    ),
    "buffered": PrometheusMetric(
        gauge("sublet.producer.buffered", BYTES), "Bytes that wait in memory, or are not known to be in the stream."
    ),
}
"""Of `sublet.Producer`, by stream and by the name of the count."""

PER_SECOND = "{record}/s"

OF_EXPORTER: Mapping[str, PrometheusMetric] = {
    "application_lag": PrometheusMetric(
        gauge("sublet.application.lag", SECONDS),
        "Of an application: the lag of its most lagging shard; 0 if no record waits, none if that is not known. "
        "What to scale by.",
    ),
    "unknown": PrometheusMetric(
        gauge("sublet.lag_unknown_shards", "{shard}"),
        "Shards whose lag is not known: their rows do not say it, and Kinesis did not answer, or refused.",
    ),
    "retention_left": PrometheusMetric(
        gauge("sublet.retention_left", SECONDS), "Until the oldest unhandled record is trimmed; only while one waits."
    ),
    "lost": PrometheusMetric(
        gauge("sublet.lost", SECONDS),
        "Of a shard: the span of time whose records were trimmed before they were handled.",
    ),
    "status": PrometheusMetric(
        gauge("sublet.shard.status", "{shard}"),
        "1 for the status of a shard (label `status`), as `sublet status` has it.",
    ),
    "read_bytes": PrometheusMetric(
        gauge("sublet.read_bytes_per_second", "By/s"), "How fast a shard is read, by its owner's last report."
    ),
    "read_records": PrometheusMetric(
        gauge("sublet.read_records_per_second", PER_SECOND), "How fast a shard is read, by its owner's last report."
    ),
    "workers": PrometheusMetric(gauge("sublet.workers", "{worker}"), "Workers that hold a lease."),
    "up": PrometheusMetric(
        gauge("sublet.exporter.up", "{application}"), "1 if the last look at the application worked, otherwise 0."
    ),
    "look_duration": PrometheusMetric(gauge("sublet.exporter.look_duration", SECONDS), "Of the last look."),
    "calls": PrometheusMetric(
        counter("sublet.exporter.calls", "{call}"),
        "Calls to AWS (label `operation`), without the pages and retries of one.",
    ),
}
"""Of `sublet exporter` alone, which has those of `Metric` that rows and Kinesis show, too."""


class CountedAs(NamedTuple):
    """What a metric's values are for CloudWatch. `over`: count 1 for each value above it, and otherwise 0; None: the
    value. `least`: smaller values do not count.
    """

    metric: Metric
    over: float | None = None
    least: float = 0

    def of(self, values: Iterable[float]) -> list[float]:
        counted = [value for value in values if value >= self.least]
        return counted if self.over is None else [float(value > self.over) for value in counted]


THROTTLED_POLLS_MAX = 10
"""So many refused polls of a shard in a row are no trouble yet: about 40 seconds without a record."""

LONG_CALL_MILLIS = 240_000
"""A shorter call is no standstill. It does not count, so that without trouble only ticks put `standstill_age`: it being
missing shows that a process does not tick."""

LEAN: Mapping[Metric, CountedAs] = {
    Metric.UNREAD_AGE: CountedAs(Metric.STANDSTILL_AGE),
    Metric.OWNER_STALLED_AGE: CountedAs(Metric.STANDSTILL_AGE),
    Metric.HANDLER_CALL_AGE: CountedAs(Metric.STANDSTILL_AGE, least=LONG_CALL_MILLIS),
    Metric.HANDLER_ATTEMPTS: CountedAs(Metric.HANDLER_ATTEMPTS),
    Metric.DATA_GAP: CountedAs(Metric.DATA_GAP),
    Metric.LEASES_FAILED: CountedAs(Metric.LEASES_FAILED),
    Metric.READS_REFUSED: CountedAs(Metric.LEASES_FAILED),
    Metric.MALFORMED_ROWS: CountedAs(Metric.LEASES_FAILED),
    Metric.CRASHING_LEASES: CountedAs(Metric.LEASES_FAILED),
    Metric.DESTINATION_REFUSALS: CountedAs(Metric.LEASES_FAILED),
    Metric.THROTTLED_POLLS: CountedAs(Metric.LEASES_FAILED, over=THROTTLED_POLLS_MAX),
    Metric.MILLIS_BEHIND_LATEST: CountedAs(Metric.MILLIS_BEHIND_LATEST),
}
"""With `metrics_level=lean`, what CloudWatch counts each metric as: five in all. The others are in the log lines alone,
under their own names, for CloudWatch Logs Insights."""

OF_EXPORT: Mapping[Metric, CountedAs] = {Metric.METRICS_EXPORTS_FAILED: CountedAs(Metric.METRICS_EXPORTS_FAILED)}
"""The sixth of these, with `metrics_export=otlp` alone."""
