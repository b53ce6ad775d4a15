"""`monitoring` and `dashboard_name` of each construct: what an application's second deployment has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from constructs import Construct
from sublet.errors import SettingsError
from sublet_cdk import AlarmThresholds, ConsumerMonitoring, KinesisConsumer, KinesisConsumerService, SparkPipeline
from sublet_cdk.monitoring_level import MonitoringLevel

from tests.infra.apps import an_app, code_and_layer
from tests.infra.conftest import STREAM_ARN, Build

ACCOUNT, OTHER_ACCOUNT = "123456789012", "210987654321"
EU, US = "eu-central-1", "us-east-1"


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    code, layer = code_and_layer(tmp_path_factory.mktemp("monitored"))
    for package in ("pyarrow", "deltalake", "arro3"):  # what a pipeline's dependencies are known by
        (layer / package).mkdir()
        (layer / package / "__init__.py").write_text("")
    return code, layer


class Parts:
    """Constructs of the application orders-audit, each in a stack of an app."""

    def __init__(self, code: tuple[Path, Path]) -> None:
        self.code, self.layer = code
        self.given: dict[str, Any] = {
            "application": "orders-audit",
            "handler_code": str(self.code),
            "handler": "orders:handle",
        }

    def on_lambda(self, stack: Stack, **properties: Any) -> KinesisConsumer:
        return KinesisConsumer(
            stack, "Lambda", stream=_stream(stack), dependencies_layer=self.layer, **self.given, **properties
        )

    def on_fargate(self, stack: Stack, **properties: Any) -> KinesisConsumerService:
        vpc = _vpc(stack)
        return KinesisConsumerService(
            stack, "Tasks", stream=_stream(stack), vpc=vpc, dependencies=self.layer, **self.given, **properties
        )

    def on_spark(self, stack: Stack, **properties: Any) -> SparkPipeline:
        bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "lake")
        return SparkPipeline(
            stack,
            "Spark",
            name="lake",
            stream=_stream(stack),
            bucket=bucket,
            vpc=_vpc(stack),
            dependencies=self.layer,
            **properties,
        )

    def alone(self, stack: Stack, **properties: Any) -> ConsumerMonitoring:
        return ConsumerMonitoring(stack, "Monitoring", application="orders-audit", **properties)


def _stream(stack: Stack) -> kinesis.IStream:
    arn = STREAM_ARN if "*" in stack.region or stack.region == EU else STREAM_ARN.replace(EU, stack.region)
    return kinesis.Stream.from_stream_arn(stack, "Stream", STREAM_ARN if "${" in arn else arn)


def _vpc(stack: Stack) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-12345678", availability_zones=["a"], private_subnet_ids=["subnet-12345671"]
    )


@pytest.fixture
def parts(code: tuple[Path, Path]) -> Parts:
    return Parts(code)


def in_region(app: App, region: str | None, account: str | None = ACCOUNT, name: str = "") -> Stack:
    return Stack(app, name or f"in-{region}-{account}", env=Environment(region=region, account=account))


def dashboards(*stacks: Stack) -> list[str]:
    found = [Template.from_stack(stack).find_resources("AWS::CloudWatch::Dashboard").values() for stack in stacks]
    return [each["Properties"]["DashboardName"] for made in found for each in made]


def test_an_application_in_a_second_region_of_the_account_has_a_dashboard_of_another_name(parts: Parts) -> None:
    app = an_app()
    stacks = [in_region(app, EU), in_region(app, US)]
    for stack in stacks:
        parts.on_lambda(stack)
    assert dashboards(*stacks) == ["orders-audit-sublet", "orders-audit-sublet-us-east-1-lambda"]


def test_alarms_of_a_second_region_link_to_their_own_dashboard(parts: Parts) -> None:
    app = an_app()
    parts.on_lambda(in_region(app, EU))
    second = in_region(app, US)
    parts.on_lambda(second)
    described = [
        each["Properties"]["AlarmDescription"]
        for each in Template.from_stack(second).find_resources("AWS::CloudWatch::Alarm").values()
    ]
    linked = [str(text) for text in described if "#dashboards" in str(text)]
    assert linked
    assert all("dashboard/orders-audit-sublet-us-east-1-lambda" in text for text in linked)


def test_a_service_beside_the_lambda_stack_has_a_dashboard_of_another_name(parts: Parts) -> None:
    stack = in_region(an_app(), EU)
    first = parts.on_lambda(stack)
    KinesisConsumerService(
        stack,
        "Tasks",
        stream=first.stream,
        vpc=_vpc(stack),
        lease_table=first.lease_table,
        sightings_table=first.sightings_table,
        dependencies=parts.layer,
        **parts.given,
    )
    assert dashboards(stack) == ["orders-audit-sublet", "orders-audit-sublet-eu-central-1-fargate"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((EU, ACCOUNT), (EU, OTHER_ACCOUNT)),
        ((EU, ACCOUNT), (US, OTHER_ACCOUNT)),
        ((None, None), (None, None)),
        ((EU, None), (EU, None)),
    ],
)
def test_stacks_that_may_have_been_deployed_to_two_accounts_keep_the_name_they_have(
    parts: Parts, first: tuple[str | None, str | None], second: tuple[str | None, str | None]
) -> None:
    app = an_app()
    stacks = [in_region(app, *first, name="development"), in_region(app, *second, name="production")]
    for stack in stacks:
        parts.alone(stack)
    assert dashboards(*stacks) == ["orders-audit-sublet"] * 2


def test_another_application_has_its_own_dashboard(parts: Parts) -> None:
    stack = in_region(an_app(), EU)
    parts.on_lambda(stack)
    ConsumerMonitoring(stack, "Other", application="orders.billing")
    assert sorted(dashboards(stack)) == ["orders-audit-sublet", "orders_billing-sublet"]


def test_a_dashboard_gets_the_name_that_is_stated(parts: Parts) -> None:
    stack = in_region(an_app(), EU)
    consumer = parts.on_lambda(stack, dashboard_name="orders-audit-eu")
    assert dashboards(stack) == ["orders-audit-eu"]
    assert "DashboardName" in consumer.names()


@pytest.mark.parametrize("name", ["orders audit", "", "a" * 256])
def test_a_name_that_cloudwatch_allows_no_dashboard_is_refused(parts: Parts, name: str) -> None:
    with pytest.raises(SettingsError, match="dashboard_name"):
        parts.alone(in_region(an_app(), EU), dashboard_name=name)


Make = Callable[..., Construct]
WAYS = ["on_lambda", "on_fargate", "on_spark", "alone"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stated", [False, "none", MonitoringLevel.NONE])
def test_monitoring_none_makes_neither_alarms_nor_a_dashboard(parts: Parts, way: str, stated: Any) -> None:
    stack = in_region(an_app(), EU)
    made: Any = getattr(parts, way)(stack, monitoring=stated)
    template = Template.from_stack(stack)
    template.resource_count_is("AWS::CloudWatch::Alarm", 0)
    template.resource_count_is("AWS::CloudWatch::Dashboard", 0)
    assert made.alarms == {}


@pytest.mark.parametrize("way", WAYS)
def test_monitoring_full_is_the_default(parts: Parts, way: str) -> None:
    def template(**properties: Any) -> dict[str, Any]:
        stack = in_region(an_app(), EU)
        getattr(parts, way)(stack, **properties)
        return dict(Template.from_stack(stack).to_json()["Resources"])

    by_default = template()
    assert template(monitoring="full") == by_default
    assert template(monitoring=True) == by_default
    assert any(each["Type"] == "AWS::CloudWatch::Alarm" for each in by_default.values())


@pytest.mark.parametrize("way", WAYS)
def test_another_level_of_monitoring_is_refused_by_name(parts: Parts, way: str) -> None:
    with pytest.raises(SettingsError, match="monitoring = 'loud': one of full, none"):
        getattr(parts, way)(in_region(an_app(), EU), monitoring="loud")


@pytest.mark.parametrize("way", WAYS)
def test_a_topic_without_alarms_is_refused(parts: Parts, way: str) -> None:
    stack = in_region(an_app(), EU)
    with pytest.raises(SettingsError, match="alarm_topic"):
        getattr(parts, way)(stack, monitoring="none", alarm_topic=sns.Topic(stack, "Topic"))


def test_thresholds_without_alarms_are_refused(parts: Parts) -> None:
    with pytest.raises(SettingsError, match="alarm_thresholds"):
        parts.alone(in_region(an_app(), EU), monitoring="none", alarm_thresholds=AlarmThresholds())


def test_without_monitoring_the_metrics_can_still_be_watched(parts: Parts) -> None:
    """A service's number of tasks follows the lag, and a user may have alarms of their own."""
    stack = in_region(an_app(), EU)
    service = parts.on_fargate(stack, monitoring=False)
    service.metric_lag().create_alarm(stack, "Mine", threshold=1, evaluation_periods=1)
    Template.from_stack(stack).resource_count_is("AWS::CloudWatch::Alarm", 1)
    assert "DashboardName" not in service.names()
    with pytest.raises(SettingsError, match="for a dashboard"):
        _ = service.dashboard


def test_a_deployment_without_alarms_waits_for_no_metrics(build: Build) -> None:
    """Its check still prompts the first tick, by the metrics of one that has been."""
    (properties,) = _checks(build({"monitoring": "none"}))
    (watching,) = _checks(build())
    assert properties["Awaits"] == "false"
    assert properties["Figures"] == watching["Figures"] != []


def _checks(stack: Stack) -> list[dict[str, Any]]:
    checks = Template.from_stack(stack).find_resources("AWS::CloudFormation::CustomResource")
    return [each["Properties"] for each in checks.values()]


def test_the_command_takes_monitoring_and_the_dashboards_name(build: Build) -> None:
    template = Template.from_stack(build({"monitoring": "none"}))
    template.resource_count_is("AWS::CloudWatch::Alarm", 0)
    assert "DashboardName" not in template.to_json()["Outputs"]
    assert dashboards(build({"dashboard_name": "orders-audit-us"})) == ["orders-audit-us"]


def test_existing_tables_of_both_kinds_are_used_and_not_made(parts: Parts, build: Build) -> None:
    stack = in_region(an_app(), EU)
    tables = {
        "lease_table": dynamodb.Table.from_table_name(stack, "Leases", "orders-audit"),
        "sightings_table": dynamodb.Table.from_table_name(stack, "Sightings", "orders-audit-sightings"),
    }
    parts.on_lambda(stack, **tables)
    Template.from_stack(stack).resource_count_is("AWS::DynamoDB::Table", 0)
    context = {"existing_lease_table": "true", "existing_sightings_table": "true"}
    Template.from_stack(build(context)).resource_count_is("AWS::DynamoDB::Table", 0)


@pytest.mark.parametrize("removal", ["retain", "destroy"])
def test_both_tables_are_kept_or_destroyed_with_the_stack(build: Build, removal: str) -> None:
    tables = Template.from_stack(build({"removal": removal})).find_resources("AWS::DynamoDB::Table").values()
    assert {each["Properties"]["TableName"] for each in tables} == {"orders-audit", "orders-audit-sightings"}
    kept = ("RetainExceptOnCreate", "Retain") if removal == "retain" else ("Delete", "Delete")
    assert {(each["DeletionPolicy"], each["UpdateReplacePolicy"]) for each in tables} == {kept}


def test_a_sightings_table_of_another_name_is_refused(parts: Parts) -> None:
    stack = in_region(an_app(), EU)
    with pytest.raises(SettingsError, match="orders-audit-sightings"):
        parts.on_lambda(stack, sightings_table=dynamodb.Table.from_table_name(stack, "Sightings", "other"))
