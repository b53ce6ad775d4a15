"""Kinesis' refusals of a PutRecords, as values and named errors."""

from __future__ import annotations

import os

import pytest
from sublet.aws.clients import kinesis_client
from sublet.aws.put_records import KinesisWriter
from sublet.errors import RecordRefused
from sublet.protocol.records import NewRecord, PutRefused
from sublet.settings import Settings

from infra.local import EmbeddedAws
from tests.contract.scripted_service import ScriptedService, error
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
    assert taken == SHARD
    assert isinstance(refused, PutRefused)
    assert not refused.passes
    assert "MaxRecordSizeInKiB is 1,024" in refused.reason


@pytest.mark.emulator
def test_a_call_that_kinesis_takes_in_no_case_is_named(writer: KinesisWriter) -> None:
    with pytest.raises(
        RecordRefused, match=r"refuses a call of 1 records \(InvalidArgumentException: ExplicitHashKey"
    ):
        writer.put([NewRecord(b"x", "k", "007")])


@pytest.mark.parametrize(
    "code", ["ProvisionedThroughputExceededException", "InternalFailure", "NeverHeardOf"]
)
def test_what_may_pass_is_a_value_also_with_a_code_that_we_do_not_know(
    service: ScriptedService, code: str
) -> None:
    refused = {"ErrorCode": code, "ErrorMessage": "said so"}
    service.will(
        "PutRecords",
        {"FailedRecordCount": 1, "Records": [{"ShardId": SHARD, "SequenceNumber": "1"}, refused]},
    )
    writer = KinesisWriter(kinesis_client(), Settings(application="audit", stream="orders"))
    assert writer.put([NewRecord(b"x", "k"), NewRecord(b"y", "k")]) == [
        SHARD,
        PutRefused(code, "said so", passes=True),
    ]


def test_a_whole_call_that_is_throttled_refuses_each_record_for_now(service: ScriptedService) -> None:
    service.will("PutRecords", error("LimitExceededException"))
    writer = KinesisWriter(kinesis_client(), Settings(application="audit", stream="orders"))
    assert (
        writer.put([NewRecord(b"x", "k")] * 2)
        == [PutRefused("LimitExceededException", "said so", passes=True)] * 2
    )


def test_a_call_that_is_refused_because_of_one_record_over_the_streams_limit_names_the_limit(
    service: ScriptedService,
) -> None:
    service.will("PutRecords", error("ValidationException"))
    service.will("DescribeStreamSummary", summary(MaxRecordSizeInKiB=2048))
    writer = KinesisWriter(kinesis_client(), Settings(application="audit", stream="orders"))
    with pytest.raises(RecordRefused, match=r"3,145,729 bytes: its MaxRecordSizeInKiB is 2,048"):
        writer.put([NewRecord(b"x", "k"), NewRecord(bytes(3 * 2**20), "k")])


def test_where_the_stream_may_not_be_described_the_services_reason_stands(service: ScriptedService) -> None:
    service.will("PutRecords", error("ValidationException"))
    service.will("DescribeStreamSummary", error("AccessDeniedException"))
    writer = KinesisWriter(kinesis_client(), Settings(application="audit", stream="orders"))
    with pytest.raises(RecordRefused, match=r"1 records \(ValidationException: said so\)"):
        writer.put([NewRecord(bytes(3 * 2**20), "k")])
