"""Reads the batches that a standard queue keeps, in order. SQS returns messages in any order, so all are received
first. Their bodies go to a temporary file and are read back one by one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, NamedTuple

from sublet.aws.set_aside.sqs_messages import RECEIVED_AT_ONCE, Queue, batch_in
from sublet.errors import DestinationRefused
from sublet.ports import KeptBatch
from sublet.protocol.failure_document import BatchPlace
from sublet.protocol.failure_document_read import NotADocument, batch_of_message

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

ROUND_MAX = 20_000
"""Messages received per round. All of them are hidden again every few minutes, ten with a call."""

HIDDEN_MAX = 100_000
"""SQS lets at most 120,000 messages of a queue be hidden at a time."""

IN_MEMORY_MAX = 8 * 2**20
"""Bytes of bodies kept in memory; more go to a file."""

NOWHERE = BatchPlace("", 0, 0)
"""The place of an unreadable message, before all others."""


class _SpooledMessage(NamedTuple):
    """`start` and `size`: where its body is in the file, in bytes."""

    place: BatchPlace
    id: str
    handle: str
    start: int
    size: int


def kept_messages(queue: Queue) -> Generator[KeptBatch, None, None]:
    """Yields each message once, in order per shard within a round. Messages left by the caller come again in the next
    round, if there is one, and then stay hidden until the end: a dead-letter queue takes what is received too often.

    A message whose visibility timeout passed while it waited is yielded in a later round, if no other redrive has
    removed it.
    """
    known: set[str] = set()
    is_over = False
    try:
        while not is_over:
            with SpooledTemporaryFile(max_size=IN_MEMORY_MAX) as bodies:
                received = [_put_down(each, bodies) for each in _received(queue)]
                is_over = len(received) < ROUND_MAX
                waiting = sorted((m for m in received if m.id not in known), reverse=True)
                is_over = is_over or not waiting
                while waiting:
                    given = waiting.pop()
                    if queue.hide(given.handle):
                        known.add(given.id)
                        yield _batch(given, bodies)
                    else:
                        is_over = False
    finally:
        with suppress(DestinationRefused):  # the first error is the one to raise
            queue.leave_all()


def _received(queue: Queue) -> Iterator[MessageTypeDef]:
    """Receives messages until the queue is empty, or a round is full."""
    for _ in range(ROUND_MAX // RECEIVED_AT_ONCE):
        messages = queue.receive() if len(queue.hidden) < HIDDEN_MAX else ()
        if not messages:
            return
        yield from messages


def _put_down(message: MessageTypeDef, bodies: IO[bytes]) -> _SpooledMessage:
    text = message["Body"]
    start, body = bodies.tell(), text.encode()
    bodies.write(body)
    return _SpooledMessage(place_of(text), message["MessageId"], message["ReceiptHandle"], start, len(body))


def place_of(text: str) -> BatchPlace:
    """Where a message's batch begins."""
    try:
        return batch_of_message(text).place
    except NotADocument:
        return NOWHERE


def _batch(message: _SpooledMessage, bodies: IO[bytes]) -> KeptBatch:
    bodies.seek(message.start)
    return batch_in(bodies.read(message.size).decode(), message.id, message.handle)
