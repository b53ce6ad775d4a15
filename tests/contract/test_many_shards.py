"""Streams of more shards than one ListShards reply holds."""

from __future__ import annotations

from typing import Any

import pytest
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis.stream import KinesisStream
from sublet.protocol.shard import FULL_RANGE
from sublet.reading.polling import PolledStream
from sublet.settings import Settings, StartKind, StartPosition
from sublet.testing.memory import FakeClock, MemoryStream

from tests.contract.scripted_service import Json, Reply, ScriptedService, error

SHARDS = 2_500
PAGE = 1_000
"""ListShards' default."""
ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
EXCLUDED = ("StreamName", "StreamARN", "ShardFilter", "ExclusiveStartShardId", "StreamCreationTimestamp")
"""With a NextToken, by Kinesis' answers in aws/aws-cli#9635, apache/beam#33478 and others."""


class ManyShards(ScriptedService):
    """ListShards of a large stream, paged as in Kinesis."""

    def answer(self, operation: str, request: Json) -> Reply:
        self.requests.append((operation, request))
        for name in EXCLUDED:
            if "NextToken" in request and name in request:
                said = f"NextToken and {name} cannot be provided together."
                return error("InvalidArgumentException", said)
        start = int(request.get("NextToken", 0))
        end = start + PAGE
        more = {"NextToken": str(end)} if end < SHARDS else {}
        return Reply(200, {"Shards": [listed(n) for n in range(start, min(end, SHARDS))], **more})


def listed(number: int) -> Json:
    keys = {"StartingHashKey": str(number), "EndingHashKey": str(FULL_RANGE.ending)}
    return {
        "ShardId": f"shardId-{number:012}",
        "HashKeyRange": keys,
        "SequenceNumberRange": {"StartingSequenceNumber": "0"},
    }


@pytest.fixture(params=["memory", "by its name", "by its ARN"])
def stream(request: pytest.FixtureRequest) -> PolledStream:
    if request.param == "memory":
        return MemoryStream(SHARDS, clock=FakeClock())
    request.getfixturevalue("service")
    arn = ARN if request.param == "by its ARN" else None
    return KinesisStream(
        kinesis_client(), kinesis_poll_client(), Settings(application="app", stream="orders", stream_arn=arn)
    )


@pytest.fixture
def make_service() -> type[ScriptedService]:
    return ManyShards


@pytest.mark.parametrize("at", [None, StartPosition(StartKind.TRIM_HORIZON)], ids=["all", "at the horizon"])
def test_every_shard_is_listed_once(stream: PolledStream, at: StartPosition | None) -> None:
    assert [shard.shard_id for shard in stream.list_shards(at)] == [f"shardId-{n:012}" for n in range(SHARDS)]


def test_stand_in_refuses_next_token_beside_a_stream(service: ScriptedService) -> None:
    client: Any = kinesis_client()
    for name in ("StreamName", "StreamARN"):
        with pytest.raises(client.exceptions.InvalidArgumentException, match=f"NextToken and {name}"):
            client.list_shards(**{name: ARN if name == "StreamARN" else "orders"}, NextToken="1000")
