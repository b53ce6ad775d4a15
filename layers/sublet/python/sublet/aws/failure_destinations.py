"""The failure destinations: an SQS queue, an SNS topic, or a folder of S3.

A client is made with the first record that is set aside: most windows set none aside, and a client is a tenth of a cold start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NoReturn, TypedDict

from botocore.exceptions import BotoCoreError, ClientError

from sublet.aws import clients
from sublet.aws.clients import TopicClient
from sublet.aws.configuration_errors import NOT_CONFIGURED, not_configured
from sublet.aws.kept_messages import Queue, kept_messages
from sublet.errors import DestinationRefused
from sublet.ports import Counted, FailureDestination, KeptBatch, SetAsideStore
from sublet.protocol.failure_document import (
    OBJECT_SUFFIX,
    Message,
    SetAsideBatch,
    messages,
    object_bytes,
    object_key,
    place_of_key,
)
from sublet.protocol.failure_document_read import NotADocument, batch_of_object

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

_REFUSED = (ClientError, BotoCoreError)

FIFO = ".fifo"
FIFO_GROUP_MAX = 128
"""Characters of a message group's name."""

AVAILABLE: Literal["ApproximateNumberOfMessages"] = "ApproximateNumberOfMessages"
HIDDEN: Literal["ApproximateNumberOfMessagesNotVisible"] = "ApproximateNumberOfMessagesNotVisible"
"""Attributes of a queue, up to a minute old."""


class FifoFields(TypedDict, total=False):
    """What a FIFO queue or topic is told beside the message, and no other."""

    MessageGroupId: str
    MessageDeduplicationId: str


def failure_destination(arn: str, session: Session | None = None) -> FailureDestination:
    """Of the setting `on_failure`, which has been found to be one of these."""
    service, region, _, resource = arn.split(":", 5)[2:]
    if service == "sqs":
        return SqsDestination(lambda: clients.sqs_client(region, session), arn)
    if service == "sns":
        return SnsDestination(lambda: clients.sns_client(region, session), arn)
    bucket, _, prefix = resource.partition("/")
    return S3Destination(lambda: clients.s3_client(session=session), bucket, prefix)


def set_aside_store(arn: str) -> SetAsideStore | None:
    """The destination as one that gives back what it keeps; None for a topic, which keeps nothing."""
    destination = failure_destination(arn)
    return destination if isinstance(destination, SqsDestination | S3Destination) else None


class SqsDestination:
    """The FailureDestination and SetAsideStore ports over a queue. A FIFO queue keeps a shard's order, and what comes twice once.

    long_poll   seconds to wait for messages when there seem to be none, which asks all of the queue's servers
    """

    def __init__(self, client: Callable[[], SQSClient], arn: str, long_poll: int = 1) -> None:
        self._make_client = client
        self._arn = arn
        self._long_poll = long_poll
        self._account, self._name = arn.split(":")[4:6]

    @cached_property
    def _client(self) -> SQSClient:
        return self._make_client()

    @cached_property
    def _url(self) -> str:
        reply = self._client.get_queue_url(QueueName=self._name, QueueOwnerAWSAccountId=self._account)
        return reply["QueueUrl"]

    def put(self, batch: SetAsideBatch) -> None:
        try:
            for message in messages(batch):
                fifo = _fifo(self._name, batch, message)
                self._client.send_message(QueueUrl=self._url, MessageBody=message.body, **fifo)
        except _REFUSED as problem:
            _refused(self._arn, problem)

    def counted(self) -> Counted:
        try:
            reply = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=[AVAILABLE, HIDDEN])
        except _REFUSED as problem:
            _refused(self._arn, problem)
        counts = reply["Attributes"]
        return Counted(int(counts[AVAILABLE]), int(counts[HIDDEN]))

    def kept(self) -> Generator[KeptBatch, None, None]:
        try:
            is_fifo = self._name.endswith(FIFO)
            yield from kept_messages(Queue(self._client, self._url, is_fifo, self._long_poll, self.leave))
        except _REFUSED as problem:
            _refused(self._arn, problem)

    def remove(self, name: str) -> None:
        try:
            self._client.delete_message(QueueUrl=self._url, ReceiptHandle=name)
        except _REFUSED as problem:
            _refused(self._arn, problem)

    def leave(self, name: str) -> None:
        try:
            self._client.change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=name, VisibilityTimeout=0
            )
        except _REFUSED as problem:
            _refused(self._arn, problem)


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
        except _REFUSED as problem:
            _refused(self._arn, problem)


class S3Destination:
    """The FailureDestination and SetAsideStore ports over a bucket's folder: an object for each batch. `kept` hides nothing from
    others who ask at the same time.
    """

    def __init__(self, client: Callable[[], S3Client], bucket: str, prefix: str) -> None:
        self._make_client = client
        self._bucket = bucket
        self._prefix = prefix

    @cached_property
    def _client(self) -> S3Client:
        return self._make_client()

    @property
    def _said(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}"

    def put(self, batch: SetAsideBatch) -> None:
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=object_key(batch, self._prefix), Body=object_bytes(batch)
            )
        except _REFUSED as problem:
            _refused(self._said, problem)

    def counted(self) -> Counted:
        try:
            return Counted(sum(1 for _ in self._keys()))
        except _REFUSED as problem:
            _refused(self._said, problem)

    def kept(self) -> Generator[KeptBatch, None, None]:
        """A folder is a shard's, and a bucket lists one after the other; within one, numbers are listed as texts."""
        try:
            for _, keys in groupby(self._keys(), lambda key: key.rpartition("/")[0]):
                for key in sorted(keys, key=place_of_key):
                    yield self._read(key)
        except _REFUSED as problem:
            _refused(self._said, problem)

    def _keys(self) -> Iterator[str]:
        folder = f"{self._prefix.strip('/')}/" if self._prefix.strip("/") else ""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=folder)
        for page in pages:
            yield from (
                entry["Key"] for entry in page.get("Contents", ()) if entry["Key"].endswith(OBJECT_SUFFIX)
            )

    def _read(self, key: str) -> KeptBatch:
        data = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        try:
            return KeptBatch(key, batch_of_object(data))
        except NotADocument as problem:
            return KeptBatch(key, None, f"object {key}: {problem}")

    def remove(self, name: str) -> None:
        try:
            self._client.delete_object(Bucket=self._bucket, Key=name)
        except _REFUSED as problem:
            _refused(self._said, problem)

    def leave(self, name: str) -> None:
        """It was never hidden."""


def _fifo(name: str, batch: SetAsideBatch, message: Message) -> FifoFields:
    """For a FIFO queue or topic: a group for each shard, within which there is order, and what a message is known by."""
    if not name.endswith(FIFO):
        return {}
    known_by = hashlib.sha256(message.positions.encode()).hexdigest()
    group = f"{batch.application}.{batch.shard_id}"[-FIFO_GROUP_MAX:]
    return {"MessageGroupId": group, "MessageDeduplicationId": known_by}


def _refused(what: str, problem: Exception) -> NoReturn:
    said = not_configured(problem) if isinstance(problem, NOT_CONFIGURED) else problem
    raise DestinationRefused(f"{what}: {said}") from problem
