"""KinesisConsumer's template: permissions, retention, retries, and the functions' variables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk import Stack, Validations
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Match, Template
from cdk_nag import AwsSolutionsChecks
from sublet.aws.tables.create_tables import tables_of
from sublet.settings import Settings
from sublet_cdk.alarms import MATH_ALARMS_FLAG

from tests.infra.apps import an_app
from tests.infra.conftest import STREAM_ARN, Build

Resource = Mapping[str, Any]
STATE_MACHINE_NAME = "orders-audit-lease-workers"


@pytest.fixture(scope="module")
def template(build: Build) -> Template:
    return Template.from_stack(build())


@pytest.fixture(scope="module")
def created_stream(build: Build) -> Template:
    """Everything that the default is not: the stack's own stream, limits, math alarms off, an existing KCL table."""
    app = an_app(context={MATH_ALARMS_FLAG: False})
    context = {
        "stream_arn": None,
        "shards": "4",
        "existing_lease_table": "true",
        "tick": "rate(5 minutes)",
        "architecture": "x86_64",
        "worker_memory": "1024",
        "worker_reserved_concurrency": "25",
        "alarm_topic_arn": "arn:aws:sns:eu-central-1:123456789012:alarms",
        "handler_table_arn": "arn:aws:dynamodb:eu-central-1:123456789012:table/results",
        "handler_environment": '{"RESULTS": "results"}',
        "mode": "continuous",
        "window": "5m",
        "leases_per_worker": 20,
        "fair_share": False,
    }
    return Template.from_stack(build(context, app))


def one(template: Template, kind: str, name: str) -> Resource:
    """The only resource of a type whose logical id contains `name`."""
    (found,) = [r for key, r in template.find_resources(kind).items() if name in key]
    return found


def function(template: Template, name: str) -> Resource:
    (found,) = [r for key, r in template.find_resources("AWS::Lambda::Function").items() if f"Consumer{name}" in key]
    properties: Resource = found["Properties"]
    return properties


def role(template: Template, name: str) -> dict[str, tuple[set[str], Any]]:
    """What a role may do: duty -> actions and resource."""
    properties = one(template, "AWS::IAM::Role", f"{name}Role")["Properties"]
    assert "ManagedPolicyArns" not in properties
    duties = {}
    for policy in properties["Policies"]:
        (statement,) = policy["PolicyDocument"]["Statement"]
        actions = {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])
        duties[policy["PolicyName"]] = (actions, _named(statement["Resource"]))
    return duties


def _named(resource: Any) -> Any:
    """`Fn::GetAtt` of our own resource as its construct's name."""
    if isinstance(resource, list):
        return [_named(each) for each in resource]
    if isinstance(resource, dict) and "Fn::GetAtt" in resource:
        return resource["Fn::GetAtt"][0].removeprefix("Consumer")[:-8]
    return (
        "".join(part if isinstance(part, str) else "*ref*" for part in resource["Fn::Join"][1])
        if isinstance(resource, dict)
        else resource
    )


LOG = {"logs:CreateLogStream", "logs:PutLogEvents"}


def test_the_lease_worker_may_do_exactly_this(template: Template) -> None:
    assert role(template, "LeaseWorker") == {
        "leases": ({"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}, "Leases"),
        "sightings": ({"dynamodb:GetItem"}, "Sightings"),
        "sketches": ({"dynamodb:PutItem"}, "Sightings"),
        "stream": (
            {
                "kinesis:DescribeStreamSummary",
                "kinesis:GetRecords",
                "kinesis:GetShardIterator",
                "kinesis:ListShards",
            },
            STREAM_ARN,
        ),
        "log": (LOG, "LeaseWorkerLog"),
    }


def test_the_lease_manager_may_do_exactly_this(template: Template) -> None:
    state_machine = f"arn:*ref*:states:*ref*:*ref*:stateMachine:{STATE_MACHINE_NAME}"
    assert role(template, "LeaseManager") == {
        "leases": ({"dynamodb:Scan", "dynamodb:PutItem", "dynamodb:DeleteItem"}, "Leases"),
        "sightings": (
            {"dynamodb:GetItem", "dynamodb:Scan", "dynamodb:PutItem", "dynamodb:DeleteItem"},
            "Sightings",
        ),
        "stream": (
            {
                "kinesis:DescribeStreamSummary",
                "kinesis:GetRecords",
                "kinesis:GetShardIterator",
                "kinesis:ListShards",
            },
            STREAM_ARN,
        ),
        "start-workers": ({"states:StartExecution"}, state_machine),
        "dead-letters": ({"sqs:SendMessage"}, "DeadLetters"),
        "log": (LOG, "LeaseManagerLog"),
    }


def test_the_state_machine_may_invoke_the_two_functions_and_deliver_its_log(template: Template) -> None:
    assert role(template, "Executions") == {"invoke": ({"lambda:InvokeFunction"}, ["LeaseWorker", "LeaseManager"])}
    policies = template.find_resources("AWS::IAM::Policy")
    (policy,) = policies.values()  # the only one that is not inline: what CDK adds for the log
    (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
    assert {action.split(":")[0] for action in statement["Action"]} == {"logs"}


def test_the_deployment_check_may_invoke_the_two_and_see_whether_they_have_figures(
    template: Template,
) -> None:
    assert role(template, "DeploymentCheck") == {
        "invoke": ({"lambda:InvokeFunction"}, "LeaseWorker"),
        "prompt": ({"lambda:InvokeFunction"}, "LeaseManager"),
        "figures": ({"cloudwatch:GetMetricData"}, "*"),
        "log": (LOG, "DeploymentCheckLog"),
    }


def test_no_resource_lets_anyone_else_in(template: Template) -> None:
    (permission,) = template.find_resources("AWS::Lambda::Permission").values()
    assert permission["Properties"]["Principal"] == "events.amazonaws.com"
    assert "SourceArn" in permission["Properties"]


def test_an_encrypted_stream_s_key_may_be_used_to_decrypt(build: Build) -> None:
    arn = "arn:aws:kms:eu-central-1:123456789012:key/1"
    key = kms.Key.from_key_arn(Stack(an_app(), "keys"), "Key", arn)
    template = Template.from_stack(build(stream_key=key))
    for function in ("LeaseWorker", "LeaseManager"):
        assert role(template, function)["stream-key"] == ({"kms:Decrypt"}, arn)


def test_the_lease_table_is_kcl_s_and_outlives_the_stack(template: Template) -> None:
    table = one(template, "AWS::DynamoDB::Table", "Leases")
    assert table["DeletionPolicy"] == "RetainExceptOnCreate"
    assert table["UpdateReplacePolicy"] == "Retain"
    assert table["Properties"] | {"Tags": []} == {
        "TableName": "orders-audit",
        "AttributeDefinitions": [{"AttributeName": "leaseKey", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "DeletionProtectionEnabled": False,
        "Tags": [],
    }


def test_sightings_have_a_table_of_their_own_that_outlives_the_stack(template: Template) -> None:
    """A process, a service or another stack of the application may need it."""
    table = one(template, "AWS::DynamoDB::Table", "Sightings")
    assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert table["Properties"]["TableName"] == "orders-audit-sightings"
    assert table["Properties"]["KeySchema"] == [{"AttributeName": "chunk", "KeyType": "HASH"}]
    assert table["Properties"]["BillingMode"] == "PAY_PER_REQUEST"


def test_a_process_makes_the_same_tables_as_the_stack(template: Template) -> None:
    """`sublet run` creates missing tables: a stack or a process may come first."""
    made = {
        table["Properties"]["TableName"]: (
            [(key["AttributeName"], key["KeyType"]) for key in table["Properties"]["KeySchema"]],
            "PointInTimeRecoverySpecification" in table["Properties"],
        )
        for table in template.find_resources("AWS::DynamoDB::Table").values()
    }
    by_process = tables_of(Settings(application="orders-audit", stream="orders"))
    assert made == {table.name: ([(table.key, "HASH")], table.is_backed_up) for table in by_process}


def test_an_existing_lease_table_is_used_and_not_made(created_stream: Template) -> None:
    (only,) = created_stream.find_resources("AWS::DynamoDB::Table").values()
    assert only["Properties"]["TableName"] == "orders-audit-sightings"
    _, leases = role(created_stream, "LeaseWorker")["leases"]
    assert leases.endswith(":table/orders-audit")


def test_a_tick_comes_every_minute_and_an_undelivered_one_is_kept(template: Template) -> None:
    rule = one(template, "AWS::Events::Rule", "Tick")["Properties"]
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    (target,) = rule["Targets"]
    assert _named(target["Arn"]) == "LeaseManager"
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 2}
    assert _named(target["DeadLetterConfig"]["Arn"]) == "DeadLetters"


def test_a_tick_that_failed_is_kept_too(template: Template) -> None:
    failed = one(template, "AWS::Lambda::EventInvokeConfig", "FailedTicks")["Properties"]
    assert _named(failed["DestinationConfig"]["OnFailure"]["Destination"]) == "DeadLetters"
    assert failed["MaximumRetryAttempts"] == 2


def test_the_dead_letter_queue_is_encrypted_at_rest_and_on_the_way(template: Template) -> None:
    queue = one(template, "AWS::SQS::Queue", "DeadLetters")["Properties"]
    assert queue["SqsManagedSseEnabled"] is True
    assert queue["MessageRetentionPeriod"] == 14 * 24 * 3600
    template.has_resource_properties(
        "AWS::SQS::QueuePolicy",
        {
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [Match.object_like({"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}})]
                )
            }
        },
    )


def test_a_standard_state_machine_states_no_type(template: Template) -> None:
    """As deployed before there was a choice: with another property, CloudFormation would replace it, and refuse to."""
    (machine,) = template.find_resources("AWS::StepFunctions::StateMachine").values()
    assert "StateMachineType" not in machine["Properties"]


def test_no_tick_before_there_is_a_state_machine_to_start_and_a_handler_to_run(template: Template) -> None:
    waits_for = " ".join(one(template, "AWS::Events::Rule", "Tick")["DependsOn"])
    assert "LeaseWorkers" in waits_for
    assert "HandlerCanBeImported" in waits_for


def test_the_deployment_asks_the_worker_for_its_handler(template: Template) -> None:
    check = one(template, "AWS::CloudFormation::CustomResource", "HandlerCanBeImported")["Properties"]
    assert check["Worker"]["Ref"].startswith("ConsumerLeaseWorker")
    assert check["ServiceTimeout"] == 420


def test_missing_ticks_alarm_is_created_after_the_first_tick(template: Template, created_stream: Template) -> None:
    """An alarm on metrics that never existed fires as soon as it is created."""
    resource = one(template, "AWS::CloudFormation::CustomResource", "HandlerCanBeImported")
    check = resource["Properties"]
    assert check["Manager"]["Ref"].startswith("ConsumerLeaseManager")
    assert check["Awaits"] == "true"
    assert [(figure["Namespace"], figure["MetricName"]) for figure in check["Figures"]] == [
        ("sublet", "worker_leases"),
        ("sublet", "quiet_leases"),
        ("AWS/Lambda", "Invocations"),
    ]
    assert any("LeaseWorkers" in each for each in resource["DependsOn"]), "a tick needs the state machine"
    waiting = {
        name
        for name, alarm in template.find_resources("AWS::CloudWatch::Alarm").items()
        if any("HandlerCanBeImported" in each for each in alarm.get("DependsOn", []))
    }
    breaching = {
        name
        for name, alarm in template.find_resources("AWS::CloudWatch::Alarm").items()
        if alarm["Properties"]["TreatMissingData"] == "breaching"
    }
    assert waiting == breaching
    assert len(waiting) == 2
    emulated = one(created_stream, "AWS::CloudFormation::CustomResource", "HandlerCanBeImported")
    assert emulated["Properties"]["Awaits"] == "false", "an emulator makes no figures of log lines"


def test_the_functions_get_every_setting_and_read_the_same_settings_back(build: Build) -> None:
    stack = build({"window": "5m", "mode": "continuous", "start_position": "AT_TIMESTAMP:2026-01-31T08:00:00+00:00"})
    template = Template.from_stack(stack)
    for name in ("LeaseWorker", "LeaseManager"):
        environment = function(template, name)["Environment"]["Variables"]
        assert Settings.from_environment(environment) == stack.consumer.settings
    assert stack.consumer.settings.stream_arn == STREAM_ARN
    assert stack.consumer.settings.window.total_seconds() == 300


def test_a_created_stream_is_named_at_deployment(created_stream: Template) -> None:
    environment = function(created_stream, "LeaseWorker")["Environment"]["Variables"]
    (stream,) = created_stream.find_resources("AWS::Kinesis::Stream")
    assert environment["SUBLET_STREAM"] == {"Ref": stream}
    assert environment["SUBLET_STREAM_ARN"] == {"Fn::GetAtt": [stream, "Arn"]}
    settings = Settings.from_environment(environment | {"SUBLET_STREAM": "orders", "SUBLET_STREAM_ARN": STREAM_ARN})
    assert (settings.leases_per_worker, settings.fair_share, settings.window.total_seconds()) == (
        20,
        False,
        300,
    )
    created_stream.has_resource_properties(
        "AWS::Kinesis::Stream", {"ShardCount": 4, "StreamEncryption": Match.any_value()}
    )


def test_manager_alone_gets_the_state_machine_by_its_known_name(
    template: Template,
) -> None:
    manager, worker = (function(template, name)["Environment"]["Variables"] for name in ("LeaseManager", "LeaseWorker"))
    assert _named(manager["LEASE_WORKER_STATE_MACHINE_ARN"]).endswith(f":stateMachine:{STATE_MACHINE_NAME}")
    assert "LEASE_WORKER_STATE_MACHINE_ARN" not in worker
    template.has_resource_properties("AWS::StepFunctions::StateMachine", {"StateMachineName": STATE_MACHINE_NAME})


def test_no_powertools_service_name_which_would_become_a_dimension_of_every_metric(
    template: Template,
) -> None:
    for name in ("LeaseManager", "LeaseWorker"):
        environment = function(template, name)["Environment"]["Variables"]
        assert environment["POWERTOOLS_METRICS_NAMESPACE"] == "sublet"
        assert "POWERTOOLS_SERVICE_NAME" not in environment


@pytest.mark.parametrize("name", ["LeaseManager", "LeaseWorker"])
def test_the_functions_are_arm64_with_both_layers_and_a_log_that_ends(template: Template, name: str) -> None:
    properties = function(template, name)
    assert properties["Architectures"] == ["arm64"]
    assert [layer["Ref"].removeprefix("Consumer")[:-8] for layer in properties["Layers"]] == [
        "Library",
        "Dependencies",
    ]
    assert properties["LoggingConfig"]["LogGroup"]["Ref"].startswith(f"Consumer{name}Log")
    assert properties["Runtime"] == "python3.13"
    assert "ReservedConcurrentExecutions" not in properties


def test_sizes_are_the_users_to_choose(created_stream: Template) -> None:
    worker = function(created_stream, "LeaseWorker")
    assert worker["MemorySize"] == 1024
    assert worker["ReservedConcurrentExecutions"] == 25
    assert worker["Architectures"] == ["x86_64"]
    assert worker["Environment"]["Variables"]["RESULTS"] == "results"
    assert one(created_stream, "AWS::Events::Rule", "Tick")["Properties"]["ScheduleExpression"] == "rate(5 minutes)"


def test_every_log_has_a_retention(template: Template) -> None:
    groups = template.find_resources("AWS::Logs::LogGroup")
    assert len(groups) == 4
    assert {group["Properties"]["RetentionInDays"] for group in groups.values()} == {30}


def test_the_state_machines_log_is_where_step_functions_needs_no_resource_policy(template: Template) -> None:
    """A region has a single resource policy of 5,120 characters per account for groups of other names."""
    log = one(template, "AWS::Logs::LogGroup", "ExecutionsLog")["Properties"]
    assert log["LogGroupName"] == f"/aws/vendedlogs/states/{STATE_MACHINE_NAME}"


def test_the_handler_s_table_is_the_worker_s_alone(created_stream: Template) -> None:
    policy = one(created_stream, "AWS::IAM::Policy", "HandlerTable")["Properties"]
    assert [attached["Ref"][:24] for attached in policy["Roles"]] == ["ConsumerLeaseWorkerRole0"[:24]]
    assert (
        policy["PolicyDocument"]["Statement"][0]["Resource"]
        == "arn:aws:dynamodb:eu-central-1:123456789012:table/results"
    )


def test_resources_are_tagged_with_the_application(template: Template) -> None:
    for resources in (
        template.find_resources(kind) for kind in ("AWS::Lambda::Function", "AWS::DynamoDB::Table", "AWS::SQS::Queue")
    ):
        for resource in resources.values():
            assert {"Key": "sublet:application", "Value": "orders-audit"} in resource["Properties"]["Tags"]


def test_the_outputs_that_tools_read(template: Template) -> None:
    assert set(template.to_json()["Outputs"]) == {
        "StreamName",
        "LeaseTable",
        "SightingsTable",
        "LeaseManager",
        "LeaseWorker",
        "StateMachineArn",
        "DeadLettersUrl",
        "DashboardName",
    }


def test_template_contains_no_account(build: Build) -> None:
    text = json.dumps(Template.from_stack(build({"stream_arn": None})).to_json())
    assert "123456789012" not in text


def test_cdk_nag_finds_nothing(build: Build) -> None:
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    build({"stream_arn": None, "shards": "2"}, app)
    app.synth()  # raises, and prints the findings, if there are any


def test_cdk_nag_does_look(build: Build) -> None:
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    s3.Bucket(build({}, app), "Careless")
    with pytest.raises(RuntimeError, match="AwsSolutions-S10"):
        app.synth()
