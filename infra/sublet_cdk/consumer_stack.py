"""A stack with one KinesisConsumer, described by CDK context. The demo and the end-to-end tests deploy it.

    cdk deploy -c application=orders-audit -c stream_arn=arn:... \\
        -c handler_code=handlers/orders -c handler=orders:handle -c mode=continuous -c window=5m

Every setting is a context key of its own name; CONTEXT lists the others. Any other key is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from aws_cdk import RemovalPolicy, Size, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesis as kinesis
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from sublet.settings import SIGHTINGS_SUFFIX
from sublet.settings.keywords import WorkerKeywords
from sublet_cdk import roles
from sublet_cdk.alarm_topic import topic_of
from sublet_cdk.consumer_settings import setting_names
from sublet_cdk.context import context_of, is_true, number, one_of, required, stream_arn, texts_by_name
from sublet_cdk.dependencies import LAYER
from sublet_cdk.kinesis_consumer import KinesisConsumer
from sublet_cdk.outputs import add_outputs

CONTEXT = {
    "application": "the consumer group, and the lease table's name",
    "stream_arn": "an existing stream; without it, and without streams, the stack creates one",
    "stream_key_arn": "the stream's KMS key, if it is your own",
    "shards": "the number of shards of a new stream; by default it is on demand",
    "handler_code": "the directory of the handler's module",
    "handler": "module:function",
    "handler_environment": "variables for the handler, as a JSON object",
    "handler_table_arn": "an existing DynamoDB table that the handler may read and write",
    "existing_lease_table": "true: continue with the table of KCL, a process or an earlier stack",
    "existing_sightings_table": "true: the same for the table <application>-sightings",
    "lease_table_key_arn": "your own KMS key for the lease table and the sightings table",
    "tick": "the schedule, as EventBridge writes it: rate(1 minute)",
    "state_machine_type": "standard (default), or express: cheaper, for catch_up mode with windows of at most four "
    "minutes; no list of executions",
    "architecture": "arm64 or x86_64",
    "worker_memory": "MiB",
    "worker_reserved_concurrency": "a number; none is reserved by default",
    "ephemeral_storage": "MiB of /tmp; 512 by default",
    "runtime": "python3.11 to python3.14",
    "tracing": "true: X-Ray, of both functions; false (default)",
    "vpc_id": "a network for the worker (looked up at synth, with credentials)",
    "fan_out": "true: read by a registered consumer, which the stack registers; or the ARN of one (with streams, the "
    "name); false (default)",
    "on_failure": "the ARN of a queue, a topic, or a bucket with or without /prefix, for records that are set aside",
    "on_failure_key_arn": "that destination's KMS key, if it is your own",
    "alarm_topic_arn": "an existing SNS topic for the alarms",
    "alarm_email": "an address for the alarms, which gets a mail to confirm, of a topic that the stack creates",
    "monitoring": "lean: alarms on AWS' own metrics and five of ours, for less than $3 a month; full: every alarm, and "
    "a dashboard; none: neither. `sublet deploy` makes a new stack lean, and one that exists keeps what it has; the "
    "app's own default is full",
    "dashboard_name": "another than <application>-sublet, which is taken if another region has the application",
    "removal": "retain (default) or destroy: the tables and a created stream, with the stack",
    "deletion_protection": "true: the lease table cannot be deleted until this is false again",
    "deployment_check": "true (default) or false",
}
"""Context keys besides the settings."""

REQUIRED = ("application", "handler_code", "handler")

DEFAULTS = {
    "tick": "rate(1 minute)",
    "state_machine_type": "standard",
    "architecture": "arm64",
    "worker_memory": "512",
    "runtime": "python3.13",
    "removal": "retain",
}

RUNTIMES = {
    f"python{version}": lambda_.Runtime(f"python{version}", lambda_.RuntimeFamily.PYTHON, supports_inline_code=True)
    for version in LAYER.python_versions
}

STATE_MACHINE_TYPES = {"standard": sfn.StateMachineType.STANDARD, "express": sfn.StateMachineType.EXPRESS}

HANDLER_ON_TABLE = [
    "dynamodb:GetItem",
    "dynamodb:BatchGetItem",
    "dynamodb:Query",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:ConditionCheckItem",
]


class ConsumerStack(Stack):
    """The stack. `defaults` fill in missing context; `overrides` go to KinesisConsumer directly (tests pass their own
    layer).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        defaults: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        self.context = {**DEFAULTS, **(defaults or {}), **context_of(self, (*CONTEXT, *setting_names()))}
        application, handler_code, handler = (required(self.context, name, CONTEXT[name]) for name in REQUIRED)
        self.consumer = KinesisConsumer(
            self,
            "Consumer",
            application=application,
            stream=self._stream(),
            handler_code=handler_code,
            handler=handler,
            **cast("Any", self._properties() | dict(overrides or {}) | self._settings()),
        )
        if table_arn := self.context.get("handler_table_arn"):
            role = self.consumer.worker.role
            assert role is not None  # it is ours; only imported functions may lack a role
            statement = roles.allow(HANDLER_ON_TABLE, table_arn)
            role.attach_inline_policy(iam.Policy(self, "HandlerTable", statements=[statement]))
        add_outputs(self, self.consumer.names())

    def _removal(self) -> RemovalPolicy:
        policies = {"retain": RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE, "destroy": RemovalPolicy.DESTROY}
        return one_of(self.context, "removal", policies)

    def _stream(self) -> kinesis.IStream | None:
        if arn := self.context.get("stream_arn"):
            return kinesis.Stream.from_stream_arn(self, "Stream", stream_arn(arn))
        if "streams" in self.context:  # names those that exist
            return None
        shards = self.context.get("shards")
        return kinesis.Stream(
            self,
            "Stream",
            stream_mode=kinesis.StreamMode.PROVISIONED if shards else kinesis.StreamMode.ON_DEMAND,
            shard_count=number(self.context, "shards"),
            encryption=kinesis.StreamEncryption.MANAGED,
            removal_policy=self._removal(),
        )

    def _properties(self) -> dict[str, Any]:
        application = self.context["application"]
        architectures = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}
        traced = is_true(self.context, "tracing", default=False)
        storage, vpc = number(self.context, "ephemeral_storage"), self.context.get("vpc_id")
        return {
            "lease_table": self._existing("existing_lease_table", "Leases", application),
            "sightings_table": self._existing(
                "existing_sightings_table", "Sightings", f"{application}{SIGHTINGS_SUFFIX}"
            ),
            "lease_table_removal": self._removal(),
            "lease_table_deletion_protection": is_true(self.context, "deletion_protection", default=False),
            "state_machine_type": one_of(self.context, "state_machine_type", STATE_MACHINE_TYPES),
            "schedule": events.Schedule.expression(self.context["tick"]),
            "architecture": one_of(self.context, "architecture", architectures),
            "worker_memory": number(self.context, "worker_memory"),
            "worker_reserved_concurrency": number(self.context, "worker_reserved_concurrency"),
            "ephemeral_storage": Size.mebibytes(storage) if storage else None,
            "runtime": one_of(self.context, "runtime", RUNTIMES),
            "tracing": lambda_.Tracing.ACTIVE if traced else lambda_.Tracing.DISABLED,
            "vpc": ec2.Vpc.from_lookup(self, "Network", vpc_id=vpc) if vpc else None,
            "fan_out": self._fan_out(),
            "on_failure": self.context.get("on_failure"),
            **{name: self._key(name) for name in ("stream_key", "lease_table_key", "on_failure_key")},
            "worker_environment": texts_by_name(self.context, "handler_environment"),
            "alarm_topic": topic_of(self, self.context.get("alarm_topic_arn"), self.context.get("alarm_email")),
            "monitoring": self.context.get("monitoring"),
            "dashboard_name": self.context.get("dashboard_name"),
            "deployment_check": is_true(self.context, "deployment_check", default=True),
        }

    def _existing(self, key: str, construct_id: str, name: str) -> dynamodb.ITable | None:
        is_there = is_true(self.context, key, default=False)
        return dynamodb.Table.from_table_name(self, construct_id, name) if is_there else None

    def _fan_out(self) -> bool | str:
        stated = self.context.get("fan_out", "false")
        is_name = "streams" in self.context and stated not in ("true", "false")
        if stated.startswith("arn:") or is_name:
            return stated
        return is_true(self.context, "fan_out", default=False)

    def _key(self, name: str) -> kms.IKey | None:
        arn = self.context.get(f"{name}_arn")
        return kms.Key.from_key_arn(self, name.replace("_", "-"), arn) if arn else None

    def _settings(self) -> WorkerKeywords:
        return cast(
            "WorkerKeywords",
            {name: self.context[name] for name in setting_names() if name in self.context},
        )
