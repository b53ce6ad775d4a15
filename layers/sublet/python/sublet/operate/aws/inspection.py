"""The Inspection port over boto3. It asks CloudWatch, Kinesis, DynamoDB, Step Functions, Lambda and IAM, and changes
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from botocore.exceptions import ClientError

from sublet.aws import clients
from sublet.aws.clients import MACHINE, Connection
from sublet.aws.configuration_errors import NOT_CONFIGURED, credentials_refused, not_configured
from sublet.aws.faults import ACCESS_DENIED, CONDITION_FAILED, CONNECTION_FAILED, code_of
from sublet.aws.metrics import shard_dimensions
from sublet.aws.tables import sightings
from sublet.decisions.streams.chosen_streams import of_one_stream
from sublet.errors import CheckRefused
from sublet.metric_names import Attribute
from sublet.operate.aws.figures import CloudWatchFigures
from sublet.operate.aws.role_permissions import PROMPT, WINDOW, functions_of, lacking, roles_of
from sublet.operate.aws.waiting_set_aside import first_set_aside, waiting_set_aside
from sublet.operate.rules.examination import (
    DeployedAlarm,
    Executions,
    QuotaUsage,
    RegisteredConsumer,
    Subscribers,
    ThrottledCounts,
    Volume,
)
from sublet.operate.rules.last_hour import RecordedHour
from sublet.operate.rules.role_needs import DeployedRoles, PermissionNeed
from sublet.operate.rules.set_aside_waiting import SetAsideBatches, SetAsideWaiting
from sublet.protocol.lease_attributes import LEASE_KEY
from sublet.protocol.stream_identity import StreamArn
from sublet.settings import Settings
from sublet.system.clock import SystemClock

NO_SUCH_ROW = "sublet doctor"
"""The key of a row that exists in no table."""
STATE_MACHINE, EXPRESS_STATE_MACHINE = "{application}-lease-workers", "{application}-express-workers"
"""The construct gives its state machine one of these names, by its type."""
DRY_RUN_ANSWER = "DryRunOperationException"
"""Kinesis' reply to a call with DryRun that would have been allowed."""
HOUR = timedelta(hours=1)
FAILURES = ("FAILED", "TIMED_OUT", "ABORTED")

AWS_KEY_OF_TOPICS = "alias/aws/sns"
"""Its policy cannot be changed, and lets no other service publish to a topic ("Securing Amazon SNS data with
server-side encryption" in the SNS Developer Guide)."""
QUOTED = re.compile(r"'([^']*)'")
"""Values in an expression of metric math or Metrics Insights."""
SELECTED = re.compile(r'="([^"]*)"')
"""Values in a PromQL query's selectors."""
"""Finds the dimension values in an alarm's Metrics Insights query: WHERE application = 'orders'."""


@contextmanager
def asking(action: str) -> Iterator[None]:
    """Turns boto3's errors into CheckRefused, with the IAM action."""
    try:
        yield
    except NOT_CONFIGURED as problem:
        raise not_configured(problem) from problem
    except CONNECTION_FAILED as failure:
        raise CheckRefused(f"{action}: no reply: {failure}") from failure
    except ClientError as error:
        if code_of(error) in ACCESS_DENIED:
            raise CheckRefused(f"these credentials lack {action}") from error
        said = error.response.get("Error", {}).get("Message", "")
        named = credentials_refused(error)
        raise named or CheckRefused(f"{action} failed: {code_of(error)}: {said}") from error


class AwsInspection:
    """The Inspection port. `stream_arn`: None if the stream could not be described; then some questions are refused."""

    def __init__(self, settings: Settings, stream_arn: str | None, connection: Connection = MACHINE) -> None:
        self._settings, self._arn, self._connection = settings, stream_arn, connection

    @cached_property
    def _cloudwatch(self) -> Any:
        return clients.cloudwatch_client(*self._connection)

    @cached_property
    def _kinesis(self) -> Any:
        return clients.kinesis_client(*self._connection)

    @cached_property
    def _dynamodb(self) -> Any:
        return clients.dynamodb_client(*self._connection)

    @cached_property
    def _sns(self) -> Any:
        return clients.sns_client(self._connection.region, self._connection.session)

    @property
    def _figures(self) -> CloudWatchFigures:
        return CloudWatchFigures(self._cloudwatch, SystemClock().now())

    def of_stream(self, stream: str, arn: str) -> AwsInspection:
        alone = of_one_stream(self._settings, stream, arn)
        return AwsInspection(alone, arn, self._connection)

    def incoming(self, over: timedelta) -> Volume:
        with asking("cloudwatch:GetMetricData"):
            return self._figures.incoming(self._settings.stream, over)

    def incoming_by_shard(self, shard_ids: Sequence[str], over: timedelta) -> Mapping[str, Volume]:
        with asking("cloudwatch:GetMetricData"):
            return self._figures.incoming_by_shard(self._settings.stream, shard_ids, over)

    def last_hour(self) -> RecordedHour:
        with asking("cloudwatch:GetMetricData"):
            return self._figures.last_hour(self._settings.application)

    def lags(
        self, over: timedelta, each: timedelta, lease_key: str | None = None, stream: str | None = None
    ) -> Mapping[datetime, timedelta]:
        part = () if stream is None else ((Attribute.STREAM.value, stream),)
        with asking("cloudwatch:GetMetricData"):
            of = part if lease_key is None else shard_dimensions(lease_key)
            return self._figures.lags(self._settings.application, of, over, each)

    def throttled(self, over: timedelta) -> ThrottledCounts:
        with asking("cloudwatch:GetMetricData"):
            return self._figures.throttled(self._settings.stream, over)

    def denied_reads(self, shard_id: str) -> Sequence[str]:
        shard = {"ShardId": shard_id, "ShardIteratorType": "LATEST", **self._stream}
        kinesis = self._kinesis
        with asking("kinesis:GetShardIterator"):
            try:
                iterator = kinesis.get_shard_iterator(**shard)["ShardIterator"]
            except ClientError as error:
                if code_of(error) in ACCESS_DENIED:
                    return ("kinesis:GetShardIterator",)
                raise
        model = kinesis.meta.service_model.operation_model("GetRecords").input_shape.members
        dry = ({"DryRun": True} if "DryRun" in model else {}) | ({"StreamARN": self._arn} if self._arn else {})
        with asking("kinesis:GetRecords"):
            try:
                kinesis.get_records(ShardIterator=iterator, Limit=1, **dry)
            except ClientError as error:
                if code_of(error) in ACCESS_DENIED:
                    return ("kinesis:GetRecords",)
                if code_of(error) != DRY_RUN_ANSWER:
                    raise
        return ()

    @property
    def _stream(self) -> dict[str, str]:
        return {"StreamARN": self._arn} if self._arn else {"StreamName": self._settings.stream}

    def denied_writes(self) -> Sequence[str]:
        leases, sighted = self._settings.lease_table, self._settings.sightings_table
        return [
            f"dynamodb:{name} on {table}"
            for table, key, names in (
                (leases, LEASE_KEY, ("PutItem", "UpdateItem", "DeleteItem")),
                (sighted, sightings.KEY, ("PutItem", "DeleteItem")),
            )
            for name in names
            if self._is_denied(name, table, key)
        ]

    def _is_denied(self, name: str, table: str, key: str) -> bool:
        of_row = {"TableName": table, "ConditionExpression": f"attribute_exists({key})"}
        row = {key: {"S": NO_SUCH_ROW}}
        dynamodb = self._dynamodb
        with asking(f"dynamodb:{name}"):
            try:
                if name == "PutItem":
                    dynamodb.put_item(**of_row, Item=row)
                elif name == "UpdateItem":
                    dynamodb.update_item(**of_row, Key=row, UpdateExpression="REMOVE subletDoctor")
                else:
                    dynamodb.delete_item(**of_row, Key=row)
            except ClientError as error:
                if code_of(error) in ACCESS_DENIED:
                    return True
                if code_of(error) != CONDITION_FAILED:
                    raise
        return False

    def deployed_roles(self) -> DeployedRoles | None:
        with asking("states:DescribeStateMachine"):
            client = clients.stepfunctions_client()
            found = ((each, functions_of(client, each)) for each in self._state_machines)
            machine, functions = next(((arn, states) for arn, states in found if states is not None), (None, None))
        if machine is None or functions is None:
            return None
        if not {WINDOW, PROMPT} <= functions.keys():
            raise CheckRefused(
                f"state machine {machine} does not look like the construct's, so its functions are unknown"
            )
        with asking("lambda:GetFunctionConfiguration"):
            return roles_of(clients.lambda_client(*self._connection), functions, machine)

    def denied_to(self, role: str, needs: Sequence[PermissionNeed]) -> Sequence[str]:
        with asking("iam:SimulatePrincipalPolicy"):
            return lacking(clients.iam_client(*self._connection), role, needs)

    def alarms(self) -> Sequence[DeployedAlarm]:
        with asking("cloudwatch:DescribeAlarms"):
            pages = self._cloudwatch.get_paginator("describe_alarms").paginate(
                AlarmTypes=["MetricAlarm", "CompositeAlarm"]
            )
            return [
                _alarm(item)
                for page in pages
                for item in (*page.get("MetricAlarms", ()), *page.get("CompositeAlarms", ()))
            ]

    def subscribers(self, topic_arn: str) -> Subscribers:
        with asking("sns:GetTopicAttributes"):
            found = self._sns.get_topic_attributes(TopicArn=topic_arn)["Attributes"]
            return Subscribers(
                int(found["SubscriptionsConfirmed"]),
                int(found["SubscriptionsPending"]),
                is_shut=found.get("KmsMasterKeyId", "").endswith(AWS_KEY_OF_TOPICS),
            )

    def consumers(self) -> Sequence[RegisteredConsumer]:
        with asking("kinesis:ListStreamConsumers"):
            pages = self._kinesis.get_paginator("list_stream_consumers").paginate(StreamARN=self._known_arn)
            listed = [
                (each["ConsumerName"], each["ConsumerARN"], each["ConsumerCreationTimestamp"])
                for page in pages
                for each in page["Consumers"]
            ]
        try:
            read = self._subscribed([name for name, *_ in listed])
        except CheckRefused:
            return [RegisteredConsumer(*each) for each in listed]
        return [RegisteredConsumer(*each, is_read=each[0] in read) for each in listed]

    def _subscribed(self, names: Sequence[str]) -> frozenset[str]:
        with asking("cloudwatch:GetMetricData"):
            return self._figures.subscribed(self._settings.stream, names, HOUR)

    @property
    def _known_arn(self) -> str:
        if self._arn is None:
            raise CheckRefused("the stream's ARN is unknown")
        return self._arn

    @property
    def _state_machines(self) -> tuple[str, str]:
        """The ARN that the application's Standard state machine would have, and that of an Express one."""
        stream = StreamArn.parse(self._known_arn)
        prefix = f"arn:{stream.partition}:states:{stream.region}:{stream.account}:stateMachine:"
        standard, express = (
            prefix + name.format(application=self._settings.application)
            for name in (STATE_MACHINE, EXPRESS_STATE_MACHINE)
        )
        return standard, express

    def executions(self) -> Executions | None:
        machine, express = self._state_machines
        stepfunctions: Any = clients.stepfunctions_client()
        with asking("states:ListExecutions"):
            try:
                running = stepfunctions.list_executions(
                    stateMachineArn=machine, statusFilter="RUNNING", maxResults=1000
                )
                ended = [
                    execution["stopDate"]
                    for status in FAILURES
                    for execution in stepfunctions.list_executions(
                        stateMachineArn=machine, statusFilter=status, maxResults=1
                    )["executions"]
                ]
            except ClientError as error:
                if code_of(error) != "StateMachineDoesNotExist":
                    raise
                return self._express_executions(express)
        return Executions(len(running["executions"]), max(ended, default=None))

    def _express_executions(self, machine: str) -> Executions | None:
        """Step Functions lists no Express executions; CloudWatch knows when one failed."""
        with asking("states:DescribeStateMachine"):
            if functions_of(clients.stepfunctions_client(), machine) is None:
                return None
        with asking("cloudwatch:GetMetricData"):
            return Executions(None, self._figures.last_failed_execution(machine, HOUR))

    def concurrency(self) -> QuotaUsage:
        client = clients.lambda_client(*self._connection)
        with asking("lambda:GetAccountSettings"):
            limit = client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
        with asking("cloudwatch:GetMetricData"):
            return QuotaUsage(self._figures.most_concurrent(HOUR), limit)

    def set_aside(self, destination: str) -> SetAsideWaiting:
        with asking("sqs:GetQueueAttributes" if ":sqs:" in destination else "s3:ListBucket"):
            return waiting_set_aside(destination, self._figures)

    def set_aside_batches(self, destination: str, most: int, *, receives: bool) -> SetAsideBatches | None:
        with asking("sqs:ReceiveMessage" if ":sqs:" in destination else "s3:ListBucket"):
            return first_set_aside(destination, self._settings.application, most, receives=receives)


def _alarm(item: Mapping[str, Any]) -> DeployedAlarm:
    queries = item.get("Metrics", ())
    metrics = [item, *(each.get("MetricStat", {}).get("Metric", {}) for each in queries)]
    dimensions = [dimension["Value"] for metric in metrics for dimension in metric.get("Dimensions") or ()]
    quoted = [text for each in queries for text in QUOTED.findall(each.get("Expression", ""))]
    selected = SELECTED.findall(item.get("EvaluationCriteria", {}).get("PromQLCriteria", {}).get("Query", ""))
    return DeployedAlarm(
        item["AlarmName"],
        item.get("StateUpdatedTimestamp"),
        item.get("StateReason", ""),
        frozenset([*dimensions, *quoted, *selected]),
        rings=item["StateValue"] == "ALARM",
        actions=tuple(item.get("AlarmActions", ())) if item.get("ActionsEnabled", True) else (),
        rule=item.get("AlarmRule", ""),
    )
