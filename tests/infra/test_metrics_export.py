"""`metrics_export=otlp` of the constructs: the permission, the environment, and the alarms that name a shard."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks
from sublet.errors import SettingsError
from sublet_cdk import ConsumerMonitoring, KinesisConsumer, KinesisConsumerService
from sublet_cdk.alarm_pace import AlarmThresholds, Pace
from sublet_cdk.promql import promql_alarms
from sublet_cdk.promql_constructs import CONTRIBUTORS

from tests.infra.apps import an_app, code_and_layer
from tests.infra.conftest import STREAM_ARN

TOPIC = "arn:aws:sns:eu-central-1:123456789012:alarms"
SENDING = {
    "Action": "cloudwatch:PutMetricData",
    "Condition": {"StringEqualsIfExists": {"cloudwatch:namespace": "sublet"}},
    "Effect": "Allow",
    "Resource": "*",
}
COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=a"}
ways = pytest.mark.parametrize("way", ["lambda", "fargate"])


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return code_and_layer(tmp_path_factory.mktemp("exporting"))


def made(way: str, code: tuple[Path, Path], app: App | None = None, **properties: Any) -> Stack:
    stack = Stack(app or an_app(), "exporting", env=Environment(region="eu-central-1", account="123456789012"))
    given: dict[str, Any] = {
        "application": "orders-audit",
        "stream": kinesis.Stream.from_stream_arn(stack, "Stream", STREAM_ARN),
        "handler_code": str(code[0]),
        "handler": "orders:handle",
        "monitoring": "lean",
        **properties,
    }
    if way == "lambda":
        KinesisConsumer(stack, "Audit", dependencies_layer=code[1], deployment_check=False, **given)
    else:
        if "worker_environment" in given:
            given["environment"] = given.pop("worker_environment")
        vpc = ec2.Vpc.from_vpc_attributes(
            stack, "Vpc", vpc_id="vpc-1", availability_zones=["a"], private_subnet_ids=["subnet-1"]
        )
        KinesisConsumerService(stack, "Audit", vpc=vpc, dependencies=code[1], **given)
    return stack


def statements(template: Template) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Of each role, by the role's id."""
    for name, role in template.find_resources("AWS::IAM::Role").items():
        for policy in role["Properties"].get("Policies", []):
            for statement in policy["PolicyDocument"]["Statement"]:
                yield name, statement


def sending(template: Template) -> list[str]:
    return sorted(name for name, each in statements(template) if "cloudwatch:PutMetricData" in json.dumps(each))


def promql(template: Template) -> dict[str, dict[str, Any]]:
    """The PromQL alarms, by their names in the definitions."""
    return {
        name.removeprefix("AuditAlarms")[:-8]: each["Properties"]
        for name, each in template.find_resources("AWS::CloudWatch::Alarm").items()
        if "EvaluationCriteria" in each["Properties"]
    }


@ways
def test_only_the_roles_that_send_metrics_may_and_by_default_none(way: str, code: tuple[Path, Path]) -> None:
    assert sending(Template.from_stack(made(way, code))) == []
    template = Template.from_stack(made(way, code, metrics_export="otlp"))
    assert len(sending(template)) == {"lambda": 2, "fargate": 1}[way]
    assert [each for _, each in statements(template) if "PutMetricData" in json.dumps(each)] == [SENDING] * len(
        sending(template)
    )


@ways
def test_metrics_for_a_collector_need_no_permission_and_have_no_promql_alarms(
    way: str, code: tuple[Path, Path]
) -> None:
    stack = made(way, code, metrics_export="otlp", worker_environment=COLLECTOR)
    template = Template.from_stack(stack)
    assert sending(template) == []
    assert promql(template) == {}
    assert "MetricsNotExported" in json.dumps(template.to_json())
    assert "http://collector:4318" in json.dumps(template.to_json())


@ways
def test_collector_that_a_process_would_not_start_with_is_refused(way: str, code: tuple[Path, Path]) -> None:
    name = "worker_environment" if way == "lambda" else "environment"
    wrong: dict[str, Any] = {name: {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"}}
    with pytest.raises(SettingsError, match=r"OTEL_EXPORTER_OTLP_ENDPOINT.*such as http://localhost:4318"):
        made(way, code, metrics_export="otlp", **wrong)


def test_manager_sends_its_metrics_where_the_worker_does(code: tuple[Path, Path]) -> None:
    more = {**COLLECTOR, "OTHER": "of the handler"}
    template = Template.from_stack(made("lambda", code, metrics_export="otlp", worker_environment=more))
    environments = {
        name: each["Properties"]["Environment"]["Variables"]
        for name, each in template.find_resources("AWS::Lambda::Function").items()
        if "Lease" in name
    }
    assert len(environments) == 2
    for name, variables in environments.items():
        assert variables["SUBLET_METRICS_EXPORT"] == "otlp"
        assert COLLECTOR.items() <= variables.items()
        assert ("OTHER" in variables) == ("LeaseWorker" in name)


@ways
@pytest.mark.parametrize("level", ["lean", "full"])
def test_alarms_that_name_a_shard_are_beside_the_classic_ones(way: str, level: str, code: tuple[Path, Path]) -> None:
    stack = made(way, code, monitoring=level)
    before = Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm").keys()
    topic = sns.Topic.from_topic_arn(Stack(an_app(), "other"), "Topic", TOPIC)
    template = Template.from_stack(made(way, code, monitoring=level, metrics_export="otlp", alarm_topic=topic))
    found = template.find_resources("AWS::CloudWatch::Alarm")
    assert found.keys() > before
    defined = {
        each.name: each for each in promql_alarms(Pace(), AlarmThresholds(), "orders-audit", on_lambda=way == "lambda")
    }
    assert promql(template).keys() == defined.keys()
    assert len(found) == len(before) + len(defined) + 1, "and one on requests that fail"
    for name, properties in promql(template).items():
        alarm = defined[name]
        assert properties["EvaluationCriteria"] == {
            "PromQLCriteria": {
                "Query": alarm.query,
                "PendingPeriod": alarm.pending.total_seconds(),
                "RecoveryPeriod": alarm.recovery.total_seconds(),
            }
        }
        assert properties["EvaluationInterval"] == 60
        assert properties["AlarmActions"] == properties["OKActions"] == [TOPIC]
        assert "orders-audit" in json.dumps(properties["AlarmDescription"])


def test_notification_says_where_the_shard_is_named(code: tuple[Path, Path]) -> None:
    alarms = promql(Template.from_stack(made("lambda", code, metrics_export="otlp")))
    text = json.dumps(alarms["StandstillByShard"]["AlarmDescription"])
    assert "orders-audit, stream orders: records wait in a shard" in text
    assert CONTRIBUTORS.strip() in text
    assert "sublet doctor --application orders-audit --stream orders" in text


def test_an_older_cdk_gets_the_same_resources(code: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    topic = sns.Topic.from_topic_arn(Stack(an_app(), "other"), "Topic", TOPIC)
    newer = promql(Template.from_stack(made("lambda", code, metrics_export="otlp", alarm_topic=topic)))
    monkeypatch.delattr(cloudwatch, "PromQLAlarm")
    older = promql(Template.from_stack(made("lambda", code, metrics_export="otlp", alarm_topic=topic)))
    assert [*older] == [*newer]
    for name, properties in older.items():
        assert properties == newer[name]


def test_queries_keep_cloudwatchs_limits() -> None:
    """Of AlarmPromQLCriteria: 10,000 characters, periods of a day. With the longest name, and ticks a day apart."""
    for minutes in (1, 24 * 60):
        pace = Pace(minutes * Pace().gap)
        for alarm in promql_alarms(pace, AlarmThresholds(), "a" * 64, on_lambda=True):
            assert len(alarm.query) <= 10_000
            assert 0 <= alarm.pending.total_seconds() <= 86_400
            assert 0 <= alarm.recovery.total_seconds() <= 86_400


@ways
def test_exporting_deployment_passes_cdk_nag(way: str, code: tuple[Path, Path]) -> None:
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    made(way, code, app, metrics_export="otlp")
    app.synth()


def test_role_of_ones_own_gets_the_permission(code: tuple[Path, Path]) -> None:
    stack = Stack(an_app(), "roles", env=Environment(region="eu-central-1", account="123456789012"))
    role = iam.Role(stack, "Own", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    KinesisConsumer(
        stack,
        "Audit",
        application="orders-audit",
        stream=kinesis.Stream.from_stream_arn(stack, "Stream", STREAM_ARN),
        handler_code=str(code[0]),
        handler="orders:handle",
        monitoring="lean",
        metrics_export="otlp",
        worker_role=role,
        dependencies_layer=code[1],
        deployment_check=False,
    )
    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy").values()
    assert any(SENDING in each["Properties"]["PolicyDocument"]["Statement"] for each in policies)


def test_isolated_network_needs_an_endpoint_for_the_metrics(code: tuple[Path, Path]) -> None:
    app = an_app()
    stack = Stack(app, "closed")
    subnets = [ec2.SubnetConfiguration(name="closed", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)]
    vpc = ec2.Vpc(stack, "Network", nat_gateways=0, subnet_configuration=subnets)
    vpc.add_interface_endpoint("Kinesis", service=ec2.InterfaceVpcEndpointAwsService.KINESIS_STREAMS)
    vpc.add_gateway_endpoint("DynamoDb", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
    consumer = KinesisConsumer(
        stack,
        "Audit",
        application="orders-audit",
        stream=kinesis.Stream.from_stream_arn(stack, "Stream", STREAM_ARN),
        handler_code=str(code[0]),
        handler="orders:handle",
        monitoring="lean",
        metrics_export="otlp",
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
        dependencies_layer=code[1],
        deployment_check=False,
    )
    assert any("monitoring" in problem for problem in consumer.node.validate())
    vpc.add_interface_endpoint("Metrics", service=ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING)
    assert consumer.node.validate() == []


@pytest.mark.parametrize(("collector", "count"), [(False, 5), (True, 0)])
def test_process_that_exports_has_alarms_by_its_monitoring(collector: bool, count: int) -> None:
    stack = Stack(an_app(), "process")
    monitoring = ConsumerMonitoring(
        stack, "Monitoring", application="orders-audit", monitoring="lean", metrics_export="otlp", collector=collector
    )
    assert len(monitoring.promql_alarms) == count
    assert "MetricsNotExported" in monitoring.alarms


def test_an_unknown_export_is_refused() -> None:
    with pytest.raises(SettingsError, match="metrics_export = 'prometheus': one of emf, otlp"):
        ConsumerMonitoring(Stack(an_app(), "process"), "Monitoring", application="a", metrics_export="prometheus")
