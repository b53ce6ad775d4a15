"""The pipeline's alarms on EMR Serverless: a run that failed, none that succeeded, lag, a start that got lost.

Runs are counted by EventBridge, whose rules have a metric each (`TriggeredRules`): EMR Serverless's own metrics
of jobs have changed their dimensions from release to release. Lag is the stream's own metric: it needs nothing of
the job, whose log might be cut into other pieces than the lines that its metrics are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from sublet.errors import SettingsError
from sublet_cdk.alarms import MINUTE, AlarmSpec, create_alarms

HOUR = Duration.hours(1)
SILENCE_HOURS_MAX = 168
"""CloudWatch: an alarm looks at a week at most."""


@dataclass(frozen=True, slots=True)
class PipelineThresholds:
    """When the alarms fire."""

    lag_hours: float = 12
    """The age of the oldest record read in an hour. Half of the shortest retention there is."""
    silence_hours: int = 3
    """Without a run that succeeded. A run reads to the tip as it was at its start, so this is the tables' age too.
    More than the schedule's longest gap and a run together.
    """

    def __post_init__(self) -> None:
        if not self.lag_hours > 0:
            raise SettingsError("lag_hours", self.lag_hours, "more than 0")
        if not 1 <= self.silence_hours <= SILENCE_HOURS_MAX:
            raise SettingsError("silence_hours", self.silence_hours, f"1 to {SILENCE_HOURS_MAX} (a week)")


@dataclass(frozen=True, slots=True)
class WatchedRuns:
    """What the alarms look at."""

    stream_name: str
    failed: events.IRule
    succeeded: events.IRule
    dead_letters: sqs.IQueue


def add_pipeline_alarms(
    scope: Construct, watched: WatchedRuns, at: PipelineThresholds, topic: sns.ITopic | None
) -> Mapping[str, cloudwatch.Alarm]:
    """Create the alarms, each telling `topic` when it fires and when it is over."""
    return create_alarms(scope, _specs(watched, at), topic)


def _specs(watched: WatchedRuns, at: PipelineThresholds) -> dict[str, AlarmSpec]:
    return {
        "RunFailed": AlarmSpec(
            _triggered(watched.failed, MINUTE),
            1,
            "A run of the pipeline has failed. Nothing is lost and nothing is written twice: the next run goes on "
            "from the checkpoint. The queue of ended runs has the run's id; its log group has the reason, in the "
            "driver's stderr.",
        ),
        "RunsMissing": AlarmSpec(
            _triggered(watched.succeeded, HOUR),
            at.silence_hours,
            "No run of the pipeline has succeeded: the tables are as old as that. Is the schedule enabled, does a "
            "run take longer than this alarm allows (silence_hours), or is one stuck? See the application's job "
            "runs. Records stay in the stream until its retention ends, so act before.",
            below=True,
        ),
        "Lagging": AlarmSpec(
            cloudwatch.Metric(
                namespace="AWS/Kinesis",
                metric_name="GetRecords.IteratorAgeMilliseconds",
                statistic="Maximum",
                period=HOUR,
                dimensions_map={"StreamName": watched.stream_name},
            ),
            1,
            "Records were this old when they were read: by the pipeline, or by another consumer of the stream that "
            "polls, for the metric is of all of them. Normal for a first run from TRIM_HORIZON. Otherwise run more "
            "often, allow more executors, split shards, or lengthen the retention.",
            threshold=at.lag_hours * 3_600_000,
        ),
        "DeadLetters": AlarmSpec(
            watched.dead_letters.metric_approximate_number_of_messages_visible(
                statistic="Maximum", period=MINUTE
            ),
            1,
            "EventBridge Scheduler could not start a run: the message has EMR's answer in its attributes. Mend the "
            "cause, then purge the queue: a later run reads what this one would have.",
        ),
    }


def _triggered(rule: events.IRule, period: Duration) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/Events",
        metric_name="TriggeredRules",
        statistic="Sum",
        period=period,
        dimensions_map={"RuleName": rule.rule_name},
    )
