"""The failure destinations: an SQS queue, an SNS topic, or an S3 folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, TypeVar

from botocore.exceptions import ClientError

from sublet.aws import clients
from sublet.aws.clients import TopicClient
from sublet.aws.configuration_errors import REFUSED, refused
from sublet.aws.faults import code_of
from sublet.aws.set_aside.s3_store import S3Destination
from sublet.aws.set_aside.sqs_fifo_store import kept_groups
from sublet.aws.set_aside.sqs_messages import Queue
from sublet.aws.set_aside.sqs_store import kept_messages
from sublet.errors import DestinationRefused
from sublet.ports import FailureDestination, HeldBack, KeptBatch, RemovalResult, SetAsideStore, StoreCounts
from sublet.protocol.failure_document import (
    QUEUE_MESSAGE_BYTES_MAX,
    TOPIC_MESSAGE_BYTES,
    TOPIC_MESSAGE_BYTES_MAX,
    Message,
    SetAsideBatch,
    messages,
)

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_sqs import SQSClient

T = TypeVar("T")

TOO_LONG = ("InvalidParameterValue", "InvalidParameter")
"""SQS' error and SNS' for a message that is longer than the queue or topic takes, and for much else."""

RETRIED_WITHIN = timedelta(minutes=10)
"""A batch that is refused is retried sooner, as long as its lease is held."""

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


def failure_destination(arn: str, session: Session | None = None, *, is_connected: bool = False) -> FailureDestination:
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
        self._sending = _MessageSender(QUEUE_MESSAGE_BYTES_MAX, QUEUE_MESSAGE_BYTES_MAX)

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
            self._sending.put(batch, partial(self._send, batch))
        except REFUSED as problem:
            refused(self._arn, problem)

    def _send(self, batch: SetAsideBatch, message: Message) -> None:
        fifo = _fifo(self._name, batch, message)
        self._client.send_message(QueueUrl=self._url, MessageBody=message.body, **fifo)

    def counted(self) -> StoreCounts:
        try:
            reply = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=[AVAILABLE, HIDDEN])
        except REFUSED as problem:
            refused(self._arn, problem)
        counts = reply["Attributes"]
        return StoreCounts(int(counts[AVAILABLE]), int(counts[HIDDEN]))

    def kept(self, application: str) -> Generator[KeptBatch | HeldBack, None, None]:  # noqa: ARG002 - a queue is read whole
        try:
            queue = self._queue
            yield from kept_groups(queue) if self._name.endswith(FIFO) else kept_messages(queue)
        except REFUSED as problem:
            refused(self._arn, problem)

    def remove(self, kept: KeptBatch) -> RemovalResult:
        try:
            return RemovalResult.REMOVED if self._queue.delete(kept.name) else RemovalResult.STAYS
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
        self._sending = _MessageSender(TOPIC_MESSAGE_BYTES, TOPIC_MESSAGE_BYTES_MAX)

    @cached_property
    def _client(self) -> TopicClient:
        return self._make_client()

    def put(self, batch: SetAsideBatch) -> None:
        try:
            self._sending.put(batch, partial(self._send, batch))
        except REFUSED as problem:
            refused(self._arn, problem)

    def _send(self, batch: SetAsideBatch, message: Message) -> None:
        self._client.publish(TopicArn=self._arn, Message=message.body, **_fifo(self._arn, batch, message))


class _SentPart(NamedTuple):
    """The first records of a batch, which are not sent again when it is retried. It is forgotten soon, and by the
    lease's next holder: a program that reads the records once more, after a seek, must find all of them.
    """

    identity: str
    records: int
    at: datetime

    def is_of(self, identity: str, at: datetime) -> bool:
        return identity == self.identity and timedelta(0) <= at - self.at < RETRIED_WITHIN


@dataclass(slots=True)
class _MessageSender:
    """Sends batches in messages of the size that a queue or topic takes. That is learnt from its refusals, which needs
    no permission, and forgotten if a record is too large: somebody may raise it.

    usual  bytes of a message to begin with
    most   what is tried for a record that is larger
    """

    usual: int
    most: int
    _limit: int = field(init=False)
    _sent: dict[str, _SentPart] = field(default_factory=dict)
    """By shard, the batch that was last sent in part."""

    def __post_init__(self) -> None:
        self._limit = self.usual

    def put(self, batch: SetAsideBatch, send: Callable[[Message], None]) -> None:
        identity, shard_id = f"{batch.holder} {batch.identity}", batch.shard_id
        known = self._sent.pop(shard_id, None)
        sent = known.records if known is not None and known.is_of(identity, batch.at) else 0
        has_tried_most = self._limit == self.most
        while sent < len(batch.records):
            try:
                planned = messages(replace(batch, records=batch.records[sent:]), self._limit)
            except DestinationRefused:
                self._sent[shard_id] = _SentPart(identity, sent, batch.at)
                self._limit = self.usual if has_tried_most else self.most
                if has_tried_most:
                    raise
                has_tried_most = True
                continue
            for message in planned:
                try:
                    send(message)
                except ClientError as problem:
                    self._limit = self._taken_at_most(problem, len(message.body))
                    break
                sent += message.records

    def _taken_at_most(self, refusal: ClientError, refused_bytes: int) -> int:
        """How many bytes are taken in a message, from the refusal of one. Where the refusal does not say it, or says
        something else, half of what was refused. Raises any other refusal.
        """
        said = refusal.response.get("Error", {}).get("Message", "")
        if code_of(refusal) not in TOO_LONG or not re.search("shorter|long|large|size", said):
            raise refusal
        limit = re.search(r"shorter than (\d+) bytes", said)
        if limit is not None and int(limit[1]) < refused_bytes:
            return int(limit[1])
        half = refused_bytes // 2
        return max(half, self.usual) if refused_bytes > self.usual else half


def _fifo(name: str, batch: SetAsideBatch, message: Message) -> FifoFields:
    """The parameters for a FIFO queue or topic: one ordered message group per shard, and the message's identity for
    deduplication.
    """
    if not name.endswith(FIFO):
        return {}
    group = f"{batch.application}.{batch.shard_id}"[-FIFO_GROUP_MAX:]
    return {"MessageGroupId": group, "MessageDeduplicationId": message.identity}
