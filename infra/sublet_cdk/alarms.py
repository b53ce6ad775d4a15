"""The alarms' constructs, built from `alarm_definitions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from sublet.metric_names import NAMESPACE, Metric
from sublet_cdk.alarm_definitions import alarms, export_alarm, lean_alarms
from sublet_cdk.alarm_kinds import Alarm, Figure, Missing, Source
from sublet_cdk.alarm_pace import AlarmThresholds, Pace, gap_of
from sublet_cdk.alarm_texts import Subject, Told, cloudwatch_console, notification
from sublet_cdk.alarm_topic import let_cloudwatch_publish, warn_of_nobody
from sublet_cdk.set_aside_alarm import SetAsideQueue, set_aside_alarm
from sublet_cdk.stream_alarms import stream_alarms

MATH_ALARMS_FLAG = "sublet:metric-math-alarms"
"""CDK context, true by default. Set it to false for emulators that cannot deploy alarms on metric math."""

MINUTE = Duration.minutes(1)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The resources of an application on Lambda that have their own metrics, and the schedule of its ticks."""

    manager: lambda_.Function
    worker: lambda_.Function
    state_machine: sfn.IStateMachine
    executions_log: logs.ILogGroup
    dead_letters: sqs.IQueue
    schedule: events.Schedule


@dataclass(frozen=True, slots=True)
class Watched:
    """What the alarms and the dashboard watch. `deployment` is None for a process or a container. `set_aside` is None
    unless records are set aside in a queue of the stack's region and account.
    """

    subject: Subject
    deployment: Deployment | None = None
    set_aside: SetAsideQueue | None = None
    log: logs.ILogGroup | None = None
    """The lease manager's log group; None if not known."""
    streams: Sequence[str] = ()
    """The streams, of several, that have their own alarms (`stream_alarms.named_streams`)."""
    dashboard_name: str = ""
    is_lean: bool = False
    exports: bool = False
    """Metrics go by OTLP too."""

    @property
    def application(self) -> str:
        return self.subject.application

    def metric(
        self, metric: Metric, statistic: str, period: Duration = MINUTE, shard_id: str | None = None
    ) -> cloudwatch.Metric:
        """Returns the metric of all shards and workers, or of one shard."""
        shard = {"shard_id": shard_id} if shard_id else {}
        return self._own(metric.value, statistic, period, shard)

    def _own(self, name: str, statistic: str, period: Duration, part: Mapping[str, str]) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            statistic=statistic,
            period=period,
            dimensions_map={"application": self.application, **part},
        )

    @property
    def log_groups(self) -> Sequence[logs.ILogGroup]:
        """The log groups with lines of metrics, as far as they are known."""
        if self.deployment is not None:
            return (self.deployment.manager.log_group, self.deployment.worker.log_group)
        return () if self.log is None else (self.log,)

    def log_of(self, source: Source) -> logs.ILogGroup | None:
        """The log group of a part of the application; a process has one for all. None if not known."""
        if self.deployment is None:
            return self.log
        return {
            Source.WORKER: self.deployment.worker.log_group,
            Source.STATE_MACHINE: self.deployment.executions_log,
        }.get(source, self.deployment.manager.log_group)

    def over_streams(self, figure: Figure, period: Duration) -> cloudwatch.MathExpression:
        """A figure of EACH_STREAM, in CloudWatch's Metrics Insights. An alarm that names its contributors needs both
        clauses.
        """
        function = {"Maximum": "MAX", "Minimum": "MIN"}[figure.statistic]
        clauses = (
            f"SELECT {function}({figure.metric})",
            f'FROM SCHEMA("{NAMESPACE}", application, stream)',
            f"WHERE application = '{self.application}'",
            f"GROUP BY stream ORDER BY {function}() DESC",
        )
        return cloudwatch.MathExpression(
            expression=" ".join(clauses),
            using_metrics={},
            period=period,
        )

    def figure(self, figure: Figure, period: Duration) -> cloudwatch.Metric:
        """A definition's figure as a metric: the application's, one of its streams', or AWS's for a deployed
        resource.
        """
        if figure.source is Source.FAILURE_QUEUE and self.set_aside is not None:
            return cloudwatch.Metric(
                namespace="AWS/SQS",
                metric_name=figure.metric,
                statistic=figure.statistic,
                period=period,
                dimensions_map={"QueueName": self.set_aside.name},
            )
        if figure.source is Source.APPLICATION or self.deployment is None:
            stream = {} if figure.stream is None else {"stream": figure.stream}
            return self._own(figure.metric, figure.statistic, period, stream)
        of = self.deployment
        made = {
            Source.MANAGER: of.manager.metric,
            Source.WORKER: of.worker.metric,
            Source.STATE_MACHINE: of.state_machine.metric,
            Source.DEAD_LETTERS: of.dead_letters.metric,
        }[figure.source]
        return made(figure.metric, statistic=figure.statistic, period=period)


@dataclass(frozen=True, slots=True)
class AlarmSpec:
    """An alarm with its metric as a construct. It fires if `metric` is beyond `threshold` in `points` of `periods`
    (None: in all of them)."""

    metric: cloudwatch.IMetric
    periods: int
    description: str
    threshold: float = 0
    below: bool = False
    """Fires at or below the threshold, and without data. Otherwise above it, and missing data is fine."""
    points: int | None = None


def alarms_of(watched: Watched, thresholds: AlarmThresholds, *, math: bool) -> Sequence[Alarm]:
    """Returns the alarms to create. `math`: include alarms on metric math."""
    deployment = watched.deployment
    pace = pace_of(deployment, thresholds)
    of_level = lean_alarms if watched.is_lean else alarms
    stated = [*of_level(pace, thresholds, on_lambda=deployment is not None)]
    if thresholds.by_stream:
        stated += stream_alarms(pace, thresholds, watched.application, watched.streams)
    if watched.exports:
        stated.append(export_alarm(pace))
    if watched.set_aside is not None:
        stated.append(set_aside_alarm(watched.set_aside.kept_for))
    return [alarm for alarm in stated if math or not alarm.needs_math]


def pace_of(deployment: Deployment | None, thresholds: AlarmThresholds) -> Pace:
    stated = gap_of(deployment.schedule.expression_string) if deployment else Pace().gap
    return Pace(thresholds.longest_gap or stated)


def add_alarms(
    scope: Construct, watched: Watched, thresholds: AlarmThresholds, topic: sns.ITopic | None
) -> Mapping[str, cloudwatch.Alarm]:
    """Create a consumer's alarms. Each notifies `topic` when it fires and when it is over."""
    math = has_math(scope)
    specs = {alarm.name: _spec(scope, alarm, watched, math=math) for alarm in alarms_of(watched, thresholds, math=math)}
    return create_alarms(scope, specs, topic)


def has_math(scope: Construct) -> bool:
    """False for emulators, which lack alarms on metric math."""
    return str(scope.node.try_get_context(MATH_ALARMS_FLAG)).lower() != "false"


def _spec(scope: Construct, alarm: Alarm, watched: Watched, *, math: bool) -> AlarmSpec:
    return AlarmSpec(
        _watches(alarm, watched, math=math),
        alarm.periods,
        alarm_text(scope, alarm, watched),
        alarm.threshold,
        below=alarm.missing is Missing.BREACHING,
        points=alarm.points,
    )


def alarm_text(scope: Construct, alarm: Alarm, watched: Watched) -> str:
    subject = watched.subject if alarm.stream is None else replace(watched.subject, stream=alarm.stream)
    told = Told(
        alarm.when,
        subject.doctor(with_destination=alarm.at_destination),
        alarm.then,
        watched.log_of(alarm.log),
        dashboard_link(scope, watched) if alarm.has_link else None,
    )
    return notification(scope, subject, told)


def _watches(alarm: Alarm, watched: Watched, *, math: bool) -> cloudwatch.IMetric:
    period = Duration.minutes(alarm.minutes)
    if alarm.is_query:
        return watched.over_streams(next(iter(alarm.figures.values())), period)
    figures = {name: watched.figure(figure, period) for name, figure in alarm.figures.items()}
    return _expression(alarm, figures, period) if math and alarm.expression else next(iter(figures.values()))


def _expression(alarm: Alarm, figures: Mapping[str, cloudwatch.IMetric], period: Duration) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=alarm.expression or "", using_metrics=figures, label=alarm.when, period=period
    )


def dashboard_link(scope: Construct, watched: Watched) -> str:
    return f"{cloudwatch_console(scope)}#dashboards/dashboard/{watched.dashboard_name}"


def create_alarms(
    scope: Construct, specs: Mapping[str, AlarmSpec], topic: sns.ITopic | None
) -> Mapping[str, cloudwatch.Alarm]:
    alarms = {name: _alarm(scope, name, spec) for name, spec in specs.items()}
    if topic is None:
        warn_of_nobody(scope, alarms.values())
    else:
        let_cloudwatch_publish(topic)
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
        evaluation_periods=spec.periods,
        datapoints_to_alarm=spec.points,
        comparison_operator=at_or_below if spec.below else beyond,
        treat_missing_data=missing.BREACHING if spec.below else missing.NOT_BREACHING,
        alarm_description=spec.description,
    )
