"""The promises of FailureDestination and SetAsideStore, for every implementation; and what a topic is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from msgspec import structs
from sublet.aws.ports import aws_ports
from sublet.aws.set_aside.failure_destinations import (
    SnsDestination,
    SqsDestination,
    failure_destination,
    set_aside_store,
)
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.errors import DestinationRefused
from sublet.operate.set_aside_folder import SetAsideFolder
from sublet.ports import FailureDestination, KeptBatch, RemovalResult, SetAsideStore
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.failure_document_read import batch_of_message
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import Settings
from sublet.testing.memory import FakeClock, MemoryDestination

from tests.doubles.s3_model import S3Model, client_of
from tests.doubles.sns_model import DELIVERED_WITHIN, SnsModel
from tests.doubles.sqs_model import SqsModel

AT = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
DATA = b"data"
REGION, ACCOUNT = "us-east-1", "123456789012"


def batch(first: int, count: int = 2, shard: str = "shardId-000000000000") -> SetAsideBatch:
    records = tuple(
        UserRecord(DATA, "key", 0, StreamRecord(str(number), DATA, "key", AT)) for number in range(first, first + count)
    )
    return SetAsideBatch(
        "orders", "events", None, shard, records, "RetryAttemptsExhausted", 1, AT, "item/1", "orders:handle"
    )


def make_queue(name: str = "given-up", **attributes: str) -> str:
    client: Any = boto3.client("sqs")
    url = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return str(client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"])


def queue_store(arn: str) -> SqsDestination:
    return SqsDestination(lambda: boto3.client("sqs"), arn, long_poll=0)


def make_bucket(prefix: str = "") -> str:
    boto3.client("s3").create_bucket(Bucket="given-up")
    return f"arn:aws:s3:::given-up{prefix}"


MODELS: dict[str, Callable[[], Any]] = {
    "sqs-model": lambda: modelled_queue("given-up"),
    "fifo-model": lambda: modelled_queue("given-up.fifo"),
    "s3-model": lambda: S3Destination(client_of(S3Model()), "given-up", "/sublet/"),
}
"""Our own models, which the simulation uses: they must keep the same promises as moto's, or the simulation proves
nothing.
"""


def modelled_queue(name: str) -> SqsDestination:
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
    return SqsDestination(client_of(SqsModel(arn, FakeClock().now)), arn)


@pytest.fixture(
    params=[
        "memory",
        "folder",
        *MODELS,
        *(pytest.param(name, marks=pytest.mark.emulator) for name in ("sqs", "fifo", "s3")),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Both ports in one."""
    if request.param == "folder":
        return SetAsideFolder(tmp_path / "skipped")
    if request.param == "memory":
        return MemoryDestination()
    if request.param in MODELS:
        return MODELS[request.param]()
    request.getfixturevalue("moto_aws")
    if request.param == "sqs":
        return queue_store(make_queue())
    if request.param == "fifo":
        return queue_store(make_queue("given-up.fifo", FifoQueue="true"))
    return set_aside_store(make_bucket("/sublet/"))


def kept(store: SetAsideStore) -> list[SetAsideBatch]:
    """In the order in which they are returned; none is removed."""
    read = []
    for each in store.kept("orders"):
        assert isinstance(each, KeptBatch)
        assert each.batch
        store.leave(each)
        read.append(each.batch)
    return read


def test_store_keeps_each_batch_put(store: Any) -> None:
    store.put(batch(100))
    store.put(batch(102))
    assert kept(store) == [batch(100), batch(102)]


def test_store_is_empty_at_first(store: Any) -> None:
    assert kept(store) == []


def test_store_no_longer_gives_a_removed_batch(store: Any) -> None:
    store.put(batch(100))
    store.put(batch(102))
    for each in store.kept("orders"):
        if each.batch == batch(100):
            assert store.remove(each) is RemovalResult.REMOVED
        else:
            store.leave(each)
    assert kept(store) == [batch(102)]


def test_store_gives_a_left_batch_again(store: Any) -> None:
    store.put(batch(100))
    for _ in range(3):
        (each,) = store.kept("orders")
        assert each.batch == batch(100)
        store.leave(each)


def test_store_keeps_a_batch_that_is_put_twice(store: Any) -> None:
    """After a crash between the destination and the checkpoint. Only a plain queue cannot tell that it is the same
    batch.
    """
    store.put(batch(100))
    store.put(replace(batch(100), holder="item/2", attempts=2))
    assert {each.records[0].sequence_number for each in kept(store)} == {"100"}


def test_store_keeps_batches_of_the_same_ends_with_other_records_apart(store: Any) -> None:
    """After a crash, with a different grouping. They are different batches, whatever they have in common."""
    first = batch(100, count=4)
    other = replace(first, records=(first.records[0], first.records[2], first.records[3]))
    another = replace(first, records=(first.records[0], first.records[1], first.records[3]))
    for each in (first, other, another):
        store.put(each)
    assert sorted(kept(store), key=lambda each: each.place) == sorted(
        (first, other, another), key=lambda each: each.place
    )


@pytest.mark.emulator
def test_fifo_queue_and_bucket_keep_a_repeated_batch_once(moto_aws: None) -> None:
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


def test_memory_refuses_on_request() -> None:
    destination = MemoryDestination()
    destination.refusals = 1
    with pytest.raises(DestinationRefused):
        destination.put(batch(100))
    destination.put(batch(100))
    assert destination.taken == [batch(100)]


def large(*sizes: int) -> SetAsideBatch:
    """A batch whose records have so many bytes of data."""
    given = batch(100, len(sizes))
    kept = [structs.replace(record, data=b"x" * size) for record, size in zip(given.records, sizes, strict=True)]
    return replace(given, records=tuple(kept))


@pytest.fixture(params=["model", pytest.param("moto", marks=pytest.mark.emulator)])
def queue_taking(request: pytest.FixtureRequest) -> Callable[[int], SqsDestination]:
    """A queue with this MaximumMessageSize."""
    if request.param == "moto":
        request.getfixturevalue("moto_aws")
        return lambda limit: queue_store(make_queue(MaximumMessageSize=str(limit)))
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:given-up"
    return lambda limit: SqsDestination(client_of(SqsModel(arn, FakeClock().now, message_bytes_max=limit)), arn)


@pytest.mark.parametrize("size", [200_000, 300_000, 700_000])
def test_a_queue_takes_a_record_of_more_than_a_topic_does(
    queue_taking: Callable[[int], SqsDestination], size: int
) -> None:
    store = queue_taking(2**20)
    store.put(large(10, size, 20))
    assert _records(store) == [("100", 10), ("101", size), ("102", 20)]


@pytest.mark.parametrize("limit", [65_536, 262_144, 1_000_000])
def test_a_queue_that_takes_less_gets_each_record_once(
    queue_taking: Callable[[int], SqsDestination], limit: int
) -> None:
    """The first messages of a batch are small enough, and not sent twice."""
    store, sizes = queue_taking(limit), [40, *[40_000] * 40, 30]
    for _ in range(2):
        store.put(large(*sizes))
    kept = sorted(_records(store))
    assert kept == sorted([(str(100 + n), size) for n, size in enumerate(sizes)] * 2)


def test_queue_takes_a_refused_batch_after_its_limit_was_raised(
    queue_taking: Callable[[int], SqsDestination],
) -> None:
    store = queue_taking(65_536)
    for _ in range(2):
        with pytest.raises(DestinationRefused, match="too large for a message of 65,536"):
            store.put(large(70_000))
    client: Any = store._client
    if isinstance(client, SqsModel):
        client.message_bytes_max = 262_144
    else:
        client.set_queue_attributes(QueueUrl=store._url, Attributes={"MaximumMessageSize": "262144"})
    store.put(large(70_000))
    assert _records(store) == [("100", 70_000)]


@pytest.mark.parametrize("said", ["Message too long.", "Message must be shorter than some bytes."])
def test_a_refusal_that_does_not_say_the_limit_halves_the_messages(said: str) -> None:
    class Queue(SqsModel):
        def send_message(self, **given: Any) -> Any:
            if len(given["MessageBody"]) > 50_000:
                raise ClientError({"Error": {"Code": "InvalidParameterValue", "Message": said}}, "SendMessage")
            return super().send_message(**given)

    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:given-up"
    store = SqsDestination(client_of(Queue(arn, FakeClock().now)), arn)
    store.put(large(*[10_000] * 30))
    assert _records(store) == [(str(100 + n), 10_000) for n in range(30)]


def test_queue_refusal_for_another_reason_is_raised_as_it_is() -> None:
    class Queue(SqsModel):
        def send_message(self, **_: Any) -> Any:
            said = "Value for parameter X is invalid."
            raise ClientError({"Error": {"Code": "InvalidParameterValue", "Message": said}}, "SendMessage")

    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:given-up"
    store = SqsDestination(client_of(Queue(arn, FakeClock().now)), arn)
    with pytest.raises(DestinationRefused, match="Value for parameter X"):
        store.put(large(10))


def test_records_of_a_batch_that_were_sent_are_not_sent_again_while_one_is_too_large() -> None:
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:given-up"
    queue = SqsModel(arn, FakeClock().now, message_bytes_max=262_144)
    store = SqsDestination(client_of(queue), arn)
    for _ in range(3):
        with pytest.raises(DestinationRefused, match="too large"):
            store.put(large(100_000, 700_000))
    queue.message_bytes_max = 2**20
    store.put(large(100_000, 700_000))
    assert _records(store) == [("100", 100_000), ("101", 700_000)]


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [(100_000, [40_000] * 9), (262_144, [40_000] * 20), (2**20, [10, 700_000, 20]), (500_000, [30, 300_000])],
)
def test_a_topic_gets_messages_of_the_size_that_it_takes(limit: int, sizes: list[int]) -> None:
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:given-up"
    clock = FakeClock()
    queue = SqsModel(arn, clock.now)
    topic = SnsModel(queue, message_bytes_max=limit)
    SnsDestination(client_of(topic), arn.replace("sqs", "sns")).put(large(*sizes))
    clock.advance(DELIVERED_WITHIN)
    topic.deliver()
    found = sorted(_records(SqsDestination(client_of(queue), arn)))
    assert found == [(str(100 + n), size) for n, size in enumerate(sizes)]


def test_topic_refuses_a_batch_beyond_its_message_size() -> None:
    topic = SnsModel(SqsModel("arn", FakeClock().now))
    store = SnsDestination(client_of(topic), f"arn:aws:sns:{REGION}:{ACCOUNT}:given-up")
    for _ in range(2):
        with pytest.raises(DestinationRefused, match="too large for a message of 262,144"):
            store.put(large(10, 300_000))
    assert not topic.under_way


def _records(store: SqsDestination) -> list[tuple[str, int]]:
    """Number and size of each that is kept."""
    return [(record.sequence_number, len(record.data)) for each in kept(store) for record in each.records]


@pytest.mark.emulator
def test_topic_passes_a_batch_on_and_keeps_nothing(moto_aws: None) -> None:
    queue, topics = make_queue(), boto3.client("sns")
    arn = topics.create_topic(Name="given-up")["TopicArn"]
    topics.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue)
    failure_destination(arn).put(batch(100))
    (message,) = boto3.client("sqs").receive_message(QueueUrl=_url(queue))["Messages"]
    assert json.loads(message["Body"])["Type"] == "Notification"
    assert batch_of_message(message["Body"]) == batch(100)
    assert set_aside_store(arn) is None


@pytest.mark.emulator
def test_foreign_objects_are_reported_and_left_alone(moto_aws: None) -> None:
    arn = make_queue()
    boto3.client("sqs").send_message(QueueUrl=_url(arn), MessageBody="of somebody else")
    bucket = set_aside_store(make_bucket())
    boto3.client("s3").put_object(Bucket="given-up", Key="a/b.jsonl.gz", Body=b"of somebody else")
    boto3.client("s3").put_object(Bucket="given-up", Key="report.csv", Body=b"of somebody else")
    queue = queue_store(arn)
    assert bucket is not None
    (message,), (item,) = queue.kept("orders"), bucket.kept("orders")
    assert isinstance(message, KeptBatch)
    assert isinstance(item, KeptBatch)
    assert message.batch is None
    assert "not JSON" in message.problem
    assert item.batch is None
    assert "a/b.jsonl.gz" in item.problem


def _url(arn: str) -> str:
    return str(boto3.client("sqs").get_queue_url(QueueName=arn.rpartition(":")[2])["QueueUrl"])


@pytest.mark.emulator
@pytest.mark.parametrize("kind", ["queue", "bucket"])
def test_a_handler_that_changes_the_environment_changes_no_destination(
    kind: str, moto_aws: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may assume a role for its own calls, or use another region, in os.environ or in boto3's default session."""
    arn = make_queue() if kind == "queue" else make_bucket()
    settings = Settings(
        application="orders",
        stream="events",
        handler="orders:handle",
        on_failure=arn,
        maximum_retry_attempts=1,
    )
    destination = aws_ports(settings, "lease_worker").destination
    assert destination is not None
    with monkeypatch.context() as changed:
        for variable in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_S3"):
            changed.setenv(variable, "http://127.0.0.1:1")
        changed.setattr(boto3, "DEFAULT_SESSION", boto3.Session("key", "secret", region_name="eu-west-9"))
        destination.put(batch(100))
    store = set_aside_store(arn)
    assert store is not None
    assert kept(store) == [batch(100)]


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
