"""Calls of botocore that something else has wrapped, as every tracer does: it sees each call's reply or error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from botocore.client import BaseClient
from sublet.aws.clients import dynamodb_client, kinesis_client, kinesis_poll_client, kinesis_put_client
from sublet.aws.kinesis.put_records import KinesisWriter
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.push.push_requests import PushRequests
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.protocol.records import GetRecordsReply, NewRecord
from sublet.protocol.stream_info import PutRecord
from sublet.settings import Settings

from tests.contract.dynamodb_tables import create_table

pytestmark = pytest.mark.emulator

ALWAYS = {"GetRecords": "Records", "Scan": "Items", "PutRecords": "Records", "ListShards": "Shards"}
"""What AWS always sends, whether the model requires it or not; tracers and other wrappers rely on it."""


class Seen(NamedTuple):
    operation: str
    reply: Any
    error: BaseException | None
    model: Any


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Seen]]:
    found: list[Seen] = []
    make: Callable[..., Any] = BaseClient._make_api_call  # type: ignore[attr-defined]

    def wrapped(self: Any, operation: str, parameters: Any) -> Any:
        model = self.meta.service_model.operation_model(operation)
        try:
            reply = make(self, operation, parameters)
        except BaseException as error:
            found.append(Seen(operation, None, error, model))
            raise
        found.append(Seen(operation, reply, None, model))
        return reply

    monkeypatch.setattr(BaseClient, "_make_api_call", wrapped)
    yield found
    assert found
    for each in found:
        assert each.error is None, each
        check(each.model.output_shape, each.reply, each.operation)
        assert ALWAYS.get(each.operation, "ResponseMetadata") in each.reply, each


def check(shape: Any, value: Any, where: str) -> None:
    """Every member that the model requires is there, and each is of its type."""
    if shape is None:
        return
    match shape.type_name:
        case "structure" if isinstance(value, dict):
            missing = set(shape.required_members) - value.keys()
            assert not missing, f"{where} lacks {missing}"
            for name, member in shape.members.items():
                if name in value:
                    check(member, value[name], f"{where}.{name}")
        case "list":
            assert isinstance(value, list), where
            for each in value:
                check(shape.member, each, where)
        case "string":
            assert isinstance(value, str), where
        case "integer" | "long":
            assert isinstance(value, int), where


def test_wrapper_sees_parameters_of_kinesis_calls_that_fit_their_models(moto_aws: None, seen: list[Seen]) -> None:
    client = kinesis_client()
    client.create_stream(StreamName="events", ShardCount=1)
    settings = Settings(application="audit", stream="events")
    (put,) = KinesisWriter(kinesis_put_client(), settings).put([NewRecord(b'[{"id": 1}]', "key")])
    assert isinstance(put, PutRecord)
    stream = KinesisStream(client, kinesis_poll_client(), settings)
    (shard,) = stream.list_shards()
    assert stream.describe().identity.arn.endswith("stream/events")
    page = stream.poll(stream.open(shard.shard_id, ReadPosition(IteratorType.TRIM_HORIZON)), 10)
    assert isinstance(page, GetRecordsReply)
    assert [record.data for record in page.page.records] == [b'[{"id": 1}]']
    assert {"GetRecords", "PutRecords", "DescribeStreamSummary", "ListShards"} <= {each.operation for each in seen}


def test_wrapper_sees_parameters_of_dynamodb_calls_that_fit_their_models(moto_aws: None, seen: list[Seen]) -> None:
    client = dynamodb_client()
    table = DynamoDbLeaseTable(client, create_table(client, "audit", "leaseKey"))
    client.put_item(TableName="audit", Item={"leaseKey": {"S": "shardId-1"}})
    assert len(table.scan().malformed) == 1
    assert "Scan" in {each.operation for each in seen}


def test_a_request_that_is_signed_and_not_sent_is_no_error(seen: list[Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    requests = PushRequests(kinesis_poll_client())
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/events/consumer/audit:1"
    signed = requests.signed(arn, "shardId-000000000000", ReadPosition(IteratorType.LATEST))
    assert b'"ConsumerARN"' in signed.body
    assert {name.lower() for name in signed.headers} >= {"authorization", "x-amz-date", "x-amz-target"}
    (call,) = seen
    assert list(call.reply["EventStream"]) == []
