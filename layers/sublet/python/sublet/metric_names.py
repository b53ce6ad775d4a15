"""Every metric, once: its name, unit, dimensions, who puts it, and what it means.

The engine puts metrics by these names, the alarms and the dashboard watch them, and a table in the documents is made of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

NAMESPACE = "sublet"
"""CloudWatch's, of all metrics."""


class Unit(StrEnum):
    """CloudWatch's units that we use."""

    COUNT = "Count"
    MILLISECONDS = "Milliseconds"
    BYTES = "Bytes"


class Per(StrEnum):
    """Whose number it is: what is put for a shard counts for its application too."""

    APPLICATION = "application"
    SHARD = "application, shard_id"


class PutBy(StrEnum):
    """Who knows the number."""

    TICK = "tick"
    WINDOW = "window"
    BOTH = "tick, window"


class Metric(StrEnum):
    """A metric: as text its name, which is all that CloudWatch knows, with what there is to say about it."""

    unit: Unit
    per: Per
    put_by: PutBy
    meaning: str

    def __new__(cls, name: str, unit: Unit, per: Per, put_by: PutBy, meaning: str) -> Self:
        metric = str.__new__(cls, name)
        metric._value_ = name
        metric.unit, metric.per, metric.put_by, metric.meaning = unit, per, put_by, meaning
        return metric

    TOTAL_SHARDS = (
        "total_shards", Unit.COUNT, Per.APPLICATION, PutBy.TICK,
        "Shards with records to come.",
    )  # fmt: skip
    TOTAL_LEASES = (
        "total_leases", Unit.COUNT, Per.APPLICATION, PutBy.TICK,
        "How many of those shards have a lease, or an ancestor with one. Fewer leases than shards: data loss ahead.",
    )  # fmt: skip
    UNCLAIMED_LEASES = (
        "unclaimed_leases", Unit.COUNT, Per.APPLICATION, PutBy.TICK,
        "Leases that nobody holds and that the limits leave over.",
    )  # fmt: skip
    MALFORMED_ROWS = (
        "malformed_rows", Unit.COUNT, Per.APPLICATION, PutBy.TICK,
        "Rows of the lease table that KCL could not have written; each one's shard alone waits.",
    )  # fmt: skip
    CRASHING_LEASES = (
        "crashing_leases", Unit.COUNT, Per.APPLICATION, PutBy.TICK,
        "Leases whose owners have crashed three times or more without getting further; each is tried alone, ever more seldom.",
    )  # fmt: skip
    WORKER_LEASES = (
        "worker_leases", Unit.COUNT, Per.APPLICATION, PutBy.WINDOW,
        "Leases held in a window.",
    )  # fmt: skip
    MILLIS_BEHIND_LATEST = (
        "millis_behind_latest", Unit.MILLISECONDS, Per.SHARD, PutBy.WINDOW,
        "How far reading is behind the shard's tip.",
    )  # fmt: skip
    BYTES = (
        "bytes", Unit.BYTES, Per.SHARD, PutBy.WINDOW,
        "Bytes of the stream records whose user records the handler has done.",
    )  # fmt: skip
    RECORDS = (
        "records", Unit.COUNT, Per.SHARD, PutBy.WINDOW,
        "User records that the handler has done.",
    )  # fmt: skip
    HANDLER_FAILURES = (
        "handler_failures", Unit.COUNT, Per.APPLICATION, PutBy.WINDOW,
        "Calls of the handler that raised.",
    )  # fmt: skip
    LOST_LEASES = (
        "lost_leases", Unit.COUNT, Per.APPLICATION, PutBy.WINDOW,
        "Leases that another owner took while a window held them.",
    )  # fmt: skip
    LATE_CHECKPOINTS = (
        "late_checkpoints", Unit.COUNT, Per.APPLICATION, PutBy.WINDOW,
        "Checkpoints of lost leases that the new owner has not passed yet, written after the loss.",
    )  # fmt: skip
    RECORDS_DROPPED_OUT_OF_RANGE = (
        "records_dropped_out_of_range", Unit.COUNT, Per.APPLICATION, PutBy.WINDOW,
        "User records that KCL's hash-range rule dropped.",
    )  # fmt: skip
    AGGREGATES_DELIVERED_WHOLE = (
        "aggregates_delivered_whole", Unit.COUNT, Per.APPLICATION, PutBy.WINDOW,
        "KPL aggregates with an impossible index or hash key: the handler gets the whole stream record.",
    )  # fmt: skip
    DATA_GAP = (
        "data_gap", Unit.COUNT, Per.APPLICATION, PutBy.BOTH,
        "A checkpoint was older than the stream's retention, or a shard went unread.",
    )  # fmt: skip
