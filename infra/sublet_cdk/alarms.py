"""The alarms: what each watches, when it fires, and what to do then (its description, which is what a person
is sent).

Every metric has the dimension `application` alone, so that minimum, maximum and average are over all shards
and workers.

Missing data. In catch_up mode nothing runs between ticks, so a lag that is not reported is no lag: such
alarms take missing data for good. Silence itself has alarms of its own (no ticks, no worker's leases), and
those take missing data for bad.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from sublet.metric_names import NAMESPACE, Metric

MATH_ALARMS_FLAG = "sublet:metric-math-alarms"
"""CDK context, true by default. Emulators fail to deploy alarms on metric math: there it is set to false."""

MINUTE = Duration.minutes(1)


@dataclass(frozen=True, slots=True)
class AlarmThresholds:
    """When the alarms fire. Minutes are periods of one minute in a row."""

    lag_millis: int = 0
    """The least lagging shard's lag. Above 0: not even one shard reaches its tip."""
    lag_minutes: int = 15
    """Longer than a usual catch-up after a reshard or a deployment."""
    unclaimed_minutes: int = 15
    hot_shard_ratio: float = 4
    """The busiest shard's bytes in one report, against the average report."""
    hot_shard_bytes: int = 6_000_000
    """Below this the busiest shard is not hot but the others are idle. A tenth of what a shard takes in a
    minute.
    """
    hot_shard_minutes: int = 15
    data_loss_minutes: int = 15
    silence_minutes: int = 15
    """Without a tick, or without a worker that holds a lease. More than the schedule's longest gap."""
    handler_failing_minutes: int = 5
    handler_attempts: int = 20
    """Calls with the same records, in windows before too. A smaller maximum_retry_attempts never gets so far."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What an application on Lambda consists of, beside its own metrics."""

    manager: lambda_.IFunction
    worker: lambda_.IFunction
    state_machine: sfn.IStateMachine
    dead_letters: sqs.IQueue


@dataclass(frozen=True, slots=True)
class Watched:
    """What the alarms and the dashboard look at. `deployment` is None where a process or container consumes."""

    application: str
    deployment: Deployment | None = None

    def metric(
        self, metric: Metric, statistic: str, period: Duration = MINUTE, shard_id: str | None = None
    ) -> cloudwatch.Metric:
        """Over all shards and workers, or of one shard."""
        shard = {"shard_id": shard_id} if shard_id else {}
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=metric.value,
            statistic=statistic,
            period=period,
            dimensions_map={"application": self.application, **shard},
        )


@dataclass(frozen=True, slots=True)
class AlarmSpec:
    """One alarm. `minutes` is its evaluation periods; it fires when `metric` is beyond `threshold` in all of
    them.
    """

    metric: cloudwatch.IMetric
    minutes: int
    description: str
    threshold: float = 0
    below: bool = False
    """Fires at or below the threshold, and when there is no data. Otherwise above it, and missing data is
    good.
    """


def specs(watched: Watched, thresholds: AlarmThresholds, *, math: bool) -> dict[str, AlarmSpec]:
    """Every alarm by its construct id."""
    alarms = (
        _under_provisioned(watched, thresholds)
        | _data_loss(watched, thresholds)
        | _handler_failing(watched, thresholds)
        | (_broken(watched.deployment, thresholds) if watched.deployment else {})
    )
    return alarms | (_on_metric_math(watched, thresholds) if math else {})


def _under_provisioned(watched: Watched, at: AlarmThresholds) -> dict[str, AlarmSpec]:
    return {
        "Lagging": AlarmSpec(
            watched.metric(Metric.MILLIS_BEHIND_LATEST, "Minimum"),
            at.lag_minutes,
            "Under-provisioned: even the least lagging shard is behind its tip. Normal for a while after a "
            "first deployment from TRIM_HORIZON or a reshard. Otherwise make the handler faster, lower "
            "leases_per_worker, give the worker more memory (it brings CPU), or split shards.",
            threshold=at.lag_millis,
        ),
        "UnclaimedLeases": AlarmSpec(
            watched.metric(Metric.UNCLAIMED_LEASES, "Minimum"),
            at.unclaimed_minutes,
            "Under-provisioned: some leases have nobody to read them, and no worker is sent for them. A "
            "shard's children wait like this for its last record. Otherwise raise what caps the "
            "fleet: max_leases_for_worker, leases_to_acquire, or, beside a KCL fleet, worker_count.",
        ),
    }


def _data_loss(watched: Watched, at: AlarmThresholds) -> dict[str, AlarmSpec]:
    return {
        "WorkersGone": AlarmSpec(
            watched.metric(Metric.WORKER_LEASES, "Sum"),
            at.silence_minutes,
            "Data loss ahead: no lease worker has held a lease. Records stay in the stream until its "
            "retention ends, so act before. Look at the lease manager's log, the state machine's executions "
            "and the lease worker's errors.",
            below=True,
        ),
        "DataGap": AlarmSpec(
            watched.metric(Metric.DATA_GAP, "Sum"),
            1,
            "Data was lost: a checkpoint was older than the stream's retention, and reading went on from "
            "the oldest record there is. The lease worker's log has the shard and the gap. Find out why it "
            "was not read in time; lengthen the retention.",
        ),
        "HandlerCrashing": AlarmSpec(
            watched.metric(Metric.CRASHING_LEASES, "Maximum"),
            1,
            "Every process that handles a shard's next records dies, or its call hangs: out of memory, "
            "os._exit, a fault in native code, a wait without a time-out. The other shards go on; this one is "
            "tried alone, ever more seldom. The lease manager's log has the lease key and the checkpoint that "
            "the records come after.",
        ),
        "MalformedRows": AlarmSpec(
            watched.metric(Metric.MALFORMED_ROWS, "Maximum"),
            1,
            "The lease table has a row that KCL could not have written; its shard alone is not read. The "
            "lease manager's log has the lease key and the fault. Repair the row, or delete it to have it "
            "created anew from the start position.",
        ),
    }


def _handler_failing(watched: Watched, at: AlarmThresholds) -> dict[str, AlarmSpec]:
    return {
        "HandlerFailing": AlarmSpec(
            watched.metric(Metric.HANDLER_FAILURES, "Sum"),
            at.handler_failing_minutes,
            "The handler has raised in every one of these minutes. Nothing is skipped: its shards wait at "
            "the failing batch and lag grows. The lease worker's log has the traceback and the sequence "
            "numbers.",
        ),
        "HandlerStuck": AlarmSpec(
            watched.metric(Metric.HANDLER_ATTEMPTS, "Maximum"),
            1,
            "The same records have failed again and again; their shard waits for them. The lease worker's log "
            "has the shard and their first and last position. Mend the handler, or let them be set aside: "
            "maximum_retry_attempts or maximum_record_age, with on_failure.",
            threshold=at.handler_attempts,
        ),
        "RecordsSetAside": AlarmSpec(
            watched.metric(Metric.RECORDS_SET_ASIDE, "Sum"),
            1,
            "Records were given up, and the failure destination has them. The lease worker's log has their "
            "positions, and the destination the exception's type. When the handler can do them, `sublet "
            "redrive` hands them to it again.",
        ),
        "DestinationRefuses": AlarmSpec(
            watched.metric(Metric.DESTINATION_REFUSALS, "Sum"),
            1,
            "The failure destination did not take records that are to be set aside. Nothing is lost: their "
            "shard waits until it does. The lease worker's log has the cause, a missing permission or a "
            "destination that is gone.",
        ),
    }


def _broken(deployment: Deployment, at: AlarmThresholds) -> dict[str, AlarmSpec]:
    return {
        "WorkerCrashing": AlarmSpec(
            deployment.worker.metric_errors(statistic="Sum", period=MINUTE),
            3,
            "The lease worker crashes, times out or runs out of memory. Its items run again, three times in "
            "a row at most. See its log (REPORT lines have the memory used), and lower leases_per_worker or "
            "max_bytes_in_flight, or give it more memory.",
        ),
        "WorkerThrottled": AlarmSpec(
            deployment.worker.metric_throttles(statistic="Sum", period=MINUTE),
            at.unclaimed_minutes,
            "Under-provisioned: Lambda refuses to start lease workers; their leases wait for the next tick. "
            "Raise worker_reserved_concurrency or the account's limit, or raise leases_per_worker.",
        ),
        "ManagerFailing": AlarmSpec(
            deployment.manager.metric_errors(statistic="Sum", period=MINUTE),
            3,
            "The lease manager fails tick after tick: no new lease is created or handed out. Its log names "
            "the cause: the lease table, the stream, its key, or a permission.",
        ),
        "TicksMissing": AlarmSpec(
            deployment.manager.metric_invocations(statistic="Sum", period=MINUTE),
            at.silence_minutes,
            "The lease manager has not been invoked. Is the rule enabled, and does its schedule have longer "
            "gaps than this alarm allows (silence_minutes)? Undelivered ticks are in the dead-letter queue.",
            below=True,
        ),
        "DeadLetters": AlarmSpec(
            deployment.dead_letters.metric_approximate_number_of_messages_visible(
                statistic="Maximum", period=MINUTE
            ),
            1,
            "A tick or prompt could not be delivered to the lease manager or failed in it, three times "
            "over. Read the message for the cause, then purge the queue: later ticks have made up for it.",
        ),
        "ExecutionsFailing": AlarmSpec(
            deployment.state_machine.metric_failed(statistic="Sum", period=MINUTE),
            1,
            "An execution has failed, although every error of an item is caught inside. The leases it held "
            "expire after failover_time and the next tick hands them out again. See the execution's "
            "history: a changed definition or a lost permission is likely.",
        ),
    }


def _on_metric_math(watched: Watched, at: AlarmThresholds) -> dict[str, AlarmSpec]:
    return {
        "HotShard": AlarmSpec(
            cloudwatch.MathExpression(
                expression=f"IF(busiest > {at.hot_shard_bytes}, busiest / average, 0)",
                using_metrics={
                    "busiest": watched.metric(Metric.BYTES, "Maximum"),
                    "average": watched.metric(Metric.BYTES, "Average"),
                },
                label="bytes of the busiest shard / average",
                period=MINUTE,
            ),
            at.hot_shard_minutes,
            "Hot shard: one shard brings far more bytes than the average. Find it on the dashboard, spread "
            "the partition keys, or split it.",
            threshold=at.hot_shard_ratio,
        ),
        "LeasesMissing": AlarmSpec(
            cloudwatch.MathExpression(
                expression="shards - leases",
                using_metrics={
                    "shards": watched.metric(Metric.TOTAL_SHARDS, "Average"),
                    "leases": watched.metric(Metric.TOTAL_LEASES, "Average"),
                },
                label="shards without a lease",
                period=MINUTE,
            ),
            at.data_loss_minutes,
            "Data loss ahead: there are more shards than leases, so some shard is read by nobody. The lease "
            "manager's log says which leases it did not create, and why.",
        ),
    }


def add_alarms(
    scope: Construct, watched: Watched, thresholds: AlarmThresholds, topic: sns.ITopic | None
) -> Mapping[str, cloudwatch.Alarm]:
    """Create a consumer's alarms, each telling `topic` when it fires and when it is over."""
    math = str(scope.node.try_get_context(MATH_ALARMS_FLAG)).lower() != "false"
    return create_alarms(scope, specs(watched, thresholds, math=math), topic)


def create_alarms(
    scope: Construct, specs: Mapping[str, AlarmSpec], topic: sns.ITopic | None
) -> Mapping[str, cloudwatch.Alarm]:
    alarms = {name: _alarm(scope, name, spec) for name, spec in specs.items()}
    if topic is not None:
        tell = actions.SnsAction(topic)
        for alarm in alarms.values():
            alarm.add_alarm_action(tell)
            alarm.add_ok_action(tell)
    return alarms


def _alarm(scope: Construct, name: str, spec: AlarmSpec) -> cloudwatch.Alarm:
    beyond = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
    at_or_below = cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD
    missing = cloudwatch.TreatMissingData
    return cloudwatch.Alarm(
        scope,
        name,
        metric=spec.metric,
        threshold=spec.threshold,
        evaluation_periods=spec.minutes,
        comparison_operator=at_or_below if spec.below else beyond,
        treat_missing_data=missing.BREACHING if spec.below else missing.NOT_BREACHING,
        alarm_description=spec.description,
    )
