"""A consumer in three lines on the embedded AWS: its tables made, its stream's ARN known, everything released at the end."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import Any

import pytest
from sublet import Batch, Consumer
from sublet.aws.clients import dynamodb_client, kinesis_client
from sublet.aws.dynamodb import DynamoDbLeaseTable
from sublet.aws.ports import with_stream_arn
from sublet.errors import LeaseTableNotFound, StreamNotFound
from sublet.settings import Settings

from infra.local import EmbeddedAws
from tests.contract.scripted_service import ScriptedService, error


@pytest.fixture
def stream(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of one with a record."""
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    client: Any = kinesis_client()
    name = f"orders-{uuid.uuid4().hex[:8]}"
    client.create_stream(StreamName=name, ShardCount=1)
    until = time.monotonic() + 30
    while (
        client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamStatus"]
        != "ACTIVE"
    ):
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
