"""Each further property of KinesisConsumer: how it changes the template, what its grants allow, and which values are
refused.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Size, Stack, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk.assertions import Template
from aws_cdk.aws_kinesis import Stream
from aws_cdk.aws_logs import RetentionDays
from cdk_nag import AwsSolutionsChecks
from sublet.errors import SettingsError
from sublet.metric_names import Metric
from sublet.settings import KclFleet, Mode
from sublet_cdk.alarms import MATH_ALARMS_FLAG
from sublet_cdk.app import stack_of
from sublet_cdk.kinesis_consumer import KinesisConsumer
from sublet_cdk.log_groups import keep_logs
from sublet_cdk.monitoring import ConsumerMonitoring

from tests.infra.apps import an_app
from tests.infra.conftest import STREAM_ARN, Build
from tests.infra.test_kinesis_consumer import LOG, function, role

LOG_OF_STATES = "/aws/vendedlogs/states/{}"
LAYER_ARN = "arn:aws:lambda:eu-central-1:123456789012:layer:own:1"
ROLE_ARN = "arn:aws:iam::123456789012:role/theirs"


@pytest.fixture
def other() -> Stack:
    """For resources that are given to the construct, and not its own."""
    return Stack(an_app(), "other")


def test_the_worker_alone_is_in_the_network_and_may_have_interfaces(build: Build, other: Stack) -> None:
    vpc = ec2.Vpc.from_vpc_attributes(
        other,
        "Vpc",
        vpc_id="vpc-12345678",
        availability_zones=["a", "b"],
        private_subnet_ids=["subnet-12345671", "subnet-12345672"],
        isolated_subnet_ids=["subnet-12345673", "subnet-12345674"],
    )
    group = ec2.SecurityGroup.from_security_group_id(other, "Group", "sg-12345678")
    isolated = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
    template = Template.from_stack(build(vpc=vpc, security_groups=[group], vpc_subnets=isolated))
    assert function(template, "LeaseWorker")["VpcConfig"] == {
        "SecurityGroupIds": ["sg-12345678"],
        "SubnetIds": ["subnet-12345673", "subnet-12345674"],
    }
    assert "VpcConfig" not in function(template, "LeaseManager")
    actions, resource = role(template, "LeaseWorker")["network"]
    assert {action.partition(":")[0] for action in actions} == {"ec2"}
    assert "ec2:CreateNetworkInterface" in actions
    assert resource == "*"
    assert "network" not in role(template, "LeaseManager")


def test_an_express_state_machine_has_a_name_of_its_own_and_its_definition(build: Build) -> None:
    """CloudFormation could not replace a state machine under the same name when its type changes."""
    template = Template.from_stack(build(state_machine_type=sfn.StateMachineType.EXPRESS))
    (machine,) = template.find_resources("AWS::StepFunctions::StateMachine").values()
    properties = machine["Properties"]
    assert properties["StateMachineType"] == "EXPRESS"
    assert properties["StateMachineName"] == "orders-audit-express-workers"
    assert "States.UUID()" in json.dumps(properties["DefinitionString"])
    manager = function(template, "LeaseManager")["Environment"]["Variables"]
    assert manager["SUBLET_WINDOW"] == "4m"
    assert "orders-audit-express-workers" in json.dumps(manager["LEASE_WORKER_STATE_MACHINE_ARN"])
    assert LOG_OF_STATES.format("orders-audit-express-workers") in json.dumps(template.to_json())


@pytest.mark.parametrize(
    ("stated", "refused"),
    [
        ({"mode": "continuous"}, "state_machine_type = 'EXPRESS': STANDARD with mode=continuous"),
        ({"window": "5m"}, "window = '5m': at most 4m with state_machine_type=EXPRESS"),
    ],
)
def test_windows_that_outlast_an_express_execution_are_refused(
    build: Build, stated: dict[str, Any], refused: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(refused)):
        build(state_machine_type=sfn.StateMachineType.EXPRESS, **stated)


def test_a_network_has_private_subnets_and_a_group_of_its_own_by_default(build: Build, other: Stack) -> None:
    vpc = ec2.Vpc.from_vpc_attributes(
        other, "Vpc", vpc_id="vpc-12345678", availability_zones=["a"], private_subnet_ids=["subnet-12345671"]
    )
    template = Template.from_stack(build(vpc=vpc))
    assert function(template, "LeaseWorker")["VpcConfig"]["SubnetIds"] == ["subnet-12345671"]
    template.resource_count_is("AWS::EC2::SecurityGroup", 1)


def test_a_role_that_is_there_already_gets_the_workers_duties(tmp_path: Path) -> None:
    (tmp_path / "layer" / "python").mkdir(parents=True)
    (tmp_path / "orders.py").write_text("def handle(batch): ...\n")
    stack = Stack(an_app(), "orders")
    KinesisConsumer(
        stack,
        "Consumer",
        application="orders-audit",
        stream=Stream.from_stream_arn(stack, "Stream", STREAM_ARN),
        handler_code=tmp_path,
        handler="orders:handle",
        dependencies_layer=tmp_path / "layer",
        worker_role=iam.Role.from_role_arn(stack, "Role", ROLE_ARN),
    )
    template = Template.from_stack(stack)
    assert function(template, "LeaseWorker")["Role"] == ROLE_ARN
    (policy,) = [
        each["Properties"]
        for name, each in template.find_resources("AWS::IAM::Policy").items()
        if "LeaseWorkerDuties" in name
    ]
    assert policy["Roles"] == ["theirs"]
    given = [statement["Action"] for statement in policy["PolicyDocument"]["Statement"]]
    actions = {action for each in given for action in ([each] if isinstance(each, str) else each)}
    assert actions == {
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "kinesis:DescribeStreamSummary",
        "kinesis:GetRecords",
        "kinesis:GetShardIterator",
        "kinesis:ListShards",
        *LOG,
    }
    assert not [name for name in template.find_resources("AWS::IAM::Role") if "LeaseWorkerRole" in name]


def test_runtime_layers_storage_and_tracing(build: Build, other: Stack) -> None:
    own = lambda_.LayerVersion.from_layer_version_arn(other, "Layer", LAYER_ARN)
    template = Template.from_stack(
        build(
            runtime=lambda_.Runtime.PYTHON_3_12,
            worker_layers=[own],
            ephemeral_storage=Size.gibibytes(2),
            tracing=lambda_.Tracing.ACTIVE,
        )
    )
    worker, manager = function(template, "LeaseWorker"), function(template, "LeaseManager")
    assert worker["Runtime"] == manager["Runtime"] == "python3.12"
    assert worker["TracingConfig"] == manager["TracingConfig"] == {"Mode": "Active"}
    assert worker["EphemeralStorage"] == {"Size": 2048}
    assert worker["Layers"] == [*manager["Layers"], LAYER_ARN]
    assert "EphemeralStorage" not in manager


def test_a_dependencies_layer_may_be_one_that_is_published(build: Build, other: Stack) -> None:
    published = lambda_.LayerVersion.from_layer_version_arn(other, "Layer", LAYER_ARN)
    template = Template.from_stack(build(dependencies_layer=published))
    assert function(template, "LeaseManager")["Layers"][1] == LAYER_ARN
    template.resource_count_is("AWS::Lambda::LayerVersion", 1)


def test_outputs_are_made_if_they_are_wanted(build: Build) -> None:
    def outputs(**given: Any) -> list[str]:
        return list(Template.from_stack(build(**given)).to_json()["Outputs"])

    assert len(outputs(outputs=True)) == 2 * len(outputs())  # the repository's own stack has them in any case


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("runtime", {"runtime": lambda_.Runtime.PYTHON_3_9}),
        ("vpc", {"vpc_subnets": ec2.SubnetSelection()}),
    ],
)
def test_invalid_property_is_refused_by_name(build: Build, name: str, given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as refused:
        build(**given)
    assert refused.value.name == name


def test_too_many_worker_layers_are_refused(build: Build, other: Stack) -> None:
    own = lambda_.LayerVersion.from_layer_version_arn(other, "Layer", LAYER_ARN)
    with pytest.raises(SettingsError, match="worker_layers = 4: at most 3"):
        build(worker_layers=[own] * 4)


def granted(build: Build, grant: str) -> dict[str, set[str]]:
    """One of the construct's grants, as resource -> actions."""
    stack = build()
    somebody = iam.Role(stack, "Somebody", assumed_by=iam.AnyPrincipal())
    getattr(stack.consumer, grant)(somebody)
    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    (policy,) = [each["Properties"] for name, each in policies.items() if name.startswith("Somebody")]
    found: dict[str, set[str]] = {}
    for statement in policy["PolicyDocument"]["Statement"]:
        resources, action = statement["Resource"], statement["Action"]
        for each in resources if isinstance(resources, list) else [resources]:
            name = each if isinstance(each, str) else each["Fn::GetAtt"][0].removeprefix("Consumer")[:-8]
            found.setdefault(name, set()).update({action} if isinstance(action, str) else action)
    return found


def test_grants_give_exactly_the_needed_actions(build: Build) -> None:
    assert granted(build, "grant_prompt") == {"LeaseManager": {"lambda:InvokeFunction"}}
    assert granted(build, "grant_read_leases") == {
        "Leases": {"dynamodb:Scan"},
        "Sightings": {"dynamodb:Scan"},
    }
    assert granted(build, "grant_worker") == {
        "Leases": {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
        "Sightings": {"dynamodb:GetItem", "dynamodb:PutItem"},
        STREAM_ARN: {
            "kinesis:DescribeStreamSummary",
            "kinesis:GetRecords",
            "kinesis:GetShardIterator",
            "kinesis:ListShards",
        },
    }
    every = {f"dynamodb:{name}Item" for name in ("Delete", "Get", "Put", "Update")} | {"dynamodb:Scan"}
    assert granted(build, "grant_process") == {
        "Leases": every,
        "Sightings": {"dynamodb:Scan", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"},
        STREAM_ARN: {
            f"kinesis:{name}" for name in ("DescribeStreamSummary", "GetRecords", "GetShardIterator", "ListShards")
        },
    }


@pytest.mark.parametrize(("kcl_fleet", "expected"), [(KclFleet.DETECT, True), (KclFleet.V2, False)])
def test_a_kcl_3_leader_may_be_reported_to_where_the_leases_are_shared(
    build: Build, kcl_fleet: KclFleet, expected: bool
) -> None:
    """In the table in which KCL 3.0 to 3.4 keeps reports; from 3.5 on that is the lease table."""
    table = dynamodb.Table.from_table_name(Stack(an_app(), "tables"), "Table", "orders-audit")
    template = Template.from_stack(build(lease_table=table, mode=Mode.CONTINUOUS, kcl_fleet=kcl_fleet))
    duties = {name: role(template, name).get("worker-reports") for name in ("LeaseManager", "LeaseWorker")}
    if not expected:
        assert set(duties.values()) == {None}
        return
    for duty, actions in (
        ("LeaseManager", {"Scan", "PutItem", "DeleteItem"}),
        ("LeaseWorker", {"GetItem", "PutItem"}),
    ):
        allowed, resource = duties[duty] or (set(), "")
        assert allowed == {f"dynamodb:{action}" for action in actions}
        assert resource.endswith(":table/orders-audit-WorkerMetricStats")


def test_metrics_are_the_applications_own(build: Build) -> None:
    consumer = build().consumer
    lag = consumer.metric_lag()
    assert (lag.namespace, lag.metric_name, lag.statistic) == ("sublet", "millis_behind_latest", "Maximum")
    assert lag.dimensions == {"application": "orders-audit"}
    of_shard = consumer.metric(Metric.BYTES, "Sum", shard_id="shardId-1")
    assert of_shard.dimensions == {"application": "orders-audit", "shard_id": "shardId-1"}


def test_a_process_has_the_alarms_and_the_dashboard_but_for_lambdas_own() -> None:
    stack = Stack(an_app(context={MATH_ALARMS_FLAG: True}), "fleet")
    monitoring = ConsumerMonitoring(stack, "Monitoring", application="orders-audit")
    template = Template.from_stack(stack)
    found = template.find_resources("AWS::CloudWatch::Alarm").values()
    assert {alarm["Properties"].get("Namespace", "sublet") for alarm in found} == {"sublet"}
    assert set(monitoring.alarms) == {
        "Lagging",
        "UnclaimedLeases",
        "WorkersGone",
        "DataGap",
        "MalformedRows",
        "HandlerFailing",
        "HandlerCrashing",
        "HotShard",
        "HandlerStuck",
        "RecordsSetAside",
        "DestinationRefuses",
        "BatchesUnfinished",
        "LeasesMissing",
        "ShardUnread",
        "OwnerStalled",
        "ShardStalled",
        "HandlerHanging",
        "ReadsRefused",
        "LeasesFailing",
        "PollsThrottled",
        "TicksMissing",
    }
    template.resource_count_is("AWS::CloudWatch::Dashboard", 1)


def test_cdk_nag_finds_nothing(build: Build, other: Stack) -> None:
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    vpc = ec2.Vpc.from_vpc_attributes(
        other, "Vpc", vpc_id="vpc-12345678", availability_zones=["a"], private_subnet_ids=["subnet-12345671"]
    )
    bucket = "arn:aws:s3:::given-up/sublet"
    build(
        {},
        app,
        vpc=vpc,
        tracing=lambda_.Tracing.ACTIVE,
        runtime=lambda_.Runtime.PYTHON_3_12,
        on_failure=bucket,
        maximum_retry_attempts=3,
    )
    app.synth()  # raises, and prints the findings, if there are any


@pytest.mark.parametrize("of", ["another stack", "this stack"])
def test_cdk_nag_finds_nothing_with_a_role_and_a_bucket_of_the_user_s(tmp_path: Path, of: str) -> None:
    """The worker's duties go to an existing role, as a policy of ours or of the role's own."""
    (tmp_path / "orders.py").write_text("def handle(batch): ...\n")
    (tmp_path / "layer" / "python").mkdir(parents=True)
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    stack = Stack(app, "orders")
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-12345678", availability_zones=["a"], private_subnet_ids=["subnet-12345671"]
    )
    worker_role: iam.IRole
    bucket: s3.IBucket
    if of == "this stack":
        worker_role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        bucket = s3.Bucket(stack, "GivenUp", enforce_ssl=True, server_access_logs_prefix="accesses")
    else:
        worker_role = iam.Role.from_role_arn(stack, "Role", ROLE_ARN)
        bucket = s3.Bucket.from_bucket_name(stack, "GivenUp", "given-up")
    KinesisConsumer(
        stack,
        "Consumer",
        application="orders-audit",
        stream=Stream.from_stream_arn(stack, "Stream", STREAM_ARN),
        handler_code=tmp_path,
        handler="orders:handle",
        dependencies_layer=tmp_path / "layer",
        worker_role=worker_role,
        on_failure=bucket,
        maximum_retry_attempts=3,
        tracing=lambda_.Tracing.ACTIVE,
        vpc=vpc,
    )
    app.synth()  # raises, and prints the findings, if there are any


def test_logs_are_under_the_key_that_is_given(build: Build, other: Stack) -> None:
    arn = "arn:aws:kms:eu-central-1:123456789012:key/1"
    groups = Template.from_stack(build(log_key=kms.Key.from_key_arn(other, "Key", arn))).find_resources(
        "AWS::Logs::LogGroup"
    )
    assert len(groups) == 4
    assert {each["Properties"]["KmsKeyId"] for each in groups.values()} == {arn}


def test_cloudwatch_may_use_a_key_for_the_log_groups(other: Stack) -> None:
    keep_logs(other, RetentionDays.ONE_DAY, kms.Key(other, "Key"))
    (made,) = Template.from_stack(other).find_resources("AWS::KMS::Key").values()
    statements = made["Properties"]["KeyPolicy"]["Statement"]
    (for_logs,) = [each for each in statements if "logs." in str(each["Principal"])]
    assert "log-group:*" in str(for_logs["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"])


def test_logs_are_under_cloudwatchs_own_key_otherwise(build: Build) -> None:
    groups = Template.from_stack(build()).find_resources("AWS::Logs::LogGroup")
    assert not [each for each in groups.values() if "KmsKeyId" in each["Properties"]]


@pytest.mark.parametrize("protected", [True, False])
def test_the_lease_table_is_protected_from_deletion_where_that_is_asked_for(build: Build, protected: bool) -> None:
    template = Template.from_stack(build(lease_table_deletion_protection=protected))
    tables = template.find_resources("AWS::DynamoDB::Table")
    (leases,) = [each["Properties"] for name, each in tables.items() if "Leases" in name]
    assert leases["DeletionProtectionEnabled"] is protected


def test_step_functions_takes_its_role_for_state_machines_of_this_account_alone(build: Build) -> None:
    roles = Template.from_stack(build()).find_resources("AWS::IAM::Role")
    (executions,) = [each["Properties"] for name, each in roles.items() if "ExecutionsRole" in name]
    (trust,) = executions["AssumeRolePolicyDocument"]["Statement"]
    assert str(trust["Condition"]["ArnLike"]["aws:SourceArn"]).endswith(":stateMachine:*']]}")
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    assert trust["Condition"]["StringEquals"].keys() == {"aws:SourceAccount"}


def test_context_gives_properties_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", "123456789012")
    monkeypatch.setenv("CDK_DEFAULT_REGION", "eu-central-1")
    (tmp_path / "orders.py").write_text("def handle(batch): ...\n")
    context = {
        "application": "orders-audit",
        "handler_code": str(tmp_path),
        "handler": "orders:handle",
        "runtime": "python3.12",
        "tracing": "true",
        "ephemeral_storage": "1024",
        "vpc_id": "vpc-12345678",
    }
    stack = stack_of(an_app(context=context), {})
    assert stack.stack_name == "sublet-orders-audit"
    worker = function(Template.from_stack(stack), "LeaseWorker")
    assert worker["Runtime"] == "python3.12"
    assert worker["TracingConfig"] == {"Mode": "Active"}
    assert worker["EphemeralStorage"] == {"Size": 1024}
    assert worker["VpcConfig"]["SubnetIds"]


def test_context_without_an_application_is_refused() -> None:
    with pytest.raises(SettingsError, match="setting application is required: the consumer group"):
        stack_of(an_app(), {})


def test_a_lambda_event_handler_gets_the_role_that_reads_the_stream(build: Build) -> None:
    template = Template.from_stack(build({"handler": "lambdas:handler", "handler_contract": "lambda_event"}))
    worker = function(template, "LeaseWorker")
    variables = worker["Environment"]["Variables"]
    assert variables["SUBLET_INVOKE_IDENTITY_ARN"] == worker["Role"]
    assert variables["SUBLET_HANDLER_CONTRACT"] == "lambda_event"


def test_handler_of_another_contract_is_refused_at_synth(build: Build) -> None:
    with pytest.raises(SettingsError, match="set handler_contract=lambda_event"):
        build({"handler": "lambdas:handler"})


def on_failure_of(template: Template) -> Any:
    return function(template, "LeaseWorker")["Environment"]["Variables"]["SUBLET_ON_FAILURE"]


def test_the_worker_may_send_to_its_queue_and_no_more(build: Build, other: Stack) -> None:
    queue = sqs.Queue.from_queue_arn(other, "Queue", "arn:aws:sqs:eu-central-1:123456789012:given-up")
    template = Template.from_stack(build(on_failure=queue, maximum_retry_attempts=3))
    assert on_failure_of(template) == "arn:aws:sqs:eu-central-1:123456789012:given-up"
    actions, resource = role(template, "LeaseWorker")["on-failure"]
    assert actions == {"sqs:GetQueueUrl", "sqs:SendMessage"}
    assert resource == "arn:aws:sqs:eu-central-1:123456789012:given-up"
    assert "on-failure" not in role(template, "LeaseManager")


def test_the_worker_may_put_into_its_own_folder_of_a_bucket(build: Build) -> None:
    template = Template.from_stack(build(on_failure="arn:aws:s3:::given-up/sublet/", maximum_record_age="1d"))
    actions, resource = role(template, "LeaseWorker")["on-failure"]
    assert (actions, resource) == ({"s3:PutObject"}, "arn:aws:s3:::given-up/sublet/orders-audit/*")


def test_a_topic_is_a_destination_too(build: Build, other: Stack) -> None:
    topic = sns.Topic.from_topic_arn(other, "Topic", "arn:aws:sns:eu-central-1:123456789012:given-up")
    template = Template.from_stack(build(on_failure=topic, maximum_retry_attempts=3))
    assert role(template, "LeaseWorker")["on-failure"][0] == {"sns:Publish"}


def test_a_destination_of_the_same_stack_is_known_only_at_deployment(tmp_path: Path) -> None:
    (tmp_path / "layer" / "python").mkdir(parents=True)
    (tmp_path / "orders.py").write_text("def handle(batch): ...\n")
    stack = Stack(an_app(), "orders")
    key = kms.Key(stack, "Key")
    consumer = KinesisConsumer(
        stack,
        "Consumer",
        application="orders-audit",
        stream=Stream.from_stream_arn(stack, "Stream", STREAM_ARN),
        handler_code=tmp_path,
        handler="orders:handle",
        dependencies_layer=tmp_path / "layer",
        on_failure=sqs.Queue(stack, "GivenUp", encryption_master_key=key),
        maximum_retry_attempts=3,
    )
    consumer.grant_redrive(iam.Role.from_role_arn(stack, "Operator", ROLE_ARN))
    template = Template.from_stack(stack)
    assert on_failure_of(template)["Fn::GetAtt"][0].startswith("GivenUp")
    assert role(template, "LeaseWorker")["on-failure-key"][0] == {"kms:Decrypt", "kms:GenerateDataKey"}


@pytest.mark.parametrize("given", [{"maximum_retry_attempts": 0}, {"maximum_record_age": "1d"}])
def test_records_may_not_be_given_up_to_nowhere(build: Build, given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="setting on_failure is required"):
        build(**given)


@pytest.mark.parametrize("given", ["given-up", "arn:aws:lambda:eu-central-1:123456789012:function:x", 7])
def test_on_failure_is_refused_for_a_value_of_no_destination(build: Build, given: Any) -> None:
    with pytest.raises(SettingsError, match="setting on_failure"):
        build(on_failure=given)


KINDS = json.dumps({"Filters": [{"Pattern": json.dumps({"data": {"kind": [f"kind-{n}" for n in range(150)]}})}]})


@pytest.mark.parametrize(
    "given",
    [{"worker_environment": {"WORDS": "x" * 3_000}}, {"filter_criteria": KINDS}],
    ids=["variables", "filter criteria"],
)
def test_too_large_environment_is_refused_at_synth(build: Build, given: dict[str, Any]) -> None:
    with pytest.raises(
        SettingsError, match=r"bytes': at most 4,096 in all variables .* the largest: (WORDS|SUBLET_FILTER)"
    ):
        build(**given)


def test_variables_that_are_added_later_count_too(build: Build) -> None:
    stack = build()
    stack.consumer.worker.add_environment("WORDS", "x" * 4_000)
    with pytest.raises(RuntimeError, match="at most 4,096"):
        Template.from_stack(stack)
