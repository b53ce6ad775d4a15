"""Settings as keyword arguments, for type checkers and editors.

`python -m docs.tables` writes this file from `sublet.settings`, which documents each setting and checks what a type
cannot say. A duration may also be its text, as in the environment: "10s".
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, TypedDict

from sublet.settings.choices import (
    Balance,
    Checkpointing,
    FailureDetails,
    HandlerContract,
    HashRangeFilter,
    HotShardKeys,
    KclFleet,
    LogExceptions,
    MetricsByShard,
    MetricsExport,
    MetricsLevel,
    Mode,
    Reading,
    StartPosition,
    Tracing,
)
from sublet.settings.stream_choice import StreamChoice


class SharedKeywords(TypedDict, total=False):
    """The settings of everything that runs a handler."""

    streams: StreamChoice | str | Sequence[str] | None
    stream_discovery_interval: timedelta | str
    former_streams_wait: timedelta | str
    handler_contract: HandlerContract | Literal["batch", "lambda_event", "record_processor"]
    checkpointing: Checkpointing | Literal["automatic", "manual"] | None
    deaggregate: bool
    mode: Mode | Literal["catch_up", "continuous"]
    start_position: StartPosition | str
    failover_time: timedelta | str
    heartbeat_interval: timedelta | str
    leases_per_worker: int
    leases_to_acquire: int
    max_leases_for_worker: int
    max_leases_to_steal_at_one_time: int
    fair_share: bool
    balance: Balance | Literal["lease", "group", "throughput"]
    group_separator: str
    enable_priority_lease_assignment: bool
    kcl_fleet: KclFleet | Literal["detect", "2x", "3x"]
    window: timedelta | str
    window_margin: timedelta | str
    linger: timedelta | str
    poll_interval: timedelta | str
    idle_poll_interval: timedelta | str
    quiet_visit_interval: timedelta | str
    maximum_batching_window: timedelta | str
    poll_limit: int
    poll_bytes: int | None
    batch_size: int
    max_bytes_in_flight: int
    max_records_in_flight: int
    checkpoint_interval: timedelta | str
    handover_wait: timedelta | str
    handler_attempts: int
    handler_backoff: timedelta | str
    handler_backoff_max: timedelta | str
    handler_timeout: timedelta | str | None
    handler_concurrency: int
    thread_per_lease: bool
    parallelization_factor: int
    maximum_retry_attempts: int
    maximum_record_age: timedelta | str | None
    bisect_batch_on_function_error: bool
    report_batch_item_failures: bool
    on_failure_details: FailureDetails | Literal["frames", "full"]
    filter_criteria: str | None
    payload_format: str | None
    hash_range_filter: HashRangeFilter | Literal["kcl", "off"]
    log_exceptions: LogExceptions | Literal["full", "frames"]
    metrics_by_shard: MetricsByShard | Literal["worst", "all", "none"]
    metrics_level: MetricsLevel | Literal["full", "lean"]
    metrics_export: MetricsExport | Literal["emf", "otlp"]
    traces: Tracing | Literal["auto", "off"]
    trace_context: str | None
    hot_shard_keys: HotShardKeys | Literal["hashed", "names", "none"]


class WorkerKeywords(SharedKeywords, total=False):
    """The settings of a consumer on Lambda."""

    worker_count: int
    windows_per_execution: int


class ServiceKeywords(SharedKeywords, total=False):
    """The settings of a consumer in containers."""

    drain_timeout: timedelta | str
    refusal_patience: timedelta | str


class ProcessKeywords(SharedKeywords, total=False):
    """The settings of a consumer in a process."""

    stream_arn: str | None
    worker_id: str | None
    reading: Reading | Literal["polling", "fan_out"]
    fan_out_consumer: str | None
    register_fan_out: bool
    drain_timeout: timedelta | str
    refusal_patience: timedelta | str
    health: str | None
    on_failure: str | None


class AnyKeywords(ProcessKeywords, total=False):
    """All settings but the handler's name."""

    application: str
    stream: str
    invoke_identity_arn: str | None
    worker_count: int
    windows_per_execution: int
