"""All settings of a deployment, as one frozen, validated value.

A field defines a setting: its name, default, type, allowed values and where it applies (in its annotation), and below
it its reason. Derived from the fields: the checks, the environment variables (`SUBLET_FAILOVER_TIME=30s`), the options
of `sublet run`, the table in docs/settings.md, and the construct's properties, which become those variables.
"""

# No `from __future__ import annotations` here: the annotations are evaluated when the class is created.

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Annotated, Any, Self

from sublet.errors import SettingsError
from sublet.settings.choices import (
    TRIM_HORIZON,
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
from sublet.settings.combinations import POLL_LIMIT_MAX, check_together
from sublet.settings.definition import (
    AllowedValues,
    Definition,
    OnlyFor,
    OtherName,
    between,
    definitions_of,
    lasting,
    matching,
)
from sublet.settings.kubernetes_service_links import service_links
from sublet.settings.stream_choice import ALLOWED as ALLOWED_STREAMS
from sublet.settings.stream_choice import StreamChoice
from sublet.settings.suggestions import unknown
from sublet.settings.text import parse_setting, setting_text

PREFIX = "SUBLET_"

TAG = "sublet:application"
"""The tag of all that is created for an application, with its name as the value."""

NO_STREAM = "-"
"""The stream of a command that reads no stream, only an application's leases."""

SIGHTINGS_SUFFIX = "-sightings"
"""The sightings table is named for the application, with this suffix."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """A deployment's settings, validated on creation. SettingsError names the setting, its value and the allowed
    values.
    """

    application: Annotated[
        str,
        matching(r"[A-Za-z0-9_.-]{3,200}", "3 to 200 of A-Z a-z 0-9 _ . - (it names a DynamoDB table)"),
        OtherName(kcl="applicationName", difference="also KCL's tableName"),
    ]
    """The consumer group. Names the lease table (KCL's own convention) and prefixes the worker ids."""

    stream: Annotated[
        str,
        matching(
            r"([A-Za-z0-9_.-]{1,128})?",
            "a stream name, 1 to 128 of A-Z a-z 0-9 _ . - (an ARN goes to stream_arn)",
        ),
        OtherName(kcl="streamName"),
    ] = ""
    """The stream's name (not its ARN). Required, unless `streams` names several."""

    streams: Annotated[
        StreamChoice | None,
        AllowedValues(ALLOWED_STREAMS, lambda _: True),
        OtherName(kcl="MultiStreamTracker.streamConfigList"),
    ] = None
    """Several streams instead of one, by name, ARN, name pattern or tag, each with its own start position if it needs
    one. The lease table then has the format of KCL's multi-stream mode.
    """

    stream_discovery_interval: Annotated[
        timedelta, lasting("10s", "1d"), OtherName(difference="KCL looks each minute")
    ] = timedelta(minutes=1)
    """With `streams`, how often the lease manager asks which streams there are."""

    former_streams_wait: Annotated[
        timedelta,
        lasting("1m", "365d"),
        OtherName(kcl="FormerStreamsLeasesDeletionStrategy.waitPeriodToDeleteFormerStreams"),
    ] = timedelta(hours=1)
    """With `streams`, a stream counts as former once no lease manager of the application has named it for this long.
    Its leases wait: no worker reads them, and only `sublet streams remove` deletes them.
    """

    stream_arn: Annotated[
        str | None,
        matching(r"arn:[\w-]+:kinesis:[\w-]+:\d{12}:stream/[A-Za-z0-9_.-]{1,128}", "the ARN of the setting stream"),
        OtherName(esm="EventSourceArn"),
    ] = None
    """If it is set, every Kinesis call names it, so that policies scoped to one stream also work for iterators."""

    handler: Annotated[
        str, matching(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*)?", "module:function, such as orders.handler:handle")
    ] = ""
    """Your code: a module, and the function or object in it. Only the lease worker needs it."""

    handler_contract: HandlerContract = HandlerContract.BATCH
    """batch: the handler takes a Batch. lambda_event: the handler of a Lambda behind an event source mapping,
    unchanged. record_processor: a class for the KCL's kclpy, which checkpoints by itself.
    """

    checkpointing: Checkpointing | None = None
    """automatic: when a call returns, its whole batch is done. manual: returning asks for more records; only
    `batch.checkpoint` marks records as done, at any later time, and is written at once. The default is automatic. With
    record_processor it is always manual.
    """

    deaggregate: bool = True
    """If it is off, the handler gets stream records as they were put, with KPL aggregates whole, as behind an event
    source mapping. Turn it off for a handler that unpacks them itself.
    """

    invoke_identity_arn: Annotated[
        str | None,
        matching(r"arn:[\w-]+:(iam|sts)::\d{12}:[\w+=,.@/-]+", "the ARN of a role or user"),
        OnlyFor.LAMBDA,
    ] = None
    """The role that lambda_event reports as reading the stream (invokeIdentityArn). The construct fills in the
    worker's.
    """

    mode: Mode = Mode.CATCH_UP
    """catch_up: a worker leaves a shard at its tip, and the next tick sends a worker again. continuous: leases are kept
    from window to window, for low latency and for sharing a stream with a live KCL fleet.
    """

    start_position: Annotated[
        StartPosition,
        OtherName(
            kcl="initialPositionInStreamExtended",
            esm="StartingPosition",
            difference="KCL's own default is LATEST",
        ),
    ] = TRIM_HORIZON
    """The default loses nothing. Only a shard without a lease or leased ancestors starts here."""

    failover_time: Annotated[timedelta, lasting("3s", "1d"), OtherName(kcl="failoverTimeMillis")] = timedelta(
        seconds=30
    )
    """A lease whose counter stands still for this long has lost its owner. In a mixed fleet: the KCL's
    failoverTimeMillis.
    """

    heartbeat_interval: Annotated[timedelta, lasting("1s", "1d")] = timedelta(seconds=10)
    """At most a third of failover_time, so that two lost heartbeats do not lose the lease. 10 s costs 6 writes a
    minute.
    """

    worker_count: Annotated[int, between(1, 100), OnlyFor.LAMBDA] = 1
    """How many workers this deployment counts as in KCL's fair share: `<application>-lambda-<n>`, stable forever."""

    worker_id: Annotated[
        str | None,
        matching(r"[A-Za-z0-9_.:-]{1,200}", "1 to 200 of A-Z a-z 0-9 _ . : -"),
        OnlyFor.PROCESS,
        OtherName(kcl="workerIdentifier"),
    ] = None
    """A single worker id instead, for a long-lived process or a Spark query beside the Lambda deployment."""

    leases_per_worker: Annotated[int, between(1, 200)] = 10
    """Leases that one window consumes at once. Ten leases that share a worker Lambda of 512 MB cost as much as one
    alone.
    """

    leases_to_acquire: Annotated[int, between(1, 10_000)] = 1_000
    """The most leases that one tick dispatches for a worker id. It is large because Lambda can run all workers at
    once.
    """

    max_leases_for_worker: Annotated[int, between(1, 1_000_000), OtherName(kcl="maxLeasesForWorker")] = 10_000
    """The most leases that a worker id holds."""

    max_leases_to_steal_at_one_time: Annotated[int, between(0, 1_000), OtherName(kcl="maxLeasesToStealAtOneTime")] = 1
    """A worker id steals at most this many leases in a tick, in continuous mode. 0 never steals."""

    fair_share: bool = True
    """KCL 2.x' rule: while other workers live, take at most ceil(leases / workers). False takes every free lease."""

    balance: Balance = Balance.LEASE
    """What stealing balances. lease: leases between workers, as in KCL 2.x. group: also leases between groups of
    workers, in proportion to their workers. throughput: bytes a second between workers, by throughputKBps in the lease
    rows, as in KCL 3.x.
    """

    group_separator: Annotated[str, matching(r".{1,10}", "1 to 10 characters")] = ":"
    """A worker's group is its worker id up to the first separator: zone-a for zone-a:i-0abc. A worker id without a
    separator is a group by itself. The worker ids of a Lambda deployment are always one group.
    """

    enable_priority_lease_assignment: Annotated[bool, OtherName(kcl="enablePriorityLeaseAssignment")] = True
    """A lease that has been idle for over 3 x failover_time is taken regardless of the fair share."""

    kcl_fleet: KclFleet = KclFleet.DETECT
    """If KCL 3.x workers report, in the lease table or in `<application>-WorkerMetricStats`, their leader assigns the
    leases: sublet takes what it assigns and steals nothing. 2x and 3x fix the answer, whatever the tables show.
    """

    window: Annotated[timedelta, lasting("1s", "7d")] = timedelta(minutes=14)
    """The longest that one worker runs. The default leaves a minute of Lambda's fifteen."""

    window_margin: Annotated[timedelta, lasting("100ms", "10m")] = timedelta(seconds=30)
    """Reserved at a window's end for the handler's last batch, the last checkpoints and the releases."""

    windows_per_execution: Annotated[int, between(1, 50), OnlyFor.LAMBDA] = 40
    """In continuous mode, the windows before an execution ends and a tick starts a new one, so that its history stays
    under 25,000 events.
    """

    linger: Annotated[timedelta, lasting("0s", "1d")] = timedelta(seconds=2)
    """catch_up: leave after this long at the tip, even if each poll still returns a few records."""

    reading: Annotated[Reading, OtherName(kcl="retrievalSpecificConfig", difference="KCL's default is fan-out")] = (
        Reading.POLLING
    )
    """polling: GetRecords; all consumers of a shard share 5 calls and 2 MB a second. fan_out: SubscribeToShard sends
    records as they arrive, up to 2 MB a second and shard for this consumer alone. It costs by the shard and GB, and
    needs continuous mode.
    """

    fan_out_consumer: Annotated[
        str | None,
        matching(
            r"(arn:[\w-]+:kinesis:[\w-]+:\d{12}:stream/[A-Za-z0-9_.-]{1,128}/consumer/[A-Za-z0-9_.-]{1,128}:\d+"
            r"|[A-Za-z0-9_.-]{1,128})",
            "the ARN of a consumer that is registered with the stream; with streams, the name of each stream's "
            "consumer",
        ),
        OtherName(kcl="consumerArn", esm="EventSourceArn", difference="with streams: KCL's consumerName"),
    ] = None
    """The ARN of the registered consumer (RegisterStreamConsumer) that reads by fan_out; each application has its own.
    With `streams`, the name of each stream's consumer; by default the application's name. The constructs register them.
    """

    register_fan_out: Annotated[bool, OnlyFor.PROCESS] = False
    """With `streams` and fan_out, the process registers the consumer of a stream that has none of this name, when one
    of its shards is first read. It is charged for until it is deregistered, which sublet does not do.
    """

    poll_interval: Annotated[timedelta, lasting("200ms", "1m"), OtherName(kcl="idleTimeBetweenReadsInMillis")] = (
        timedelta(milliseconds=200)
    )
    """The time between polls of a shard that returns records. Kinesis allows 5 calls a second, shared by all
    readers.
    """

    idle_poll_interval: Annotated[
        timedelta,
        lasting("200ms", "4m"),
        OtherName(kcl="idleTimeBetweenReadsInMillis", difference="KCL has one pace for both"),
    ] = timedelta(seconds=2)
    """The time between polls of a shard that has been quiet for long. Before that, it is a tenth of the time for which
    the shard has been quiet.
    """

    quiet_visit_interval: Annotated[timedelta, lasting("0s", "12h")] = timedelta(hours=1)
    """catch_up: how long a shard without new records goes without a worker. Ticks ask Kinesis instead, which costs
    less. A worker's visit renews what the lease's row says of the shard. 0: each tick sends a worker to every free
    lease.
    """

    maximum_batching_window: Annotated[
        timedelta,
        lasting("0s", "4m"),
        OtherName(
            esm="MaximumBatchingWindowInSeconds",
            difference="the records wait in the stream, up to 4m; a full batch does not go sooner",
        ),
    ] = timedelta(0)
    """In continuous mode, the minimum time between polls at the tip: records wait this long and come in fewer, larger
    batches.
    """

    poll_limit: Annotated[int, between(1, POLL_LIMIT_MAX), OtherName(kcl="maxRecords")] = POLL_LIMIT_MAX
    """Stream records requested in one poll. Not called maxRecords, because batches and records in flight have their own
    limits.
    """

    poll_bytes: Annotated[int | None, between(2**16, 10 * 2**20)] = None
    """Roughly how many bytes one poll requests, estimated from the shard's last record sizes. Behind the tip, the next
    poll waits until Kinesis' 2 MB a second allow it. None: as much as Kinesis returns, which is 10 MB at once and then
    nothing for five seconds. A pull consumer uses 512 KiB.
    """

    batch_size: Annotated[
        int,
        between(1, 1_000_000),
        OtherName(esm="BatchSize", difference="counts user records, after deaggregation"),
    ] = 10_000
    """The most user records in one handler call, never more than 50,000. User records of one stream record stay
    together up to this size. A stream record of more than 1 MiB comes in pieces of a MiB.
    """

    max_bytes_in_flight: Annotated[int, between(20 * 2**20, 8 * 2**30)] = 96 * 2**20
    """Bytes fetched and not yet handled, in one worker over all its leases. A poll counts as 10 MB until its reply
    arrives. User records are created only as the handler takes them, so they need little more.
    """

    max_records_in_flight: Annotated[int, between(POLL_LIMIT_MAX, 10_000_000)] = 400_000
    """The same limit in stream records. A poll requests at most half of it."""

    checkpoint_interval: Annotated[timedelta, lasting("0s", "1d")] = timedelta(seconds=10)
    """The shortest time between checkpoints of finished batches. A final checkpoint is always written. A checkpoint is
    a heartbeat too.
    """

    handover_wait: Annotated[timedelta, lasting("0s", "5m")] = timedelta(seconds=10)
    """After stealing from a live owner, the time that it has to checkpoint late before the row is read again."""

    drain_timeout: Annotated[timedelta, lasting("1s", "1d"), OnlyFor.PROCESS] = timedelta(seconds=110)
    """The longest time from SIGTERM to the process' end. Leases whose handler calls still run then are abandoned and
    reported. The default fits into Fargate's 120 s; the stop timeout (stopTimeout, terminationGracePeriodSeconds) must
    be longer.
    """

    refusal_patience: Annotated[timedelta, lasting("0s", "1d"), OnlyFor.PROCESS] = timedelta(minutes=10)
    """How long a process that has worked goes on while AWS refuses its calls: credentials, a permission, a code that it
    does not know. It repeats them, warns and counts, and then ends. A provider of credentials that restarts, a policy
    that is corrected and a clock that is set take minutes, and boto3 begins to renew credentials ten minutes before
    they must be. No lease lives longer for it: without a write within failover_time it is lost.
    """

    health: Annotated[
        str | None,
        matching(
            r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):(6553[0-5]|655[0-2]\d|65[0-4]\d{2}|6[0-4]\d{3}|[1-5]?\d{1,4})",
            "host:port, such as 127.0.0.1:8080, which is reachable only within the machine or container",
        ),
        OnlyFor.PROCESS,
    ] = None
    """The address that answers GET /health/live and /health/ready with 200 or 503, and JSON with the reason and the
    stalled shards; with the extra `metrics`, also /metrics, for Prometheus. None: no server.
    """

    handler_attempts: Annotated[
        int,
        between(1, 1_000),
        OtherName(
            difference="in one window; ESM's setting is maximum_retry_attempts",
        ),
    ] = 5
    """Calls with the same batch before the lease is released and the next tick decides. It never skips a record."""

    handler_backoff: Annotated[timedelta, lasting("0s", "5m")] = timedelta(seconds=1)
    """The pause before the second call; doubles up to handler_backoff_max."""

    handler_backoff_max: Annotated[timedelta, lasting("0s", "10m")] = timedelta(seconds=30)
    """The longest pause between two calls with the same batch. It goes on from the attempts of earlier windows."""

    handler_timeout: Annotated[timedelta | None, lasting("1s", "1d")] = None
    """How long one call may take. A hanging call cannot be ended: its lease is released, and its result is ignored. On
    Lambda, the default and maximum leave a third of window_margin before the function's timeout.
    """

    handler_concurrency: Annotated[int, between(1, 10_000)] = 1
    """Concurrent handler calls in one process. More than 1 needs a thread-safe handler. Above a hundred, it is meant
    for handlers that mostly wait, as those of a pull consumer do.
    """

    thread_per_lease: bool = False
    """All calls for a lease run in one thread while the lease is held, over windows too: for handlers that keep an
    SQLite connection or a thread-local session. A record processor always has this, and a Lambda handler that is called
    one at a time has one thread for all leases. Not with parallelization_factor.
    """

    parallelization_factor: Annotated[
        int,
        between(1, 10),
        OtherName(esm="ParallelizationFactor", difference="handler_concurrency rises with it"),
    ] = 1
    """Concurrent handler calls of one shard. Each partition key is in only one of them, in order. The checkpoint stays
    before the first unfinished record.
    """

    maximum_retry_attempts: Annotated[
        int,
        AllowedValues("-1 (forever), or a whole number from 0 to 10,000", lambda number: -1 <= number <= 10_000),
        OtherName(esm="MaximumRetryAttempts", difference="a finite value needs on_failure"),
    ] = -1
    """Retries with the same records, over as many windows as that takes; then they are set aside. Crashes and calls
    that exceed handler_timeout count as attempts.
    """

    maximum_record_age: Annotated[
        timedelta | None,
        lasting("1m", "7d"),
        OtherName(esm="MaximumRecordAgeInSeconds", difference="ESM's -1 is None here; needs on_failure"),
    ] = None
    """Records that arrived longer ago are set aside instead of being handled. None: no limit."""

    bisect_batch_on_function_error: Annotated[
        bool,
        OtherName(esm="BisectBatchOnFunctionError", difference="after a crash it narrows by sixteen, not by two"),
    ] = False
    """A batch whose call raised is called again in halves, the first half first, down to the one record that fails.
    Splitting does not count as an attempt. If batchItemFailures names records, the batch is cut at the lowest one
    instead.
    """

    report_batch_item_failures: Annotated[
        bool,
        OtherName(
            esm="FunctionResponseTypes",
            difference="on by default: records that a handler names as failed come again",
        ),
    ] = True
    """With handler_contract=lambda_event, the returned batchItemFailures are honoured. If it is off, the batch is done,
    whatever the handler returns.
    """

    on_failure: Annotated[
        str | None,
        matching(
            r"arn:[\w-]+:(sqs|sns):[\w-]+:\d{12}:[\w.-]+|arn:[\w-]+:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?",
            "the ARN of an SQS queue, an SNS topic, or an S3 bucket with or without /prefix",
        ),
        OtherName(
            esm="DestinationConfig.OnFailure",
            difference="also gets the records themselves; required if records may be given up; they wait while it "
            "refuses them",
        ),
    ] = None
    """Where records are set aside. A record is given up only after the destination has accepted it."""

    on_failure_details: FailureDetails = FailureDetails.FRAMES
    """How much of the handler's exception the destination gets. The exception's text may contain a record's data."""

    filter_criteria: Annotated[
        str | None,
        matching(
            r"[\s\S]*\S[\s\S]*",
            'JSON: {"Filters": [{"Pattern": "{...}"}]}; with streams also "Streams": {"orders": {"Filters": [...]}}',
        ),
        OtherName(esm="FilterCriteria", difference="on user records, after deaggregation; by stream with streams"),
    ] = None
    """Which records the handler wants: event patterns on their JSON data and their metadata. Other records count as
    done. With `streams`, a stream may have filters of its own.
    """

    payload_format: Annotated[
        str | None,
        matching(
            r"[^\s:]+(:[\s\S]+)?",
            "json, jsonl, csv, msgpack, avro:FILE, protobuf:FILE:MESSAGE, glue, confluent:URL, cloudwatch-logs, "
            "firehose or module:function",
        ),
        OtherName(kcl="glueSchemaRegistryDeserializer", difference="KCL knows Glue's framing alone"),
    ] = None
    """What `record.decoded()` reads a record's data as, after gzip, zlib or zstd around it. None: JSON. A record that
    is something else makes the handler's call fail. A schema's file is found from the working directory, which on
    Lambda is the handler's folder.
    """

    hash_range_filter: HashRangeFilter = HashRangeFilter.KCL
    """The default behaves as KCL does, with a metric for dropped records."""

    log_exceptions: LogExceptions = LogExceptions.FULL
    """How much of a handler's exception the worker's log has: text and traceback, or only its type and frames, if the
    text may contain data that must not be logged.
    """

    metrics_by_shard: MetricsByShard = MetricsByShard.WORST
    """Which shards have metrics of their own. worst: the ten with the most lag and the ten with the most bytes, as
    ticks see them, and any shard in trouble. all: each shard, for $0.90 a month. none: only the application's, which
    the alarms watch.
    """

    metrics_level: MetricsLevel = MetricsLevel.FULL
    """How many of the application's metrics CloudWatch has, at $0.30 a month each. full: all. lean: five, which the
    alarms of `monitoring=lean` watch; the log lines have the others, for CloudWatch Logs Insights. No stream of several
    has its own then.
    """

    metrics_export: MetricsExport = MetricsExport.EMF
    """Where metrics go. emf: log lines that CloudWatch turns into metrics. otlp: these, and each shard's metrics in
    OpenTelemetry's protocol, to CloudWatch (cloudwatch:PutMetricData), or to the collector that
    OTEL_EXPORTER_OTLP_ENDPOINT names, with OTEL_EXPORTER_OTLP_HEADERS: a request at the end of each tick and window,
    and each minute within. It waits two seconds at most, and a failed one fails nothing else.
    """

    traces: Tracing = Tracing.AUTO
    """Whether each handler call has a span of OpenTelemetry. auto: if the program, or what instruments it, has set a
    tracer provider; otherwise nothing is imported. off: never.
    """

    trace_context: Annotated[
        str | None,
        matching(
            r"json:[^\s.:]+(\.[^\s.:]+)*|(?!json:)[A-Za-z_][\w.]*:[A-Za-z_]\w*",
            "json:FIELD, such as json:traceparent or json:headers.traceparent, or your own module:function",
        ),
    ] = None
    """Where a record has the trace context of its producer, which the span of its handler call links to: a field of its
    decoded data, or what a function of a record returns. It is a text, by W3C (traceparent) or by X-Ray, or a mapping
    of such headers. None: spans have no links.
    """

    hot_shard_keys: HotShardKeys = HotShardKeys.HASHED
    """What `sublet hot` may know of the partition keys that make a shard hot. hashed: the MD5 by which Kinesis places
    them, which shows a key only to those who guess it. names: the keys themselves. none: workers make no sketches of
    their shards.
    """

    def __new__(cls, **given: object) -> Self:
        """Raise SettingsError for an unknown name, where Python would raise TypeError."""
        for name in given.keys() - DEFINITIONS.keys():
            raise unknown(name, given[name], "setting", DEFINITIONS, elsewhere=names_elsewhere())
        return object.__new__(cls)  # super() knows the class without its slots

    def __post_init__(self) -> None:
        for name, definition in DEFINITIONS.items():
            definition.check(getattr(self, name))
        check_together(self)

    def __repr__(self) -> str:
        """Shows what differs from the defaults."""
        stated = {name: getattr(self, name) for name in DEFINITIONS}
        return f"Settings({', '.join(f'{n}={v!r}' for n, v in stated.items() if v != DEFINITIONS[n].default)})"

    @property
    def lease_table(self) -> str:
        """Named for the application, as in KCL."""
        return self.application

    @property
    def sightings_table(self) -> str:
        """A separate table: one foreign row in the lease table stops every Java lease taker of KCL 2.x and 3.0-3.4."""
        return f"{self.application}{SIGHTINGS_SUFFIX}"

    @property
    def worker_reports_table(self) -> str:
        """KCL's name for it, before 3.5."""
        return f"{self.application}-WorkerMetricStats"

    @property
    def kcl_state_table(self) -> str:
        """KCL's name for it, before 3.5."""
        return f"{self.application}-CoordinatorState"

    @property
    def fan_out_name(self) -> str:
        """The name of each stream's fan-out consumer, of an application of several streams. KCL's own default is the
        same.
        """
        return self.fan_out_consumer or self.application

    @property
    def own_worker_ids(self) -> tuple[str, ...]:
        if self.worker_id is not None:
            return (self.worker_id,)
        return tuple(f"{self.lambda_group}-{n}" for n in range(self.worker_count))

    @property
    def lambda_group(self) -> str:
        """The prefix of the worker ids of all Lambda deployments of the application."""
        return f"{self.application}-lambda"

    @property
    def is_called_one_at_a_time(self) -> bool:
        """Whether handler calls run one at a time, as on Lambda: such handlers keep state in their modules, which two
        concurrent calls would corrupt.
        """
        return self.handler_contract is HandlerContract.LAMBDA_EVENT and self.handler_slots == 1

    @property
    def has_thread_per_lease(self) -> bool:
        """Whether all calls for a lease run in one thread: kclpy gives that to a record processor."""
        return self.thread_per_lease or self.handler_contract is HandlerContract.RECORD_PROCESSOR

    @property
    def is_checkpointed_by_hand(self) -> bool:
        """Whether only a checkpoint, not returning from a call, marks records as done."""
        by_contract = self.handler_contract is HandlerContract.RECORD_PROCESSOR
        return by_contract or self.checkpointing is Checkpointing.MANUAL

    @property
    def handler_slots(self) -> int:
        """Concurrent handler calls in one process, over all shards."""
        return self.handler_concurrency * self.parallelization_factor

    @property
    def gives_up(self) -> bool:
        """Whether a record may ever be set aside."""
        return self.maximum_retry_attempts >= 0 or self.maximum_record_age is not None

    @property
    def steals(self) -> bool:
        """catch_up never steals: it would release the lease seconds later."""
        return self.mode is Mode.CONTINUOUS and self.max_leases_to_steal_at_one_time > 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read every SUBLET_* variable but those that Kubernetes sets for a service of that name. Raises SettingsError
        for an unknown one, and if application or stream is missing.
        """
        known = {variable_of(name): definition for name, definition in DEFINITIONS.items()}
        given: dict[str, Any] = {}
        ours = {name: text for name, text in environment.items() if name.startswith(PREFIX)}
        links = service_links(ours.keys() - known.keys())
        for variable, text in ours.items():
            if variable in links:
                continue
            if variable not in known:
                raise unknown(variable, text, "setting", known, PREFIX)
            given[known[variable].name] = parse_setting(known[variable].name, known[variable].kind, text)
        for name, definition in DEFINITIONS.items():
            if definition.is_required and name not in given:
                raise SettingsError(name, None, f"required; set {variable_of(name)}")
        if not given.keys() & {"stream", "streams"}:
            raise SettingsError("stream", None, f"required; set {variable_of('stream')}")
        return cls(**given)

    def to_environment(self) -> dict[str, str]:
        """The inverse of `from_environment`."""
        return {
            variable_of(name): setting_text(value)
            for name in DEFINITIONS
            if (value := getattr(self, name)) not in (None, "")
        }


DEFINITIONS: Mapping[str, Definition] = definitions_of(fields(Settings))
"""Every setting by its name."""


def variable_of(name: str) -> str:
    return PREFIX + name.upper()


def setting_values(given: Mapping[str, object]) -> dict[str, Any]:
    """Settings by name, for callers that also accept text, such as `start_position="LATEST"`. Unknown names are passed
    through; Settings refuses them. Raises SettingsError.
    """
    return {name: DEFINITIONS[name].value_of(value) if name in DEFINITIONS else value for name, value in given.items()}


def unknown_setting(name: str, value: object, names: Collection[str]) -> SettingsError:
    """The error for a name outside `names`. It says so if the setting is only for Lambda or only for a process."""
    definition = DEFINITIONS.get(name)
    if definition is not None and definition.only is not None:
        return SettingsError(name, value, f"only for {definition.only.described}")
    return unknown(name, value, "setting", names, elsewhere=names_elsewhere())


def names_elsewhere() -> dict[str, str]:
    """Our settings by KCL's and the event source mapping's names. Where two have one name there, it is the first."""
    found = {  # what their own setting is a part of, or stands beside
        "initialPositionInStream": "start_position",
        "shutdownGraceMillis": "window_margin",
        "taskBackoffTimeMillis": "handler_backoff",
        "metricsLevel": "metrics_level",
        "retrievalMode": "reading",
    }
    for name, definition in DEFINITIONS.items():
        for other in (definition.elsewhere.kcl, definition.elsewhere.esm):
            if other:
                found.setdefault(other.rpartition(".")[2], name)
    return found
