"""Deploys what the demo watches: the stream, the real stack's consumer, and its handler's table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from boto3.dynamodb.types import TypeDeserializer
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.operate.status_watch import Watch
from sublet.ports import LeaseTable, Stream
from sublet.settings import Settings
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import memory_ports

from examples.flights.flights import ShardTotals
from infra.local import EmbeddedAws
from infra.local.deploy import deploy

APPLICATION = "flights"
STREAM = "flights"
TABLE = "flights-by-shard"
SHARDS = 4

SETTINGS = {
    # Small, so that there is something to see: several workers, and windows that end while events flow.
    "leases_per_worker": "2",
    "worker_count": "2",
    "window": "30s",
    "window_margin": "5s",
    # kinesis-local searches all of a shard's records in each poll, which limits the demo's speed: poll less often.
    "poll_interval": "1s",
    "linger": "10s",
}

LOOK = 0.2


@dataclass(frozen=True, slots=True)
class Consumer:
    """The deployed consumer. `manager` is the lease manager's function name; `watch` looks at it as `sublet status`
    does.
    """

    aws: EmbeddedAws
    leases: LeaseTable
    stream: Stream
    manager: str
    state_machine_arn: str
    watch: Watch

    def stored(self) -> list[ShardTotals]:
        """The handler's rows. boto3's Table converts them to the types that the handler wrote."""
        deserialize = TypeDeserializer().deserialize
        pages = self.aws.client("dynamodb").get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True)
        rows = [{name: deserialize(value) for name, value in item.items()} for page in pages for item in page["Items"]]
        return [ShardTotals.from_row(row) for row in rows]


def deploy_consumer(
    aws: EmbeddedAws, report: Callable[[str], None], settings: Mapping[str, str] = SETTINGS
) -> Consumer:
    """Create the stream and the handler's table, and deploy the stack. Raises DeploymentFailed."""
    stream_arn, table_arn = _create(aws)
    context = {
        "application": APPLICATION,
        "stream_arn": stream_arn,
        "handler_code": "examples/flights",
        "handler": "flights:handle",
        "handler_environment": json.dumps({"FLIGHTS_TABLE": TABLE}),
        "handler_table_arn": table_arn,
        **settings,
    }
    outputs = deploy(aws, context, report=report)
    own = Settings(application=APPLICATION, stream=STREAM, stream_arn=stream_arn)
    leases = DynamoDbLeaseTable(aws.client("dynamodb"), own.lease_table)
    stream = KinesisStream(aws.client("kinesis"), aws.client("kinesis"), own)
    sightings = DynamoDbSightingStore(lambda: aws.client("dynamodb"), own.sightings_table)
    looking = memory_ports(stream, leases, sightings=sightings, clock=SystemClock(), tasks=ThreadTasks())
    return Consumer(
        aws,
        leases,
        stream,
        outputs["LeaseManager"],
        outputs["StateMachineArn"],
        Watch(looking, own, probes=False),
    )


def _create(aws: EmbeddedAws) -> tuple[str, str]:
    """Returns the ARNs of the stream and the handler's table."""
    kinesis, dynamodb = aws.client("kinesis"), aws.client("dynamodb")
    kinesis.create_stream(StreamName=STREAM, ShardCount=SHARDS)
    table = dynamodb.create_table(
        TableName=TABLE,
        AttributeDefinitions=[{"AttributeName": "shard_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "shard_id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    while (stream := kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"])[
        "StreamStatus"
    ] != "ACTIVE":
        time.sleep(LOOK)
    return stream["StreamARN"], table["TableDescription"]["TableArn"]
