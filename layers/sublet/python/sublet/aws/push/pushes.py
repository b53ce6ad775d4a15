"""The Pushes port: each SubscribeToShard has a connection of its own (see push_requests, push_connection)."""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Any

import msgspec
from botocore.exceptions import ClientError

from sublet.aws.faults import code_of
from sublet.aws.kinesis.errors import (
    BAD_ARGUMENT,
    NOT_FOUND,
    named_stream_errors,
    shard_not_found,
    stream_error,
)
from sublet.aws.kinesis.fan_out_consumers import StreamConsumer
from sublet.aws.kinesis.repeated_call import HttpReply, error_of
from sublet.aws.kinesis.shapes import child_shards, data_bytes_of, decode_pushed_reply, with_arrivals
from sublet.aws.kinesis.stream import UNSTATED_LAG, KinesisStream
from sublet.aws.push.push_connection import PushConnection
from sublet.aws.push.push_http import ReplyDamaged
from sublet.aws.push.push_requests import OPERATION, PushRequests
from sublet.decisions.session.push import PushEnd
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.errors import CheckpointNotInStream, TransientError
from sublet.ports import Pushed, ShardSubscription, Unanswered
from sublet.protocol.event_stream import EventMessage, MessageReader, StreamDamaged
from sublet.protocol.records import Page

WHOLE_WITHIN = 30.0
"""The next bytes of an event may take this many seconds. Frames without any, such as PINGs, do not count."""

_RECORDS = "SubscribeToShardEvent"

_IN_USE = "ResourceInUseException"
_LOST = (OSError, ReplyDamaged, StreamDamaged, msgspec.DecodeError)
"""The connection failed, or the bytes that came cannot be read."""


class KinesisPushes:
    """The Pushes port over one stream. Thread-safe."""

    def __init__(self, requests: PushRequests, stream: KinesisStream, name: str, consumer: StreamConsumer) -> None:
        self._requests = requests
        self._stream = stream
        self._name = name
        self._consumer = consumer

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        """Finds at once a consumer that was deregistered and registered again under its name."""
        arn = self._consumer.arn()
        if not isinstance(arn, PushEnd | Unanswered):
            answer = self._subscribe(arn, shard_id, position)
            if answer is not PushEnd.NO_CONSUMER or not self._consumer.lost(arn):
                return answer
            arn = self._consumer.arn()
        if not isinstance(arn, PushEnd | Unanswered):
            return self._subscribe(arn, shard_id, position)
        return self._not_found(shard_id) if arn is PushEnd.NO_CONSUMER else arn

    def _subscribe(
        self, consumer_arn: str, shard_id: str, position: ReadPosition
    ) -> ShardSubscription | PushEnd | Unanswered:
        """A time that the service's clock has not reached (ours may be ahead) is opened as LATEST."""
        if position.type is IteratorType.AT_TIMESTAMP and position.sequence_number is not None:
            self._stream.open(shard_id, ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, position.sequence_number))
        try:
            return self._subscribed(consumer_arn, shard_id, position)
        except ClientError as error:
            if code_of(error) not in BAD_ARGUMENT:
                return self.judged(shard_id, error, PushEnd.IN_USE)
            if position.type is not IteratorType.AT_TIMESTAMP:
                raise self._not_in_stream(shard_id, position, error) from error
        try:
            return self._subscribed(consumer_arn, shard_id, ReadPosition(IteratorType.LATEST))
        except ClientError as error:
            return self.judged(shard_id, error, PushEnd.IN_USE)

    def judged(self, shard_id: str, error: ClientError, in_use: PushEnd) -> PushEnd | Unanswered:
        """Says what an error of the call or in the stream of events means. Raises errors that no retry removes."""
        code = code_of(error)
        if code == _IN_USE:
            return in_use
        if code == NOT_FOUND:
            return self._not_found(shard_id)
        named = stream_error(error, self._name)
        if named is not None and not isinstance(named, TransientError):
            raise named from error
        return Unanswered(str(error))

    def _subscribed(
        self, consumer_arn: str, shard_id: str, position: ReadPosition
    ) -> ShardSubscription | PushEnd | Unanswered:
        with named_stream_errors(self._name):
            request = self._requests.signed(consumer_arn, shard_id, position)
        try:
            connection = self._requests.connection(request)
        except _LOST as failure:
            return Unanswered(_text(failure))
        try:
            head = connection.head()
            if head.status == HTTPStatus.OK:
                return KinesisSubscription(self, shard_id, connection)
            body = _whole(connection)
        except _LOST as failure:
            connection.close()
            return Unanswered(_text(failure))
        connection.close()
        raise error_of(HttpReply(head.status, head.headers, body), OPERATION)

    def _not_in_stream(self, shard_id: str, position: ReadPosition, error: ClientError) -> Exception:
        if position.sequence_number is None:
            return error
        return CheckpointNotInStream(
            f"shard {shard_id} of stream {self._name} does not accept the sequence number "
            f"{position.sequence_number}: {error}; if the stream was created again, start a new application"
        )

    def _not_found(self, shard_id: str) -> PushEnd:
        """The same code is used for a stream, a shard and a consumer that is gone. Raises StreamNotFound,
        ShardNotFound.
        """
        if not self._stream.has_shard(shard_id):
            raise shard_not_found(self._name, shard_id)
        return PushEnd.NO_CONSUMER

    def page(self, payload: memoryview) -> Pushed:
        reply = decode_pushed_reply(payload)
        records = with_arrivals(reply.records, self._stream.service_time)
        stated = reply.millis_behind_latest
        children = child_shards(reply.child_shards)
        page = Page(records, data_bytes_of(records), UNSTATED_LAG if stated is None else stated, child_shards=children)
        return Pushed(page, reply.continuation_sequence_number or None)


class KinesisSubscription:
    """The ShardSubscription port."""

    def __init__(self, pushes: KinesisPushes, shard_id: str, connection: PushConnection) -> None:
        self._pushes = pushes
        self._shard_id = shard_id
        self._connection = connection
        self._messages = MessageReader()
        self._ready: EventMessage | None = None
        self._end: PushEnd | None = None

    def wait(self, longest: timedelta) -> bool:
        if self._look():
            return True
        self._receive(longest.total_seconds())
        return self._look()

    def next(self) -> Pushed | PushEnd | Unanswered:
        while not self._look(is_whole=True):
            if not self._receive(WHOLE_WITHIN, is_whole=True):
                self._end = PushEnd.CUT
        message, self._ready = self._ready, None
        if message is None:
            assert self._end is not None, "there is a message or an end"
            return self._end
        try:
            return self._meaning(message)
        except _LOST:
            return PushEnd.CUT

    @property
    def has_more(self) -> bool:
        return self.wait(timedelta(0))

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()

    def _look(self, *, is_whole: bool = False) -> bool:
        """Whether there is a message, other than the first response, or an end. `is_whole`: the beginning of a message
        does not count.
        """
        if self._ready is None and self._end is None:
            try:
                self._ready = self._next_message()
            except StreamDamaged:
                self._end = PushEnd.CUT
        if self._ready is None and self._end is None and self._connection.is_over:
            self._end = PushEnd.CUT if self._messages.is_begun else PushEnd.LAPSED
        is_there = self._ready is not None or self._end is not None
        return is_there or (self._messages.is_begun and not is_whole)

    def _next_message(self) -> EventMessage | None:
        """The next message that is not an event of another type, such as the initial response: those say nothing of
        records.
        """
        message = self._messages.next()
        while message is not None and message.headers.get(":event-type", _RECORDS) != _RECORDS:
            message = self._messages.next()
        return message

    def _receive(self, seconds: float, *, is_whole: bool = False) -> bool:
        """Receives bytes. Returns False if nothing came within this time. `is_whole`: bytes of events, not of the
        connection.
        """
        receive = self._connection.receive_body if is_whole else self._connection.receive
        try:
            body = receive(seconds)
        except _LOST:
            self._end = PushEnd.CUT
            return True
        if body is None:
            return False
        self._messages.feed(body)
        return True

    def _meaning(self, message: EventMessage) -> Pushed | PushEnd | Unanswered:
        headers = message.headers
        if headers.get(":message-type") == "event":
            return self._pushes.page(message.payload)
        code = headers.get(":exception-type") or headers.get(":error-code") or ""
        said: Any = {"Error": {"Code": code, "Message": headers.get(":error-message", "")}}
        return self._pushes.judged(self._shard_id, ClientError(said, OPERATION), PushEnd.TAKEN_OVER)


def _text(failure: Exception) -> str:
    """The exception's own text. Its class too: some have a text that says little without it, or none."""
    return f"{type(failure).__name__}: {failure}"


def _whole(connection: PushConnection) -> bytes:
    """An error's body."""
    parts = []
    while not connection.is_over:
        part = connection.receive_body(WHOLE_WITHIN)
        if part is None:
            break
        parts.append(part)
    return b"".join(parts)
