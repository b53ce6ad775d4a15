"""What a queue keeps, as batches in order. A queue gives its messages in any order, so they are received first, their bodies put
down in a file, and read again one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, NamedTuple

from sublet.errors import DestinationRefused
from sublet.ports import GIVEN_FOR, KeptBatch
from sublet.protocol.failure_document import Place
from sublet.protocol.failure_document_read import NotADocument, batch_of_message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

RECEIVED_AT_ONCE = 10
"""SQS: the most messages of one ReceiveMessage."""

HIDDEN_MAX = 100_000
"""Messages in one round: SQS refuses to have more than 120,000 of a queue hidden at a time."""

IN_MEMORY_MAX = 8 * 2**20
"""Bytes of bodies that need no file."""

NOWHERE = Place("", 0, 0)
"""Of a message that nobody can read: before all others."""


class Queue(NamedTuple):
    """is_grouped   it is a FIFO queue, which gives no more of a shard's messages while some of them are hidden
    long_poll       seconds to wait for messages when there seem to be none, which asks all of the queue's servers
    leave           makes a message be had again
    """

    client: SQSClient
    url: str
    is_grouped: bool
    long_poll: int
    leave: Callable[[str], None]


class _Message(NamedTuple):
    """Its body is so many bytes of the file, from `start` on."""

    place: Place
    id: str
    handle: str
    start: int
    size: int


def kept_messages(queue: Queue) -> Generator[KeptBatch, None, None]:
    """Each message once, by its receipt handle; in order per shard, as far as a round goes.

    What is left comes again in the next round, and is left again. In a FIFO queue it stays at the head of its shard: ten of a
    shard that are left are all that is given of it.
    """
    known: set[str] = set()
    is_over = False
    while not is_over:
        with SpooledTemporaryFile(max_size=IN_MEMORY_MAX) as bodies:
            waiting: list[_Message] = []
            try:
                waiting.extend(_put_down(each, bodies) for each in _received(queue))
                is_full = len(waiting) >= HIDDEN_MAX
                again = [message for message in waiting if message.id in known]
                waiting = sorted((m for m in waiting if m.id not in known), reverse=True)
                is_over = not waiting or not (is_full or queue.is_grouped)
                for message in again:
                    queue.leave(message.handle)
                while waiting:
                    given = waiting.pop()
                    known.add(given.id)
                    yield _batch(given, bodies)
            finally:
                with suppress(DestinationRefused):  # the first fault is the one to be seen
                    for each in waiting:
                        queue.leave(each.handle)


def _received(queue: Queue) -> Iterator[MessageTypeDef]:
    """Until there are no more, or enough of them."""
    for _ in range(HIDDEN_MAX // RECEIVED_AT_ONCE):
        reply = queue.client.receive_message(
            QueueUrl=queue.url,
            MaxNumberOfMessages=RECEIVED_AT_ONCE,
            VisibilityTimeout=int(GIVEN_FOR.total_seconds()),
            WaitTimeSeconds=queue.long_poll,
        )
        if not reply.get("Messages"):
            return
        yield from reply["Messages"]


def _put_down(message: MessageTypeDef, bodies: IO[bytes]) -> _Message:
    text = message["Body"]
    try:
        place = batch_of_message(text).place
    except NotADocument:
        place = NOWHERE
    start, body = bodies.tell(), text.encode()
    bodies.write(body)
    return _Message(place, message["MessageId"], message["ReceiptHandle"], start, len(body))


def _batch(message: _Message, bodies: IO[bytes]) -> KeptBatch:
    bodies.seek(message.start)
    try:
        return KeptBatch(message.handle, batch_of_message(bodies.read(message.size).decode()))
    except NotADocument as problem:
        return KeptBatch(message.handle, None, f"message {message.id}: {problem}")
