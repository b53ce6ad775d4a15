"""The types of settings that are not numbers, texts or durations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sublet.errors import SettingsError


class Mode(StrEnum):
    """How long a worker keeps a lease: until it has caught up, or from window to window."""

    CATCH_UP = "catch_up"
    CONTINUOUS = "continuous"


class Balance(StrEnum):
    """What stealing balances: leases between workers (KCL 2.x), leases between groups of workers, or bytes a second."""

    LEASE = "lease"
    GROUP = "group"
    THROUGHPUT = "throughput"


class HashRangeFilter(StrEnum):
    """What happens to a KPL aggregate with a user record whose hash key is outside the shard's range.

    `kcl` drops the whole aggregate, as KCL 2 and 3 do: after a reshard the KPL sends those user records again. Other
    aggregators do not: use `off` with them.
    """

    KCL = "kcl"
    OFF = "off"


class KclFleet(StrEnum):
    """Which KCL shares the lease table. 2.x: each worker takes and steals for itself. 3.x: the leader assigns all
    leases.
    """

    DETECT = "detect"
    V2 = "2x"
    V3 = "3x"


class LogExceptions(StrEnum):
    """How much of a handler's exception is logged. Its text may contain a record's data."""

    FULL = "full"
    FRAMES = "frames"


class Checkpointing(StrEnum):
    """What marks records as done: returning from the call, or only `batch.checkpoint`."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


class HandlerContract(StrEnum):
    """What the handler is called with, and what its return value means. `async def` works with each.

    `batch` is sublet's own. `lambda_event` is Lambda's `handler(event, context)` behind an event source mapping.
    `record_processor` is kclpy's record processor class.
    """

    BATCH = "batch"
    LAMBDA_EVENT = "lambda_event"
    RECORD_PROCESSOR = "record_processor"


class FailureDetails(StrEnum):
    """How much of the handler's exception a failure destination gets: type and frames, or its text too."""

    FRAMES = "frames"
    FULL = "full"


class MetricsByShard(StrEnum):
    """Which shards have metrics of their own, beside the application's. Each is billed as a metric."""

    WORST = "worst"
    ALL = "all"
    NONE = "none"


class MetricsLevel(StrEnum):
    """Which of the application's metrics CloudWatch has. Each is billed. The log lines have all of them."""

    FULL = "full"
    LEAN = "lean"


class MetricsExport(StrEnum):
    """Where metrics go: log lines in CloudWatch's embedded metric format (EMF), or OpenTelemetry's protocol too."""

    EMF = "emf"
    OTLP = "otlp"


class Tracing(StrEnum):
    """Whether handler calls have OpenTelemetry spans: if the program has a tracer provider, or never."""

    AUTO = "auto"
    OFF = "off"


class Reading(StrEnum):
    """How a shard is read: by GetRecords, or by SubscribeToShard, which sends records as they arrive."""

    POLLING = "polling"
    FAN_OUT = "fan_out"


class HotShardKeys(StrEnum):
    """What is stored of the partition keys that make a shard hot, which may be personal data."""

    HASHED = "hashed"
    """The keys' MD5 is stored, by which Kinesis places them."""
    NAMES = "names"
    NONE = "none"
    """No sketches are made."""


class StartKind(StrEnum):
    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where to start reading a shard that has no position yet. As text: `LATEST`, or `AT_TIMESTAMP:<ISO 8601>`."""

    kind: StartKind
    at: datetime | None = None

    def __post_init__(self) -> None:
        if (self.kind is StartKind.AT_TIMESTAMP) != (self.at is not None):
            raise SettingsError("start_position", str(self), "AT_TIMESTAMP needs a time, and the other kinds take none")
        if self.at is not None and self.at.tzinfo is None:
            raise SettingsError(
                "start_position", str(self), "the moment needs a time zone, such as 2026-01-31T08:00:00Z"
            )

    @classmethod
    def parse(cls, text: str) -> StartPosition:
        kind, colon, moment = text.partition(":")
        if kind not in StartKind.__members__:
            raise SettingsError("start_position", text, f"one of {', '.join(StartKind)} (AT_TIMESTAMP:<ISO 8601>)")
        try:
            at = datetime.fromisoformat(moment) if colon else None
        except ValueError:
            raise SettingsError("start_position", text, "AT_TIMESTAMP:<ISO 8601 with time zone>") from None
        return cls(StartKind(kind), at)

    def __str__(self) -> str:
        return f"{self.kind}:{self.at.isoformat()}" if self.at else self.kind.value


TRIM_HORIZON = StartPosition(StartKind.TRIM_HORIZON)
