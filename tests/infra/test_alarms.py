"""The alarms watch the right metrics, fire when they should, and treat missing data as intended; the dashboard shows
every metric.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sublet
from aws_cdk import Duration, Environment, Stack
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template
from sublet.errors import SettingsError
from sublet.metric_names import Metric, MetricScope
from sublet.operate.rules.prices import ALARMED_METRICS
from sublet_cdk.alarm_pace import AlarmThresholds, Pace, gap_of
from sublet_cdk.alarms import MATH_ALARMS_FLAG
from sublet_cdk.dashboard import FLEET, PER_SHARD, PER_STREAM
from sublet_cdk.monitoring import ConsumerMonitoring

from tests.infra.apps import an_app
from tests.infra.conftest import Build

ABOVE, AT_OR_BELOW = "GreaterThanThreshold", "LessThanOrEqualToThreshold"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:alarms"

Expected = tuple[str, str, str, str, float, int]
"""Namespace, metric, statistic, comparison, threshold, periods of five minutes."""

STALL, UNREAD = 6 * 60_000, 4.5 * 60_000

EXPECTED: dict[str, Expected] = {
    "ShardUnread": ("sublet", "unread_age", "Maximum", ABOVE, UNREAD, 1),
    "OwnerStalled": ("sublet", "owner_stalled_age", "Maximum", ABOVE, STALL, 1),
    "ShardStalled": ("sublet", "checkpoint_age", "Maximum", ABOVE, STALL, 3),
    "HandlerHanging": ("sublet", "handler_call_age", "Maximum", ABOVE, STALL, 3),
    "BatchesUnfinished": ("sublet", "oldest_unfinished_age", "Maximum", ABOVE, STALL, 3),
    "HandlerFailing": ("sublet", "handler_failures", "Sum", ABOVE, 1, 2),
    "HandlerStuck": ("sublet", "handler_attempts", "Maximum", ABOVE, 20, 1),
    "RecordsSetAside": ("sublet", "records_set_aside", "Sum", ABOVE, 0, 1),
    "DestinationRefuses": ("sublet", "destination_refusals", "Sum", ABOVE, 0, 1),
    "ReadsRefused": ("sublet", "reads_refused", "Sum", ABOVE, 0, 2),
    "LeasesFailing": ("sublet", "leases_failed", "Sum", ABOVE, 0, 2),
    "PollsThrottled": ("sublet", "throttled_polls", "Maximum", ABOVE, 10, 2),
    "Lagging": ("sublet", "millis_behind_latest", "Minimum", ABOVE, 0, 3),
    "UnclaimedLeases": ("sublet", "unclaimed_leases", "Minimum", ABOVE, 0, 2),
    "DataGap": ("sublet", "data_gap", "Sum", ABOVE, 0, 1),
    "HandlerCrashing": ("sublet", "crashing_leases", "Maximum", ABOVE, 0, 1),
    "MalformedRows": ("sublet", "malformed_rows", "Maximum", ABOVE, 0, 1),
    "WorkerCrashing": ("AWS/Lambda", "Errors", "Sum", ABOVE, 0, 2),
    "WorkerThrottled": ("AWS/Lambda", "Throttles", "Sum", ABOVE, 0, 2),
    "ManagerFailing": ("AWS/Lambda", "Errors", "Sum", ABOVE, 0, 2),
    "DeadLetters": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", ABOVE, 0, 1),
    "ExecutionsFailing": ("AWS/States", "ExecutionsFailed", "Sum", ABOVE, 0, 1),
}

SILENCE: dict[str, Expected] = {
    "WorkersGone": ("sublet", "worker_leases", "Sum", AT_OR_BELOW, 0, 2),
    "TicksMissing": ("AWS/Lambda", "Invocations", "Sum", AT_OR_BELOW, 0, 2),
}
SILENT_IF = {"WorkersGone": "FILL(held, 0) + FILL(quiet, 0)", "TicksMissing": "FILL(figure, 0)"}
"""With missing data filled with zero, by metric math."""

ONE_IS_ENOUGH = {"ShardStalled", "HandlerHanging", "BatchesUnfinished"}
"""Of three."""

ON_MATH = {"HotShard", "LeasesMissing"}


def alarms_of(template: Template) -> dict[str, Any]:
    found = template.find_resources("AWS::CloudWatch::Alarm")
    return {key.removeprefix("ConsumerAlarms")[:-8]: alarm["Properties"] for key, alarm in found.items()}


@pytest.fixture(scope="module")
def template(build: Build) -> Template:
    return Template.from_stack(build({"alarm_topic_arn": TOPIC}))


@pytest.mark.parametrize("name", EXPECTED)
def test_an_alarm_watches_one_metric(template: Template, name: str) -> None:
    alarm = alarms_of(template)[name]
    assert (
        alarm["Namespace"],
        alarm["MetricName"],
        alarm["Statistic"],
        alarm["ComparisonOperator"],
        alarm["Threshold"],
        alarm["EvaluationPeriods"],
    ) == EXPECTED[name]
    assert alarm["Period"] == 300
    assert alarm["DatapointsToAlarm"] == (1 if name in ONE_IS_ENOUGH else alarm["EvaluationPeriods"])
    if alarm["Namespace"] == "sublet":
        assert alarm["Dimensions"] == [{"Name": "application", "Value": "orders-audit"}]


@pytest.mark.parametrize(
    ("name", "expression", "threshold"),
    [("HotShard", "IF(busiest > 6000000, busiest / average, 0)", 4), ("LeasesMissing", "shards - leases", 0)],
)
def test_an_alarm_on_metric_math(template: Template, name: str, expression: str, threshold: float) -> None:
    alarm = alarms_of(template)[name]
    (math,) = [query for query in alarm["Metrics"] if "Expression" in query]
    assert math["Expression"] == expression
    assert alarm["Threshold"] == threshold
    assert alarm["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("name", SILENCE)
def test_silence_alarms_fill_missing_periods_with_zero(template: Template, name: str) -> None:
    """CloudWatch uses older periods before it counts a missing one as bad: an alarm would fire twice as late."""
    alarm = alarms_of(template)[name]
    (math,) = [query for query in alarm["Metrics"] if "Expression" in query]
    stat, *more = [query["MetricStat"] for query in alarm["Metrics"] if "MetricStat" in query]
    assert [each["Metric"]["MetricName"] for each in more] == ["quiet_leases"] * (name == "WorkersGone")
    assert math["Expression"] == SILENT_IF[name]
    assert (
        stat["Metric"]["Namespace"],
        stat["Metric"]["MetricName"],
        stat["Stat"],
        alarm["ComparisonOperator"],
        alarm["Threshold"],
        alarm["EvaluationPeriods"],
    ) == SILENCE[name]
    assert stat["Period"] == 300


def test_each_metric_of_an_alarm_is_priced(template: Template) -> None:
    stats = [
        [query for query in alarm.get("Metrics", ()) if "MetricStat" in query] for alarm in alarms_of(template).values()
    ]
    assert sum(len(queries) or 1 for queries in stats) == ALARMED_METRICS


def test_alarms_are_the_expected_ones(template: Template) -> None:
    assert set(alarms_of(template)) == EXPECTED.keys() | SILENCE.keys() | ON_MATH


def test_silence_is_bad_for_the_alarms_on_silence_alone(template: Template) -> None:
    breaching = {name for name, alarm in alarms_of(template).items() if alarm["TreatMissingData"] == "breaching"}
    assert breaching == SILENCE.keys()


def test_alarm_says_what_to_do_and_notifies_the_topic_at_its_begin_and_end(template: Template) -> None:
    descriptions = [json.dumps(alarm["AlarmDescription"]) for alarm in alarms_of(template).values()]
    assert len(set(descriptions)) == len(descriptions)
    assert all(100 < len(text) < 1024 for text in descriptions)
    assert all(alarm["AlarmActions"] == alarm["OKActions"] == [TOPIC] for alarm in alarms_of(template).values())


def test_metric_math_can_be_switched_off_for_emulators(build: Build) -> None:
    template = Template.from_stack(build({}, an_app(context={MATH_ALARMS_FLAG: "false"})))
    assert set(alarms_of(template)) == EXPECTED.keys() | SILENCE.keys()
    assert alarms_of(template)["TicksMissing"]["MetricName"] == "Invocations"
    assert all("AlarmActions" not in alarm for alarm in alarms_of(template).values())


def test_thresholds_are_the_users_to_choose(build: Build) -> None:
    thresholds = AlarmThresholds(lag_millis=60_000, lag_minutes=5, silence_minutes=30, stall_minutes=20)
    alarms = alarms_of(Template.from_stack(build(alarm_thresholds=thresholds)))
    assert (alarms["Lagging"]["Threshold"], alarms["Lagging"]["EvaluationPeriods"]) == (60_000, 2)
    assert alarms["TicksMissing"]["EvaluationPeriods"] == alarms["WorkersGone"]["EvaluationPeriods"] == 6
    assert alarms["ShardStalled"]["Threshold"] == 20 * 60_000


@pytest.mark.parametrize(
    ("schedule", "given", "period", "stall_minutes"),
    [
        ("rate(5 minutes)", None, 6, 6),
        ("rate(1 hour)", None, 72, 72),
        ("cron(0/10 * * * ? *)", None, 12, 12),
        ("cron(0 6 * * ? *)", None, 1440, 1728),
        ("cron(0 6,18 * * ? *)", timedelta(hours=12), 864, 864),
    ],
)
def test_periods_follow_the_ticks(
    build: Build, schedule: str, given: timedelta | None, period: int, stall_minutes: float
) -> None:
    """So that each period contains a tick."""
    thresholds = AlarmThresholds(longest_gap=given)
    alarms = alarms_of(Template.from_stack(build({"tick": schedule}, alarm_thresholds=thresholds)))
    assert {alarm["Period"] for alarm in alarms.values() if "Period" in alarm} == {period * 60}
    assert alarms["ShardStalled"]["Threshold"] == stall_minutes * 60_000


def test_ticks_further_apart_than_a_day_are_no_pace_that_alarms_can_follow() -> None:
    with pytest.raises(SettingsError, match="longest_gap"):
        Pace(timedelta(days=2))
    assert gap_of("rate(2 days)") == timedelta(days=1)


def test_every_metric_is_put_by_the_engine_or_a_process() -> None:
    library = Path(sublet.__file__).parent
    files = [*(library / "engine").rglob("*.py"), library / "runtimes" / "process.py"]
    files.append(library / "aws" / "otlp" / "exported_metrics.py")
    put = {name for file in files for name in re.findall(r"\bMetric\.(\w+)", file.read_text())}
    assert put == {metric.name for metric in Metric if metric is not Metric.STANDSTILL_AGE}, (
        "that is put in place of others"
    )


def test_each_metric_of_a_shard_has_a_graph_by_shard() -> None:
    assert set(PER_SHARD) == {metric for metric in Metric if metric.per is MetricScope.SHARD}


def test_the_dashboard_shows_every_metric_and_every_alarm(template: Template) -> None:
    of_several = {metric for metric in Metric if metric.per is MetricScope.STREAM}
    of_application = set(Metric) - of_several - {Metric.STANDSTILL_AGE}
    assert {name for metrics in FLEET.values() for name in metrics} == of_application
    assert of_several <= PER_STREAM.keys()
    (dashboard,) = template.find_resources("AWS::CloudWatch::Dashboard").values()
    assert dashboard["Properties"]["DashboardName"] == "orders-audit-sublet"
    body = json.dumps(dashboard["Properties"]["DashboardBody"])
    for metric in of_application:
        assert metric in body
    for name in alarms_of(template):
        assert f"ConsumerAlarms{name}" in body


def test_hot_shard_alarm_links_to_a_dashboard_that_names_the_shard(template: Template) -> None:
    """The alarm's text has a link to the dashboard, and the dashboard lists what the lease manager's log names."""
    (body,) = [
        each["Properties"]["DashboardBody"] for each in template.find_resources("AWS::CloudWatch::Dashboard").values()
    ]
    text = json.dumps(alarms_of(template)["HotShard"]["AlarmDescription"])
    assert "#dashboards/dashboard/orders-audit-sublet" in text
    assert "console.aws.amazon.com/cloudwatch/home?region=" in text
    assert "'a shard is hot'" in text
    widgets = json.dumps(body)
    assert "filter message = 'a shard is hot'" in widgets
    logged = (Path(sublet.__file__).parent / "engine" / "manager" / "busy_shards.py").read_text()
    assert '"a shard is hot"' in logged
    for field in ("shard_id", "share_of_quota", "times_the_average", "command"):
        assert f"{field}=" in logged
        assert field in widgets
    assert [name for name in template.find_resources("AWS::Logs::LogGroup") if name in widgets]


QUEUE = "arn:aws:sqs:eu-central-1:123456789012:given-up"
DAY = 24 * 3600


def forgotten(template: Template) -> dict[str, Any] | None:
    return alarms_of(template).get("SetAsideForgotten")


def test_a_queue_of_failed_records_has_an_alarm_before_it_deletes_them(build: Build) -> None:
    """SQS keeps messages for four days unless it is told otherwise."""
    alarm = forgotten(Template.from_stack(build(on_failure=QUEUE, maximum_retry_attempts=3)))
    assert alarm is not None
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "ApproximateAgeOfOldestMessage")
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": "given-up"}]
    assert (alarm["Threshold"], alarm["EvaluationPeriods"]) == (3 * DAY, 1)
    assert "for 3 days, and their queue deletes them after 4 days" in json.dumps(alarm["AlarmDescription"])


@pytest.mark.parametrize(("given", "days"), [({"retention_period": Duration.days(14)}, 10.5), ({}, 3)])
def test_the_alarm_knows_how_long_a_queue_of_the_app_keeps_them(
    build: Build, given: dict[str, Any], days: float
) -> None:
    app = an_app()
    queue = sqs.Queue(Stack(app, "queues"), "GivenUp", **given)
    alarm = forgotten(Template.from_stack(build({}, app, on_failure=queue, maximum_retry_attempts=3)))
    assert alarm is not None
    assert alarm["Threshold"] == days * DAY


@pytest.mark.parametrize(
    ("arn", "has_alarm"),
    [
        ("arn:aws:sqs:eu-central-1:123456789012:given-up", True),
        ("arn:aws:sqs:us-east-1:123456789012:given-up", False),
        ("arn:aws:sqs:eu-central-1:210987654321:given-up", False),
        ("arn:aws:sns:eu-central-1:123456789012:given-up", False),
        ("arn:aws:s3:::given-up/aside", False),
    ],
)
def test_set_aside_alarm_exists_only_for_a_queue_of_this_account_and_region(arn: str, has_alarm: bool) -> None:
    here = Environment(account="123456789012", region="eu-central-1")
    stack = Stack(an_app(), "here", env=here)
    ConsumerMonitoring(stack, "Monitoring", application="orders-audit", on_failure=arn)
    found = Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm")
    assert any("SetAsideForgotten" in name for name in found) is has_alarm
