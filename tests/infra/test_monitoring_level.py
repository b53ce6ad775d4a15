"""`monitoring` and `dashboard_name` of each construct: lean, full or none, and which one by default."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template
from constructs import Construct
from sublet.aws.metrics import EmfMetrics
from sublet.errors import SettingsError
from sublet.metric_names import LEAN, Metric
from sublet.operate.rules.prices import ALARM, LEAN_ALARMED_METRICS, LEAN_METRICS, METRIC, metrics_and_alarms
from sublet.settings import MetricsByShard, MetricsLevel
from sublet_cdk import AlarmThresholds, ConsumerMonitoring, KinesisConsumer, KinesisConsumerService, SparkPipeline
from sublet_cdk.monitoring_level import FLAG, MonitoringLevel
from sublet_cdk.monitoring_query import query

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
        return dict(Template.from_stack(stack).to_json().get("Resources", {}))

    by_default = template()
    assert template(monitoring="full") == by_default
    assert template(monitoring=True) == by_default
    assert any(each["Type"] == "AWS::CloudWatch::Alarm" for each in by_default.values())


CONSUMERS = ["on_lambda", "on_fargate", "alone"]


def _found(template: Template, kind: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in template.find_resources(kind).values()]


def _watched(template: Template) -> list[dict[str, Any]]:
    """Each metric that an alarm watches."""
    alarms = _found(template, "AWS::CloudWatch::Alarm")
    math = [
        query["MetricStat"]["Metric"] for alarm in alarms for query in alarm.get("Metrics", ()) if "MetricStat" in query
    ]
    return [*math, *(alarm for alarm in alarms if "MetricName" in alarm)]


@pytest.mark.parametrize("way", CONSUMERS)
def test_lean_watches_ten_shards_for_less_than_three_dollars(parts: Parts, way: str) -> None:
    """By the prices of the metrics that the template's environment publishes and that its alarms watch."""
    stack = in_region(an_app(), EU)
    getattr(parts, way)(stack, monitoring="lean")
    template = Template.from_stack(stack)
    template.resource_count_is("AWS::CloudWatch::Dashboard", 0)
    watched = _watched(template)
    own = {each["MetricName"] for each in watched if each["Namespace"] == "sublet"}
    assert own == {counted.metric for counted in LEAN.values()}
    assert len(own) == LEAN_METRICS == 5
    assert all(
        {each["Name"] for each in alarm["Dimensions"]} <= {"application"}
        for alarm in watched
        if "sublet" in alarm["Namespace"]
    )
    assert len(watched) <= LEAN_ALARMED_METRICS
    assert METRIC * len(own) + ALARM * len(watched) < 3
    assert metrics_and_alarms(10, monitoring=MetricsLevel.LEAN) < 3


@pytest.mark.parametrize("way", ["on_lambda", "on_fargate"])
def test_lean_deployment_publishes_what_its_alarms_watch_and_no_metrics_by_shard(parts: Parts, way: str) -> None:
    made: Any = getattr(parts, way)(in_region(an_app(), EU), monitoring="lean")
    assert (made.settings.metrics_level, made.settings.metrics_by_shard) == ("lean", "none")
    stated: Any = getattr(parts, way)(in_region(an_app(), EU), monitoring="lean", metrics_by_shard="all")
    assert (stated.settings.metrics_level, stated.settings.metrics_by_shard) == ("lean", "all")


@pytest.mark.parametrize("way", ["on_lambda", "on_fargate"])
@pytest.mark.parametrize(("level", "metrics"), [("lean", "full"), ("full", "lean")])
def test_metrics_that_the_alarms_do_not_watch_are_refused(parts: Parts, way: str, level: str, metrics: str) -> None:
    with pytest.raises(SettingsError, match=f"metrics_level = '{metrics}': {level}"):
        getattr(parts, way)(in_region(an_app(), EU), monitoring=level, metrics_level=metrics)


def test_second_deployment_without_alarms_can_put_what_the_first_ones_watch(parts: Parts) -> None:
    service = parts.on_fargate(in_region(an_app(), EU), monitoring="none", metrics_level="lean")
    assert service.settings.metrics_level == "lean"


@pytest.mark.parametrize("way", CONSUMERS)
def test_metric_that_the_level_does_not_have_is_refused(parts: Parts, way: str) -> None:
    """An alarm on it would stay silent."""
    made: Any = getattr(parts, way)(in_region(an_app(), EU), monitoring="lean")
    made.metric_lag()
    with pytest.raises(SettingsError, match="monitoring = 'lean': full, for the metric records"):
        made.metric(Metric.RECORDS, "Sum")
    full: Any = getattr(parts, way)(in_region(an_app(), EU), monitoring="full")
    with pytest.raises(SettingsError, match="lean, for the metric standstill_age"):
        full.metric(Metric.STANDSTILL_AGE, "Maximum")


def test_service_scales_by_a_metric_that_lean_has(parts: Parts) -> None:
    stack = in_region(an_app(), EU)
    parts.on_fargate(stack, monitoring="lean")
    policies = json.dumps(_found(Template.from_stack(stack), "AWS::ApplicationAutoScaling::ScalingPolicy"))
    assert "millis_behind_latest" in policies


def test_lean_has_a_link_to_a_query_over_the_logs_in_place_of_a_dashboard(parts: Parts) -> None:
    stack = in_region(an_app(), EU)
    consumer = parts.on_lambda(stack, monitoring="lean", outputs=True)
    outputs = Template.from_stack(stack).to_json()["Outputs"]
    (url,) = [json.dumps(each["Value"]) for name, each in outputs.items() if "QueryUrl" in name]
    assert "https://console.aws.amazon.com/cloudwatch/home?region=eu-central-1#logsV2:logs-insights$3F" in url
    for name in ("LeaseManager", "LeaseWorker"):
        assert re.search(rf"Ref.{{4}}Consumer{name}|{name}", url)
    shown = unquote(url.replace("*", "%"))
    assert query() in shown.replace("\\n", "\n")
    assert not any("DashboardName" in name for name in outputs)
    with pytest.raises(SettingsError, match="for a dashboard"):
        _ = consumer.dashboard


def test_query_shows_metrics_by_the_fields_that_a_lean_line_has(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = EmfMetrics("orders", by_shard=MetricsByShard.NONE, level=MetricsLevel.LEAN)
    shown = re.findall(r"(max|sum)\((\w+)\.(\w+)\.(\w+)\)", query())
    for _, _, name, _ in shown:
        metrics.put(Metric[name.upper()], 1)
    metrics.flush()
    line = json.loads(capsys.readouterr().out)
    assert line["application"] == "orders"
    assert len(shown) > 5
    assert all(line[field][name][key] == 1 for _, field, name, key in shown)


@pytest.mark.parametrize("way", CONSUMERS)
def test_a_dashboards_name_without_a_dashboard_is_refused(parts: Parts, way: str) -> None:
    for level in ("lean", "none"):
        with pytest.raises(SettingsError, match="dashboard_name"):
            getattr(parts, way)(in_region(an_app(), EU), monitoring=level, dashboard_name="mine")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", MonitoringLevel)
def test_app_chooses_the_level_of_constructs_that_state_none(parts: Parts, way: str, level: str) -> None:
    """In its context, as with the CDK's feature flags, so that an upgrade alone changes no stack."""

    def template(flag: str | None, **properties: Any) -> dict[str, Any]:
        stack = in_region(an_app(context={} if flag is None else {FLAG: flag}), EU)
        getattr(parts, way)(stack, **properties)
        return dict(Template.from_stack(stack).to_json().get("Resources", {}))

    chosen = template(None, monitoring=level)
    assert template(level) == chosen
    assert template("full", monitoring=level) == chosen
    assert template("none", monitoring=level) == chosen


def test_app_that_chooses_another_level_is_refused_by_the_flags_name(parts: Parts) -> None:
    with pytest.raises(SettingsError, match="sublet:monitoring = 'cheap': one of lean, full, none"):
        parts.alone(in_region(an_app(context={FLAG: "cheap"}), EU))


def test_synth_says_that_there_is_a_cheaper_level_until_one_is_chosen(parts: Parts) -> None:
    def said(stack: Stack) -> list[str]:
        found = Annotations.from_stack(stack).find_info("*", Match.string_like_regexp("monitoring is full"))
        return [str(each.entry.data) for each in found]

    silent, chosen, stated = (
        in_region(an_app(), EU),
        in_region(an_app(context={FLAG: "full"}), EU),
        in_region(an_app(), EU),
    )
    parts.on_lambda(silent)
    parts.on_lambda(chosen)
    parts.on_lambda(stated, monitoring="full")
    assert len(said(silent)) == 1
    assert FLAG in said(silent)[0]
    assert said(chosen) == said(stated) == []


def test_full_and_lean_are_the_same_for_a_pipeline(parts: Parts) -> None:
    """Its alarms are on AWS' own metrics."""
    templates = []
    for level in ("full", "lean"):
        stack = in_region(an_app(), EU)
        parts.on_spark(stack, monitoring=level)
        templates.append(Template.from_stack(stack).to_json()["Resources"])
        assert {each["Namespace"] for each in _watched(Template.from_stack(stack))} <= {
            "AWS/Events",
            "AWS/Kinesis",
            "AWS/SQS",
        }
    assert templates[0] == templates[1]


def test_first_deployment_of_a_lean_stack_waits_for_ticks_alone(build: Build) -> None:
    """Their metric is Lambda's own."""
    (properties,) = _checks(build({"monitoring": "lean"}))
    assert [each["MetricName"] for each in properties["Figures"]] == ["Invocations"]
    assert properties["Awaits"] == "true"


def test_lean_names_no_stream_of_several(parts: Parts) -> None:
    stack = in_region(an_app(), EU)
    alarms = parts.alone(stack, monitoring="lean", streams="orders,payments").alarms
    assert not [name for name in alarms if name.startswith("Stream")]
    assert [
        name
        for name in parts.alone(in_region(an_app(), EU), monitoring="full", streams="orders").alarms
        if "Stream" in name
    ]


@pytest.mark.parametrize("way", WAYS)
def test_another_level_of_monitoring_is_refused_by_name(parts: Parts, way: str) -> None:
    with pytest.raises(SettingsError, match="monitoring = 'loud': one of lean, full, none"):
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
