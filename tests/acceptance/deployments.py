"""The steps on ways to deploy: by command, without the CDK, after a process, in a second region, for a stream of
another account.
"""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sublet.operate.rules import role_needs
from sublet.operate.rules.stack_names import consumer_stack
from sublet.settings.value import TAG as APPLICATION_TAG

from infra.local.deploy import bootstrap
from tests.acceptance.belongings import TAG
from tests.acceptance.commands import running_sublet, sublet
from tests.acceptance.outcomes import PATIENCE, NotAsItShouldBe, NotAsked, NotOffered
from tests.acceptance.stage import HANDLERS, Stage
from tests.acceptance.things import Table
from tests.e2e.deliveries import out_of_order
from tests.e2e.fleet import Fleet

KEYS = [f"key-{n}" for n in range(100)]
BY_ARGUMENT = ("application", "stream_arn", "handler_code", "handler")


def by_the_deploy_command(stage: Stage) -> None:
    """`sublet deploy`, as README begins."""
    _deployed_by_command(stage, "command")


def _deployed_by_command(stage: Stage, suffix: str) -> None:
    arn = stage.make_stream(suffix, ShardCount=1)
    context, recorder = stage.recorded(suffix)
    application = context["application"]
    stage.expect_stack(consumer_stack(application), application, f"{application}-sightings")
    exports = {} if stage.plan.is_dry else {"metrics_export": "otlp"}  # `metrics_by_otlp` looks for them
    outputs = _run_deploy(stage, {**context, **exports, "stream_arn": arn})
    _all_come(stage, Fleet(stage.aws, arn.rpartition("/")[2], outputs, recorder))


def _run_deploy(stage: Stage, context: Mapping[str, str]) -> dict[str, str]:
    """Returns the stack's outputs. A real account has been bootstrapped, or the run had been refused."""
    bootstrap(stage.aws, report=lambda line: stage.report(f"  | {line}"))
    with tempfile.TemporaryDirectory(prefix="sublet-acceptance-") as scratch:
        outputs = Path(scratch) / "outputs.json"
        sublet(
            stage,
            *("deploy", *_options(context, stage), "--"),
            *("--require-approval", "never", "--tags", f"{TAG}={stage.plan.prefix}", "--progress", "events"),
            *("--outputs-file", str(outputs), "--output", str(Path(scratch) / "cdk.out")),
            *(("--context", "sublet:metric-math-alarms=false") if stage.plan.is_dry else ()),
        )
        found: dict[str, dict[str, str]] = json.loads(outputs.read_text())
        return found[consumer_stack(context["application"])]


def without_the_cdk(stage: Stage) -> None:
    """`sublet synth --plain`, its files in a bucket, and CloudFormation alone, as for SAM and Terraform."""
    arn, bucket = stage.make_stream("plain", ShardCount=1), stage.make_bucket("plain")
    context, recorder = stage.recorded("plain")
    application, stack = context["application"], stage.name("plain")
    stage.expect_stack(stack, application, f"{application}-sightings")
    s3, cloudformation = stage.client("s3"), stage.client("cloudformation")
    with tempfile.TemporaryDirectory(prefix="sublet-acceptance-") as scratch:
        folder = Path(scratch)
        sublet(
            stage,
            *("synth", "--plain", str(folder), *_options({**context, "stream_arn": arn}, stage)),
        )
        if stage.plan.is_dry:
            _leave_out_math(stage, folder / "template.json")
        for file in (*(folder / "assets").iterdir(), folder / "template.json"):
            s3.upload_file(str(file), bucket, file.name)
        template = (folder / "template.json").stat().st_size
    url = f"{s3.meta.endpoint_url}/{bucket}/template.json"
    if not stage.plan.is_dry:
        url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "template.json"}).partition("?")[0]
    cloudformation.create_stack(
        StackName=stack,
        TemplateURL=url,
        Parameters=[{"ParameterKey": "AssetsBucket", "ParameterValue": bucket}],
        Capabilities=["CAPABILITY_IAM"],
        Tags=[{"Key": name, "Value": value} for name, value in stage.tags.items()],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=stack, WaiterConfig={"Delay": 5, "MaxAttempts": 180}
    )
    described = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["Outputs"]
    stage.facts["template"] = f"{template:,} bytes"
    outputs = {each["OutputKey"]: each["OutputValue"] for each in described}
    _all_come(stage, Fleet(stage.aws, arn.rpartition("/")[2], outputs, recorder))


def a_process_becomes_a_lambda(stage: Stage) -> None:
    """`sublet run` makes the tables and reads; then it is stopped, and `sublet deploy` finds its tables and goes on."""
    arn = stage.make_stream("moved", ShardCount=2)
    context, recorder = stage.recorded("moved")
    application, stream = context["application"], arn.rpartition("/")[2]
    tables = (application, f"{application}-sightings")
    fleet = Fleet(stage.aws, stream, {}, recorder)
    with running_sublet(
        stage,
        *("run", "--application", application, "--stream", stream, "--handler", context["handler"]),
        *("--start-position", context["start_position"]),
        folder=HANDLERS,
        variables=json.loads(context["handler_environment"]),
    ):
        recorder.wait_for(fleet.produce(KEYS), PATIENCE)
        for table in tables:
            _take_over(stage, table, application)
    fleet.produce(KEYS)  # between the process and the stack
    stage.expect_stack(consumer_stack(application))
    fleet.outputs = _run_deploy(stage, {**context, "stream_arn": arn})
    _all_come(stage, fleet)
    repeated = len(recorder.deliveries()) - len(set(fleet.put))
    stage.facts["repeated"] = str(repeated)


def in_a_second_region(stage: Stage) -> None:
    """The application of `sublet deploy` once more, in another region of the same account."""
    if stage.elsewhere is None:
        raise NotAsked("give --second-region")
    _deployed_by_command(stage.at(stage.elsewhere), "command")


def a_stream_of_another_account(stage: Stage) -> None:
    """Whose resource policy lets this account read it."""
    if stage.foreign is None:
        if stage.plan.is_dry:
            raise NotOffered("the embedded AWS has one account")
        raise NotAsked("give --other-profile")
    arn = stage.at(stage.foreign).make_stream("foreign", ShardCount=1)
    account = stage.client("sts").get_caller_identity()["Arn"].split(":")
    actions = sorted({*role_needs.LEASE_MANAGER_ON_STREAM, *role_needs.LEASE_WORKER_ON_STREAM})
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:{account[1]}:iam::{account[4]}:root"},
        "Action": actions,
        "Resource": arn,
    }
    kinesis = stage.foreign.client("kinesis")
    kinesis.put_resource_policy(ResourceARN=arn, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    fleet = stage.deploy_consumer("foreign", arn).fleet
    fleet.kinesis = kinesis
    _all_come(stage, fleet)


def _all_come(stage: Stage, fleet: Fleet) -> None:
    """A record of each key is handled in time, and all that was put came in order."""
    fleet.produce(KEYS)
    fleet.tick()
    if wrong := out_of_order(fleet.recorder.wait_for(fleet.put, PATIENCE)):
        raise NotAsItShouldBe(f"{len(wrong)} records came out of order, such as {wrong[0]}")
    stage.facts["records"] = f"{len(fleet.put)} put, 0 missing, 0 out of order"


def _take_over(stage: Stage, table: str, application: str) -> None:
    """The process has created the table, and tagged it with its application. From here on it is the run's too."""
    dynamodb, mine = stage.client("dynamodb"), Table(stage.aws, table)
    if (mine.tags() or {}).get(APPLICATION_TAG) != application:
        raise NotAsItShouldBe(f"{mine.label} has no tag of {application}")
    arn = dynamodb.describe_table(TableName=table)["Table"]["TableArn"]
    stage.belongings.tagged(mine)
    dynamodb.tag_resource(ResourceArn=arn, Tags=[{"Key": TAG, "Value": stage.plan.prefix}])


def _leave_out_math(stage: Stage, template: Path) -> None:
    """The emulator lacks alarms on metric math, and `--plain` takes no context that leaves them out."""
    described: dict[str, Any] = json.loads(template.read_text())
    resources = described["Resources"]
    left_out = [
        name
        for name, each in resources.items()
        if each["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in each["Properties"]
    ]
    for name in left_out:
        del resources[name]
    for each in resources.values():
        each.pop("DependsOn", None) if each.get("DependsOn") in left_out else None
    template.write_text(json.dumps(described))
    stage.facts["left out here"] = f"{len(left_out)} alarms on metric math, which the emulator lacks"


def _options(context: Mapping[str, str], stage: Stage) -> list[str]:
    dry = {"cli_credentials": "true", "architecture": _architecture()} if stage.plan.is_dry else {}
    named = [word for name in BY_ARGUMENT for word in (f"--{name.replace('_', '-')}", context[name])]
    others = {name: value for name, value in {**context, **dry}.items() if name not in BY_ARGUMENT}
    return [*named, *(word for name, value in others.items() for word in ("--set", f"{name}={value}"))]


def _architecture() -> str:
    return "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "x86_64"
