"""A consumer in three lines on the embedded AWS: it creates its tables, finds its stream's ARN, and releases everything
at the end.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from boto3.session import Session
from botocore.exceptions import ClientError
from sublet import Batch, Consumer
from sublet.aws.clients import dynamodb_client, kinesis_client
from sublet.aws.ports import aws_ports, with_stream_arn
from sublet.aws.tables.create_tables import create_tables
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.aws.tables.worker_reports import DynamoDbWorkerReports
from sublet.errors import LeaseTableNotFound, StreamNotFound
from sublet.settings import Settings
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks

from infra.local import EmbeddedAws
from infra.local.embedded import ACCOUNT, REGION
from tests.contract.scripted_service import ScriptedService, error
from tests.docs.documents import ROOT, blocks


@pytest.fixture
def stream(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a stream with one record."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    client: Any = kinesis_client()
    name = f"orders-{uuid.uuid4().hex[:8]}"
    client.create_stream(StreamName=name, ShardCount=1)
    until = time.monotonic() + 30
    while client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamStatus"] != "ACTIVE":
        assert time.monotonic() < until
        time.sleep(0.1)
    client.put_record(StreamName=name, PartitionKey="customer-7", Data=b"a")
    return name


@pytest.mark.emulator
def test_three_lines_are_enough(stream: str) -> None:
    batches: list[Batch] = []

    def handle(batch: Batch) -> None:
        batches.append(batch)
        consumer.stop()

    consumer = Consumer(
        stream, stream, handle, failover_time=timedelta(seconds=3), heartbeat_interval=timedelta(seconds=1)
    )
    consumer.run()
    (batch,) = batches
    assert [record.data for record in batch.records] == [b"a"]
    assert (batch.stream_arn or "").endswith(f":stream/{stream}")
    assert batch.region == "us-east-1"
    (lease,) = DynamoDbLeaseTable(dynamodb_client(), stream).scan().leases
    assert (lease.lease_owner, lease.checkpoint) == (None, batch.records[-1].checkpoint)


def with_the_documented_policy(aws: EmbeddedAws, name: str) -> Session:
    """A session of a role with exactly the permissions in docs/permissions.md."""
    (policy,) = (block.text for block in blocks(ROOT / "docs/permissions.md") if block.language == "json")
    for documented, here in (("eu-west-1", REGION), ("123456789012", ACCOUNT), ("orders-audit", name)):
        policy = policy.replace(documented, here)
    iam = aws.client("iam")
    trusted = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": [trusted]})
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="process", PolicyDocument=policy)
    keys = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="process")["Credentials"]
    return Session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], REGION)


@pytest.mark.emulator
def test_the_documented_policy_is_enough_for_a_process(stream: str, embedded_aws: EmbeddedAws) -> None:
    """For its tables: the embedded DynamoDB denies what is not allowed. The embedded Kinesis knows no roles."""
    session = with_the_documented_policy(embedded_aws, stream)
    client = dynamodb_client(session=session)
    batches: list[Batch] = []

    def handle(batch: Batch) -> None:
        batches.append(batch)
        consumer.stop()

    settings = Settings(application=stream, stream=stream)
    ports = replace(
        aws_ports(settings, "process", output=None),
        table=DynamoDbLeaseTable(client, settings.lease_table),
        sightings=DynamoDbSightingStore(lambda: dynamodb_client(session=session), settings.sightings_table),
        reports=DynamoDbWorkerReports(lambda: dynamodb_client(session=session), settings, SystemClock()),
    )
    create_tables(client, settings, ThreadTasks().signal(), print)
    consumer = Consumer(
        stream,
        stream,
        handle,
        ports=ports,
        failover_time=timedelta(seconds=3),
        heartbeat_interval=timedelta(seconds=1),
    )
    consumer.run()
    assert [record.data for batch in batches for record in batch.records] == [b"a"]
    (lease,) = ports.table.scan().leases
    assert (lease.lease_owner, lease.checkpoint) == (None, batches[-1].records[-1].checkpoint)
    with pytest.raises(ClientError, match="AccessDenied"):
        client.delete_table(TableName=stream)


@pytest.mark.emulator
def test_no_table_is_made_if_none_may_be_or_without_a_stream(stream: str) -> None:
    with pytest.raises(LeaseTableNotFound):
        Consumer(stream, stream, print).run(create_tables=False)
    with pytest.raises(StreamNotFound):
        Consumer(stream, "no-such-stream", print).run()
    assert stream not in dynamodb_client().list_tables()["TableNames"]


def test_a_role_that_may_not_ask_for_the_arn_goes_on_without(service: ScriptedService) -> None:
    service.will("DescribeStreamSummary", error("AccessDeniedException"))
    settings = Settings(application="orders-audit", stream="orders")
    assert with_stream_arn(settings) is settings
