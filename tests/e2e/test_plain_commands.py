"""Each command of docs/sam-and-terraform.md, as the page has it, deploys to the embedded AWS and consumes there.

`make e2e-plain` installs the tools. Terraform's provider for AWS is not on PyPI: what the page's resources do is done
here by the same calls.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.local import EmbeddedAws, embedded_aws
from infra.local.deploy import EMULATOR_CONTEXT
from infra.local.embedded import ROOT
from tests.e2e.deliveries import Recorder
from tests.e2e.fleet import HANDLERS, Fleet
from tests.exploring import explores

PAGE = ROOT / "docs" / "sam-and-terraform.md"
TOOLS = ROOT / ".local" / "deployers" / "bin"
EXAMPLE_ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
STACK = "sublet-orders-audit"
SAM_STACK = "aws-sam-cli-managed-default"
REQUEST_MAX = 51_200
"""The bytes of a template that CloudFormation takes in a request."""

pytestmark = [
    pytest.mark.e2e,
    explores,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not (TOOLS / "sam").exists(), reason="`make e2e-plain` installs the tools"),
]


def commands() -> list[list[str]]:
    """Every command of the page, in words."""
    lines = re.findall(r"^    ((?:sublet|sam|aws) (?:.*\\\n)*.*)$", PAGE.read_text(), re.MULTILINE)
    return [shlex.split(line.replace("\\\n", " ")) for line in lines]


class Project:
    """A folder with the files that the page's first command has written, and a bucket."""

    def __init__(self, aws: EmbeddedAws, folder: Path) -> None:
        self.aws, self.folder = aws, folder
        self.recorder = Recorder(folder)
        kinesis: Any = aws.client("kinesis")
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(StreamName="orders", WaiterConfig={"Delay": 1})
        self.arn = str(kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]["StreamARN"])
        aws.client("s3").create_bucket(Bucket="plain-files")
        self._let_sam_find_its_stack()

    def _let_sam_find_its_stack(self) -> None:
        """`--resolve-s3` makes it where it is missing, from a template that takes AWS' own transform."""
        template = {
            "Resources": {"SamCliSourceBucket": {"Type": "AWS::S3::Bucket"}},
            "Outputs": {"SourceBucket": {"Value": {"Ref": "SamCliSourceBucket"}}},
        }
        cloudformation = self.aws.client("cloudformation")
        cloudformation.create_stack(
            StackName=SAM_STACK,
            TemplateBody=json.dumps(template),
            Tags=[{"Key": "ManagedStackSource", "Value": "AwsSamCli"}],
        )
        cloudformation.get_waiter("stack_create_complete").wait(StackName=SAM_STACK, WaiterConfig={"Delay": 1})

    def write(self, command: list[str], **more: str) -> None:
        """`sublet synth --plain`, with this test's stream and handler."""
        given = {EXAMPLE_ARN: self.arn, "handlers": str(HANDLERS), "orders:handle": "recorder:handle"}
        stated = {
            "architecture": "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "x86_64",
            "handler_environment": json.dumps({"RECORDER_DIRECTORY": str(self.folder)}),
            **more,
        }
        words = [given.get(word, word) for word in command[1:]]
        sets = [word for name, value in stated.items() for word in ("--set", f"{name}={value}")]
        flags = {"CDK_CONTEXT_JSON": json.dumps(EMULATOR_CONTEXT)}
        self.run([sys.executable, "-m", "sublet", *words, *sets], flags)

    def run(self, command: list[str], more: Mapping[str, str] | None = None) -> None:
        tool = TOOLS / command[0]
        place = {"HOME": str(self.folder), "PATH": f"{TOOLS}:/usr/local/bin:/usr/bin:/bin", "SAM_CLI_TELEMETRY": "0"}
        words = [str(tool) if tool.exists() else command[0], *command[1:]]
        done = subprocess.run(
            [{"BUCKET": "plain-files", "eu-west-1": "us-east-1"}.get(word, word) for word in words],
            cwd=self.folder,
            env={**place, **self.aws.environment, "XDG_CACHE_HOME": str(Path.home() / ".cache"), **(more or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}"

    def assert_consumes(self) -> None:
        (stack,) = self.aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        assert stack["StackStatus"] == "CREATE_COMPLETE"
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
        fleet = Fleet(self.aws, "orders", outputs, self.recorder)
        fleet.produce(["plain"])
        fleet.tick()
        self.recorder.wait_for(fleet.put, 120)

    def remove(self) -> None:
        cloudformation = self.aws.client("cloudformation")
        cloudformation.delete_stack(StackName=STACK)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with embedded_aws() as aws:
        yield Project(aws, tmp_path)


def test_page_has_the_commands_that_are_run_here() -> None:
    assert [" ".join(command[:2]) for command in commands()] == [
        "sublet synth",
        "sam deploy",
        "aws cloudformation",
        "aws cloudformation",
    ]


def test_commands_of_the_page_deploy_a_stack_that_consumes(project: Project) -> None:
    """One tool after the other; the second and third continue with the tables that the one before has left."""
    synth, sam, package, deploy = commands()
    project.write(synth)
    assert (project.folder / "deploy" / "template.json").stat().st_size > REQUEST_MAX
    project.run(sam)
    project.assert_consumes()
    project.remove()

    kept = {"existing_lease_table": "true", "existing_sightings_table": "true"}
    project.write(synth, **kept)
    project.run(package)
    project.run(deploy)
    project.assert_consumes()
    project.remove()

    project.write(synth, **kept)
    as_terraform_does(project)
    project.assert_consumes()


def as_terraform_does(project: Project) -> None:
    """`aws_s3_object` for each file and the template, then `aws_cloudformation_stack`."""
    s3, deploy = project.aws.client("s3"), project.folder / "deploy"
    for each in (deploy / "assets").iterdir():
        s3.upload_file(str(each), "plain-files", f"sublet/{each.name}")
    s3.upload_file(str(deploy / "template.json"), "plain-files", "sublet/template.json")
    parameters = {"AssetsBucket": "plain-files", "AssetsPrefix": "sublet/"}
    cloudformation = project.aws.client("cloudformation")
    cloudformation.create_stack(
        StackName=STACK,
        TemplateURL=f"{project.aws.environment['AWS_ENDPOINT_URL']}/plain-files/sublet/template.json",
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
    )
    cloudformation.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig={"Delay": 1})
