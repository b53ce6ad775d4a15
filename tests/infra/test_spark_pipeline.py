"""SparkPipeline's template: permissions, a run's arguments, the schedule, and the alarms."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from aws_cdk import App, Duration, Environment, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template
from cdk_nag import AwsSolutionsChecks
from sublet.errors import SettingsError
from sublet.settings import StartKind, StartPosition
from sublet.spark.options import Leases
from sublet.spark.pipeline import maintain_command
from sublet.spark.pipeline.command import add_arguments, settings_of
from sublet.spark.pipeline.merge_rule import MergeRule
from sublet.spark.pipeline.settings import PipelineSettings, Sink
from sublet_cdk import roles
from sublet_cdk.consumer_settings import KNOWN_ONLY_AT_DEPLOYMENT
from sublet_cdk.dependencies import EMR
from sublet_cdk.spark_alarms import PipelineThresholds
from sublet_cdk.spark_job import WorkerSize, check_release
from sublet_cdk.spark_pipeline import SparkPipeline

from tests.infra.apps import an_app
from tests.infra.conftest import STREAM_ARN

BUCKET_ARN = "arn:*:s3:::lake"

Make = Callable[..., Stack]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built dependencies, a transform and a schema, as small as possible."""
    root = tmp_path_factory.mktemp("pipeline")
    for package in ("pyarrow", "deltalake", "arro3"):
        (root / "dependencies" / package).mkdir(parents=True)
        (root / "dependencies" / package / "__init__.py").write_text("")
    (root / "code").mkdir()
    (root / "code" / "orders.py").write_text("def tables(df): ...\nasync def later(df): ...\n")
    (root / "schema.json").write_text('{"type": "struct", "fields": []}')
    return root


@pytest.fixture(scope="module")
def make(parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`make(schema="id BIGINT")`: a stack with one pipeline."""

    def stack_of(app: App | None = None, env: Environment | None = None, /, **properties: Any) -> Stack:
        stack = Stack(app or an_app(), "lake", env=env)
        given = {
            "name": "orders-lake",
            "stream": kinesis.Stream.from_stream_arn(stack, "Stream", STREAM_ARN),
            "bucket": s3.Bucket.from_bucket_name(stack, "Bucket", "lake"),
            "dependencies": parts / "dependencies",
            "vpc": ec2.Vpc.from_vpc_attributes(
                stack,
                "Vpc",
                vpc_id="vpc-12345678",
                availability_zones=["a"],
                private_subnet_ids=["subnet-12345671"],
            ),
        }
        SparkPipeline(stack, "Pipeline", **{**given, **properties})
        return stack

    return stack_of


@pytest.fixture(scope="module")
def template(make: Make) -> Template:
    return Template.from_stack(make())


def only(template: Template, kind: str, name: str = "") -> Mapping[str, Any]:
    """The properties of the only resource of a type whose logical id contains `name`."""
    (found,) = [r for key, r in template.find_resources(kind).items() if name in key]
    properties: Mapping[str, Any] = found["Properties"]
    return properties


def plain(value: Any) -> Any:
    """Tokens as short text: our own resource as its construct's name, anything else as `*`."""
    match value:
        case list():
            text: Any = [plain(each) for each in value]
        case {"Fn::Join": [_, list(parts)]}:
            text = "".join(map(plain, parts))
        case {"Fn::Sub": str(template)}:
            text = re.sub(r"\$\{[^}]+\}", "*", template)
        case {"Fn::GetAtt": [str(name), _]}:
            text = name.removeprefix("Pipeline")[:-8]
        case {"Ref": str(name)} if name.startswith("Pipeline"):
            text = name.removeprefix("Pipeline")[:-8]
        case dict():
            text = "*"
        case _:
            text = value
    return text


def role(template: Template, name: str) -> dict[str, tuple[set[str], Any]]:
    """What a role may do: duty -> actions and resource."""
    properties = only(template, "AWS::IAM::Role", name)
    assert "ManagedPolicyArns" not in properties
    assert template.find_resources("AWS::IAM::Policy") == {}
    duties = {}
    for policy in properties["Policies"]:
        (statement,) = policy["PolicyDocument"]["Statement"]
        actions = {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])
        duties[policy["PolicyName"]] = (actions, plain(statement["Resource"]))
    return duties


def request(template: Template, schedule: str = "PipelineSchedule") -> Any:
    """StartJobRun's request, as EventBridge Scheduler sends it."""
    return json.loads(plain(only(template, "AWS::Scheduler::Schedule", schedule)["Target"]["Input"]))


def arguments(template: Template) -> PipelineSettings:
    """The run's arguments as the command itself reads them."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return settings_of(parser.parse_args(request(template)["JobDriver"]["SparkSubmit"]["EntryPointArguments"]))


def spark(template: Template) -> dict[str, str]:
    text = request(template)["JobDriver"]["SparkSubmit"]["SparkSubmitParameters"]
    pairs = [pair.partition("=") for pair in text.removeprefix("--conf ").split(" --conf ")]
    return {name: value for name, _, value in pairs}


def test_the_job_may_do_exactly_this(template: Template) -> None:
    duties = role(template, "JobRole")
    actions, code = duties.pop("code")
    assert actions == {"s3:GetObject"}
    assert len(code) == 3  # the entry point, the library, its dependencies: by their keys
    assert all(re.search(r"/[0-9a-f]{64}\.(py|zip)$", arn) for arn in code)
    assert duties == {
        "stream": (
            {
                "kinesis:DescribeStreamSummary",
                "kinesis:ListShards",
                "kinesis:GetShardIterator",
                "kinesis:GetRecords",
            },
            STREAM_ARN,
        ),
        "tables": (
            {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"},
            f"{BUCKET_ARN}/tables/*",
        ),
        "names": ({"s3:ListBucket"}, BUCKET_ARN),
        "log": ({"logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"}, "Log"),
        "find-log": ({"logs:DescribeLogGroups"}, "*"),
    }


@pytest.mark.parametrize("leases", Leases)
def test_job_role_has_lease_table_permissions_by_its_use_of_leases(make: Make, leases: Leases) -> None:
    if leases is Leases.NONE:
        assert "leases" not in role(Template.from_stack(make()), "JobRole")
        return
    template = Template.from_stack(make(application="orders-audit", leases=leases))
    actions, table = role(template, "JobRole")["leases"]
    assert actions == set(roles.PIPELINE_ON_LEASES[leases])
    assert table.endswith(":table/orders-audit")
    sightings = role(template, "JobRole").get("sightings")
    assert sightings is not None
    assert sightings[0] == set(roles.PIPELINE_ON_SIGHTINGS[leases])
    assert sightings[1].endswith(":table/orders-audit-sightings")
    options = arguments(template).options
    assert (options["application"], options["leases"]) == ("orders-audit", leases)


def test_following_an_application_writes_nothing_in_its_table() -> None:
    assert roles.PIPELINE_ON_LEASES["follow"] == ["dynamodb:Scan"]


def test_keys_of_the_stream_and_of_the_bucket(make: Make) -> None:
    stack = Stack(an_app(), "keys")
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:eu-central-1:123456789012:key/1")
    own = s3.Bucket.from_bucket_attributes(stack, "Bucket", bucket_name="lake", encryption_key=key)
    duties = role(Template.from_stack(make(stream_key=key, bucket=own)), "JobRole")
    assert duties["stream-key"] == ({"kms:Decrypt"}, key.key_arn)
    assert duties["tables-key"] == ({"kms:Decrypt", "kms:GenerateDataKey"}, key.key_arn)


def test_a_checkpoint_outside_the_tables_prefix_may_be_written_too(make: Make) -> None:
    template = Template.from_stack(make(output_prefix="lake/orders", checkpoint_prefix="places/orders"))
    _, below = role(template, "JobRole")["tables"]
    assert below == [f"{BUCKET_ARN}/lake/orders/*", f"{BUCKET_ARN}/places/orders/*"]
    assert arguments(template).output == "s3://lake/lake/orders"
    assert arguments(template).checkpoint == "s3://lake/places/orders"


def test_the_schedule_may_start_this_application_s_runs_under_this_role_alone(template: Template) -> None:
    assert role(template, "ScheduleRole") == {
        "start-runs": ({"emr-serverless:StartJobRun"}, "Application"),
        "pass-job-role": ({"iam:PassRole"}, "JobRole"),
        "dead-letters": ({"sqs:SendMessage"}, "DeadLetters"),
    }
    (passing,) = [
        policy["PolicyDocument"]["Statement"][0]
        for policy in only(template, "AWS::IAM::Role", "ScheduleRole")["Policies"]
        if policy["PolicyName"] == "pass-job-role"
    ]
    assert passing["Condition"] == {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}


@pytest.mark.parametrize(
    ("name", "service", "source"),
    [
        ("JobRole", "emr-serverless.amazonaws.com", "Application"),
        ("ScheduleRole", "scheduler.amazonaws.com", "arn:*:scheduler:*:*:schedule-group/default"),
    ],
)
def test_a_role_is_taken_by_one_service_on_behalf_of_one_resource(
    template: Template, name: str, service: str, source: str
) -> None:
    (statement,) = only(template, "AWS::IAM::Role", name)["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": service}
    assert plain(statement["Condition"]["ArnLike"]["aws:SourceArn"]) == source


def test_runs_never_overlap_and_nothing_runs_between_them(template: Template) -> None:
    application = only(template, "AWS::EMRServerless::Application")
    assert application["SchedulerConfiguration"] == {"MaxConcurrentRuns": 1, "QueueTimeoutMinutes": 720}
    assert application["AutoStopConfiguration"] == {"Enabled": True, "IdleTimeoutMinutes": 1}
    assert application["AutoStartConfiguration"] == {"Enabled": True}
    assert "InitialCapacity" not in application
    assert (application["ReleaseLabel"], application["Architecture"], application["Type"]) == (
        "emr-spark-8.0.0",
        "ARM64",
        "SPARK",
    )
    log = application["MonitoringConfiguration"]["CloudWatchLoggingConfiguration"]
    assert (log["Enabled"], plain(log["LogGroupName"])) == (True, "Log")


def test_application_capacity_equals_the_sum_of_its_workers(make: Make) -> None:
    sizes = {"driver": WorkerSize(1, 4), "executor": WorkerSize(4, 16), "executors_max": 3}
    template = Template.from_stack(make(**sizes))
    assert only(template, "AWS::EMRServerless::Application")["MaximumCapacity"] == {
        "Cpu": "13 vCPU",
        "Memory": "52 GB",
        "Disk": "80 GB",
    }
    properties = spark(template)
    assert properties["spark.dynamicAllocation.maxExecutors"] == "3"
    assert (properties["spark.driver.cores"], properties["spark.executor.cores"]) == ("1", "4")
    share = 1 + float(properties["spark.emr-serverless.memoryOverheadFactor"])
    for worker, memory in (("driver", 4), ("executor", 16)):
        heap = int(properties[f"spark.{worker}.memory"].removesuffix("m"))
        assert memory * 1024 - 2 < heap * share <= memory * 1024


@pytest.mark.parametrize(("own", "told"), [({}, "12"), ({"maxPartitions": "5"}, "5"), ({"MAXPARTITIONS": "5"}, "5")])
def test_run_reads_in_as_many_tasks_as_its_executors_have_cores(make: Make, own: dict[str, str], told: str) -> None:
    template = Template.from_stack(make(executor=WorkerSize(4, 16), executors_max=3, options=own))
    names = {name.lower(): text for name, text in arguments(template).options.items()}
    assert names["maxpartitions"] == told


def test_a_run_is_started_once_for_each_time_that_is_due(template: Template) -> None:
    schedule = only(template, "AWS::Scheduler::Schedule")
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    target = schedule["Target"]
    assert plain(target["Arn"]) == "arn:*:scheduler:::aws-sdk:emrserverless:startJobRun"
    assert plain(target["RoleArn"]) == "ScheduleRole"
    assert plain(target["DeadLetterConfig"]["Arn"]) == "DeadLetters"
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 3600, "MaximumRetryAttempts": 5}
    assert request(template)["ClientToken"] == "<aws.scheduler.execution-id>"


def test_the_request_is_one_that_emr_serverless_takes(template: Template) -> None:
    service = botocore.session.get_session().get_service_model("emr-serverless")

    def check(given: Mapping[str, Any], shape: Any) -> None:
        assert set(given) <= {name[0].upper() + name[1:] for name in shape.members}
        assert {name[0].upper() + name[1:] for name in shape.required_members} <= set(given)
        for name, member in shape.members.items():
            value = given.get(name[0].upper() + name[1:])
            if value is not None and member.type_name == "structure":
                check(value, member)
            elif value is not None:
                kinds = {"string": str, "list": list, "long": int}
                assert isinstance(value, kinds[member.type_name]), name

    check(request(template), service.operation_model("StartJobRun").input_shape)


def test_job_run_gets_the_constructs_properties(make: Make, parts: Path) -> None:
    schema = "id BIGINT NOT NULL, price DECIMAL(9,2), note STRING"
    told = arguments(
        Template.from_stack(
            make(
                schema=schema,
                code=parts / "code",
                transform="orders:tables",
                sink=Sink.DELTA,
                start=StartPosition(StartKind.LATEST),
                options={"maxSpanPerTrigger": "5m"},
            )
        )
    )
    assert told == PipelineSettings(
        output="s3://lake/tables",
        checkpoint="s3://lake/tables/_checkpoint",
        sink=Sink.DELTA,
        schema=schema,
        transform="orders:tables",
        every=None,  # --available-now
        options={
            "stream": "orders",
            "startPosition": "LATEST",
            "maxSpanPerTrigger": "5m",
            "maxPartitions": "8",
            "streamArn": STREAM_ARN,
            "availableNow": "true",
        },
        spark={},
        metrics_of="orders",  # the stream's name: no application is given
    )


def test_a_schema_file_goes_along(make: Make, parts: Path) -> None:
    template = Template.from_stack(make(schema=str(parts / "schema.json")))
    told = arguments(template).schema
    assert told is not None
    assert told.startswith("s3://")
    assert told.endswith(".json")
    _, code = role(template, "JobRole")["code"]
    assert len(code) == 4


def test_iceberg_tables_go_into_a_namespace(make: Make) -> None:
    template = Template.from_stack(
        make(sink=Sink.ICEBERG, namespace="glue.orders", spark={"spark.jars": "iceberg.jar"})
    )
    assert (arguments(template).output, arguments(template).sink) == ("glue.orders", Sink.ICEBERG)
    assert spark(template)["spark.jars"] == "iceberg.jar"


def test_the_library_and_its_dependencies_are_on_python_s_path_everywhere(make: Make, parts: Path) -> None:
    properties = spark(Template.from_stack(make(code=parts / "code", transform="orders:tables")))
    folders = [archive.partition("#") for archive in properties["spark.archives"].split(",")]
    assert [folder for _, _, folder in folders] == ["library", "dependencies", "code"]
    assert all(address.startswith("s3://") and address.endswith(".zip") for address, _, _ in folders)
    for process in ("spark.emr-serverless.driverEnv", "spark.executorEnv"):
        assert properties[f"{process}.PYTHONPATH"] == "./library:./dependencies:./code"
        assert properties[f"{process}.PYSPARK_PYTHON"] == "/usr/bin/python3.11"
    assert properties["spark.pyspark.driver.python"] == "/usr/bin/python3.11"


@pytest.mark.parametrize(("sink", "taken"), [(Sink.PARQUET, False), (Sink.DELTA, True)])
def test_deltalake_goes_along_for_delta_tables_alone(make: Make, sink: Sink, taken: bool) -> None:
    app = an_app(is_staged=True)
    make(app, sink=sink)
    app.synth()
    (staged,) = [path for path in Path(app.outdir).glob("asset.*") if (path / "pyarrow").is_dir()]
    assert (staged / "deltalake").exists() is (staged / "arro3").exists() is taken


def test_the_library_s_asset_is_the_library(make: Make) -> None:
    app = an_app(is_staged=True)
    make(app)
    app.synth()
    (staged,) = [path for path in Path(app.outdir).glob("asset.*") if (path / "pyspark_sublet").is_dir()]
    assert (staged / "sublet" / "spark" / "pipeline" / "command.py").is_file()
    assert not list(staged.rglob("__pycache__"))


EXPECTED = {
    "RunFailed": ("AWS/Events", "TriggeredRules", "GreaterThanThreshold", 0, 60, 1, "notBreaching"),
    "RunsMissing": ("AWS/Events", "TriggeredRules", "LessThanOrEqualToThreshold", 0, 3600, 3, "breaching"),
    "Lagging": (
        *("AWS/Kinesis", "GetRecords.IteratorAgeMilliseconds", "GreaterThanThreshold"),
        *(12 * 3_600_000, 3600, 1, "notBreaching"),
    ),
    "DeadLetters": (
        *("AWS/SQS", "ApproximateNumberOfMessagesVisible", "GreaterThanThreshold", 0, 60, 1, "notBreaching"),
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_alarm_watches_one_metric(template: Template, name: str) -> None:
    alarm = only(template, "AWS::CloudWatch::Alarm", name)
    assert (
        *(alarm["Namespace"], alarm["MetricName"], alarm["ComparisonOperator"], alarm["Threshold"]),
        *(alarm["Period"], alarm["EvaluationPeriods"], alarm["TreatMissingData"]),
    ) == EXPECTED[name]


def test_pipeline_alarms_are_the_expected_ones_and_tell_the_topic(make: Make) -> None:
    arn = "arn:aws:sns:eu-central-1:123456789012:alarms"
    topic = sns.Topic.from_topic_arn(Stack(an_app(), "topics"), "Topic", arn)
    found = Template.from_stack(make(alarm_topic=topic)).find_resources("AWS::CloudWatch::Alarm")
    assert len(found) == len(EXPECTED)
    for alarm in found.values():
        assert alarm["Properties"]["AlarmActions"] == alarm["Properties"]["OKActions"] == [arn]


@pytest.mark.parametrize(("alarm", "state"), [("RunFailed", "FAILED"), ("RunsMissing", "SUCCESS")])
def test_runs_are_counted_by_a_rule_for_this_application(template: Template, alarm: str, state: str) -> None:
    name = "Runs" + state.capitalize()
    (application,) = template.find_resources("AWS::EMRServerless::Application")
    rule = only(template, "AWS::Events::Rule", name)
    assert rule["EventPattern"] == {
        "source": ["aws.emr-serverless"],
        "detail-type": ["EMR Serverless Job Run State Change"],
        "detail": {"applicationId": [{"Fn::GetAtt": [application, "ApplicationId"]}], "state": [state]},
    }
    assert plain(rule["Targets"][0]["Arn"]) == "Runs"
    (dimension,) = only(template, "AWS::CloudWatch::Alarm", alarm)["Dimensions"]
    assert dimension["Name"] == "RuleName"
    assert dimension["Value"]["Ref"].startswith(f"Pipeline{name}")


def test_thresholds_are_the_users_to_choose(make: Make) -> None:
    template = Template.from_stack(make(alarm_thresholds=PipelineThresholds(lag_hours=1.5, silence_hours=48)))
    assert only(template, "AWS::CloudWatch::Alarm", "Lagging")["Threshold"] == 5_400_000
    assert only(template, "AWS::CloudWatch::Alarm", "RunsMissing")["EvaluationPeriods"] == 48


def test_a_schedule_and_a_timeout_of_one_s_own(make: Make) -> None:
    template = Template.from_stack(
        make(schedule=scheduler.ScheduleExpression.cron(minute="5"), run_timeout=Duration.minutes(50))
    )
    assert only(template, "AWS::Scheduler::Schedule")["ScheduleExpression"] == "cron(5 * * * ? *)"
    assert request(template)["ExecutionTimeoutMinutes"] == 50


def network(template: Template) -> Any:
    return only(template, "AWS::EMRServerless::Application")["NetworkConfiguration"]


def test_the_private_subnets_of_a_network_are_used_and_nothing_may_come_in(make: Make) -> None:
    app = an_app()
    vpc = ec2.Vpc(Stack(app, "network"), "Vpc", max_azs=2)
    template = Template.from_stack(make(app, vpc=vpc))
    assert len(network(template)["SubnetIds"]) == 2
    assert all("PrivateSubnet" in json.dumps(subnet) for subnet in network(template)["SubnetIds"])
    assert "SecurityGroupIngress" not in only(template, "AWS::EC2::SecurityGroup")


ISOLATED = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
PUBLIC = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)


def a_network(**subnets: Any) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        Stack(an_app(), "network"), "Vpc", vpc_id="vpc-12345678", availability_zones=["a"], **subnets
    )


def test_isolated_subnets_will_do_for_a_network_with_endpoints(make: Make) -> None:
    group = ec2.SecurityGroup.from_security_group_id(Stack(an_app(), "groups"), "Group", "sg-12345678")
    vpc = a_network(isolated_subnet_ids=["subnet-12345679"])
    template = Template.from_stack(make(vpc=vpc, vpc_subnets=ISOLATED, security_groups=[group]))
    assert network(template) == {"SecurityGroupIds": ["sg-12345678"], "SubnetIds": ["subnet-12345679"]}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"vpc": None}, "setting vpc = None: a network that reaches Kinesis"),
        (
            {"vpc": a_network(isolated_subnet_ids=["subnet-12345679"])},
            "vpc_subnets = None: .*PRIVATE_ISOLATED.*endpoints",
        ),
        (
            {"vpc": a_network(public_subnet_ids=["subnet-12345679"]), "vpc_subnets": PUBLIC},
            "setting vpc_subnets = 'public'",
        ),
    ],
    ids=["no network", "no way out", "public"],
)
def test_pipeline_is_refused_where_no_worker_could_reach_kinesis(make: Make, given: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        make(**given)


def test_a_stream_of_another_region_is_refused_without_the_region_option(make: Make) -> None:
    elsewhere = {"stream": kinesis.Stream.from_stream_arn(Stack(), "Far", STREAM_ARN)}
    env = Environment(account="123456789012", region="us-east-1")
    with pytest.raises(SettingsError, match=r"setting stream = .*deploy in eu-central-1"):
        make(an_app(), env, **elsewhere)
    make(an_app(), env, **elsewhere, options={"region": "eu-central-1"})


def test_the_keys_of_bucket_and_lease_table_may_be_used(make: Make) -> None:
    key = kms.Key.from_key_arn(Stack(), "Key", "arn:aws:kms:eu-central-1:123456789012:key/1")
    template = Template.from_stack(
        make(bucket_key=key, lease_table_key=key, application="orders-audit", leases=Leases.FOLLOW)
    )
    may = role(template, "JobRole")
    assert may["tables-key"][0] == {"kms:Decrypt", "kms:GenerateDataKey"}
    assert may["leases-key"][0] == set(roles.ON_TABLES_KEY)


def test_a_stream_of_the_same_stack_is_named_at_deployment(make: Make) -> None:
    app = an_app()
    template = Template.from_stack(make(app, stream=kinesis.Stream(Stack(app, "streams"), "Stream")))
    assert KNOWN_ONLY_AT_DEPLOYMENT not in json.dumps(template.to_json())


@pytest.mark.parametrize("label", ["emr-7.13.0", "emr-6.6.0"])
def test_a_release_with_an_older_spark_is_refused_unless_an_image_brings_another(label: str) -> None:
    with pytest.raises(SettingsError, match=r"setting release_label = .*with Spark 4, such as.*image_uri"):
        check_release(label, None)
    check_release(label, "123456789012.dkr.ecr.eu-central-1.amazonaws.com/spark:4.0")


@pytest.mark.parametrize("label", ["emr-spark-8.0.0", "emr-spark-8.2.0", "emr-spark-10.1-preview"])
def test_a_release_with_spark_4_is_taken(label: str) -> None:
    check_release(label, None)


@pytest.mark.parametrize("architecture", [lambda_.Architecture.ARM_64, lambda_.Architecture.X86_64])
def test_pipeline_defaults_to_the_release_and_python_of_its_dependencies(
    make: Make, architecture: lambda_.Architecture
) -> None:
    template = Template.from_stack(make(architecture=architecture))
    application = only(template, "AWS::EMRServerless::Application")
    assert application["ReleaseLabel"] == "emr-spark-8.0.0"
    assert application["Architecture"] == architecture.name.upper()
    told = spark(template)
    python = told["spark.pyspark.python"]
    assert python == told["spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON"]
    assert EMR.python_versions == (python.removeprefix("/usr/bin/python"),)


def test_an_image_is_the_application_s(make: Make) -> None:
    uri = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/spark:4.2"
    template = Template.from_stack(make(release_label="emr-7.13.0", image_uri=uri))
    assert only(template, "AWS::EMRServerless::Application")["ImageConfiguration"] == {"ImageUri": uri}


@pytest.mark.parametrize(
    ("setting", "properties"),
    [
        ("release_label", {"release_label": "latest"}),
        ("name", {"name": "orders lake"}),
        ("output_prefix", {"output_prefix": "/lake"}),
        ("output_prefix", {"output_prefix": ""}),
        ("checkpoint_prefix", {"checkpoint_prefix": "places/"}),
        ("namespace", {"sink": Sink.ICEBERG}),
        ("namespace", {"namespace": "glue.orders"}),
        ("leases", {"leases": Leases.FOLLOW}),
        ("maxspanpertriger", {"options": {"maxSpanPerTriger": "5m"}}),
        ("option", {"options": {"STREAM": "other"}}),
        ("spark", {"spark": {"spark.archives": "s3://mine"}}),
        ("spark", {"spark": {"spark.app.name": "two words"}}),
        ("driver", {"driver": WorkerSize(3, 8)}),
        ("executor", {"executor": WorkerSize(2, 17)}),
        ("executor", {"executor": WorkerSize(8, 18)}),
        ("executors_max", {"executors_max": 0}),
        ("run_timeout", {"run_timeout": Duration.minutes(1)}),
        ("dependencies", {"dependencies": "nowhere"}),
        ("code", {"code": "nowhere"}),
        ("code", {"transform": "orders:tables"}),
        ("schema", {"schema": "nowhere.json"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_property_is_refused_by_its_name(make: Make, setting: str, properties: Mapping[str, Any]) -> None:
    with pytest.raises(SettingsError) as refused:
        make(**properties)
    assert refused.value.name == setting


@pytest.mark.parametrize("transform", ["orders:tabels", "order:tables", "orders:later", "orders"])
def test_a_transform_that_is_not_there_is_refused(make: Make, parts: Path, transform: str) -> None:
    with pytest.raises(SettingsError, match="setting transform = "):
        make(code=parts / "code", transform=transform)


@pytest.mark.parametrize("wrong", [{"lag_hours": 0}, {"silence_hours": 0}, {"silence_hours": 169}], ids=str)
def test_thresholds_have_limits(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        PipelineThresholds(**wrong)


@pytest.mark.parametrize("streams", [{}, {"stream": None, "streams": "audit-*,tag:team=billing"}])
def test_cdk_nag_finds_nothing(make: Make, streams: dict[str, Any]) -> None:
    app = an_app()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    vpc = ec2.Vpc.from_vpc_attributes(
        Stack(app, "network"),
        "Vpc",
        vpc_id="vpc-12345678",
        availability_zones=["a"],
        private_subnet_ids=["subnet-12345671"],
    )
    make(app, vpc=vpc, application="orders-audit", leases=Leases.FOLLOW, **streams)
    app.synth()  # raises, and prints the findings, if there are any


def test_a_pipeline_of_several_streams_may_read_and_find_them(make: Make) -> None:
    template = Template.from_stack(make(stream=None, streams="orders,audit-*@LATEST,tag:team=billing"))
    duties = role(template, "JobRole")
    arns = duties["stream"][1]
    assert [arn.rpartition(":")[2] for arn in arns] == ["stream/orders", "stream/audit-*"]
    assert duties["stream"][0] == duties["stream-by-tag-0"][0] == set(roles.PIPELINE_ON_STREAM)
    assert duties["streams"] == ({"kinesis:ListStreams"}, "*")
    assert duties["tags"] == ({"tag:GetResources"}, "*")
    assert arguments(template).options["stream"] == "orders,audit-*@LATEST,tag:team=billing"
    assert "streamArn" not in arguments(template).options


def test_lag_alarm_exists_for_each_stream_known_at_synth(
    make: Make,
) -> None:
    stack = make(stream=None, streams=f"orders,{STREAM_ARN.replace('orders', 'bills')}@LATEST,audit-*")
    found = Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm")
    lag = {name: each["Properties"] for name, each in found.items() if "Lagging" in name}
    streams = {each["Value"] for alarm in lag.values() for each in alarm["Dimensions"]}
    assert (len(lag), streams) == (2, {"orders", "bills"})
    (warning,) = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp(".*no alarm on the lag.*"))
    assert "audit-*" in str(warning.entry.data)


@pytest.mark.parametrize("given", [{"stream": None}, {"streams": "orders,payments"}], ids=["none", "both"])
def test_a_pipeline_reads_one_stream_or_several(make: Make, given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"setting streams = .*given, if `stream` is not"):
        make(**given)


def test_delta_tables_are_maintained_once_a_day(make: Make) -> None:
    """By the same application, role and workers, so that no run of the pipeline is under way meanwhile."""
    template = Template.from_stack(make(sink=Sink.DELTA))
    schedule = only(template, "AWS::Scheduler::Schedule", "PipelineMaintenance")
    assert schedule["ScheduleExpression"] == "rate(1 day)"
    assert plain(schedule["Target"]["RoleArn"]) == "ScheduleRole"
    assert plain(schedule["Target"]["DeadLetterConfig"]["Arn"]) == "DeadLetters"
    upkeep, run = request(template, "PipelineMaintenance"), request(template)
    given = upkeep["JobDriver"]["SparkSubmit"].pop("EntryPointArguments")
    run["JobDriver"]["SparkSubmit"].pop("EntryPointArguments")
    assert upkeep == {**run, "Name": "orders-lake-maintain"}
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    settings = maintain_command.settings_of(parser.parse_args(given))
    assert (settings.output, settings.sink, settings.dry_run) == ("s3://lake/tables", Sink.DELTA, False)


@pytest.mark.parametrize(
    ("properties", "expression"),
    [
        ({}, None),
        ({"sink": Sink.DELTA, "maintenance": "never"}, None),
        (
            {"sink": Sink.DELTA, "maintenance": scheduler.ScheduleExpression.cron(hour="3", minute="0")},
            "cron(0 3 * * ? *)",
        ),
        ({"sink": Sink.ICEBERG, "namespace": "glue.orders"}, None),
        ({"sink": Sink.ICEBERG, "namespace": "glue.orders", "maintenance": "rate(2 days)"}, "rate(2 days)"),
        (
            {
                "sink": Sink.ICEBERG,
                "namespace": "glue.orders",
                "spark": {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
            },
            "rate(1 day)",
        ),
    ],
)
def test_maintenance_is_scheduled_where_tables_can_be_maintained(
    make: Make, properties: dict[str, Any], expression: str | None
) -> None:
    found = Template.from_stack(make(**properties)).find_resources("AWS::Scheduler::Schedule")
    expressions = [each["Properties"]["ScheduleExpression"] for name, each in found.items() if "Maintenance" in name]
    assert expressions == ([] if expression is None else [expression])


def test_maintenance_of_parquet_is_refused_at_synth(make: Make) -> None:
    with pytest.raises(SettingsError, match=r"setting maintenance = 'rate\(1 day\)': left out"):
        make(maintenance="rate(1 day)")


def test_a_merged_table_is_an_argument_of_the_runs(make: Make) -> None:
    properties = {"schema": "id INT NOT NULL, at INT NOT NULL", "merge_key": "id", "order_by": "at"}
    given = arguments(Template.from_stack(make(sink=Sink.DELTA, delete_when="at < 0", **properties)))
    assert given.merge == MergeRule(key=("id",), order_by=("at",), delete_when="at < 0")
    with pytest.raises(SettingsError, match="setting merge-key = 'id': left out with parquet"):
        make(**properties)
