"""Deployments that fail, on the embedded AWS: the stack is rolled back, whatever has happened to the old version
meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.local import EmbeddedAws, embedded_aws
from infra.local.deploy import DeploymentFailed, deploy, destroy
from tests.e2e.deliveries import wait_until
from tests.exploring import explores

pytestmark = [pytest.mark.e2e, explores, pytest.mark.timeout(400)]

APPLICATION = "failing"
STACK = f"sublet-{APPLICATION}"

HANDLER = """
import os
from pathlib import Path

NEEDED = Path(os.environ["NEEDED"]).read_text()


def handle(batch):
    with Path(os.environ["HANDLED"]).open("a") as lines:
        lines.writelines(record.data.decode() + "\\n" for record in batch.records)
"""
"""On import it reads something that is not part of the stack, as a handler reads a secret."""


@dataclass
class Project:
    aws: EmbeddedAws
    folder: Path
    stream_arn: str

    def context(self, needed: Path) -> dict[str, str]:
        variables = {"NEEDED": str(needed), "HANDLED": str(self.folder / "handled")}
        return {
            "application": APPLICATION,
            "stream_arn": self.stream_arn,
            "handler_code": str(self.folder / "code"),
            "handler": "orders:handle",
            "handler_environment": json.dumps(variables),
            "removal": "destroy",
            "tick": "rate(1 hour)",
        }

    def deploy(self, needed: Path) -> dict[str, str]:
        return deploy(self.aws, self.context(needed), report=lambda _: None)

    def status(self) -> str:
        (stack,) = self.aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        return str(stack["StackStatus"])

    def checks(self) -> set[str]:
        resources = self.aws.client("cloudformation").describe_stack_resources(StackName=STACK)
        names = {each["LogicalResourceId"] for each in resources["StackResources"]}
        return {name for name in names if "HandlerCanBeImported" in name}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("failing")
    (folder / "code").mkdir()
    (folder / "code" / "orders.py").write_text(HANDLER)
    with embedded_aws() as aws:
        kinesis: Any = aws.client("kinesis")
        kinesis.create_stream(StreamName="orders", ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(StreamName="orders", WaiterConfig={"Delay": 1})
        kinesis.put_record(StreamName="orders", PartitionKey="a", Data=b"first")
        summary = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
        yield Project(aws, folder, summary["StreamARN"])


def test_a_rollback_comes_through_though_the_old_version_is_broken_by_now(project: Project) -> None:
    first, second, missing = (project.folder / name for name in ("first", "second", "missing"))
    first.write_text("")
    second.write_text("")
    project.deploy(first)
    (old,) = project.checks()
    handled = project.folder / "handled"
    wait_until(handled.exists, 30, lambda: "the deployment brought no tick, and the next is an hour away")

    first.unlink()  # what is deployed could not be imported any more
    with pytest.raises(DeploymentFailed, match="cannot use its handler"):
        project.deploy(missing)  # the code and the settings are the same: a variable alone makes the difference
    assert (project.status(), project.checks()) == ("UPDATE_ROLLBACK_COMPLETE", {old})

    project.deploy(second)
    assert project.status() == "UPDATE_COMPLETE"
    (new,) = project.checks()
    assert new != old, "the last check goes when the new one has come through"

    second.unlink()
    destroy(project.aws, project.context(second), report=lambda _: None)
    stacks = project.aws.client("cloudformation").list_stacks(StackStatusFilter=["DELETE_COMPLETE"])
    assert STACK in {each["StackName"] for each in stacks["StackSummaries"]}
