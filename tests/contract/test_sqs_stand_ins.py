"""What a failure destination relies on of SQS, on everything that stands in for it: how long a message is hidden, how
large it may be, and what a dead-letter queue takes. A rule that a stand-in does not have is one that no test can find
broken.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from sublet.testing.memory import FakeClock

from infra.local import EmbeddedAws
from tests.doubles.sqs_model import SqsModel

MINUTE = 60


class StandIn:
    """A queue with MaximumMessageSize 2,048, from which a dead-letter queue takes what was received twice."""

    def __init__(self, client: Any, url: str) -> None:
        self.client = client
        self.at = {"QueueUrl": url}

    def send(self, body: str) -> None:
        self.client.send_message(**self.at, MessageBody=body)

    def receive(self, seconds: int) -> list[str]:
        """The handles. Hidden for no time, a message is as one whose time has passed."""
        reply = self.client.receive_message(**self.at, MaxNumberOfMessages=10, VisibilityTimeout=seconds)
        return [message["ReceiptHandle"] for message in reply.get("Messages", ())]

    def hide(self, handle: str, seconds: int) -> None:
        self.client.change_message_visibility(**self.at, ReceiptHandle=handle, VisibilityTimeout=seconds)

    def hide_all(self, handles: list[str], seconds: int) -> list[str]:
        """The codes of those that it refused."""
        entries = [
            {"Id": str(n), "ReceiptHandle": handle, "VisibilityTimeout": seconds} for n, handle in enumerate(handles)
        ]
        reply = self.client.change_message_visibility_batch(**self.at, Entries=entries)
        return [each["Code"].removeprefix("AWS.SimpleQueueService.") for each in reply.get("Failed", ())]


def modelled() -> StandIn:
    clock = FakeClock()

    class Elapsing(SqsModel):
        def receive_message(self, **given: Any) -> dict[str, Any]:
            clock.advance(timedelta(seconds=1))
            return super().receive_message(**given)

    model = Elapsing("arn:aws:sqs:us-east-1:123456789012:q", clock.now, message_bytes_max=2048, max_receive_count=2)
    return StandIn(model, "https://queue")


def made(client: Any) -> StandIn:
    name = f"q{uuid.uuid4().hex[:8]}"
    dead = client.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    attributes = {"MaximumMessageSize": "2048", "RedrivePolicy": policy}
    return StandIn(client, client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


@pytest.fixture(params=["model", *(pytest.param(each, marks=pytest.mark.emulator) for each in ("moto", "embedded"))])
def queue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    if request.param == "model":
        return modelled()
    if request.param == "moto":
        request.getfixturevalue("moto_aws")
    else:
        aws: EmbeddedAws = request.getfixturevalue("embedded_aws")
        for name, value in aws.environment.items():
            monkeypatch.setenv(name, value)
    return made(boto3.client("sqs"))


def refusal_of(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return str(refused.value.response["Error"]["Code"]).removeprefix("AWS.SimpleQueueService.")


def test_hidden_message_can_be_hidden_longer_or_made_visible(queue: StandIn) -> None:
    queue.send("one")
    [handle] = queue.receive(MINUTE)
    queue.hide(handle, 2 * MINUTE)
    assert queue.hide_all([handle], MINUTE) == []
    assert queue.receive(MINUTE) == []
    queue.hide(handle, 0)
    assert len(queue.receive(MINUTE)) == 1


def test_visible_message_cannot_be_hidden_by_its_old_handle(queue: StandIn) -> None:
    queue.send("one")
    [handle] = queue.receive(0)
    assert refusal_of(lambda: queue.hide(handle, MINUTE)) == "MessageNotInflight"
    assert queue.hide_all([handle], MINUTE) == ["MessageNotInflight"]
    assert len(queue.receive(MINUTE)) == 1, "nor was it"


def test_a_message_may_be_as_long_as_the_queue_says(queue: StandIn) -> None:
    queue.send("x" * 2048)
    assert refusal_of(lambda: queue.send("x" * 2049)) == "InvalidParameterValue"
    assert len(queue.receive(MINUTE)) == 1


def test_message_moves_to_the_dead_letter_queue_after_its_last_receive(queue: StandIn) -> None:
    queue.send("one")
    assert [len(queue.receive(0)) for _ in range(3)] == [1, 1, 0]
