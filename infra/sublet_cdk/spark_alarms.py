"""The pipeline's alarms on EMR Serverless: a failed run, no successful run, lag, a run that could not be started.

Runs are counted by EventBridge, whose rules have a metric each (`TriggeredRules`), because the dimensions of EMR
Serverless's own job metrics have changed from release to release. Lag is the stream's own metric. It needs nothing
from the job, whose log may split the lines that its metrics are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Annotations, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct
from sublet.errors import SettingsError
from sublet.settings import StreamChoice
from sublet_cdk.alarm_texts import Subject, Told, notification
from sublet_cdk.alarms import MINUTE, AlarmSpec, create_alarms

HOUR = Duration.hours(1)
SILENCE_HOURS_MAX = 168
"""CloudWatch's alarms look at a week at most."""


@dataclass(frozen=True, slots=True)
class PipelineThresholds:
    """When the alarms fire."""

    lag_hours: float = 12
    """The age of the oldest record read within an hour. The default is half of the shortest possible retention."""
    silence_hours: int = 3
    """Hours without a successful run. A run reads to where the tip was at its start, so this is also the tables' age.
    It must be more than the schedule's longest gap and a run together."""

    def __post_init__(self) -> None:
        if not self.lag_hours > 0:
            raise SettingsError("lag_hours", self.lag_hours, "more than 0")
        if not 1 <= self.silence_hours <= SILENCE_HOURS_MAX:
            raise SettingsError("silence_hours", self.silence_hours, f"1 to {SILENCE_HOURS_MAX} (a week)")


@dataclass(frozen=True, slots=True)
class PipelineSubject:
    """What the alarms are about. application_id: EMR's; streams: as the setting has them; consumer: the application
    whose leases the pipeline takes part in, None without leases.
    """

    name: str
    streams: str
    application_id: str
    consumer: str | None = None

    def __str__(self) -> str:
        return f"Pipeline {self.name}, stream {self.streams}"

    def runs(self, *options: str) -> str:
        return " ".join(["aws emr-serverless list-job-runs --application-id", self.application_id, *options])

    def lag(self, stream: str) -> str:
        if self.consumer is None:
            return self.runs("--max-results 5")
        return Subject(self.consumer, stream).doctor()


@dataclass(frozen=True, slots=True)
class WatchedRuns:
    """`lagging`: by the name of the alarm, the stream whose lag it watches."""

    subject: PipelineSubject
    log: logs.ILogGroup
    lagging: Mapping[str, str]
    failed: events.IRule
    succeeded: events.IRule
    dead_letters: sqs.IQueue


def add_pipeline_alarms(
    scope: Construct, watched: WatchedRuns, at: PipelineThresholds, topic: sns.ITopic | None
) -> Mapping[str, cloudwatch.Alarm]:
    """Create the alarms. Each notifies `topic` when it fires and when it is over."""
    return create_alarms(scope, _specs(scope, watched, at), topic)


def _specs(scope: Construct, watched: WatchedRuns, at: PipelineThresholds) -> dict[str, AlarmSpec]:
    def text(when: str, first: str, then: str) -> str:
        return notification(scope, watched.subject, Told(when, first, then, watched.log))

    subject = watched.subject
    return {
        "RunFailed": AlarmSpec(
            _triggered(watched.failed, MINUTE),
            1,
            text(
                "a run of the pipeline has failed",
                subject.runs("--states FAILED", "--max-results 5"),
                "Nothing is lost and nothing is written twice: the next run continues from the checkpoint. The log has "
                "the reason, in the stderr of the run's driver; the queue of ended runs has the run's id too.",
            ),
        ),
        "RunsMissing": AlarmSpec(
            _triggered(watched.succeeded, HOUR),
            at.silence_hours,
            text(
                f"no run of the pipeline has succeeded for {at.silence_hours} hours, and its tables are as old",
                subject.runs("--max-results 5"),
                "Is the schedule enabled, does a run take longer than this alarm allows (silence_hours), or is one "
                "stuck? Records stay in the stream until its retention ends, so act before then.",
            ),
            below=True,
        ),
        **{
            name: _lagging(
                stream,
                at,
                text(
                    f"records of the stream {stream} were {at.lag_hours:g} hours old or older when they were read",
                    subject.lag(stream),
                    "It was the pipeline or another polling consumer of the stream: the metric covers all of them. "
                    "Normal for a first run from TRIM_HORIZON. Otherwise run more often, allow more executors, split "
                    "shards, or lengthen the retention.",
                ),
            )
            for name, stream in watched.lagging.items()
        },
        "DeadLetters": AlarmSpec(
            watched.dead_letters.metric_approximate_number_of_messages_visible(statistic="Maximum", period=MINUTE),
            1,
            text(
                "EventBridge Scheduler could not start a run",
                f"aws sqs receive-message --message-attribute-names All --queue-url {watched.dead_letters.queue_url}",
                "The message has EMR's answer in its attributes. Fix the cause, then purge the queue: a later run "
                "reads what this one would have.",
            ),
        ),
    }


def lag_of(scope: Construct, stream: kinesis.IStream | None, choice: StreamChoice | None) -> Mapping[str, str]:
    """One alarm for each stream that is known at synth. A warning says that the others have none: Kinesis' metric is by
    stream, and a query over it cannot select names by a pattern.
    """
    if stream is not None:
        return {"Lagging": stream.stream_name}
    selectors = choice.selectors if choice else ()
    if found := [each.what for each in selectors if each.exact_name is None]:
        Annotations.of(scope).add_warning_v2(
            "sublet:pipeline-lag",
            f"no alarm on the lag of streams that come by {', '.join(found)}: only those that are given by name or "
            "ARN have one. The alarms on runs that fail or are missing cover all of them.",
        )
    return {f"Lagging-{each.exact_name}": each.exact_name for each in selectors if each.exact_name}


def _lagging(stream_name: str, at: PipelineThresholds, text: str) -> AlarmSpec:
    return AlarmSpec(
        cloudwatch.Metric(
            namespace="AWS/Kinesis",
            metric_name="GetRecords.IteratorAgeMilliseconds",
            statistic="Maximum",
            period=HOUR,
            dimensions_map={"StreamName": stream_name},
        ),
        1,
        text,
        threshold=at.lag_hours * 3_600_000,
    )


def _triggered(rule: events.IRule, period: Duration) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/Events",
        metric_name="TriggeredRules",
        statistic="Sum",
        period=period,
        dimensions_map={"RuleName": rule.rule_name},
    )
