"""Every deployment that could change whether the handler can be imported gets a new check, and no other does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Duration, Size, Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template
from sublet_cdk.consumer_stack import ConsumerStack

from tests.infra.apps import an_app
from tests.infra.conftest import Build

Stacked = Callable[[ConsumerStack], None]


def check_of(stack: ConsumerStack) -> str:
    """The logical id of the deployment's check."""
    checks = Template.from_stack(stack).find_resources("AWS::CloudFormation::CustomResource")
    (name,) = [each for each in checks if "HandlerCanBeImported" in each]
    return name


@pytest.fixture(scope="module")
def before(build: Build) -> str:
    return check_of(build())


def test_a_deployment_that_changes_nothing_has_the_same_check(build: Build, before: str) -> None:
    assert check_of(build()) == before
    assert before.startswith("ConsumerHandlerCanBeImported")


def network(stack: Stack) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-12345678", availability_zones=["a"], private_subnet_ids=["subnet-12345671"]
    )


def layer(stack: Stack) -> lambda_.ILayerVersion:
    arn = "arn:aws:lambda:eu-central-1:123456789012:layer:own:1"
    return lambda_.LayerVersion.from_layer_version_arn(stack, "Own", arn)


CHANGES: dict[str, Callable[[Stack], dict[str, Any]]] = {
    "variables": lambda _: {"worker_environment": {"TABLE": "orders"}},
    "layers": lambda other: {"worker_layers": [layer(other)]},
    "runtime": lambda _: {"runtime": lambda_.Runtime.PYTHON_3_12},
    "architecture": lambda _: {"architecture": lambda_.Architecture.X86_64},
    "memory": lambda _: {"worker_memory": 1024},
    "network": lambda other: {"vpc": network(other)},
    "role": lambda other: {
        "worker_role": iam.Role.from_role_arn(other, "Role", "arn:aws:iam::123456789012:role/theirs")
    },
    "disk": lambda _: {"ephemeral_storage": Size.gibibytes(1)},
    "timeout": lambda _: {"worker_timeout": Duration.seconds(880)},
    "tracing": lambda _: {"tracing": lambda_.Tracing.ACTIVE},
    "a setting": lambda _: {"batch_size": 7},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_property_of_the_worker_has_another_check(build: Build, before: str, change: str) -> None:
    app = an_app()
    assert check_of(build(None, app, **CHANGES[change](Stack(app, "other")))) != before


def test_changed_handler_code_has_another_check(build: Build, before: str, tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("import pandas\ndef handle(batch): ...\n")
    assert check_of(build({"handler_code": str(tmp_path)})) != before


def test_changed_dependencies_have_another_check(build: Build, before: str, tmp_path: Path) -> None:
    """The layer's logical id stays the same, whatever is in it."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "dependency.py").write_text("broken = 1\n")
    assert check_of(build(dependencies_layer=tmp_path)) != before


def add_variable(stack: ConsumerStack) -> None:
    stack.consumer.worker.add_environment("TABLE", "orders")


def may_read(stack: ConsumerStack) -> None:
    stack.consumer.worker.add_to_role_policy(iam.PolicyStatement(actions=["ssm:GetParameter"], resources=["*"]))


@pytest.mark.parametrize("then", [add_variable, may_read])
def test_deployment_check_changes_with_what_is_added_to_the_construct(build: Build, before: str, then: Stacked) -> None:
    stack = build()
    then(stack)
    assert check_of(stack) != before


def test_a_setting_that_the_worker_does_not_get_needs_no_check(build: Build, before: str) -> None:
    stack = build(schedule=events.Schedule.rate(Duration.minutes(7)), manager_reserved_concurrency=3)
    Tags.of(stack).add("team", "orders")
    assert check_of(stack) == before
