"""SubscribeToShard of the embedded AWS: the service's rules, as plain botocore sees them.

The rules are those of the API reference (SubscribeToShard, StartingPosition, SubscribeToShardEvent).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError

from infra.local.embedded import EmbeddedAws
from tests.contract.subscriptions import END, Consumed, consumed, registered

pytestmark = pytest.mark.emulator

SHARD = "shardId-000000000000"
NEVER = timedelta(hours=1)
SOON = timedelta(milliseconds=100)
AT_ONCE = timedelta(0)


@pytest.fixture
def stream(embedded_aws: EmbeddedAws) -> Iterator[Consumed]:
    with consumed(embedded_aws) as stream:
        yield stream


@pytest.fixture
def two_shards(embedded_aws: EmbeddedAws) -> Iterator[Consumed]:
    with consumed(embedded_aws, shards=2) as stream:
        yield stream


def test_subscription_starts_at_each_kind_of_position(stream: Consumed) -> None:
    stream.fan_out.takes(again_after=AT_ONCE, quiet_event_every=NEVER)
    first = stream.put(b"1")
    time.sleep(0.01)  # a moment's precision is a millisecond
    between = datetime.now(UTC)
    time.sleep(0.01)
    stream.put(b"2")
    assert stream.subscribe("TRIM_HORIZON").records(2) == [b"1", b"2"]
    assert stream.subscribe("AT_SEQUENCE_NUMBER", SequenceNumber=first).records(2) == [b"1", b"2"]
    assert stream.subscribe("AFTER_SEQUENCE_NUMBER", SequenceNumber=first).records(1) == [b"2"]
    assert stream.subscribe("AT_TIMESTAMP", Timestamp=between).records(1) == [b"2"]
    latest = stream.subscribe("LATEST")
    latest.event()
    stream.put(b"3")
    assert latest.records(1) == [b"3"]


def test_event_has_records_continuation_and_lag(stream: Consumed) -> None:
    number = stream.put(b"data")
    event = stream.subscribe().event()
    (record,) = event["Records"]
    assert (record["Data"], record["PartitionKey"], record["SequenceNumber"]) == (b"data", "key", number)
    assert record["ApproximateArrivalTimestamp"].tzinfo is not None
    assert event["ContinuationSequenceNumber"] == number
    assert event["MillisBehindLatest"] == 0
    assert "ChildShards" not in event


def test_a_put_makes_an_event_at_once(stream: Consumed) -> None:
    stream.fan_out.takes(quiet_event_every=NEVER)
    subscription = stream.subscribe()
    for number in range(5):
        stream.put(b"%d" % number)
        assert subscription.records(1) == [b"%d" % number]


def test_a_quiet_shard_moves_on_too(stream: Consumed) -> None:
    """Each empty event's continuation is later than the one before, and skips nothing that comes after it."""
    stream.fan_out.takes(quiet_event_every=SOON, again_after=AT_ONCE)
    last = stream.put(b"old")
    subscription = stream.subscribe("LATEST")
    quiet = [subscription.event() for _ in range(3)]
    numbers = [int(event["ContinuationSequenceNumber"]) for event in quiet]
    assert int(last) <= numbers[0] < numbers[1] < numbers[2]
    assert [event["Records"] for event in quiet] == [[], [], []]
    new = stream.put(b"new")
    assert int(new) > numbers[-1]
    again = stream.subscribe("AFTER_SEQUENCE_NUMBER", SequenceNumber=str(numbers[-1]))
    assert again.records(1) == [b"new"]
    again = stream.subscribe("AT_SEQUENCE_NUMBER", SequenceNumber=str(numbers[-1]))
    assert again.records(1) == [b"new"]


def test_a_poll_can_go_on_from_a_continuation(stream: Consumed) -> None:
    stream.fan_out.takes(quiet_event_every=SOON)
    stream.put(b"old")
    subscription = stream.subscribe("LATEST")
    number = [subscription.event()["ContinuationSequenceNumber"] for _ in range(2)][-1]
    stream.put(b"new")
    opened = stream.client.get_shard_iterator(
        StreamName=stream.stream,
        ShardId=SHARD,
        StartingSequenceNumber=number,
        ShardIteratorType="AFTER_SEQUENCE_NUMBER",
    )
    polled = stream.client.get_records(ShardIterator=opened["ShardIterator"])
    assert [record["Data"] for record in polled["Records"]] == [b"new"]


def test_a_subscription_ends_by_itself(stream: Consumed) -> None:
    stream.fan_out.takes(lasts=timedelta(milliseconds=300))
    assert stream.subscribe().last() is END


def test_a_second_call_is_refused_for_a_while_and_then_takes_over(stream: Consumed) -> None:
    stream.fan_out.takes(again_after=NEVER)
    first = stream.subscribe()
    first.event()
    with pytest.raises(stream.client.exceptions.ResourceInUseException):
        stream.subscribe()
    stream.fan_out.takes(again_after=AT_ONCE)
    second = stream.subscribe()
    stolen = first.last()
    assert isinstance(stolen, EventStreamError)
    assert stolen.response["Error"]["Code"] == "ResourceInUseException"
    stream.put(b"for the second")
    assert second.records(1) == [b"for the second"]
    assert [call.answer for call in stream.fan_out.calls()] == [
        "subscribed",
        "ResourceInUseException",
        "subscribed",
    ]


def test_a_call_after_a_subscription_that_ended_is_refused_as_well(stream: Consumed) -> None:
    stream.fan_out.takes(lasts=SOON, again_after=NEVER)
    assert stream.subscribe().last() is END
    with pytest.raises(stream.client.exceptions.ResourceInUseException):
        stream.subscribe()


def test_subscriptions_are_separate_by_shard_and_consumer(two_shards: Consumed) -> None:
    other = registered(two_shards.client, two_shards.stream_arn, "other")
    readers = [
        two_shards.subscribe(),
        two_shards.subscribe(shard=1),
        two_shards.as_other(other).subscribe(),
    ]
    two_shards.put(b"low")
    two_shards.put(b"high", 2**127)
    assert [reader.records(1) for reader in readers] == [[b"low"], [b"high"], [b"low"]]


def test_a_shards_end_names_its_children(two_shards: Consumed) -> None:
    two_shards.fan_out.takes(again_after=AT_ONCE)
    following = two_shards.subscribe()
    two_shards.put(b"last")
    assert following.records(1) == [b"last"]
    two_shards.client.split_shard(StreamName=two_shards.stream, ShardToSplit=SHARD, NewStartingHashKey=str(2**126))
    while "ChildShards" not in (end := following.event()):
        pass
    assert end.get("ContinuationSequenceNumber") is None
    assert [child["ParentShards"] for child in end["ChildShards"]] == [[SHARD], [SHARD]]
    assert [child["HashKeyRange"]["StartingHashKey"] for child in end["ChildShards"]] == ["0", str(2**126)]
    assert following.next() is END
    late = two_shards.subscribe()
    assert late.event()["ChildShards"] == end["ChildShards"]
    assert two_shards.subscribe("LATEST").event()["ChildShards"] == end["ChildShards"]


def test_a_merge_is_the_end_of_both(two_shards: Consumed) -> None:
    two_shards.put(b"old")
    readers = [two_shards.subscribe(), two_shards.subscribe(shard=1)]
    two_shards.client.merge_shards(
        StreamName=two_shards.stream, ShardToMerge=SHARD, AdjacentShardToMerge="shardId-000000000001"
    )
    for reader in readers:
        while "ChildShards" not in (end := reader.event()):
            pass
        (child,) = end["ChildShards"]
        assert set(child["ParentShards"]) == {SHARD, "shardId-000000000001"}


def test_subscribing_fails_for_an_unknown_shard_or_consumer(stream: Consumed) -> None:
    gone = stream.client.exceptions.ResourceNotFoundException
    with pytest.raises(gone, match="shardId-000000000007"):
        stream.subscribe(shard=7)
    unknown = f"{stream.stream_arn}/consumer/reader:1"
    with pytest.raises(gone, match="reader:1"):
        stream.as_other(unknown).subscribe()


@pytest.mark.parametrize("what", ["consumer", "stream"])
def test_subscription_ends_when_its_consumer_or_stream_is_deleted(stream: Consumed, what: str) -> None:
    subscription = stream.subscribe()
    subscription.event()
    if what == "consumer":
        stream.client.deregister_stream_consumer(ConsumerARN=stream.consumer_arn)
    else:
        stream.client.delete_stream(StreamName=stream.stream, EnforceConsumerDeletion=True)
    ended = subscription.last()
    assert isinstance(ended, EventStreamError)
    assert ended.response["Error"]["Code"] == "ResourceNotFoundException"


def test_a_position_older_than_the_retention_is_the_horizon(stream: Consumed) -> None:
    first = int(stream.put(b"1"))
    day = (1 << 36) * 60 * 60 * 24
    subscription = stream.subscribe("AFTER_SEQUENCE_NUMBER", SequenceNumber=str(first - 2 * day))
    assert subscription.records(1) == [b"1"]


def test_a_number_of_another_stream_is_refused(stream: Consumed) -> None:
    number = int(stream.put(b"1"))
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="did not come from"):
        stream.subscribe("AT_SEQUENCE_NUMBER", SequenceNumber=str(number + (1 << 80)))


POSITIONS: list[dict[str, Any]] = [
    {"Type": "AT_SEQUENCE_NUMBER"},
    {"Type": "AFTER_SEQUENCE_NUMBER", "Timestamp": 1},
    {"Type": "AT_TIMESTAMP"},
    {"Type": "LATEST", "SequenceNumber": "1"},
    {"Type": "TRIM_HORIZON", "Timestamp": 1},
]


@pytest.mark.parametrize("position", POSITIONS, ids=lambda position: position["Type"])
def test_position_is_refused_without_the_value_of_its_type(stream: Consumed, position: dict[str, Any]) -> None:
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="Must either specify"):
        stream.client.subscribe_to_shard(ConsumerARN=stream.consumer_arn, ShardId=SHARD, StartingPosition=position)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"ConsumerARN": "reader"}, "consumerARN"),
        ({"ShardId": "shard 1"}, "shardId"),
        ({"StartingPosition": {"Type": "NEWEST"}}, "startingPosition.type"),
        ({"StartingPosition": {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": "01"}}, "sequenceNumber"),
    ],
)
def test_validation_error_names_the_invalid_parameter(stream: Consumed, given: dict[str, Any], named: str) -> None:
    asked = {"ConsumerARN": stream.consumer_arn, "ShardId": SHARD, "StartingPosition": {"Type": "LATEST"}}
    with pytest.raises(ClientError, match=f"1 validation error detected: Value .* at '.*{named}'") as refused:
        stream.client.subscribe_to_shard(**asked | given)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_records_come_no_faster_than_the_limit(stream: Consumed) -> None:
    """A second's worth may come at once."""
    stream.fan_out.takes(bytes_a_second=40_000)
    for _ in range(2):
        stream.put(bytes(45_000))  # 60,000 bytes of JSON
    started = time.monotonic()
    subscription = stream.subscribe()
    assert len(subscription.records(2)) == 2
    stream.put(b"next")
    assert subscription.records(1) == [b"next"]
    assert time.monotonic() - started > 1
