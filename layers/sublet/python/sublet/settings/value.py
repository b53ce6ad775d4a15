"""Every setting of a deployment: one frozen, validated value.

A field is the one place of a setting: its name, type, what is allowed and whom it is for (in its annotation), its default, and
below it its reason. What is derived: the checks, the environment's variables (`SUBLET_FAILOVER_TIME=30s`), the options of
`sublet run`, the table in docs/settings.md, and the construct's properties, which become those variables.
"""

# No `from __future__ import annotations` here: the annotations are read when the class is made, as what they stand for.

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Annotated, Any, Self

from sublet.errors import SettingsError
from sublet.settings.definition import (
    Allowed,
    Definition,
    Elsewhere,
    Only,
    between,
    definitions_of,
    lasting,
    matching,
)
from sublet.settings.kinds import (
    TRIM_HORIZON,
    Balance,
    Checkpointing,
    FailureDetails,
    HandlerContract,
    HashRangeFilter,
    KclFleet,
    LogExceptions,
    Mode,
    StartPosition,
)
from sublet.settings.limits import POLL_LIMIT_MAX, check_together
from sublet.settings.nearest import unknown
from sublet.settings.text import parse_setting, setting_text

PREFIX = "SUBLET_"

SIGHTINGS_SUFFIX = "-sightings"
"""Of the sightings table's name, after the application's."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """A deployment's settings. Creating one validates it whole; SettingsError names the setting, value and what is allowed."""

    application: Annotated[
        str,
        matching(r"[A-Za-z0-9_.-]{3,200}", "3 to 200 of A-Z a-z 0-9 _ . - (it names a DynamoDB table)"),
        Elsewhere(kcl="applicationName", difference="also KCL's tableName"),
    ]
    """The consumer group. Names the lease table (KCL's own convention) and prefixes the worker ids."""

    stream: Annotated[
        str,
        matching(
            r"[A-Za-z0-9_.-]{1,128}",
            "a stream name, 1 to 128 of A-Z a-z 0-9 _ . - (an ARN goes to stream_arn)",
        ),
        Elsewhere(kcl="streamName"),
    ]
    """The stream's name (not its ARN)."""

    stream_arn: Annotated[
        str | None,
        matching(
            r"arn:[\w-]+:kinesis:[\w-]+:\d{12}:stream/[A-Za-z0-9_.-]{1,128}", "the ARN of the setting stream"
        ),
        Elsewhere(esm="EventSourceArn"),
    ] = None
    """Passed with every Kinesis call when given, which makes policies scoped to one stream work for iterators too."""

    handler: Annotated[
        str, matching(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*)?", "module:function, such as orders.handler:handle")
    ] = ""
    """Your code: the name of a module, and of the function or object in it. Only the lease worker needs it."""

    handler_contract: HandlerContract = HandlerContract.BATCH
    """batch: it takes a Batch. lambda_event: it is the handler of a Lambda behind an event source mapping, unchanged.
    record_processor: it is a class as for the KCL's kclpy, which checkpoints by itself.
    """

    checkpointing: Checkpointing | None = None
    """automatic: a call that returns has done its whole batch. manual: it asks for more, and only `batch.checkpoint` says what is
    done, at any later time; it is written at once. By default automatic, and with record_processor manual, as it always is there.
    """

    deaggregate: bool = True
    """Off: the handler gets stream records as they were put, KPL aggregates whole, for one that takes them apart by itself, as
    behind an event source mapping.
    """

    invoke_identity_arn: Annotated[
        str | None,
        matching(r"arn:[\w-]+:(iam|sts)::\d{12}:[\w+=,.@/-]+", "the ARN of a role or user"),
        Only.LAMBDA,
    ] = None
    """What lambda_event says of whose role reads the stream (invokeIdentityArn). The construct fills in the worker's."""

    mode: Mode = Mode.CATCH_UP
    """catch_up: a worker leaves when it is at the tip, and the next tick sends one again. continuous: leases are held from window
    to window, for low latency and beside a live KCL fleet.
    """

    start_position: Annotated[
        StartPosition,
        Elsewhere(
            kcl="initialPositionInStreamExtended",
            esm="StartingPosition",
            difference="KCL's own default is LATEST",
        ),
    ] = TRIM_HORIZON
    """TRIM_HORIZON loses nothing by default. Only a shard without a lease or leased ancestors starts from here."""

    failover_time: Annotated[timedelta, lasting("3s", "1d"), Elsewhere(kcl="failoverTimeMillis")] = timedelta(
        seconds=30
    )
    """A lease whose counter stood still this long has lost its owner. In a mixed fleet: the KCL fleet's failoverTimeMillis."""

    heartbeat_interval: Annotated[timedelta, lasting("1s", "1d")] = timedelta(seconds=10)
    """At most a third of failover_time, so that two lost heartbeats do not lose the lease. 10 s cost 6 writes a minute."""

    worker_count: Annotated[int, between(1, 100), Only.LAMBDA] = 1
    """How many workers this deployment counts as in KCL's fair share: `<application>-lambda-<n>`, stable for ever."""

    worker_id: Annotated[
        str | None,
        matching(r"[A-Za-z0-9_.:-]{1,200}", "1 to 200 of A-Z a-z 0-9 _ . : -"),
        Only.PROCESS,
        Elsewhere(kcl="workerIdentifier"),
    ] = None
    """One worker id of its own instead: for a long-lived process or a Spark query beside the Lambda deployment."""

    leases_per_worker: Annotated[int, between(1, 200)] = 10
    """Leases that one window consumes at once. Ten in a worker Lambda of 512 MB cost a tenth of one in each."""

    leases_to_acquire: Annotated[int, between(1, 10_000)] = 1_000
    """The most leases that one worker id is sent for in one tick. Large: Lambda has room for all at once."""

    max_leases_for_worker: Annotated[int, between(1, 1_000_000), Elsewhere(kcl="maxLeasesForWorker")] = 10_000
    """The most leases that one worker id holds."""

    max_leases_to_steal_at_one_time: Annotated[
        int, between(0, 1_000), Elsewhere(kcl="maxLeasesToStealAtOneTime")
    ] = 1
    """Per worker id and tick, in continuous mode. 0 never steals."""

    fair_share: bool = True
    """KCL 2.x: take no more than ceil(leases / workers) while other workers live. False takes whatever is free."""

    balance: Balance = Balance.LEASE
    """What stealing evens out. lease: leases between workers, as KCL 2.x. group: leases between groups of workers too, by their
    numbers of workers. throughput: bytes a second between workers, by throughputKBps in the lease rows, as KCL 3.x.
    """

    group_separator: Annotated[str, matching(r".{1,10}", "1 to 10 characters")] = ":"
    """A worker's group is its worker id up to the first of these: of zone-a:i-0abc it is zone-a. Without one, every worker is a
    group of its own. The worker ids of a Lambda deployment are one group, whatever this is.
    """

    enable_priority_lease_assignment: Annotated[bool, Elsewhere(kcl="enablePriorityLeaseAssignment")] = True
    """A lease idle for over 3 x failover_time is taken whatever the fair share."""

    kcl_fleet: KclFleet = KclFleet.DETECT
    """Where workers of a KCL 3.x report, in the lease table or in `<application>-WorkerMetricStats`, their leader shares out the
    leases: what it assigns is taken, and nothing is stolen. 2x, 3x: the one or the other, whatever the tables show.
    """

    window: Annotated[timedelta, lasting("1s", "7d")] = timedelta(minutes=14)
    """How long one worker goes on at most. The default leaves a minute of Lambda's fifteen."""

    window_margin: Annotated[timedelta, lasting("100ms", "10m")] = timedelta(seconds=30)
    """Kept free at a window's end for the handler's last batch, the last checkpoints and the releases."""

    windows_per_execution: Annotated[int, between(1, 50), Only.LAMBDA] = 40
    """Continuous mode: windows before an execution ends and a tick starts afresh: its history stays under 25,000 events."""

    linger: Annotated[timedelta, lasting("0s", "1d")] = timedelta(seconds=2)
    """catch_up: leave after being at the tip this long, also when each poll still brings a few records."""

    poll_interval: Annotated[
        timedelta, lasting("200ms", "1m"), Elsewhere(kcl="idleTimeBetweenReadsInMillis")
    ] = timedelta(milliseconds=200)
    """Between polls of one shard that brings records: Kinesis allows 5 calls a second, shared by all readers."""

    idle_poll_interval: Annotated[
        timedelta,
        lasting("200ms", "4m"),
        Elsewhere(kcl="idleTimeBetweenReadsInMillis", difference="KCL has one pace for both"),
    ] = timedelta(seconds=2)
    """Between polls of a shard that has been quiet for long. Until then a tenth of the time that it has been."""

    maximum_batching_window: Annotated[
        timedelta,
        lasting("0s", "4m"),
        Elsewhere(
            esm="MaximumBatchingWindowInSeconds",
            difference="the records wait in the stream, up to 4m: a batch that would be full sooner does not go sooner",
        ),
    ] = timedelta(0)
    """In continuous mode, at least between polls at the tip: records wait so long, and come in fewer, larger batches."""

    poll_limit: Annotated[int, between(1, POLL_LIMIT_MAX), Elsewhere(kcl="maxRecords")] = POLL_LIMIT_MAX
    """Stream records asked for in one poll. Called so because a batch and what is in flight have their own limits."""

    poll_bytes: Annotated[int | None, between(2**16, 10 * 2**20)] = None
    """About so many bytes are asked for in one poll, as stream records of the size that the shard brought last; behind the tip
    the next one comes when Kinesis' 2 MB a second have paid for it. None: as much as Kinesis gives, 10 MB at once, and then
    nothing for five seconds. 512 KiB for a consumer that is pulled from.
    """

    batch_size: Annotated[
        int,
        between(1, 1_000_000),
        Elsewhere(esm="BatchSize", difference="counts user records, after deaggregation"),
    ] = 10_000
    """User records in one handler call at most, and never more than 50,000. A stream record's user records stay together up to
    this, unless it is larger than 1 MiB: then they come by the MiB."""

    max_bytes_in_flight: Annotated[int, between(20 * 2**20, 8 * 2**30)] = 96 * 2**20
    """Fetched and not yet handled, in one worker over all its leases. A poll's reply counts as 10 MB before it is seen. User
    records are made of it as the handler takes them, so that they need little more."""

    max_records_in_flight: Annotated[int, between(POLL_LIMIT_MAX, 10_000_000)] = 400_000
    """The same, in stream records. A poll asks for half of it at most."""

    checkpoint_interval: Annotated[timedelta, lasting("0s", "1d")] = timedelta(seconds=10)
    """Finished batches are checkpointed at most this often, and always at the end; a checkpoint is a heartbeat too."""

    handover_wait: Annotated[timedelta, lasting("0s", "5m")] = timedelta(seconds=10)
    """After stealing from a live owner: time for it to checkpoint late, before the row is read again."""

    drain_timeout: Annotated[timedelta, lasting("1s", "1d"), Only.PROCESS] = timedelta(seconds=110)
    """From SIGTERM to the process' end at most: what a call of the handler still holds then is left, and said. The default fits
    the 120 s that Fargate allows; whoever ends it must wait as long (stopTimeout, terminationGracePeriodSeconds)."""

    health: Annotated[
        str | None,
        matching(
            r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):(6553[0-5]|655[0-2]\d|65[0-4]\d{2}|6[0-4]\d{3}|[1-5]?\d{1,4})",
            "host:port, such as 127.0.0.1:8080, which nobody outside of the machine or container reaches",
        ),
        Only.PROCESS,
    ] = None
    """Where it answers GET /health/live and /health/ready: 200 or 503, and as JSON why, and which shards stall. None: nowhere."""

    handler_attempts: Annotated[
        int,
        between(1, 1_000),
        Elsewhere(
            difference="in one window; see maximum_retry_attempts for what ESM has",
        ),
    ] = 5
    """Calls with the same batch before the lease is released and the next tick decides. Nothing is skipped by it."""

    handler_backoff: Annotated[timedelta, lasting("0s", "5m")] = timedelta(seconds=1)
    """Before the second call; doubles up to handler_backoff_max."""

    handler_backoff_max: Annotated[timedelta, lasting("0s", "10m")] = timedelta(seconds=30)
    """The longest pause between two calls with the same batch."""

    handler_timeout: Annotated[timedelta | None, lasting("1s", "1d")] = None
    """How long one call may take. One that hangs cannot be ended: its lease is given up, and what comes of it counts for nothing.
    On Lambda, by default and at most, until a third of window_margin before the function's timeout.
    """

    handler_concurrency: Annotated[int, between(1, 10_000)] = 1
    """Handler calls at once in one process. More needs a handler that is safe to call from several threads. Above a hundred it is
    for handlers that wait, as those of a pull consumer do."""

    parallelization_factor: Annotated[
        int,
        between(1, 10),
        Elsewhere(esm="ParallelizationFactor", difference="handler_concurrency rises with it"),
    ] = 1
    """Handler calls of one shard at once, each partition key always in one of them and in order. The checkpoint is before the
    first record that is not finished.
    """

    maximum_retry_attempts: Annotated[
        int,
        Allowed("-1 (for ever), or a whole number from 0 to 10,000", lambda number: -1 <= number <= 10_000),
        Elsewhere(esm="MaximumRetryAttempts", difference="one that is finite needs on_failure"),
    ] = -1
    """Calls with the same records after the first that fails, in as many windows as it takes; then they are set aside. Crashes
    count, and calls that last too long.
    """

    maximum_record_age: Annotated[
        timedelta | None,
        lasting("1m", "7d"),
        Elsewhere(
            esm="MaximumRecordAgeInSeconds", difference="-1 there is none here; it needs on_failure as well"
        ),
    ] = None
    """Records that arrived longer ago are set aside instead of being handed over. None: there is no such age."""

    bisect_batch_on_function_error: Annotated[
        bool,
        Elsewhere(
            esm="BisectBatchOnFunctionError", difference="after a crash it narrows by sixteen, not by two"
        ),
    ] = False
    """A batch whose call raised is called again in halves, the first half first, down to the one record that it fails with.
    Splitting is no attempt. A batch of which batchItemFailures names records is cut at the lowest of them instead.
    """

    report_batch_item_failures: Annotated[
        bool,
        Elsewhere(
            esm="FunctionResponseTypes",
            difference="on by default: what a handler names as failed comes again",
        ),
    ] = True
    """With handler_contract=lambda_event: batchItemFailures that it returns count. Off: whatever it returns, all is done."""

    on_failure: Annotated[
        str | None,
        matching(
            r"arn:[\w-]+:(sqs|sns):[\w-]+:\d{12}:[\w.-]+|arn:[\w-]+:s3:::[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?",
            "the ARN of an SQS queue, an SNS topic, or an S3 bucket with or without /prefix",
        ),
        Elsewhere(
            esm="DestinationConfig.OnFailure",
            difference="gets the records themselves too; required where any may be given up; they wait while it refuses them",
        ),
    ] = None
    """Where records go that are set aside: they are given up only when it has taken them."""

    on_failure_details: FailureDetails = FailureDetails.FRAMES
    """What the destination is told of the handler's exception. Its text may hold what a record holds."""

    filter_criteria: Annotated[
        str | None,
        matching(r"[\s\S]*\S[\s\S]*", 'JSON: {"Filters": [{"Pattern": "{...}"}]}'),
        Elsewhere(esm="FilterCriteria", difference="on user records, after deaggregation"),
    ] = None
    """Which records the handler wants: event patterns on their data as JSON and on their metadata. The others count as done."""

    hash_range_filter: HashRangeFilter = HashRangeFilter.KCL
    """Drop-in for KCL by default, with a metric for what it dropped."""

    log_exceptions: LogExceptions = LogExceptions.FULL
    """What the worker's log tells of a handler's exception: its text and traceback, or, where the text may hold what nobody may
    read, only its type and the frames.
    """

    metrics_by_shard: bool = True
    """Off: only the application's metrics, which the alarms watch. Spares $0.90 a shard and month; the dashboard's graphs by
    shard stay empty.
    """

    def __new__(cls, **given: object) -> Self:
        """Only to refuse what is no setting as SettingsError, and not as Python does it, with a TypeError."""
        for name in given.keys() - DEFINITIONS.keys():
            raise unknown(name, given[name], "setting", DEFINITIONS)
        return object.__new__(cls)  # super() knows the class without its slots

    def __post_init__(self) -> None:
        for name, definition in DEFINITIONS.items():
            definition.check(getattr(self, name))
        check_together(self)

    def __repr__(self) -> str:
        """What differs from the defaults."""
        stated = {name: getattr(self, name) for name in DEFINITIONS}
        return (
            f"Settings({', '.join(f'{n}={v!r}' for n, v in stated.items() if v != DEFINITIONS[n].default)})"
        )

    @property
    def lease_table(self) -> str:
        """KCL's convention: the application's name is the table's."""
        return self.application

    @property
    def sightings_table(self) -> str:
        """Not the lease table: one foreign row there stops every Java lease taker of KCL 2.x and 3.0-3.4."""
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
    def own_worker_ids(self) -> tuple[str, ...]:
        if self.worker_id is not None:
            return (self.worker_id,)
        return tuple(f"{self.lambda_group}-{n}" for n in range(self.worker_count))

    @property
    def lambda_group(self) -> str:
        """What the worker ids of all Lambda deployments of the application begin with."""
        return f"{self.application}-lambda"

    @property
    def is_called_one_at_a_time(self) -> bool:
        """As a Lambda is: what such handlers keep in their modules, two calls at once would spoil for each other."""
        return self.handler_contract is HandlerContract.LAMBDA_EVENT and self.handler_slots == 1

    @property
    def is_checkpointed_by_hand(self) -> bool:
        """Whether a call of the handler that returns has merely been handed its records."""
        by_contract = self.handler_contract is HandlerContract.RECORD_PROCESSOR
        return by_contract or self.checkpointing is Checkpointing.MANUAL

    @property
    def handler_slots(self) -> int:
        """Handler calls at once in one process, of all shards."""
        return self.handler_concurrency * self.parallelization_factor

    @property
    def gives_up(self) -> bool:
        """Whether a record may ever be set aside."""
        return self.maximum_retry_attempts >= 0 or self.maximum_record_age is not None

    @property
    def steals(self) -> bool:
        """catch_up never steals: it would give the lease back seconds later."""
        return self.mode is Mode.CONTINUOUS and self.max_leases_to_steal_at_one_time > 0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read every SUBLET_* variable; one that is no setting is refused, and so is a missing application or stream."""
        known = {variable_of(name): definition for name, definition in DEFINITIONS.items()}
        given: dict[str, Any] = {}
        for variable, text in environment.items():
            if not variable.startswith(PREFIX):
                continue
            if variable not in known:
                raise unknown(variable, text, "setting", known, PREFIX)
            given[known[variable].name] = parse_setting(known[variable].name, known[variable].kind, text)
        for name, definition in DEFINITIONS.items():
            if definition.is_required and name not in given:
                raise SettingsError(name, None, f"required; set {variable_of(name)}")
        return cls(**given)

    def to_environment(self) -> dict[str, str]:
        """The variables that `from_environment` reads this back from."""
        return {
            variable_of(name): setting_text(value)
            for name in DEFINITIONS
            if (value := getattr(self, name)) not in (None, "")
        }


DEFINITIONS: Mapping[str, Definition] = definitions_of(fields(Settings))
"""Every setting by its name."""


def variable_of(name: str) -> str:
    """A setting's name in the environment."""
    return PREFIX + name.upper()


def setting_values(given: Mapping[str, object]) -> dict[str, Any]:
    """By name, for a place that also takes a setting as its text, such as `start_position="LATEST"`. What is no setting stands:
    Settings refuses it. Raises SettingsError.
    """
    return {
        name: DEFINITIONS[name].value_of(value) if name in DEFINITIONS else value
        for name, value in given.items()
    }


def unknown_setting(name: str, value: object, names: Collection[str]) -> SettingsError:
    """For a place that takes the settings `names`: one that is for Lambda or for a process alone is told so."""
    definition = DEFINITIONS.get(name)
    if definition is not None and definition.only is not None:
        return SettingsError(name, value, f"only for {definition.only.described}")
    return unknown(name, value, "setting", names)
