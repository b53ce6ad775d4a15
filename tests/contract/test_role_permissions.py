"""Finds the roles of an application's functions, and asks IAM what they may do, over recorded replies of AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from sublet.operate.aws.role_permissions import functions_of, lacking, roles_of
from sublet.operate.rules.role_needs import DeployedRoles, PermissionNeed, Runtime, needs_of
from sublet.settings import HotShardKeys, Mode, Reading, Settings
from sublet.settings.stream_choice import StreamChoice
from sublet_cdk.state_machine import Functions, definition

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:orders-lease-workers"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:"
ROLE = "arn:aws:iam::123456789012:role/orders-worker"
TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/orders"
STREAM = "arn:aws:kinesis:us-east-1:123456789012:stream/events"
KEYS: Any = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}


@pytest.fixture
def stepfunctions() -> Iterator[tuple[Any, Stubber]]:
    client = boto3.client("stepfunctions", **KEYS)
    with Stubber(client) as stubber:
        yield client, stubber


def described(stubber: Stubber, states: object) -> None:
    stubber.add_response(
        "describe_state_machine",
        {
            "stateMachineArn": MACHINE,
            "name": "orders",
            "definition": json.dumps(states),
            "roleArn": ROLE,
            "type": "STANDARD",
            "creationDate": 0,
        },
        {"stateMachineArn": MACHINE},
    )


def test_the_functions_are_those_that_the_constructs_state_machine_calls(
    stepfunctions: tuple[Any, Stubber],
) -> None:
    client, stubber = stepfunctions
    described(stubber, definition(Functions(f"{FUNCTION}worker", f"{FUNCTION}manager", 900)))
    functions = functions_of(client, MACHINE)
    assert functions == {"RunWindow": f"{FUNCTION}worker", "PromptLeaseManager": f"{FUNCTION}manager"}
    functions_client: Any = boto3.client("lambda", **KEYS)
    with Stubber(functions_client) as configured:
        for name in ("manager", "worker"):
            reply = {"Role": f"arn:aws:iam::123456789012:role/orders-{name}"}
            configured.add_response("get_function_configuration", reply, {"FunctionName": f"{FUNCTION}{name}"})
        found = roles_of(functions_client, functions, MACHINE)
    assert found == DeployedRoles(MACHINE, "arn:aws:iam::123456789012:role/orders-manager", ROLE)


def test_an_application_that_is_not_on_lambda_has_no_state_machine(
    stepfunctions: tuple[Any, Stubber],
) -> None:
    client, stubber = stepfunctions
    stubber.add_client_error("describe_state_machine", "StateMachineDoesNotExist")
    assert functions_of(client, MACHINE) is None


def test_lacking_names_explicit_denials_and_skips_request_dependent_ones() -> None:
    iam: Any = boto3.client("iam", **KEYS)
    needs = [
        PermissionNeed(["dynamodb:GetItem", "dynamodb:PutItem"], TABLE),
        PermissionNeed(["kinesis:GetRecords"], STREAM),
    ]
    decided: dict[str, dict[str, Any]] = {
        "dynamodb:GetItem": {"EvalDecision": "allowed"},
        "dynamodb:PutItem": {"EvalDecision": "implicitDeny", "MissingContextValues": ["aws:SourceVpce"]},
        "kinesis:GetRecords": {"EvalDecision": "explicitDeny"},
    }
    with Stubber(iam) as stubber:
        for need in needs:
            results = [
                {"EvalActionName": action, "EvalResourceName": need.resource, **decided[action]}
                for action in need.actions
            ]
            asked = {
                "PolicySourceArn": ROLE,
                "ActionNames": list(need.actions),
                "ResourceArns": [need.resource],
            }
            stubber.add_response("simulate_principal_policy", {"EvaluationResults": results}, asked)
        assert lacking(iam, ROLE, needs) == [f"kinesis:GetRecords on {STREAM}"]


def test_a_permission_on_some_items_is_asked_about_for_such_an_item() -> None:
    """A role that may write sketches alone passes; without the key, IAM could not decide and nothing would be said."""
    iam: Any = boto3.client("iam", **KEYS)
    settings = Settings(application="orders", stream="events")
    sketches = [need for need in needs_of(Runtime.WORKER, settings, STREAM) if need.leading_key is not None]
    (need,) = sketches
    key = {
        "ContextKeyName": "dynamodb:LeadingKeys",
        "ContextKeyValues": ["hot"],
        "ContextKeyType": "stringList",
    }
    asked = {
        "PolicySourceArn": ROLE,
        "ActionNames": ["dynamodb:PutItem"],
        "ResourceArns": [f"{TABLE}-sightings"],
        "ContextEntries": [key],
    }
    for decision, found in (("allowed", []), ("implicitDeny", [f"dynamodb:PutItem on {need.resource}"])):
        result = {
            "EvalActionName": "dynamodb:PutItem",
            "EvalResourceName": need.resource,
            "EvalDecision": decision,
        }
        with Stubber(iam) as stubber:
            stubber.add_response("simulate_principal_policy", {"EvaluationResults": [result]}, asked)
            assert lacking(iam, ROLE, sketches) == found


def test_a_worker_that_makes_no_sketches_need_not_write_them() -> None:
    without = Settings(application="orders", stream="events", hot_shard_keys=HotShardKeys.NONE)
    assert all(need.leading_key is None for need in needs_of(Runtime.WORKER, without, STREAM))


CONSUMER = "arn:aws:kinesis:us-east-1:123456789012:stream/events/consumer/{}:*"


def test_reader_of_several_streams_may_describe_and_subscribe_to_a_named_consumer() -> None:
    by_name: Any = {
        "reading": Reading.FAN_OUT,
        "mode": Mode.CONTINUOUS,
        "streams": StreamChoice.parse("events,audit-*"),
    }
    for named, name in (
        (Settings(application="orders", **by_name), "orders"),
        (Settings(application="orders", fan_out_consumer="fast", **by_name), "fast"),
    ):
        for runtime, reads in ((Runtime.WORKER, True), (Runtime.PROCESS, True), (Runtime.MANAGER, False)):
            needs = needs_of(runtime, named, STREAM)
            on_consumer = [need for need in needs if "/consumer/" in need.resource]
            found = [need for need in needs if need.actions == ["kinesis:DescribeStreamConsumer"]]
            assert [need.resource for need in on_consumer] == ([CONSUMER.format(name)] if reads else [])
            assert [need.resource for need in found] == ([STREAM] if reads else [])


def test_register_permission_is_needed_by_a_process_alone() -> None:
    settings = Settings(
        application="orders",
        reading=Reading.FAN_OUT,
        mode=Mode.CONTINUOUS,
        register_fan_out=True,
        streams=StreamChoice.parse("events"),
    )
    register = "kinesis:RegisterStreamConsumer"
    asked = {
        runtime: [need.resource for need in needs_of(runtime, settings, STREAM) if register in need.actions]
        for runtime in Runtime
    }
    assert asked == {Runtime.MANAGER: [], Runtime.WORKER: [], Runtime.PROCESS: [STREAM]}


@pytest.mark.parametrize(
    ("variables", "sends"),
    [
        ({"SUBLET_METRICS_EXPORT": "otlp"}, True),
        ({"SUBLET_METRICS_EXPORT": "emf"}, False),
        ({}, False),
        ({"SUBLET_METRICS_EXPORT": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, False),
        ({"SUBLET_METRICS_EXPORT": "otlp", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://a/v1/metrics"}, False),
    ],
)
def test_functions_say_in_their_variables_whether_they_send_metrics(variables: dict[str, str], sends: bool) -> None:
    client: Any = boto3.client("lambda", **KEYS)
    with Stubber(client) as stubber:
        for name in ("manager", "worker"):
            reply = {"Role": ROLE, "Environment": {"Variables": variables}}
            stubber.add_response("get_function_configuration", reply, {"FunctionName": f"{FUNCTION}{name}"})
        functions = {"RunWindow": f"{FUNCTION}worker", "PromptLeaseManager": f"{FUNCTION}manager"}
        assert roles_of(client, functions, MACHINE).sends_metrics is sends


def test_process_needs_the_permissions_of_both_functions() -> None:
    settings = Settings(application="orders", stream="events")
    of = {
        runtime: {(action, need.resource) for need in needs_of(runtime, settings, STREAM) for action in need.actions}
        for runtime in Runtime
    }
    assert of[Runtime.PROCESS] == of[Runtime.MANAGER] | of[Runtime.WORKER]
    assert (of[Runtime.MANAGER] & of[Runtime.WORKER]) < of[Runtime.PROCESS]
