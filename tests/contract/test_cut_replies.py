"""A truncated reply is not an answer: least of all "there is no such row", which would let a child begin too early."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from sublet.aws.clients import dynamodb_client, kinesis_client, kinesis_poll_client, stepfunctions_client
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import LeaseTableUnavailable, StreamUnavailable
from sublet.ports import Applied, Unanswered
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease, LeaseFence
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import acquire
from sublet.protocol.records import GetRecordsReply
from sublet.settings import Settings

from tests.contract.scripted_service import Json, ScriptedService, cut

SHARD = "shardId-000000000000"
ROW = {**encode_row(Lease(SHARD, TRIM_HORIZON, lease_counter=1)), "padding": {"S": "x" * 200}}
GOT: Json = {"Item": ROW}
SCANNED: Json = {"Items": [ROW], "Count": 1}
UPDATED: Json = {"Attributes": ROW}
POLLED: Json = {"Records": [], "NextShardIterator": "next" * 20, "MillisBehindLatest": 0}


@pytest.fixture
def table(service: ScriptedService) -> DynamoDbLeaseTable:
    return DynamoDbLeaseTable(dynamodb_client(), "leases")


@pytest.fixture
def stream(service: ScriptedService) -> KinesisStream:
    settings = Settings(application="app", stream="orders")
    return KinesisStream(kinesis_client(), kinesis_poll_client(), settings)


def test_cut_reply_is_asked_for_again(
    service: ScriptedService, table: DynamoDbLeaseTable, stream: KinesisStream
) -> None:
    service.will("GetItem", cut(GOT), GOT)
    assert isinstance(table.get(SHARD), Lease)
    service.will("Scan", cut(SCANNED), SCANNED)
    assert [lease.lease_key for lease in table.scan().leases] == [SHARD]
    service.will("UpdateItem", cut(UPDATED), UPDATED)
    assert isinstance(table.apply(acquire(LeaseFence(SHARD, None, 0), "worker", "holder")), Applied)
    service.will("GetShardIterator", cut({"ShardIterator": "first" * 20}), {"ShardIterator": "first"})
    assert stream.open(SHARD, ReadPosition(IteratorType.TRIM_HORIZON)) == f"{SHARD} first"


def test_a_service_that_cuts_off_every_reply_is_unavailable(
    service: ScriptedService, table: DynamoDbLeaseTable, stream: KinesisStream
) -> None:
    service.will("GetItem", cut(GOT))
    with pytest.raises(LeaseTableUnavailable, match="cut off"):
        table.get(SHARD)
    service.will("Scan", cut(SCANNED))
    with pytest.raises(LeaseTableUnavailable):
        table.scan()
    service.will("UpdateItem", cut(UPDATED))
    with pytest.raises(LeaseTableUnavailable):
        table.apply(acquire(LeaseFence(SHARD, None, 0), "worker", "holder"))
    service.will("ListShards", cut({"Shards": [], "NextToken": "x" * 200}))
    with pytest.raises(StreamUnavailable):
        stream.list_shards()
    service.will("StartExecution", cut({"executionArn": "x" * 200, "startDate": 0}))
    with pytest.raises(ClientError, match="cut off"):
        stepfunctions_client().start_execution(stateMachineArn="arn:aws:states:::stateMachine:x", name="x")


def test_a_cut_poll_is_polled_again(service: ScriptedService, stream: KinesisStream) -> None:
    service.will("GetRecords", cut(POLLED), POLLED)
    assert isinstance(stream.poll(f"{SHARD} first", 10), Unanswered)
    assert isinstance(stream.poll(f"{SHARD} first", 10), GetRecordsReply)
