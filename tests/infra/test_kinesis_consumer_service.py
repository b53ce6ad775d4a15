"""KinesisConsumerService's template: permissions, deployment, end, scaling, and what runs in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from aws_cdk import App, Duration, Stack, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks
from sublet.errors import SettingsError
from sublet.settings import Settings
from sublet.settings.keywords import ServiceKeywords
from sublet_cdk.kinesis_consumer_service import KinesisConsumerService
from sublet_cdk.service_code import CODE, PARTS, UNPACK_AND_RUN
from sublet_cdk.service_settings import service_setting_names

from tests.infra.apps import an_app
from tests.infra.conftest import STREAM_ARN

Make = Callable[..., Stack]
Properties = Mapping[str, Any]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("service")
    (root / "dependencies").mkdir()
    (root / "dependencies" / "dependency.py").write_text("")
    (root / "code").mkdir()
    (root / "code" / "orders.py").write_text("def handle(batch): ...\n")
    return root


@pytest.fixture(scope="module")
def make(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`make(spot=True)`: a stack with one service."""

    def stack_of(app: App | None = None, /, **properties: Any) -> Stack:
        stack = Stack(app or an_app(), "orders")
        given: dict[str, Any] = {
            "application": "orders-audit",
            "stream": kinesis.Stream.from_stream_arn(stack, "Stream", STREAM_ARN),
            "handler": "orders:handle",
            "vpc": ec2.Vpc.from_vpc_attributes(
                stack,
                "Vpc",
                vpc_id="vpc-12345678",
                availability_zones=["a"],
                private_subnet_ids=["subnet-12345671"],
            ),
        }
        if "image" not in properties:
            given |= {"handler_code": parts / "code", "dependencies": parts / "dependencies"}
        KinesisConsumerService(stack, "Consumer", **{**given, **properties})
        return stack

    return stack_of


@pytest.fixture(scope="module")
def template(make: Make) -> Template:
    return Template.from_stack(make())


def only(template: Template, kind: str, name: str = "") -> Properties:
    """The properties of the only resource of a type whose logical id contains `name`."""
    (found,) = [r for key, r in template.find_resources(kind).items() if name in key]
    properties: Properties = found["Properties"]
    return properties


def container(template: Template, name: str) -> Properties:
    (found,) = [
        each for each in only(template, "AWS::ECS::TaskDefinition")["ContainerDefinitions"] if each["Name"] == name
    ]
    return dict(found)


def duties(template: Template) -> dict[str, set[str]]:
    policies = only(template, "AWS::IAM::Role", "TaskRole")["Policies"]
    made = {}
    for policy in policies:
        (statement,) = policy["PolicyDocument"]["Statement"]
        actions = statement["Action"]
        made[policy["PolicyName"]] = {actions} if isinstance(actions, str) else set(actions)
        assert statement["Resource"] != "*"
    return made


def test_a_task_may_do_exactly_this(template: Template) -> None:
    assert duties(template) == {
        "leases": {f"dynamodb:{name}Item" for name in ("Get", "Put", "Update", "Delete")} | {"dynamodb:Scan"},
        "sightings": {"dynamodb:Scan", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"},
        "stream": {
            "kinesis:DescribeStreamSummary",
            "kinesis:GetRecords",
            "kinesis:GetShardIterator",
            "kinesis:ListShards",
        },
        "code": {"s3:GetObject"},
    }


def test_task_role_may_be_assumed_by_ecs_of_this_account_alone(template: Template) -> None:
    (statement,) = only(template, "AWS::IAM::Role", "TaskRole")["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "ecs-tasks.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}


def test_deployment_starts_new_tasks_first_and_rolls_back_unhealthy_ones(
    template: Template,
) -> None:
    service = only(template, "AWS::ECS::Service")
    deployment = service["DeploymentConfiguration"]
    assert deployment["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert (deployment["MinimumHealthyPercent"], deployment["MaximumPercent"]) == (100, 200)
    assert "DesiredCount" not in service, "or each deployment would undo the scaling"
    assert service["NetworkConfiguration"]["AwsvpcConfiguration"]["AssignPublicIp"] == "DISABLED"


def test_container_stops_after_its_drain_and_has_a_readiness_check(
    template: Template,
) -> None:
    consumer = container(template, "consumer")
    environment = variables(consumer)
    assert consumer["StopTimeout"] == 120
    assert environment["SUBLET_DRAIN_TIMEOUT"] == "110s"
    assert environment["SUBLET_HEALTH"] == "127.0.0.1:8080"
    check = consumer["HealthCheck"]
    assert check["Command"][:3] == ["CMD", "python", "-c"]
    assert "http://127.0.0.1:8080/health/ready" in check["Command"][3]
    compile(check["Command"][3], "health check", "exec")
    assert (check["Interval"], check["Retries"], check["StartPeriod"]) == (10, 3, 120)


def variables(container: Properties) -> dict[str, Any]:
    return {each["Name"]: each["Value"] for each in container["Environment"]}


def test_service_settings_are_those_of_a_process_that_creates_no_table(template: Template) -> None:
    consumer = container(template, "consumer")
    environment = variables(consumer)
    settings = Settings.from_environment({name: str(value) for name, value in environment.items()})
    assert settings.mode == "continuous"
    assert settings.handler_timeout == timedelta(minutes=15)
    assert settings.worker_id is None, "each task has one of its own"
    assert settings.stream_arn == STREAM_ARN
    assert consumer["Command"][-1].endswith("exec python -m sublet run --no-create")


def test_the_code_is_fetched_before_it_runs_and_nothing_else_is_written(template: Template) -> None:
    consumer, fetch = container(template, "consumer"), container(template, "fetch")
    assert consumer["DependsOn"] == [{"ContainerName": "fetch", "Condition": "SUCCESS"}]
    assert fetch["Essential"] is False
    assert fetch["Command"][-1] == f"{CODE}/app.zip"
    assert consumer["ReadonlyRootFilesystem"] is True
    assert {each["ContainerPath"] for each in consumer["MountPoints"]} == {CODE, "/tmp"}


def test_service_code_runs_with_the_containers_own_command(make: Make, parts: Path, tmp_path: Path) -> None:
    """The container's own command, in a shell here: unpacked, with the library and the handler where Python finds
    them."""
    app = an_app()
    make(app)
    (staged,) = [path for path in Path(app.outdir).glob("service-*") if path.is_dir()]
    assert {path.name for path in staged.iterdir()} == set(PARTS)
    code = tmp_path / "code"
    shutil.make_archive(str(code / "app"), "zip", staged)
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "PYTHONPATH": os.pathsep.join(f"{code}/app/{part}" for part in PARTS),
        "SUBLET_APPLICATION": "orders-audit",
        "SUBLET_STREAM": "orders",
        "SUBLET_HANDLER": "orders:nothing",
    }
    ran = subprocess.run(
        ["/bin/sh", "-c", UNPACK_AND_RUN.replace(CODE, str(code))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 2, ran.stderr
    assert "orders:nothing" in ran.stderr, "its own complaint about the handler that there is"
    assert "orders" in ran.stderr


def test_tasks_are_scaled_by_cpu_and_lag(template: Template) -> None:
    target = only(template, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 4)
    policies = [
        each["Properties"]["TargetTrackingScalingPolicyConfiguration"]
        for each in template.find_resources("AWS::ApplicationAutoScaling::ScalingPolicy").values()
    ]
    by_metric = {
        policy.get("PredefinedMetricSpecification", {}).get("PredefinedMetricType")
        or policy["CustomizedMetricSpecification"]["MetricName"]: policy["TargetValue"]
        for policy in policies
    }
    assert by_metric == {"ECSServiceAverageCPUUtilization": 60, "millis_behind_latest": 60_000}


def test_spot_service_keeps_one_task_on_demand(make: Make) -> None:
    service = only(Template.from_stack(make(spot=True)), "AWS::ECS::Service")
    assert service["CapacityProviderStrategy"] == [
        {"CapacityProvider": "FARGATE", "Base": 1, "Weight": 0},
        {"CapacityProvider": "FARGATE_SPOT", "Weight": 1},
    ]


def test_service_has_the_alarms_and_the_dashboard_of_a_process(template: Template) -> None:
    template.resource_count_is("AWS::CloudWatch::Dashboard", 1)
    alarms = template.find_resources("AWS::CloudWatch::Alarm")
    assert any("Lagging" in name for name in alarms)
    assert any("ShardStalled" in name for name in alarms)


def test_an_image_of_ones_own_has_its_command_and_nothing_to_fetch(make: Make) -> None:
    image = ecs.ContainerImage.from_registry("registry.example.com/orders:1")
    template = Template.from_stack(make(image=image, command=["python", "-m", "orders"]))
    consumer = container(template, "consumer")
    assert consumer["Image"] == "registry.example.com/orders:1"
    assert consumer["Command"] == ["python", "-m", "orders"]
    assert "PYTHONPATH" not in variables(consumer)
    assert "code" not in duties(template)
    by_default = container(Template.from_stack(make(image=image)), "consumer")
    assert by_default["Command"] == ["python", "-m", "sublet", "run", "--no-create"]


def test_service_uses_the_tables_of_a_deployment_on_lambda(make: Make) -> None:
    stack = Stack(an_app(), "other")
    tables = {
        name: dynamodb.Table.from_table_name(stack, name, table)
        for name, table in {
            "lease_table": "orders-audit",
            "sightings_table": "orders-audit-sightings",
        }.items()
    }
    Template.from_stack(make(**tables)).resource_count_is("AWS::DynamoDB::Table", 0)


def test_a_role_that_there_is_gets_the_duties(make: Make) -> None:
    app = an_app()
    arn = "arn:aws:iam::123456789012:role/orders"
    role = iam.Role.from_role_arn(Stack(app, "roles"), "Role", arn)
    template = Template.from_stack(make(app, task_role=role))
    assert only(template, "AWS::ECS::TaskDefinition")["TaskRoleArn"] == arn
    statements = only(template, "AWS::IAM::Policy", "TaskDuties")["PolicyDocument"]["Statement"]
    assert len(statements) == 4


def test_cdk_nag_finds_nothing(make: Make) -> None:
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    make(app, spot=True, on_failure="arn:aws:s3:::given-up/sublet", maximum_retry_attempts=3)
    app.synth()  # raises, and prints the findings, if there are any


def test_the_properties_that_type_checkers_know_are_the_settings_that_it_takes() -> None:
    assert get_type_hints(ServiceKeywords).keys() == set(service_setting_names())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"drain_timeout": "2m"}, "drain_timeout.*at most 110s"),
        ({"worker_count": 2}, "worker_count.*only for Lambda"),
        ({"worker_id": "me"}, "worker_id.*only for a process of your own"),
        ({"health": "0.0.0.0:80"}, "health.*only for a process of your own"),
        ({"memory": 256}, "setting memory.*at least 384 MiB"),
        ({"architecture": "riscv"}, "architecture.*one of arm64, x86_64"),
        ({"min_tasks": 5}, "min_tasks.*1 to max_tasks"),
        ({"handler": "orders:other"}, "handler.*it defines: handle"),
        ({"handler_code": None}, "handler_code.*or else an image"),
        ({"command": ["python"]}, "command.*your own image"),
        ({"vpc": None}, "vpc.*the network"),
        ({"dependencies": "/nowhere"}, "dependencies.*a folder"),
        ({"environment": {"SUBLET_WINDOW": "5m"}}, "environment.*SUBLET_ is for settings"),
    ],
)
def test_invalid_property_is_refused_by_name(make: Make, given: Properties, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make(**given)


def test_the_example_is_synthesized_with_the_locked_wheels() -> None:
    from examples.container.app import orders

    app = an_app()
    stack = Stack(app, "orders")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-12345678", availability_zones=["a"], private_subnet_ids=["subnet-12345671"]
    )
    orders(stack, vpc, kinesis.Stream.from_stream_arn(stack, "Stream", STREAM_ARN))
    template = Template.from_stack(stack)
    assert only(template, "AWS::ApplicationAutoScaling::ScalableTarget")["MaxCapacity"] == 8
    assert any("ServiceName" in name for name in template.to_json()["Outputs"])
    (staged,) = [path for path in Path(app.outdir).glob("service-*") if path.is_dir()]
    assert {"boto3", "msgspec", "google"} <= {path.name for path in (staged / "dependencies").iterdir()}


def test_durations_may_be_cdks(make: Make) -> None:
    template = Template.from_stack(make(drain_timeout=Duration.seconds(50), scale_out_lag=Duration.seconds(30)))
    assert variables(container(template, "consumer"))["SUBLET_DRAIN_TIMEOUT"] == "50s"
