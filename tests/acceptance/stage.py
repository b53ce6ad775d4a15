"""What the steps share: the AWS account, what was created in it, and how a consumer with its stream and ledger is
created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from sublet.operate.rules.stack_names import consumer_stack

from infra.local.deploy import AwsToDeployTo, deploy
from tests.acceptance.belongings import TAG, Belongings
from tests.acceptance.things import Bucket, Key, Queue, StackOfRun, Stream, Table
from tests.e2e.deliveries import Recorder
from tests.e2e.fleet import Fleet

HANDLERS = Path(__file__).parent / "handlers"


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
    label: str
    """The stream's, as a belonging."""


@dataclass(slots=True)
class Consumer:
    """One deployed application. `context` is what it was deployed with."""

    fleet: Fleet
    context: dict[str, str]


@dataclass(slots=True)
class Stage:
    """elsewhere: the same account's AWS in another region. foreign: another account's. None if not asked for."""

    aws: AwsToDeployTo
    plan: Plan
    belongings: Belongings
    report: Callable[[str], None]
    elsewhere: AwsToDeployTo | None = None
    foreign: AwsToDeployTo | None = None
    main: Consumer | None = None
    idle: Idle | None = None
    facts: dict[str, str] = field(default_factory=dict)
    """Of the current step, for the report."""

    def client(self, service: str) -> Any:
        return self.aws.client(service)

    def at(self, aws: AwsToDeployTo) -> Stage:
        """The same step in another region or account."""
        return replace(self, aws=aws)

    @property
    def tags(self) -> dict[str, str]:
        return {TAG: self.plan.prefix}

    @property
    def _tag_list(self) -> list[dict[str, str]]:
        return [{"Key": key, "Value": value} for key, value in self.tags.items()]

    def name(self, suffix: str) -> str:
        return f"{self.plan.prefix}-{suffix}"

    def make_stream(self, suffix: str, **properties: Any) -> str:
        """Returns its ARN, once it is active."""
        kinesis, name = self.client("kinesis"), self.name(suffix)
        with self.belongings.making(Stream(self.aws, name)):
            kinesis.create_stream(StreamName=name, Tags=self.tags, **properties)
        kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 90})
        summary = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
        arn: str = summary["StreamARN"]
        return arn

    def make_table(self, suffix: str) -> str:
        """Returns its ARN. Its key is the text `name`."""
        dynamodb, name = self.client("dynamodb"), self.name(suffix)
        with self.belongings.making(Table(self.aws, name)):
            made = dynamodb.create_table(
                TableName=name,
                AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
                KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
                Tags=self._tag_list,
            )
        dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 2, "MaxAttempts": 60})
        arn: str = made["TableDescription"]["TableArn"]
        return arn

    def make_queue(self, suffix: str) -> tuple[str, str]:
        """Returns its URL and its ARN."""
        sqs, name = self.client("sqs"), self.name(suffix)
        with self.belongings.making(Queue(self.aws, name)):
            url: str = sqs.create_queue(QueueName=name, tags=self.tags)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return url, arn

    def make_bucket(self, suffix: str) -> str:
        """Returns its name. A bucket of another owner is refused by the call itself."""
        s3, name = self.client("s3"), self.name(suffix)
        region = s3.meta.region_name
        placed = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        with self.belongings.making(Bucket(self.aws, name)):
            s3.create_bucket(Bucket=name, **placed)
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": self._tag_list})
        return name

    def make_key(self) -> str:
        """Returns the ARN of a KMS key."""
        tags = [{"TagKey": name, "TagValue": value} for name, value in self.tags.items()]
        made = self.client("kms").create_key(Description=f"{self.plan.prefix}: acceptance of sublet", Tags=tags)
        with self.belongings.making(Key(self.aws, made["KeyMetadata"]["KeyId"])):
            pass
        arn: str = made["KeyMetadata"]["Arn"]
        return arn

    def expect_stack(self, name: str, *tables: str) -> None:
        """Before a stack of this name is deployed with these tables. Raises FileExistsError: it would be updated."""
        stack = StackOfRun(self.aws, name)
        if stack.tags() is not None:
            raise FileExistsError(f"there is a stack {name} already, which a deployment would update")
        for table in tables:
            self.belongings.tagged(Table(self.aws, table))
        self.belongings.tagged(stack)

    def recorded(self, suffix: str) -> tuple[dict[str, str], Recorder]:
        """Makes a ledger, and returns what a consumer is deployed with to write to it, and who reads it."""
        application, arn = self.name(suffix), self.make_table(f"{suffix}-ledger")
        ledger = arn.rpartition("/")[2]
        context = {
            "application": application,
            "handler_code": str(HANDLERS),
            "handler": "ledger:handle",
            "handler_environment": f'{{"LEDGER": "{ledger}"}}',
            "handler_table_arn": arn,
            "handler_backoff": "1s",
            "removal": "destroy",
            "start_position": "TRIM_HORIZON",
        }
        return context, Recorder(Ledger(self.client("dynamodb"), ledger))

    def deploy_consumer(self, suffix: str, stream_arn: str, **context: str) -> Consumer:
        """Deploys an application on the stream, whose handler writes to a ledger that the test reads."""
        recorded, recorder = self.recorded(suffix)
        everything = {
            **recorded,
            "stream_arn": stream_arn,
            **({} if self.plan.is_dry else {"sublet:metric-math-alarms": "true"}),
            **context,
        }
        application = everything["application"]
        self.expect_stack(consumer_stack(application), application, f"{application}-sightings")
        outputs = self.deploy(everything)
        return Consumer(Fleet(self.aws, stream_arn.rpartition("/")[2], outputs, recorder), everything)

    def deploy(self, context: Mapping[str, str]) -> dict[str, str]:
        return deploy(self.aws, context, tags=self.tags, report=lambda line: self.report(f"  | {line}"))


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
