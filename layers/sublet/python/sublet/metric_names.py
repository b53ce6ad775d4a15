"""Every metric: its name, unit, dimensions, source and meaning.

The engine puts metrics by these names, the alarms and the dashboard watch them, and the documents' table is generated
from them.
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


class Metric(StrEnum):
    """A metric: its text is its name in CloudWatch; the attributes describe it."""

    unit: Unit
    per: MetricScope
    put_by: PutBy
    meaning: str

    def __new__(cls, name: str, unit: Unit, per: MetricScope, put_by: PutBy, meaning: str) -> Self:
        metric = str.__new__(cls, name)
        metric._value_ = name
        metric.unit, metric.per, metric.put_by, metric.meaning = unit, per, put_by, meaning
        return metric

    TOTAL_SHARDS = (
        "total_shards",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Shards with records to come.",
    )
    TOTAL_LEASES = (
        "total_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "How many of those shards have a lease, or an ancestor with one. Fewer leases than shards: data loss ahead.",
    )
    UNCLAIMED_LEASES = (
        "unclaimed_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Leases without an owner that the limits do not let a worker take.",
    )
    QUIET_LEASES = (
        "quiet_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Free leases that no worker is sent for, because nothing waits in their shards or an operator has paused them.",
    )
    MALFORMED_ROWS = (
        "malformed_rows",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Rows of the lease table that KCL could not have written; only their shards wait.",
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
    )
    PAUSED_LEASES = (
        "paused_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.TICK,
        "Leases that an operator has paused or drained; put only while there are any.",
    )
    WORKER_LEASES = (
        "worker_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Leases held in a window.",
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
    )
    CHECKPOINT_AGE = (
        "checkpoint_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "How long a lease with records to come has stood still; 0 while it moves or has none.",
    )
    UNREAD_AGE = (
        "unread_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.TICK,
        "How long a shard is known to have had records without a reader, or without progress.",
    )
    OWNER_STALLED_AGE = (
        "owner_stalled_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.TICK,
        "How long a lease's checkpoint is known to have stood still while its owner heartbeats and records wait.",
    )
    STANDSTILL_AGE = (
        "standstill_age",
        Unit.MILLISECONDS,
        MetricScope.APPLICATION,
        PutBy.BOTH,
        "With `metrics_level=lean`, the worst shard's `unread_age`, `owner_stalled_age` or `handler_call_age`.",
    )
    STREAM_STALLED_AGE = (
        "stream_stalled_age",
        Unit.MILLISECONDS,
        MetricScope.STREAM,
        PutBy.TICK,
        "With several streams: how long a shard of the stream is known to have stood still; put only while one does.",
    )
    HANDLER_CALL_AGE = (
        "handler_call_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "How long the handler's call under way has lasted; 0 between calls.",
    )
    OLDEST_UNFINISHED_AGE = (
        "oldest_unfinished_age",
        Unit.MILLISECONDS,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "With manual checkpointing: how long ago the oldest batch without a checkpoint was handed over; 0 without one.",
    )
    LEASES_FAILED = (
        "leases_failed",
        Unit.COUNT,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "Leases given up because Kinesis or DynamoDB refused, or because of an unexpected fault.",
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
    )
    THROTTLED_POLLS = (
        "throttled_polls",
        Unit.COUNT,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "Polls of a shard refused in a row: its read limit is used up, or Kinesis does not answer.",
    )
    BYTES = (
        "bytes",
        Unit.BYTES,
        MetricScope.SHARD,
        PutBy.WINDOW,
        "Bytes of the stream records whose user records the handler has finished.",
    )
    RECORDS = (
        "records",
        Unit.COUNT,
        MetricScope.SHARD,
        PutBy.WINDOW,
        "User records that the handler has finished.",
    )
    HANDLER_FAILURES = (
        "handler_failures",
        Unit.COUNT,
        MetricScope.TROUBLED_SHARD,
        PutBy.WINDOW,
        "Calls of the handler that raised.",
    )
    HANDLER_ATTEMPTS = (
        "handler_attempts",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Failed attempts at the same records, earlier windows included; put with each call that fails.",
    )
    RECORDS_SET_ASIDE = (
        "records_set_aside",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Records that were set aside and that the failure destination has accepted.",
    )
    DESTINATION_REFUSALS = (
        "destination_refusals",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "How often the failure destination did not accept records to be set aside; their shard waits.",
    )
    LOST_LEASES = (
        "lost_leases",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Leases that another owner took while a window held them.",
    )
    LATE_CHECKPOINTS = (
        "late_checkpoints",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "Checkpoints of lost leases that the new owner has not passed yet, written after the loss.",
    )
    RECORDS_DROPPED_OUT_OF_RANGE = (
        "records_dropped_out_of_range",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "User records that KCL's hash-range rule dropped.",
    )
    AGGREGATES_DELIVERED_WHOLE = (
        "aggregates_delivered_whole",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.WINDOW,
        "KPL aggregates with an impossible index or hash key: the handler gets the whole stream record.",
    )
    DATA_GAP = (
        "data_gap",
        Unit.COUNT,
        MetricScope.APPLICATION,
        PutBy.BOTH,
        "A checkpoint or the last record read was past retention, or a shard was never read to its end.",
    )


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
