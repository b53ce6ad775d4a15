"""The failure destinations: an SQS queue, an SNS topic, or an S3 folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from botocore.exceptions import ClientError

from sublet.aws import clients
from sublet.aws.clients import TopicClient
from sublet.aws.configuration_errors import REFUSED, refused
from sublet.aws.faults import code_of
from sublet.aws.kept_groups import kept_groups
from sublet.aws.kept_messages import kept_messages
from sublet.aws.kept_objects import S3Destination
from sublet.aws.received_messages import Queue
from sublet.errors import DestinationRefused
from sublet.ports import Counted, FailureDestination, HeldBack, KeptBatch, Removal, SetAsideStore
from sublet.protocol.failure_document import QUEUE_MESSAGE_BYTES_MAX, Message, SetAsideBatch, messages

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_sqs import SQSClient

T = TypeVar("T")

TOO_LONG = "InvalidParameterValue"
"""SQS' error for a message that is longer than the queue takes, and for much else."""

FIFO = ".fifo"
FIFO_GROUP_MAX = 128
"""Characters in the name of a message group."""

AVAILABLE: Literal["ApproximateNumberOfMessages"] = "ApproximateNumberOfMessages"
HIDDEN: Literal["ApproximateNumberOfMessagesNotVisible"] = "ApproximateNumberOfMessagesNotVisible"
"""Queue attributes, up to a minute old."""


class FifoFields(TypedDict, total=False):
    """Fields that a FIFO queue or topic needs beside the message; empty for a standard one."""

    MessageGroupId: str
    MessageDeduplicationId: str


def failure_destination(
    arn: str, session: Session | None = None, *, is_connected: bool = False
) -> FailureDestination:
    """Makes the destination that the `on_failure` setting names, already validated.

    is_connected   make the client now, from the current environment, since a handler may change AWS_* in its process,
    or boto3's default session. Otherwise it is made for the first record that is set aside, which most Spark tasks
    never reach
    """
    service, region, _, resource = arn.split(":", 5)[2:]
    if service == "sqs":
        return SqsDestination(_connect(lambda: clients.sqs_client(region, session), is_connected), arn)
    if service == "sns":
        return SnsDestination(_connect(lambda: clients.sns_client(region, session), is_connected), arn)
    bucket, _, prefix = resource.partition("/")
    return S3Destination(_connect(lambda: clients.s3_client(session=session), is_connected), bucket, prefix)


def _connect(make: Callable[[], T], is_connected: bool) -> Callable[[], T]:
    if not is_connected:
        return make
    client = make()
    return lambda: client


def set_aside_store(arn: str) -> SetAsideStore | None:
    """The destination as a store that returns what it keeps; None for a topic, which keeps nothing."""
    destination = failure_destination(arn)
    return destination if isinstance(destination, SqsDestination | S3Destination) else None


class SqsDestination:
    """The FailureDestination and SetAsideStore ports over a queue. A FIFO queue keeps each shard's order and drops
    duplicates.

    long_poll   seconds to wait for messages when there seem to be none; a long poll queries all of the queue's
    servers
    """

    def __init__(self, client: Callable[[], SQSClient], arn: str, long_poll: int = 1) -> None:
        self._make_client = client
        self._arn = arn
        self._long_poll = long_poll
        self._account, self._name = arn.split(":")[4:6]
        self._message_bytes_max = QUEUE_MESSAGE_BYTES_MAX

    @cached_property
    def _client(self) -> SQSClient:
        return self._make_client()

    @cached_property
    def _url(self) -> str:
        reply = self._client.get_queue_url(QueueName=self._name, QueueOwnerAWSAccountId=self._account)
        return reply["QueueUrl"]

    @cached_property
    def _queue(self) -> Queue:
        return Queue(self._client, self._url, self._long_poll)

    def put(self, batch: SetAsideBatch) -> None:
        try:
            while rest := self._first_refused(batch):
                batch = rest
        except REFUSED as problem:
            refused(self._arn, problem)

    def _first_refused(self, batch: SetAsideBatch) -> SetAsideBatch | None:
        """Sends the batch in messages, and returns what is left of it if a message is larger than the queue takes. What the
        queue takes is learnt from its refusal, which needs no permission, and forgotten if a record is too large: somebody
        may raise it.
        """
        try:
            planned = messages(batch, self._message_bytes_max)
        except DestinationRefused:
            self._message_bytes_max = QUEUE_MESSAGE_BYTES_MAX
            raise
        sent = 0
        for message in planned:
            fifo = _fifo(self._name, batch, message)
            try:
                self._client.send_message(QueueUrl=self._url, MessageBody=message.body, **fifo)
            except ClientError as problem:
                self._message_bytes_max = _taken_at_most(problem, len(message.body))
                return replace(batch, records=batch.records[sent:])
            sent += message.records
        return None

    def counted(self) -> Counted:
        try:
            reply = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=[AVAILABLE, HIDDEN])
        except REFUSED as problem:
            refused(self._arn, problem)
        counts = reply["Attributes"]
        return Counted(int(counts[AVAILABLE]), int(counts[HIDDEN]))

    def kept(self, application: str) -> Generator[KeptBatch | HeldBack, None, None]:  # noqa: ARG002 - a queue is read whole
        try:
            queue = self._queue
            yield from kept_groups(queue) if self._name.endswith(FIFO) else kept_messages(queue)
        except REFUSED as problem:
            refused(self._arn, problem)

    def remove(self, kept: KeptBatch) -> Removal:
        try:
            return Removal.REMOVED if self._queue.delete(kept.name) else Removal.STAYS
        except REFUSED as problem:
            refused(self._arn, problem)

    def hold(self) -> None:
        try:
            self._queue.hold()
        except REFUSED as problem:
            refused(self._arn, problem)

    def leave(self, kept: KeptBatch) -> None:
        try:
            self._queue.leave(kept.name)
        except REFUSED as problem:
            refused(self._arn, problem)


class SnsDestination:
    """The FailureDestination port over a topic."""

    def __init__(self, client: Callable[[], TopicClient], arn: str) -> None:
        self._make_client = client
        self._arn = arn

    @cached_property
    def _client(self) -> TopicClient:
        return self._make_client()

    def put(self, batch: SetAsideBatch) -> None:
        try:
            for message in messages(batch):
                self._client.publish(
                    TopicArn=self._arn, Message=message.body, **_fifo(self._arn, batch, message)
                )
        except REFUSED as problem:
            refused(self._arn, problem)


def _taken_at_most(refusal: ClientError, refused_bytes: int) -> int:
    """How many bytes a queue takes in a message, from its refusal of one. Where the refusal does not say it, or says
    something else, half of what was refused. Raises any other refusal.
    """
    said = refusal.response.get("Error", {}).get("Message", "")
    if code_of(refusal) != TOO_LONG or not re.search("shorter|long|large|size", said):
        raise refusal
    limit = re.search(r"shorter than (\d+) bytes", said)
    taken = refused_bytes if limit is None else int(limit[1])
    return taken if taken < refused_bytes else refused_bytes // 2


def _fifo(name: str, batch: SetAsideBatch, message: Message) -> FifoFields:
    """The parameters for a FIFO queue or topic: one ordered message group per shard, and the message's identity for
    deduplication.
    """
    if not name.endswith(FIFO):
        return {}
    group = f"{batch.application}.{batch.shard_id}"[-FIFO_GROUP_MAX:]
    return {"MessageGroupId": group, "MessageDeduplicationId": message.identity}
