"""What the steps share: the AWS account, what was created in it, and how a consumer with its stream and ledger is
created.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from botocore.exceptions import ClientError
from sublet_cdk.names import consumer_stack

from infra.local.deploy import AwsToDeployTo, deploy
from tests.acceptance.belongings import Belongings
from tests.e2e.deliveries import Recorder
from tests.e2e.fleet import Fleet

HANDLERS = Path(__file__).parent / "handlers"
TAG = "sublet-acceptance"
GONE = {"ResourceNotFoundException", "ValidationError"}
"""AWS' errors for a missing thing; CloudFormation uses the second."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. is_dry: on emulators, where a step may find a feature missing."""

    prefix: str
    records: int
    idle: timedelta
    is_dry: bool


class Idle(NamedTuple):
    """A shard that is left alone: its last record, and when that was put, by the steady clock."""

    stream_arn: str
    shard_id: str
    last_number: str
    since: float


@dataclass(slots=True)
class Consumer:
    """One deployed application. `context` is what it was deployed with."""

    fleet: Fleet
    context: dict[str, str]


@dataclass(slots=True)
class Stage:
    aws: AwsToDeployTo
    plan: Plan
    belongings: Belongings
    report: Callable[[str], None]
    main: Consumer | None = None
    idle: Idle | None = None
    facts: dict[str, str] = field(default_factory=dict)
    """Of the current step, for the report."""

    def client(self, service: str) -> Any:
        return self.aws.client(service)

    @property
    def tags(self) -> dict[str, str]:
        return {TAG: self.plan.prefix}

    def name(self, suffix: str) -> str:
        return f"{self.plan.prefix}-{suffix}"

    def make_stream(self, suffix: str, **properties: Any) -> str:
        """Returns its ARN, once it is active."""
        kinesis, name = self.client("kinesis"), self.name(suffix)
        self.belongings.enter(f"stream {name}", lambda: self._remove_stream(name))
        kinesis.create_stream(StreamName=name, Tags=self.tags, **properties)
        kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 90})
        summary = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
        arn: str = summary["StreamARN"]
        return arn

    def deploy_consumer(self, suffix: str, stream_arn: str, **context: str) -> Consumer:
        """Deploys an application on the stream, whose handler writes to a ledger that the test reads."""
        application, ledger = self.name(suffix), self._make_ledger(suffix)
        everything = {
            "application": application,
            "stream_arn": stream_arn,
            "handler_code": str(HANDLERS),
            "handler": "ledger:handle",
            "handler_environment": f'{{"LEDGER": "{self.name(f"{suffix}-ledger")}"}}',
            "handler_table_arn": ledger,
            "handler_backoff": "1s",
            "removal": "destroy",
            "start_position": "TRIM_HORIZON",
            **({} if self.plan.is_dry else {"sublet:metric-math-alarms": "true"}),
            **context,
        }
        stack = consumer_stack(application)
        for table in (application, f"{application}-sightings"):
            self.belongings.enter(f"table {table}", partial(self._remove_table, table))
        self.belongings.enter(f"log groups of {stack}", lambda: self._remove_log_groups(stack, application))
        self.belongings.enter(f"stack {stack}", lambda: self._remove_stack(stack))
        outputs = self.deploy(everything)
        recorder = Recorder(Ledger(self.client("dynamodb"), self.name(f"{suffix}-ledger")))
        stream = stream_arn.rpartition("/")[2]
        return Consumer(Fleet(self.aws, stream, outputs, recorder), everything)

    def deploy(self, context: Mapping[str, str]) -> dict[str, str]:
        return deploy(self.aws, context, tags=self.tags, report=lambda line: self.report(f"  | {line}"))

    def _make_ledger(self, suffix: str) -> str:
        dynamodb, name = self.client("dynamodb"), self.name(f"{suffix}-ledger")
        self.belongings.enter(f"table {name}", lambda: self._remove_table(name))
        made = dynamodb.create_table(
            TableName=name,
            AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
            Tags=[{"Key": key, "Value": value} for key, value in self.tags.items()],
        )
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 60})
        arn: str = made["TableDescription"]["TableArn"]
        return arn

    def _remove_stream(self, name: str) -> None:
        kinesis = self.client("kinesis")
        with _gone_is_fine():
            kinesis.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
            kinesis.get_waiter("stream_not_exists").wait(StreamName=name)

    def _remove_table(self, name: str) -> None:
        dynamodb = self.client("dynamodb")
        with _gone_is_fine():
            dynamodb.delete_table(TableName=name)
            dynamodb.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": 2})

    def _remove_stack(self, name: str) -> None:
        """A stack that is being updated cannot be deleted before the update has ended, one way or the other."""
        cloudformation = self.client("cloudformation")
        with _gone_is_fine():
            while _status(cloudformation, name).startswith("UPDATE") and "IN_PROGRESS" in _status(cloudformation, name):
                time.sleep(5)
            cloudformation.delete_stack(StackName=name)
            cloudformation.get_waiter("stack_delete_complete").wait(
                StackName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 450}
            )

    def _remove_log_groups(self, *parts: str) -> None:
        """A function that runs once more while its stack is deleted creates its log group again."""
        logs = self.client("logs")
        for page in logs.get_paginator("describe_log_groups").paginate():
            for group in page["logGroups"]:
                if any(part in group["logGroupName"] for part in parts):
                    logs.delete_log_group(logGroupName=group["logGroupName"])


def _status(cloudformation: Any, name: str) -> str:
    status: str = cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    return status


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except ClientError as problem:
        if problem.response["Error"]["Code"] not in GONE:
            raise


@dataclass(frozen=True, slots=True)
class Ledger:
    """The Place where the handler `ledger` and the test communicate: items of a table."""

    dynamodb: Any
    name: str

    def names(self) -> list[str]:
        pages = self.dynamodb.get_paginator("scan").paginate(
            TableName=self.name,
            ProjectionExpression="#name",
            ExpressionAttributeNames={"#name": "name"},
            ConsistentRead=True,
        )
        return [item["name"]["S"] for page in pages for item in page["Items"]]

    def read(self, name: str) -> str:
        found = self.dynamodb.get_item(TableName=self.name, Key={"name": {"S": name}}, ConsistentRead=True)
        text: str = found["Item"]["text"]["S"]
        return text

    def write(self, name: str, text: str) -> None:
        self.dynamodb.put_item(TableName=self.name, Item={"name": {"S": name}, "text": {"S": text}})

    def remove(self, name: str) -> None:
        self.dynamodb.delete_item(TableName=self.name, Key={"name": {"S": name}})
