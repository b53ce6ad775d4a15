"""Kinesis' refusals of a PutRecords, as values and named errors."""

from __future__ import annotations

import os

import pytest
from sublet.aws.clients import kinesis_put_client
from sublet.aws.kinesis.put_records import KinesisWriter
from sublet.errors import RecordRefused
from sublet.protocol.records import NewRecord, PutRefused
from sublet.protocol.stream_info import PutRecord
from sublet.settings import Settings

from infra.local import EmbeddedAws
from tests.contract.scripted_service import HANG_UP, Reply, ScriptedService, cut, error
from tests.contract.test_put_one_record import summary

SHARD = "shardId-000000000000"


@pytest.fixture
def writer(embedded_aws: EmbeddedAws) -> KinesisWriter:
    client, name = embedded_aws.client("kinesis"), f"written-{os.getpid()}"
    if name not in client.list_streams()["StreamNames"]:
        client.create_stream(StreamName=name, ShardCount=1)
        client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    return KinesisWriter(client, Settings(application="audit", stream=name))


@pytest.mark.emulator
def test_a_record_over_the_streams_own_limit_is_refused_with_that_name(
    writer: KinesisWriter,
) -> None:
    taken, refused = writer.put([NewRecord(b"x", "k"), NewRecord(bytes(3 * 2**19), "k")])
    assert isinstance(taken, PutRecord)
    assert taken.shard_id == SHARD
    assert isinstance(refused, PutRefused)
    assert not refused.passes
    assert "MaxRecordSizeInKiB is 1,024" in refused.reason


@pytest.mark.emulator
def test_a_call_that_kinesis_takes_in_no_case_is_named(writer: KinesisWriter) -> None:
    with pytest.raises(RecordRefused, match=r"refuses the call \(InvalidArgumentException: ExplicitHashKey"):
        writer.put([NewRecord(b"x", "k", "007")])


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "InternalFailure", "NeverHeardOf"])
def test_put_returns_a_passing_refusal_also_for_an_unknown_error_code(service: ScriptedService, code: str) -> None:
    refused = {"ErrorCode": code, "ErrorMessage": "said so"}
    service.will(
        "PutRecords",
        {"FailedRecordCount": 1, "Records": [{"ShardId": SHARD, "SequenceNumber": "1"}, refused]},
    )
    writer = KinesisWriter(kinesis_put_client(), Settings(application="audit", stream="orders"))
    assert writer.put([NewRecord(b"x", "k"), NewRecord(b"y", "k")]) == [
        PutRecord(SHARD, "1"),
        PutRefused(code, "said so", passes=True),
    ]


def test_a_whole_call_that_is_throttled_refuses_each_record_for_now(service: ScriptedService) -> None:
    service.will("PutRecords", error("LimitExceededException"))
    writer = KinesisWriter(kinesis_put_client(), Settings(application="audit", stream="orders"))
    assert writer.put([NewRecord(b"x", "k")] * 2) == [PutRefused("LimitExceededException", "said so", passes=True)] * 2


def test_a_call_that_is_refused_because_of_one_record_refuses_the_others_for_now(
    service: ScriptedService,
) -> None:
    service.will("PutRecords", error("ValidationException"))
    service.will("DescribeStreamSummary", summary(MaxRecordSizeInKiB=2048))
    writer = KinesisWriter(kinesis_put_client(), Settings(application="audit", stream="orders"))
    other, large = writer.put([NewRecord(b"x", "k"), NewRecord(bytes(3 * 2**20), "k")])
    assert other == PutRefused("ValidationException", "refused with another record", passes=True)
    assert isinstance(large, PutRefused)
    assert not large.passes
    assert "3,145,729 bytes: its MaxRecordSizeInKiB is 2,048" in large.reason


def test_put_blames_the_record_over_the_default_size_without_a_description(
    service: ScriptedService,
) -> None:
    service.will("PutRecords", error("ValidationException"))
    service.will("DescribeStreamSummary", error("AccessDeniedException"))
    writer = KinesisWriter(kinesis_put_client(), Settings(application="audit", stream="orders"))
    answers = writer.put([NewRecord(b"x", "k"), NewRecord(bytes(3 * 2**20), "k")])
    assert [isinstance(answer, PutRefused) and answer.passes for answer in answers] == [True, False]


@pytest.mark.parametrize(
    "reply", [HANG_UP, cut({"FailedRecordCount": 0, "Records": []}), error("InternalFailure", status=500)]
)
def test_a_call_without_an_answer_refuses_each_record_for_now_and_is_not_repeated(
    service: ScriptedService, reply: Reply
) -> None:
    service.will("PutRecords", {"Records": [{"ShardId": SHARD, "SequenceNumber": "1"}]}, reply)
    writer = KinesisWriter(kinesis_put_client(), Settings(application="audit", stream="orders"))
    assert writer.put([NewRecord(b"x", "k")]) == [PutRecord(SHARD, "1")]
    (answer,) = writer.put([NewRecord(b"y", "k")])
    assert isinstance(answer, PutRefused)
    assert answer.passes
    assert len(service.asked("PutRecords")) == 2


def test_refused_record_has_the_services_reason_without_a_description(service: ScriptedService) -> None:
    service.will("PutRecords", error("ValidationException"))
    service.will("DescribeStreamSummary", error("AccessDeniedException"))
    writer = KinesisWriter(kinesis_put_client(), Settings(application="audit", stream="orders"))
    with pytest.raises(RecordRefused, match=r"refuses the call \(ValidationException: said so\)"):
        writer.put([NewRecord(bytes(3 * 2**20), "k")])
