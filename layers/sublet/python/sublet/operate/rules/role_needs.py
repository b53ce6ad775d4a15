"""What the roles of an application must be allowed to do. The constructs grant it, and `doctor` asks IAM about it.

It leaves out the user's own KMS keys and the tables of a KCL 3 fleet, since only a deployment knows whether there are
any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from sublet.decisions.load.sketch_places import KEYS_BEGIN_WITH
from sublet.protocol.otlp import has_collector
from sublet.protocol.stream_identity import StreamArn
from sublet.settings import HotShardKeys, MetricsExport, Reading, Settings
from sublet.settings.payload_format import FormatKind
from sublet.settings.value import variable_of

LEASE_MANAGER_ON_LEASES = [
    "dynamodb:Scan",
    "dynamodb:PutItem",
    "dynamodb:DeleteItem",
]
LEASE_MANAGER_ON_SIGHTINGS = ["dynamodb:Scan", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"]
LEASE_MANAGER_ON_STREAM = [
    "kinesis:DescribeStreamSummary",
    "kinesis:ListShards",
    "kinesis:GetShardIterator",
    "kinesis:GetRecords",
]
"""Lets a tick read one record of an unread shard by GetRecords, to see whether any waits. It uses only the arrival
time.
"""
LEASE_WORKER_ON_LEASES = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
LEASE_WORKER_ON_SIGHTINGS = ["dynamodb:GetItem"]
"""What a lease worker needs to see whether an operator has paused the leases."""
LEASE_WORKER_ON_SKETCHES = ["dynamodb:PutItem"]
"""The role needs these only on the items of the sightings table whose keys begin with "hot": a worker writes neither
the control nor a tick's sightings.
"""
LEASE_WORKER_ON_STREAM = [
    "kinesis:DescribeStreamSummary",
    "kinesis:GetRecords",
    "kinesis:GetShardIterator",
    "kinesis:ListShards",
]
"""DescribeStreamSummary says who distributes the stream's records, before an aggregate outside its shard's range is
dropped.
"""

READER_ON_FAN_OUT = ["kinesis:DescribeStreamConsumer", "kinesis:SubscribeToShard"]
"""The role needs these only on the registered consumer. Polls remain allowed, because they read where a subscription
cannot.
"""

FINDS_FAN_OUT = ["kinesis:DescribeStreamConsumer"]
"""On the stream, if the application reads several: each stream's consumer is found by its name."""

REGISTERS_FAN_OUT = ["kinesis:ListStreamConsumers", "kinesis:RegisterStreamConsumer"]
"""On the stream, for a process that registers missing consumers."""

PROCESS_ON_LEASES = sorted({*LEASE_MANAGER_ON_LEASES, *LEASE_WORKER_ON_LEASES})
PROCESS_ON_SIGHTINGS = sorted(LEASE_MANAGER_ON_SIGHTINGS)
PROCESS_ON_STREAM = sorted({*LEASE_MANAGER_ON_STREAM, *LEASE_WORKER_ON_STREAM})

SETS_ASIDE: Mapping[str, Sequence[str]] = {
    "sqs": ["sqs:GetQueueUrl", "sqs:SendMessage"],
    "sns": ["sns:Publish"],
    "s3": ["s3:PutObject"],
}
"""What may be done to the failure destination, by its service."""

READS_SCHEMAS = ["glue:GetSchemaVersion"]
"""On any resource, as Glue's guide has it: a schema version that is named by its id has no ARN. Needed only where the
setting `payload_format` is Glue's.
"""

SENDS_METRICS = ["cloudwatch:PutMetricData"]
"""On any resource, of every runtime with `metrics_export=otlp` that has no collector."""

STARTS_WORKERS = ["states:StartExecution"]


class Runtime(StrEnum):
    """Whose role it is."""

    MANAGER = "lease manager"
    WORKER = "lease worker"
    PROCESS = "process"


ON_TABLES_AND_STREAM: Mapping[Runtime, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    Runtime.MANAGER: (LEASE_MANAGER_ON_LEASES, LEASE_MANAGER_ON_SIGHTINGS, LEASE_MANAGER_ON_STREAM),
    Runtime.WORKER: (LEASE_WORKER_ON_LEASES, LEASE_WORKER_ON_SIGHTINGS, LEASE_WORKER_ON_STREAM),
    Runtime.PROCESS: (PROCESS_ON_LEASES, PROCESS_ON_SIGHTINGS, PROCESS_ON_STREAM),
}
"""What each runtime may do to the leases, to the sightings and to the stream."""


class PermissionNeed(NamedTuple):
    """IAM actions on one resource, by its ARN. `leading_key`: in a table, the actions are needed at least on the item
    with this key.
    """

    actions: Sequence[str]
    resource: str
    leading_key: str | None = None


class DeployedRoles(NamedTuple):
    """ARNs. `state_machine`: the one that the lease manager starts. `sends_metrics`: whether the functions send their
    metrics to CloudWatch, by their variables.
    """

    state_machine: str
    manager: str
    worker: str
    sends_metrics: bool = False


def sends_metrics(environment: Mapping[str, str]) -> bool:
    """Whether what runs with these variables sends its metrics to CloudWatch by OTLP."""
    return environment.get(variable_of("metrics_export")) == MetricsExport.OTLP and not has_collector(environment)


def needs_of(
    runtime: Runtime,
    settings: Settings,
    stream_arn: str,
    state_machine: str | None = None,
    *,
    to_cloudwatch: bool = False,
) -> Sequence[PermissionNeed]:
    """The tables are in the stream's account and region, as the constructs require. `to_cloudwatch`: it sends metrics
    there.
    """
    leases, sightings, stream = ON_TABLES_AND_STREAM[runtime]
    place = StreamArn.parse(stream_arn)
    table = f"arn:{place.partition}:dynamodb:{place.region}:{place.account}:table/"
    needs = [
        PermissionNeed(leases, table + settings.lease_table),
        PermissionNeed(sightings, table + settings.sightings_table),
        PermissionNeed(stream, stream_arn),
    ]
    if runtime is Runtime.WORKER and settings.hot_shard_keys is not HotShardKeys.NONE:
        needs.append(PermissionNeed(LEASE_WORKER_ON_SKETCHES, table + settings.sightings_table, KEYS_BEGIN_WITH))
    if runtime is Runtime.MANAGER and state_machine is not None:
        needs.append(PermissionNeed(STARTS_WORKERS, state_machine))
    if runtime is not Runtime.MANAGER and settings.reading is Reading.FAN_OUT:
        needs.extend(_on_consumer(runtime, settings, stream_arn))
    if runtime is not Runtime.MANAGER and reads_schemas(settings):
        needs.append(PermissionNeed(READS_SCHEMAS, "*"))
    if to_cloudwatch:
        needs.append(PermissionNeed(SENDS_METRICS, "*"))
    if runtime is not Runtime.MANAGER and settings.on_failure is not None:
        needs.append(_on_failure(settings.on_failure, settings.application))
    return needs


def reads_schemas(settings: Settings) -> bool:
    """Whether records are decoded by the schemas of Glue's registry."""
    return is_glue_s(settings.payload_format)


def is_glue_s(payload_format: str | None) -> bool:
    return payload_format is not None and payload_format.partition(":")[0] == FormatKind.GLUE


def _on_consumer(runtime: Runtime, settings: Settings, stream_arn: str) -> Sequence[PermissionNeed]:
    """The permissions to find the stream's consumer and to subscribe with it. With several streams only the consumer's
    name is known, and its ARN ends with its creation time. Any consumer of the name is allowed, since it may be
    registered again.
    """
    if settings.streams is not None:
        consumer = f"{stream_arn}/consumer/{settings.fan_out_name}:*"
        registers = runtime is Runtime.PROCESS and settings.register_fan_out
        on_stream = [*FINDS_FAN_OUT, *REGISTERS_FAN_OUT] if registers else FINDS_FAN_OUT
        return [PermissionNeed(on_stream, stream_arn), PermissionNeed(READER_ON_FAN_OUT, consumer)]
    return [PermissionNeed(READER_ON_FAN_OUT, settings.fan_out_consumer)] if settings.fan_out_consumer else []


def _on_failure(destination: str, application: str) -> PermissionNeed:
    """The permissions on the failure destination; in a bucket, only on the application's own folder."""
    service = destination.split(":")[2]
    written = f"{destination.rstrip('/')}/{application}/*" if service == "s3" else destination
    return PermissionNeed(SETS_ASIDE[service], written)
