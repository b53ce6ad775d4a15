"""A consumer of several streams: its functions' settings, and what their roles may read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from aws_cdk.assertions import Annotations, Match, Template
from sublet.errors import SettingsError
from sublet_cdk.alarm_pace import AlarmThresholds
from sublet_cdk.kinesis_consumer import KinesisConsumer
from sublet_cdk.kinesis_consumer_service import KinesisConsumerService
from sublet_cdk.monitoring import ConsumerMonitoring

from tests.infra.apps import an_app, code_and_layer
from tests.infra.conftest import STREAM_ARN, Build
from tests.infra.test_least_privilege import allowed, by_duty, needed, of_service

STREAMS = "orders,audit-*@LATEST,tag:team=billing,arn:aws:kinesis:eu-central-1:210987654321:stream/theirs"
READS = {
    "kinesis:DescribeStreamSummary",
    "kinesis:GetRecords",
    "kinesis:GetShardIterator",
    "kinesis:ListShards",
}


Make = Callable[..., Template]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A consumer's template."""
    code, layer = code_and_layer(tmp_path_factory.mktemp("several"))

    def template_of(**given: Any) -> Template:
        stack = Stack(an_app(), "several")
        KinesisConsumer(
            stack,
            "Consumer",
            application="orders-audit",
            handler_code=code,
            handler="orders:handle",
            dependencies_layer=layer,
            deployment_check=False,
            **given,
        )
        return Template.from_stack(stack)

    return template_of


@pytest.fixture(scope="module")
def template(make: Make) -> Template:
    return make(streams=STREAMS, former_streams_wait="2h")


def statements(template: Template, role: str) -> Mapping[str, Mapping[str, Any]]:
    """By duty."""
    (found,) = [each for name, each in template.find_resources("AWS::IAM::Role").items() if role in name]
    return {
        policy["PolicyName"]: policy["PolicyDocument"]["Statement"][0] for policy in found["Properties"]["Policies"]
    }


def test_both_functions_get_streams_and_no_single_stream(template: Template) -> None:
    for name in ("LeaseManager", "LeaseWorker"):
        functions = template.find_resources("AWS::Lambda::Function")
        (function,) = [each for key, each in functions.items() if f"{name}" in key and "Check" not in key][:1]
        variables = function["Properties"]["Environment"]["Variables"]
        assert variables["SUBLET_STREAMS"] == STREAMS
        assert variables["SUBLET_FORMER_STREAMS_WAIT"] == "2h"
        assert not {"SUBLET_STREAM", "SUBLET_STREAM_ARN"} & variables.keys()


@pytest.mark.parametrize("role", ["LeaseManagerRole", "LeaseWorkerRole"])
def test_streams_are_read_by_name_pattern_and_arn_and_by_tag(template: Template, role: str) -> None:
    by_arn, by_tag = (statements(template, role)[duty] for duty in ("stream", "stream-by-tag-0"))
    assert set(by_arn["Action"]) == set(by_tag["Action"]) == READS
    names = [json.dumps(arn).rpartition("stream/")[2].strip('"]} ') for arn in by_arn["Resource"]]
    assert names == ["orders", "audit-*", "theirs"]
    assert by_tag["Condition"] == {"StringEquals": {"aws:ResourceTag/team": "billing"}}
    assert "stream/*" in json.dumps(by_tag["Resource"])


def test_lease_manager_alone_may_list_streams(template: Template) -> None:
    manager, worker = statements(template, "LeaseManagerRole"), statements(template, "LeaseWorkerRole")
    assert manager["streams"]["Action"] == "kinesis:ListStreams"
    assert manager["tags"]["Action"] == "tag:GetResources"
    assert not {"streams", "tags"} & worker.keys()


def test_lease_managers_permissions_are_those_of_its_calls(make: Make) -> None:
    """Of several streams, a manager makes the calls that find them, and all others as of one."""
    template = make(streams="orders,audit-*")
    found, wanted = (
        by_duty(allowed(template, "LeaseManagerRole")),
        of_service(needed("manager", "several"), ""),
    )
    assert {duty: actions for duty, actions in wanted.items() if duty != "tags"} == found


def test_stream_choice_without_tags_needs_no_tag_permission(make: Make) -> None:
    template = make(streams="orders")
    assert not {"tags", "stream-by-tag-0"} & statements(template, "LeaseManagerRole").keys()


def test_stream_and_streams_exclude_each_other(make: Make) -> None:
    with pytest.raises(SettingsError, match="required; or streams"):
        make()
    of_one = kinesis.Stream.from_stream_arn(Stack(an_app(), "one"), "Stream", STREAM_ARN)
    with pytest.raises(SettingsError, match="not allowed with streams"):
        make(streams="orders", stream=of_one)


def test_deployed_stack_takes_several_streams_and_creates_none(build: Build) -> None:
    """As by `sublet deploy --set streams=orders,audit-*`."""
    template = Template.from_stack(build({"stream_arn": None, "streams": "orders,audit-*"}))
    template.resource_count_is("AWS::Kinesis::Stream", 0)
    variables = Match.object_like({"SUBLET_STREAMS": "orders,audit-*"})
    template.has_resource_properties("AWS::Lambda::Function", {"Environment": {"Variables": variables}})


def test_a_service_of_several_streams(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("def handle(batch): ...\n")
    stack = Stack(an_app(), "several")
    of_several: dict[str, Any] = {"streams": ["orders", "audit-*"]}
    KinesisConsumerService(
        stack,
        "Orders",
        **of_several,
        application="orders-audit",
        handler_code=tmp_path,
        handler="orders:handle",
        vpc=ec2.Vpc(stack, "Network", max_azs=1),
    )
    template = Template.from_stack(stack)
    template.has_resource_properties(
        "AWS::ECS::TaskDefinition",
        {
            "ContainerDefinitions": Match.array_with(
                [
                    Match.object_like(
                        {"Environment": Match.array_with([{"Name": "SUBLET_STREAMS", "Value": "orders,audit-*"}])}
                    )
                ]
            )
        },
    )
    assert "kinesis:ListStreams" in json.dumps(statements(template, "TaskRole"))


def alarms(template: Template) -> Mapping[str, Any]:
    """Those of single streams, by name."""
    found = template.find_resources("AWS::CloudWatch::Alarm")
    by_name = {key.removeprefix("ConsumerAlarms")[:-8]: each["Properties"] for key, each in found.items()}
    return {name: alarm for name, alarm in by_name.items() if name.startswith("Stream")}


KINDS = ("StreamStalled", "StreamLagging", "StreamAtRisk")


def test_streams_chosen_by_name_have_alarms_whose_texts_name_them(make: Make) -> None:
    theirs = "arn:aws:kinesis:eu-central-1:210987654321:stream/theirs"
    found = alarms(make(streams=f"orders,{theirs}@LATEST"))
    assert found.keys() == {f"{kind}{stream}" for kind in KINDS for stream in ("orders", "theirs")}
    for name, alarm in found.items():
        stream = "orders" if name.endswith("orders") else "theirs"
        dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
        assert dimensions == {"application": "orders-audit", "stream": stream}
        text = json.dumps(alarm["AlarmDescription"])
        assert f"he stream {stream}" in text
        assert f"`sublet status --application orders-audit --stream {stream}`" in text
        assert "#dashboards/dashboard/orders-audit-sublet" in text
        assert alarm["TreatMissingData"] == "notBreaching"
    assert {name: found[f"{name}orders"]["MetricName"] for name in KINDS} == {
        "StreamStalled": "stream_stalled_age",
        "StreamLagging": "millis_behind_latest",
        "StreamAtRisk": "millis_behind_latest",
    }
    assert found["StreamAtRiskorders"]["Threshold"] == 12 * 3_600_000


@pytest.mark.parametrize("streams", [STREAMS, ",".join(f"stream-{n}" for n in range(21))])
def test_streams_that_have_to_be_found_have_one_alarm_of_a_kind_over_a_query(make: Make, streams: str) -> None:
    found = alarms(make(streams=streams))
    assert found.keys() == set(KINDS)
    for name, metric, function in (
        ("StreamStalled", "stream_stalled_age", "MAX"),
        ("StreamLagging", "millis_behind_latest", "MIN"),
        ("StreamAtRisk", "millis_behind_latest", "MAX"),
    ):
        alarm = found[name]
        (query,) = alarm["Metrics"]
        assert query["Expression"].split() == [
            *("SELECT", f"{function}({metric})", "FROM", 'SCHEMA("sublet",', "application,", "stream)"),
            *("WHERE", "application", "=", "'orders-audit'", "GROUP", "BY", "stream"),
            *("ORDER", "BY", f"{function}()", "DESC"),
        ]
        assert (query["Period"], query.get("ReturnData", True)) == (300, True)
        assert "describe-alarm-contributors" in json.dumps(alarm["AlarmDescription"])


def test_the_dashboard_shows_lag_by_stream(template: Template) -> None:
    (dashboard,) = template.find_resources("AWS::CloudWatch::Dashboard").values()
    body = json.dumps(dashboard["Properties"]["DashboardBody"])
    assert "{sublet,application,stream} MetricName=" in body
    assert "stream_stalled_age by stream" in body


def test_alarms_by_stream_can_be_left_out(make: Make) -> None:
    assert alarms(make(streams=STREAMS, alarm_thresholds=AlarmThresholds(by_stream=False))) == {}


def test_ticks_that_are_too_rare_for_a_query_are_said_at_synth() -> None:
    """And streams by name have their alarms all the same."""
    app = an_app()
    stack = Stack(app, "rare")
    at = AlarmThresholds(longest_gap=timedelta(hours=12))
    ConsumerMonitoring(stack, "Found", application="audit", streams="audit-*", alarm_thresholds=at)
    ConsumerMonitoring(stack, "Named", application="orders", streams="orders", alarm_thresholds=at)
    named = [key for key in Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm") if "Stream" in key]
    assert sorted(key.removeprefix("NamedAlarms")[:-8] for key in named) == sorted(f"{kind}orders" for kind in KINDS)
    (warning,) = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("no alarm Stream"))
    assert "no alarm StreamStalled and StreamLagging and StreamAtRisk" in str(warning.entry.data)
    assert warning.id == "/rare/Found"
