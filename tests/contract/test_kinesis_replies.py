"""GetRecords replies are decoded without botocore: the result must equal botocore's."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis import stream as kinesis
from sublet.aws.kinesis.shapes import decode_records_reply
from sublet.aws.kinesis.stream import KinesisStream
from sublet.decisions.session.quiet import reached_by
from sublet.errors import StreamError
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import FULL_RANGE
from sublet.protocol.stream_info import RecordDistribution
from sublet.settings import Settings

from tests.contract.scripted_service import Json, ScriptedService, error

EXAMPLE: Json = json.loads((Path(__file__).parents[2] / "events/kinesis_records.json").read_text())
RANGE = {"StartingHashKey": "0", "EndingHashKey": str(FULL_RANGE.ending)}
CHILDREN = [{"ShardId": "b", "ParentShards": ["a"], "HashKeyRange": RANGE}]
RANDOM = Random(2026)


def record(number: int) -> Json:
    return {
        "SequenceNumber": str(2**180 + number),
        "ApproximateArrivalTimestamp": round(RANDOM.uniform(0, 2**31), 3),
        "Data": b64encode(RANDOM.randbytes(RANDOM.randrange(200))).decode(),
        "PartitionKey": "".join(chr(RANDOM.choice((34, 92, 97, 233, 0x4E2D, 0x1F600))) for _ in range(9)),
    }


REPLIES = {
    "of events/": EXAMPLE,
    "many": {"Records": list(map(record, range(500))), "NextShardIterator": "n", "MillisBehindLatest": 86_400_000},
    "whole seconds": {"Records": [{**record(1), "ApproximateArrivalTimestamp": 1769846400}], "NextShardIterator": "n"},
    "null for missing": {"Records": [], "NextShardIterator": "n", "MillisBehindLatest": None, "ChildShards": None},
    "a shard's end": {
        "Records": [record(2)],
        "NextShardIterator": None,
        "MillisBehindLatest": 0,
        "ChildShards": CHILDREN,
    },
    "without a partition key": {
        "Records": [{k: v for k, v in record(5).items() if k != "PartitionKey"}, record(6)],
        "NextShardIterator": "n",
    },
    "a null partition key": {"Records": [{**record(7), "PartitionKey": None}], "NextShardIterator": "n"},
    "without an arrival": {
        "Records": [{k: v for k, v in record(8).items() if k != "ApproximateArrivalTimestamp"}],
        "NextShardIterator": "n",
    },
    "unknown fields": {"Records": [{**record(3), "New": [1, {}]}], "NextShardIterator": "n", "New": {"a": None}},
}


def polled() -> GetRecordsReply:
    settings = Settings(application="app", stream="orders")
    stream = KinesisStream(kinesis_client(), kinesis_poll_client(), settings)
    reply = stream.poll("shardId-000000000000 token", 10)
    assert isinstance(reply, GetRecordsReply)
    return reply


def test_an_empty_page_that_does_not_tell_its_lag_proves_nothing(service: ScriptedService) -> None:
    """As a page at the tip it would prove that nothing had come after the checkpoint, and a later reader would begin
    behind it.
    """
    service.will("GetRecords", REPLIES["null for missing"])
    page = polled().page
    assert page.millis_behind_latest > 0
    assert reached_by(page) is None


@pytest.mark.parametrize("name", REPLIES)
def test_decoder_equals_botocore(name: str, service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    service.will("GetRecords", REPLIES[name])
    reply = polled()
    page = reply.page
    if name != "without an arrival":
        assert decode_records_reply(json.dumps(REPLIES[name]).encode()).records == page.records

    def refuse(_: bytes) -> object:
        raise ValueError

    monkeypatch.setattr(kinesis, "decode_records_reply", refuse)
    assert reply == polled(), "by botocore"
    assert len(page.records) == len(REPLIES[name]["Records"])
    assert page.data_bytes == sum(len(one.data) for one in page.records)
    assert all(one.approximate_arrival_timestamp.tzinfo is UTC for one in page.records)


def test_keyless_record_has_no_key_and_its_neighbours_keep_theirs(
    service: ScriptedService,
) -> None:
    service.will("GetRecords", REPLIES["without a partition key"])
    keyless, keyed = polled().page.records
    assert keyless.partition_key is None
    assert keyed.partition_key is not None


def test_a_record_without_an_arrival_time_gets_the_reply_s(service: ScriptedService) -> None:
    service.will("GetRecords", REPLIES["without an arrival"])
    [found] = polled().page.records
    assert abs(found.approximate_arrival_timestamp - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_record_that_cannot_be_read_is_named_by_its_sequence_number(service: ScriptedService) -> None:
    unreadable = {key: value for key, value in record(9).items() if key != "Data"}
    service.will("GetRecords", {"Records": [record(10), unreadable], "NextShardIterator": "n"})
    with pytest.raises(StreamError, match=f"record {unreadable['SequenceNumber']} cannot be read: KeyError 'Data'"):
        polled()


def test_an_unknown_error_code_is_a_stream_error_in_the_service_s_words(
    service: ScriptedService,
) -> None:
    service.will("GetRecords", error("ShardOnHolidayException", "until Monday"))
    with pytest.raises(
        StreamError, match=r"Kinesis' error about stream orders: .*ShardOnHolidayException.*until Monday"
    ):
        polled()


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            {"StreamModeDetails": {"StreamMode": "ON_DEMAND"}, "RecordDistributionStrategy": "AUTO"},
            RecordDistribution.AUTO,
        ),
        (
            {
                "StreamModeDetails": {"StreamMode": "ON_DEMAND"},
                "RecordDistributionStrategy": "USER_PARTITION_KEY",
            },
            RecordDistribution.USER_PARTITION_KEY,
        ),
        ({"StreamModeDetails": {"StreamMode": "ON_DEMAND"}}, None),
        ({"StreamModeDetails": {"StreamMode": "ON_DEMAND"}, "RecordDistributionStrategy": "BY_MOON"}, None),
        ({"StreamModeDetails": {"StreamMode": "PROVISIONED"}}, RecordDistribution.USER_PARTITION_KEY),
        ({}, None),
    ],
)
def test_the_record_distribution_is_read_from_the_raw_reply(
    told: Json, expected: RecordDistribution | None, service: ScriptedService
) -> None:
    """botocore omits what its model does not have."""
    summary = {
        "StreamARN": "arn:aws:kinesis:us-east-1:1:stream/orders",
        "StreamCreationTimestamp": 1.7e9 + 0.25,
    }
    service.will("DescribeStreamSummary", {"StreamDescriptionSummary": {**summary, "RetentionPeriodHours": 48, **told}})
    settings = Settings(application="app", stream="orders")
    found = KinesisStream(kinesis_client(), kinesis_poll_client(), settings).describe()
    assert found.distribution is expected
    assert found.retention == timedelta(hours=48)
    assert found.identity.created_at == datetime.fromtimestamp(1.7e9 + 0.25, UTC)


def test_botocore_parses_a_reply_that_our_decoder_cannot(service: ScriptedService) -> None:
    """A number instead of a text: botocore does not check."""
    service.will("GetRecords", {"Records": [{**record(4), "PartitionKey": 7}], "NextShardIterator": "n"})
    [found] = polled().page.records
    assert found.partition_key == 7  # type: ignore[comparison-overlap]
