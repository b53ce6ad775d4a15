"""The promises of FailureDestination and SetAsideStore, held by every implementation; and what a topic is sent."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from sublet.aws.failure_destinations import (
    S3Destination,
    SqsDestination,
    failure_destination,
    set_aside_store,
)
from sublet.errors import DestinationRefused
from sublet.memory import MemoryDestination
from sublet.ports import FailureDestination, SetAsideStore
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.failure_document_read import batch_of_message
from sublet.protocol.records import StreamRecord, UserRecord

AT = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
DATA = b"data"
REGION, ACCOUNT = "us-east-1", "123456789012"


def batch(first: int, count: int = 2, shard: str = "shardId-000000000000") -> SetAsideBatch:
    records = tuple(
        UserRecord(DATA, "key", 0, StreamRecord(str(number), DATA, "key", AT))
        for number in range(first, first + count)
    )
    return SetAsideBatch(
        "orders", "events", None, shard, records, "RetryAttemptsExhausted", 1, AT, "item/1", "orders:handle"
    )


def make_queue(name: str = "given-up", **attributes: str) -> str:
    client: Any = boto3.client("sqs")
    url = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return str(
        client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    )


def queue_store(arn: str) -> SqsDestination:
    return SqsDestination(lambda: boto3.client("sqs"), arn, long_poll=0)


def make_bucket(prefix: str = "") -> str:
    boto3.client("s3").create_bucket(Bucket="given-up")
    return f"arn:aws:s3:::given-up{prefix}"


@pytest.fixture(
    params=["memory", *(pytest.param(name, marks=pytest.mark.emulator) for name in ("sqs", "fifo", "s3"))]
)
def store(request: pytest.FixtureRequest) -> Any:
    """Both ports in one."""
    if request.param == "memory":
        return MemoryDestination()
    request.getfixturevalue("moto_aws")
    if request.param == "sqs":
        return queue_store(make_queue())
    if request.param == "fifo":
        return queue_store(make_queue("given-up.fifo", FifoQueue="true"))
    return set_aside_store(make_bucket("/sublet/"))


def kept(store: SetAsideStore) -> list[SetAsideBatch]:
    """In the order in which they are given; and left there."""
    read = []
    for each in store.kept():
        store.leave(each.name)
        assert each.batch
        read.append(each.batch)
    return read


def test_what_was_put_is_kept(store: Any) -> None:
    store.put(batch(100))
    store.put(batch(102))
    assert kept(store) == [batch(100), batch(102)]


def test_nothing_is_kept_at_first(store: Any) -> None:
    assert kept(store) == []


def test_what_is_removed_is_kept_no_more(store: Any) -> None:
    store.put(batch(100))
    store.put(batch(102))
    for each in store.kept():
        if each.batch == batch(100):
            store.remove(each.name)
        else:
            store.leave(each.name)
    assert kept(store) == [batch(102)]


def test_what_is_left_is_given_again(store: Any) -> None:
    store.put(batch(100))
    for _ in range(3):
        (each,) = store.kept()
        assert each.batch == batch(100)
        store.leave(each.name)


def test_what_is_set_aside_twice_is_kept(store: Any) -> None:
    """A crash came between the destination and the checkpoint. Only a plain queue cannot tell that it is the same."""
    store.put(batch(100))
    store.put(replace(batch(100), holder="item/2", attempts=2))
    assert {each.records[0].sequence_number for each in kept(store)} == {"100"}


@pytest.mark.emulator
def test_a_fifo_queue_and_a_bucket_know_what_they_have(moto_aws: None) -> None:
    queue, bucket = make_queue("given-up.fifo", FifoQueue="true"), make_bucket()
    for arn, store in ((queue, queue_store(queue)), (bucket, set_aside_store(bucket))):
        assert store is not None
        for holder in ("item/1", "item/2"):
            failure_destination(arn).put(replace(batch(100), holder=holder))
        assert len(kept(store)) == 1


@pytest.fixture
def nowhere(moto_aws: None) -> list[str]:
    return [
        f"arn:aws:sqs:{REGION}:{ACCOUNT}:none",
        f"arn:aws:sns:{REGION}:{ACCOUNT}:none",
        "arn:aws:s3:::none-of-these/x",
    ]


@pytest.mark.emulator
def test_a_destination_that_is_not_there_refuses(nowhere: list[str]) -> None:
    for arn in nowhere:
        with pytest.raises(DestinationRefused, match="none"):
            failure_destination(arn).put(batch(100))


def test_memory_refuses_when_told() -> None:
    destination = MemoryDestination()
    destination.refusals = 1
    with pytest.raises(DestinationRefused):
        destination.put(batch(100))
    destination.put(batch(100))
    assert destination.taken == [batch(100)]


@pytest.mark.emulator
def test_a_topic_passes_it_on_and_keeps_nothing(moto_aws: None) -> None:
    queue, topics = make_queue(), boto3.client("sns")
    arn = topics.create_topic(Name="given-up")["TopicArn"]
    topics.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue)
    failure_destination(arn).put(batch(100))
    (message,) = boto3.client("sqs").receive_message(QueueUrl=_url(queue))["Messages"]
    assert json.loads(message["Body"])["Type"] == "Notification"
    assert batch_of_message(message["Body"]) == batch(100)
    assert set_aside_store(arn) is None


@pytest.mark.emulator
def test_what_others_put_there_is_told_and_left_alone(moto_aws: None) -> None:
    arn = make_queue()
    boto3.client("sqs").send_message(QueueUrl=_url(arn), MessageBody="of somebody else")
    bucket = set_aside_store(make_bucket())
    boto3.client("s3").put_object(Bucket="given-up", Key="a/b.jsonl.gz", Body=b"of somebody else")
    boto3.client("s3").put_object(Bucket="given-up", Key="report.csv", Body=b"of somebody else")
    queue = queue_store(arn)
    assert bucket is not None
    (message,), (item,) = queue.kept(), bucket.kept()
    assert message.batch is None
    assert "no JSON" in message.problem
    assert item.batch is None
    assert "a/b.jsonl.gz" in item.problem


def _url(arn: str) -> str:
    return str(boto3.client("sqs").get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"])


@pytest.mark.emulator
def test_a_client_is_made_with_the_first_record(moto_aws: None) -> None:
    made: list[int] = []
    boto3.client("s3").create_bucket(Bucket="given-up")

    def client() -> Any:
        made.append(1)
        return boto3.client("s3")

    destination: FailureDestination = S3Destination(client, "given-up", "")
    assert made == []
    destination.put(batch(100))
    destination.put(batch(102))
    assert made == [1]
