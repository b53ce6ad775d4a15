"""Registered consumers of the embedded AWS, by the service's rules: names, states, limits, and what they belong to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from infra.local.embedded import EmbeddedAws
from tests.contract.subscriptions import Consumed, consumed, eventually, registered

pytestmark = pytest.mark.emulator

PER_STREAM = 20


@pytest.fixture
def stream(embedded_aws: EmbeddedAws) -> Iterator[Consumed]:
    with consumed(embedded_aws) as stream:
        yield stream


def test_a_consumer_is_created_and_described_by_arn_or_name(stream: Consumed) -> None:
    made = stream.client.register_stream_consumer(StreamARN=stream.stream_arn, ConsumerName="second")["Consumer"]
    assert made["ConsumerStatus"] == "CREATING"
    assert made["ConsumerARN"].startswith(f"{stream.stream_arn}/consumer/second:")
    eventually(lambda: described(stream, ConsumerARN=made["ConsumerARN"])["ConsumerStatus"] == "ACTIVE")
    by_name = described(stream, StreamARN=stream.stream_arn, ConsumerName="second")
    assert by_name == described(stream, ConsumerARN=made["ConsumerARN"])
    assert by_name["StreamARN"] == stream.stream_arn


def test_a_name_is_taken_once_per_stream(stream: Consumed) -> None:
    with pytest.raises(stream.client.exceptions.ResourceInUseException):
        stream.client.register_stream_consumer(StreamARN=stream.stream_arn, ConsumerName="reader")


def test_a_consumer_in_creation_cannot_read(stream: Consumed) -> None:
    """A busy machine may be slower than a consumer's creation, so several are tried."""
    for number in range(PER_STREAM - 1):
        made = stream.client.register_stream_consumer(StreamARN=stream.stream_arn, ConsumerName=f"c{number}")
        try:
            stream.as_other(made["Consumer"]["ConsumerARN"]).subscribe()
        except stream.client.exceptions.ResourceInUseException as refused:
            if "CREATING" in str(refused):
                return
    pytest.fail("each of them could read at once")


def test_a_stream_has_a_limit_of_consumers(stream: Consumed) -> None:
    for number in range(PER_STREAM - 1):
        stream.client.register_stream_consumer(StreamARN=stream.stream_arn, ConsumerName=f"c{number}")
    listed = stream.client.list_stream_consumers(StreamARN=stream.stream_arn)
    assert len(listed["Consumers"]) == PER_STREAM
    with pytest.raises(stream.client.exceptions.LimitExceededException):
        stream.client.register_stream_consumer(StreamARN=stream.stream_arn, ConsumerName="too-many")


def test_deregistered_is_gone_and_its_name_is_free(stream: Consumed) -> None:
    stream.client.deregister_stream_consumer(ConsumerARN=stream.consumer_arn)
    gone = stream.client.exceptions.ResourceNotFoundException

    def is_gone() -> bool:
        try:
            return bool(described(stream, ConsumerARN=stream.consumer_arn)["ConsumerStatus"] != "DELETING")
        except gone:
            return True

    eventually(is_gone)
    time.sleep(1)  # an ARN has seconds
    again = registered(stream.client, stream.stream_arn, "reader")
    assert again != stream.consumer_arn
    with pytest.raises(gone):
        stream.subscribe()


def test_a_stream_with_consumers_is_deleted_only_with_them(stream: Consumed) -> None:
    with pytest.raises(stream.client.exceptions.ResourceInUseException):
        stream.client.delete_stream(StreamName=stream.stream)


def test_consumers_do_not_come_back_with_their_streams_name(stream: Consumed) -> None:
    stream.client.delete_stream(StreamName=stream.stream, EnforceConsumerDeletion=True)
    eventually(lambda: stream.stream not in stream.client.list_streams(Limit=10_000)["StreamNames"])
    stream.client.create_stream(StreamName=stream.stream, ShardCount=1)
    summary = partial(stream.client.describe_stream_summary, StreamName=stream.stream)
    eventually(lambda: bool(summary()["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"))
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException):
        stream.subscribe()


def described(stream: Consumed, **which: str) -> dict[str, Any]:
    description: dict[str, Any] = stream.client.describe_stream_consumer(**which)["ConsumerDescription"]
    return description
