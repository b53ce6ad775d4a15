"""What a user has around the stack: a lease table that it imports, an alarm on one of its metrics, and another stack
that uses its outputs. After each deployment all of them must be as the first one left them, and still be of use."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sublet.operate.rules.stack_names import consumer_stack

from infra.local.embedded import EmbeddedAws

PROJECT = Path(__file__).with_name("project.py")


def other_stack(application: str) -> str:
    """Deploying it deploys what it depends on first."""
    return f"{consumer_stack(application)}-user"


def project_of(folder: Path, python: Path) -> Path:
    """A folder with the user's CDK app, which this Python runs."""
    folder.mkdir()
    (folder / "cdk.json").write_text(json.dumps({"app": f"{python} -P {PROJECT}"}))
    return folder


def make_lease_table(aws: EmbeddedAws, application: str) -> None:
    """As KCL makes it."""
    client = aws.client("dynamodb")
    client.create_table(
        TableName=application,
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.get_waiter("table_exists").wait(TableName=application)


class Watched(NamedTuple):
    """What an alarm watches."""

    namespace: str
    metric: str
    dimensions: Mapping[str, str]
    statistic: str
    period: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What the first deployment left, and each later one must leave.

    table       the imported one's identity
    outputs     the consumer's stack's
    imports     exports that the other stack imports, with their values
    alarms      what each of the user's alarms watches
    """

    table: Mapping[str, object]
    outputs: Mapping[str, str]
    imports: Mapping[str, str]
    alarms: Mapping[str, Watched]


class Around:
    """The user's things, seen through AWS.

    The embedded CloudFormation lets a stack drop an export that another one imports, which AWS refuses, and lists it
    for ever: exports are read from the outputs of the stack that has them.
    """

    def __init__(self, aws: EmbeddedAws, application: str) -> None:
        self._application, self._stack = application, consumer_stack(application)
        self._waiting, self._errors = f"{self._stack}-waiting", f"{self._stack}-errors"
        self._dynamodb, self._lambda, self._logs = map(aws.client, ("dynamodb", "lambda", "logs"))
        self._cloudformation, self._cloudwatch = map(aws.client, ("cloudformation", "cloudwatch"))

    def kept(self) -> Kept:
        table = self._dynamodb.describe_table(TableName=self._application)["Table"]
        (stack,) = self._cloudformation.describe_stacks(StackName=self._stack)["Stacks"]
        exports = {each["ExportName"]: each["OutputValue"] for each in stack["Outputs"] if "ExportName" in each}
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"] if "ExportName" not in each}
        alarms = self._cloudwatch.describe_alarms(AlarmNames=[self._waiting, self._errors])["MetricAlarms"]
        return Kept(
            {name: table[name] for name in ("TableArn", "TableId", "CreationDateTime", "KeySchema")},
            outputs,
            {name: value for name, value in exports.items() if self._is_imported(name)},
            {alarm["AlarmName"]: _watched(alarm) for alarm in alarms},
        )

    def _is_imported(self, export: str) -> bool:
        try:
            importing = self._cloudformation.list_imports(ExportName=export)["Imports"]
        except self._cloudformation.exceptions.ClientError:  # that nobody imports it
            return False
        return other_stack(self._application) in importing

    def wrong(self, first: Kept, outputs: Mapping[str, str]) -> Iterator[str]:
        """What is not as it was, by `outputs` as the other stack has got them."""
        now = self.kept()
        for what in ("table", "outputs", "imports", "alarms"):
            was, is_now = getattr(first, what), getattr(now, what)
            yield from (
                f"{what}: {name} was {value}, and is {is_now.get(name, 'gone')}"
                for name, value in was.items()
                if is_now.get(name) != value
            )
        yield from (
            f"the other stack has {outputs.get(name)} for {name}, which is {now.outputs.get(name)}"
            for name in first.outputs
            if outputs.get(name) != now.outputs.get(name)
        )
        yield from self._of_the_table(now)
        yield from self._of_the_function(first)

    def _of_the_table(self, now: Kept) -> Iterator[str]:
        if now.outputs.get("LeaseTable") != self._application:
            yield f"the lease table is {now.outputs.get('LeaseTable')}, not the imported one"
        made = self._cloudformation.describe_stack_resources(StackName=self._stack)["StackResources"]
        yield from (
            f"the imported table belongs to the stack, as {each['LogicalResourceId']}"
            for each in made
            if each.get("PhysicalResourceId") == self._application and "DynamoDB" in each["ResourceType"]
        )

    def _of_the_function(self, first: Kept) -> Iterator[str]:
        watched = set(first.alarms[self._errors].dimensions.values())
        functions = {each["FunctionName"] for each in self._lambda.list_functions()["Functions"]}
        if not watched <= functions:
            yield f"the other stack's alarm watches {watched}, and there is no such function"

    def is_published(self, first: Kept, outputs: Mapping[str, str], since: int) -> bool:
        """True if the lease manager has put what the user's alarm watches, with its dimensions. `since`:
        nanoseconds.
        """
        alarm, milliseconds = first.alarms[self._waiting], since // 1_000_000
        return any(
            metric["Name"] == alarm.metric
            and group["Namespace"] == alarm.namespace
            and set(alarm.dimensions) in map(set, group["Dimensions"])
            and alarm.dimensions.items() <= line.items()
            for line in self._figures(outputs["LeaseManager"], milliseconds)
            if line["_aws"]["Timestamp"] > milliseconds
            for group in line["_aws"]["CloudWatchMetrics"]
            for metric in group["Metrics"]
        )

    def _figures(self, function: str, since: int) -> Iterator[dict[str, Any]]:
        """A log's lines in CloudWatch's embedded metric format: the embedded AWS makes no metrics of them."""
        group = self._lambda.get_function_configuration(FunctionName=function)["LoggingConfig"]["LogGroup"]
        pages = self._logs.get_paginator("filter_log_events").paginate(logGroupName=group, startTime=since)
        for page in pages:
            for event in page["events"]:
                if event["message"].startswith("{") and '"CloudWatchMetrics"' in event["message"]:
                    yield json.loads(event["message"])


def _watched(alarm: Mapping[str, Any]) -> Watched:
    dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
    return Watched(alarm["Namespace"], alarm["MetricName"], dimensions, alarm["Statistic"], alarm["Period"])
