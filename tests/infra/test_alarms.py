"""What the alarms watch, when they fire, what silence means to them, and that the dashboard shows every
metric.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sublet
from aws_cdk import App
from aws_cdk.assertions import Template
from sublet.metric_names import Metric, Per
from sublet_cdk.alarms import MATH_ALARMS_FLAG, AlarmThresholds
from sublet_cdk.dashboard import FLEET, PER_SHARD

from tests.infra.conftest import Build

ABOVE, AT_OR_BELOW = "GreaterThanThreshold", "LessThanOrEqualToThreshold"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:alarms"

Expected = tuple[str, str, str, str, int, int]
"""Namespace, metric, statistic, comparison, threshold, minutes."""

EXPECTED: dict[str, Expected] = {
    "Lagging": ("sublet", "millis_behind_latest", "Minimum", ABOVE, 0, 15),
    "UnclaimedLeases": ("sublet", "unclaimed_leases", "Minimum", ABOVE, 0, 15),
    "WorkersGone": ("sublet", "worker_leases", "Sum", AT_OR_BELOW, 0, 15),
    "DataGap": ("sublet", "data_gap", "Sum", ABOVE, 0, 1),
    "HandlerCrashing": ("sublet", "crashing_leases", "Maximum", ABOVE, 0, 1),
    "MalformedRows": ("sublet", "malformed_rows", "Maximum", ABOVE, 0, 1),
    "HandlerFailing": ("sublet", "handler_failures", "Sum", ABOVE, 0, 5),
    "HandlerStuck": ("sublet", "handler_attempts", "Maximum", ABOVE, 20, 1),
    "RecordsSetAside": ("sublet", "records_set_aside", "Sum", ABOVE, 0, 1),
    "DestinationRefuses": ("sublet", "destination_refusals", "Sum", ABOVE, 0, 1),
    "WorkerCrashing": ("AWS/Lambda", "Errors", "Sum", ABOVE, 0, 3),
    "WorkerThrottled": ("AWS/Lambda", "Throttles", "Sum", ABOVE, 0, 15),
    "ManagerFailing": ("AWS/Lambda", "Errors", "Sum", ABOVE, 0, 3),
    "TicksMissing": ("AWS/Lambda", "Invocations", "Sum", AT_OR_BELOW, 0, 15),
    "DeadLetters": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", ABOVE, 0, 1),
    "ExecutionsFailing": ("AWS/States", "ExecutionsFailed", "Sum", ABOVE, 0, 1),
}


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
    assert alarm["Period"] == 60
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


def test_these_are_all_of_them(template: Template) -> None:
    assert set(alarms_of(template)) == {*EXPECTED, "HotShard", "LeasesMissing"}


def test_silence_is_bad_for_the_alarms_on_silence_alone(template: Template) -> None:
    breaching = {
        name for name, alarm in alarms_of(template).items() if alarm["TreatMissingData"] == "breaching"
    }
    assert breaching == {"WorkersGone", "TicksMissing"}


def test_each_says_what_to_do_and_tells_the_topic_when_it_begins_and_ends(template: Template) -> None:
    descriptions = [alarm["AlarmDescription"] for alarm in alarms_of(template).values()]
    assert len(set(descriptions)) == len(descriptions)
    assert all(100 < len(text) < 1024 for text in descriptions)
    assert all(
        alarm["AlarmActions"] == alarm["OKActions"] == [TOPIC] for alarm in alarms_of(template).values()
    )


def test_metric_math_can_be_switched_off_for_emulators(build: Build) -> None:
    template = Template.from_stack(build({}, App(context={MATH_ALARMS_FLAG: "false"})))
    assert set(alarms_of(template)) == set(EXPECTED)
    assert all("AlarmActions" not in alarm for alarm in alarms_of(template).values())


def test_thresholds_are_the_users_to_choose(build: Build) -> None:
    thresholds = AlarmThresholds(lag_millis=60_000, lag_minutes=5, silence_minutes=30)
    alarms = alarms_of(Template.from_stack(build(alarm_thresholds=thresholds)))
    assert (alarms["Lagging"]["Threshold"], alarms["Lagging"]["EvaluationPeriods"]) == (60_000, 5)
    assert alarms["TicksMissing"]["EvaluationPeriods"] == alarms["WorkersGone"]["EvaluationPeriods"] == 30


def test_every_metric_is_put_by_the_engine() -> None:
    engine = Path(sublet.__file__).parent / "engine"
    put = {name for file in engine.glob("*.py") for name in re.findall(r"\bMetric\.(\w+)", file.read_text())}
    assert put == {metric.name for metric in Metric}


def test_each_metric_of_a_shard_has_a_graph_by_shard() -> None:
    assert set(PER_SHARD) == {metric for metric in Metric if metric.per is Per.SHARD}


def test_the_dashboard_shows_every_metric_and_every_alarm(template: Template) -> None:
    assert {name for metrics in FLEET.values() for name in metrics} == set(Metric)
    (dashboard,) = template.find_resources("AWS::CloudWatch::Dashboard").values()
    assert dashboard["Properties"]["DashboardName"] == "orders-audit-sublet"
    body = json.dumps(dashboard["Properties"]["DashboardBody"])
    for metric in Metric:
        assert metric in body
    for name in alarms_of(template):
        assert f"ConsumerAlarms{name}" in body
