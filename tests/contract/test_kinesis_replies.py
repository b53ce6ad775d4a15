"""GetRecords replies are decoded past botocore: what comes of them must be what botocore makes of them."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC
from pathlib import Path
from random import Random

import pytest
from sublet.aws import kinesis
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis import KinesisStream
from sublet.aws.kinesis_shapes import decode_records_reply
from sublet.protocol.records import Polled
from sublet.protocol.shard import FULL_RANGE
from sublet.settings import Settings

from tests.contract.scripted_service import Json, ScriptedService

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
    "a shard's end": {"Records": [record(2)], "NextShardIterator": None, "MillisBehindLatest": 0, "ChildShards": CHILDREN},
    "what nobody knows": {"Records": [{**record(3), "New": [1, {}]}], "NextShardIterator": "n", "New": {"a": None}},
}  # fmt: skip


def polled() -> Polled:
    settings = Settings(application="app", stream="orders")
    stream = KinesisStream(kinesis_client(), kinesis_poll_client(), settings)
    reply = stream.poll("shardId-000000000000 token", 10)
    assert isinstance(reply, Polled)
    return reply


@pytest.mark.parametrize("name", REPLIES)
def test_botocore_makes_the_same_of_it(
    name: str, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.will("GetRecords", REPLIES[name])
    reply = polled()
    page = reply.page
    assert decode_records_reply(json.dumps(REPLIES[name]).encode()).records == page.records

    def refuse(_: bytes) -> object:
        raise ValueError

    monkeypatch.setattr(kinesis, "decode_records_reply", refuse)
    assert reply == polled(), "by botocore"
    assert len(page.records) == len(REPLIES[name]["Records"])
    assert page.data_bytes == sum(len(one.data) for one in page.records)
    assert all(one.approximate_arrival_timestamp.tzinfo is UTC for one in page.records)


def test_what_we_cannot_decode_is_left_to_botocore(service: ScriptedService) -> None:
    """A number for a text: botocore asks no questions."""
    service.will("GetRecords", {"Records": [{**record(4), "PartitionKey": 7}], "NextShardIterator": "n"})
    [found] = polled().page.records
    assert found.partition_key == 7  # type: ignore[comparison-overlap]
