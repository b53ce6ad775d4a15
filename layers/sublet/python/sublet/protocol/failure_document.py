"""The document for a failure destination: that of the event source mapping, plus a field of ours with the records.

For a queue or a topic it is the body of a message; records that do not fit into one message go into several, in order,
each with the document of its own part. In a bucket it is the first line of an object of gzipped JSON lines; each other
line is a record.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sublet.errors import DestinationRefused
from sublet.protocol.records import UserRecord
from sublet.protocol.shortened_text import shortened

TOPIC_MESSAGE_BYTES = 256 * 1024
TOPIC_MESSAGE_BYTES_MAX = 1024 * 1024
"""SNS' limits: a topic's own unless its MaximumMessageSize says another, and the most that this may be."""

QUEUE_MESSAGE_BYTES_MAX = 1024 * 1024
"""SQS' limit, which a queue's MaximumMessageSize may lower: queues made before August 2025 have 256 KiB."""

ROOM_FOR_PART = 100
"""Bytes reserved for the part numbers of a document."""

OBJECT_SUFFIX = ".jsonl.gz"
_OBJECT_NAME = re.compile(r"([0-9]{1,129})-([0-9]{1,19})(?:-([0-9a-f]{64}))?" + re.escape(OBJECT_SUFFIX))

OURS = "sublet"
"""The name of our field in the document."""

NOT_KEPT = b"(not kept)"
"""Stands for an aggregate's data, since only the user records that are set aside are kept. No user record has this
data.
"""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the handler failed: its exception's type and frames; its text only if that may be disclosed."""

    type: str
    frames: str
    text: str | None = None


class BatchPlace(NamedTuple):
    """Where a batch begins, and which of the batches that begin there it is. A redrive takes batches in this order."""

    shard_id: str
    sequence_number: int
    sub_sequence_number: int
    size: int = 0
    identity: str = ""


@dataclass(frozen=True, slots=True)
class SetAsideBatch:
    """Records of one shard that are set aside together, in order.

    condition   in ESM's words
    attempts    handler calls and crashes with the first record
    failure     how the last call with these records failed; None if there was no call, the process died, or the call
                only returned item failures
    has_raised  the handler raised or the process died, rather than returning item failures
    holder      of the lease: the worker item and invocation
    """

    application: str
    stream: str
    stream_arn: str | None
    shard_id: str
    records: tuple[UserRecord, ...]
    condition: str
    attempts: int
    at: datetime
    holder: str
    handler: str
    failure: Failure | None = None
    has_raised: bool = True

    @property
    def place(self) -> BatchPlace:
        first, size = self.records[0], len(self.records)
        return BatchPlace(self.shard_id, int(first.sequence_number), first.sub_sequence_number, size, self.identity)

    @property
    def identity(self) -> str:
        """64 hexadecimal digits, equal for two batches only if they hold the same records.

        After a crash, or with other settings, the same records are grouped differently: a batch with the same start and
        size may hold other records. A whole aggregate has the position of one of its user records.
        """
        places = (f"{record.checkpoint}{'' if record.is_aggregated else ' plain'}" for record in self.records)
        return hashlib.sha256("\n".join((self.application, self.shard_id, *places)).encode()).hexdigest()


class Message(NamedTuple):
    """`identity` is equal for every message with the same records, set aside at any time; the body differs. `records`:
    how many.
    """

    body: str
    identity: str
    records: int


def messages(batch: SetAsideBatch, limit: int = TOPIC_MESSAGE_BYTES) -> list[Message]:
    """The batch as messages of at most `limit` bytes. Records come first: the exception's text is cut to the room that
    the largest record leaves.

    Raises DestinationRefused for a record that is too large for a message of its own, since without its data it would
    be lost.
    """
    lines = [_record(record) for record in batch.records]
    largest = max(len(_text(line)) + 1 for line in lines)
    batch = _with_less_text(batch, limit - largest - ROOM_FOR_PART)
    room = limit - len(_text(_document(batch))) - ROOM_FOR_PART
    if largest > room:
        raise DestinationRefused(
            f"the largest record, as JSON of {largest:,} bytes, is too large for a message of {limit:,}: a bucket "
            "takes any size"
        )
    parts = list(_parts(list(zip(batch.records, lines, strict=True)), room))
    return [_message(batch, part, number, len(parts)) for number, part in enumerate(parts, 1)]


def _message(batch: SetAsideBatch, part: Sequence[tuple[UserRecord, Json]], number: int, parts: int) -> Message:
    records = tuple(record for record, _ in part)
    one = replace(batch, records=records)
    document = _document(one)
    document[OURS] |= {"part": number, "parts": parts, "records": [line for _, line in part]}
    return Message(_text(document), one.identity, len(records))


def _with_less_text(batch: SetAsideBatch, room: int) -> SetAsideBatch:
    """Cuts the exception's text, so that the document without records fits into `room` if possible."""
    if batch.failure is None or batch.failure.text is None:
        return batch
    bare = replace(batch, failure=replace(batch.failure, text=""))
    text = shortened(batch.failure.text, room - len(_text(_document(bare))))
    return replace(batch, failure=replace(batch.failure, text=text))


def _parts(records: Sequence[tuple[UserRecord, Json]], room: int) -> Iterator[list[tuple[UserRecord, Json]]]:
    part: list[tuple[UserRecord, Json]] = []
    used = 0
    for record, line in records:
        size = len(_text(line)) + 1
        if part and used + size > room:
            yield part
            part, used = [], 0
        part.append((record, line))
        used += size
    yield part


def object_key(batch: SetAsideBatch, prefix: str) -> str:
    """The object's key, made only from the records' positions: a batch that is set aside twice, because of a crash
    before the checkpoint, is stored once. It is made from all positions, so another batch with the same first record
    does not overwrite it.
    """
    first = batch.records[0]
    folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    name = f"{first.sequence_number}-{first.sub_sequence_number}-{batch.identity}"
    return f"{folder}{batch.application}/{batch.shard_id}/{name}{OBJECT_SUFFIX}"


def place_of_key(key: str) -> BatchPlace:
    """Reads the place from an object's key, as `object_key` or an earlier version named it, without the identity. Any
    other object comes first in its folder.
    """
    folder, _, name = key.rpartition("/")
    found = _OBJECT_NAME.fullmatch(name)
    if found is None:
        return BatchPlace(folder, 0, 0)
    number, sub, identity = found.groups("")
    return BatchPlace(folder, int(number), int(sub), identity=identity)


def application_of_key(key: str) -> str | None:
    """The application that stored the object, by its key alone; None if `object_key` did not name it."""
    parts = key.rsplit("/", 3)[-3:]
    return parts[0] if len(parts) == 3 and _OBJECT_NAME.fullmatch(parts[2]) else None


def object_bytes(batch: SetAsideBatch) -> bytes:
    lines = [_text(_document(batch)), *(_text(_record(record)) for record in batch.records)]
    return gzip.compress("\n".join(lines).encode(), mtime=0)


def _document(batch: SetAsideBatch) -> Json:
    """ESM's fields, and one of ours."""
    first, last = batch.records[0], batch.records[-1]
    request = {
        "requestId": batch.holder,
        "functionArn": batch.handler,
        "condition": batch.condition,
        "approximateInvokeCount": max(1, batch.attempts),
    }
    response = {
        "statusCode": 200,
        "executedVersion": "$LATEST",
        "functionError": "Unhandled" if batch.has_raised else None,
    }
    info = {
        "shardId": batch.shard_id,
        "startSequenceNumber": first.sequence_number,
        "endSequenceNumber": last.sequence_number,
        "approximateArrivalOfFirstRecord": _moment(first.approximate_arrival_timestamp),
        "approximateArrivalOfLastRecord": _moment(last.approximate_arrival_timestamp),
        "batchSize": len(batch.records),
        "streamArn": batch.stream_arn,
    }
    ours = {
        "application": batch.application,
        "stream": batch.stream,
        "attempts": batch.attempts,
        "startSubSequenceNumber": first.sub_sequence_number,
        "endSubSequenceNumber": last.sub_sequence_number,
        "error": _failure(batch.failure),
    }
    answered = {} if batch.condition == "RecordAgeExceeded" else {"responseContext": response}
    return {
        "requestContext": request,
        **answered,
        "version": "1.0",
        "timestamp": _moment(batch.at),
        "KinesisBatchInfo": info,
        OURS: ours,
    }


def _failure(failure: Failure | None) -> Json | None:
    if failure is None:
        return None
    text = {} if failure.text is None else {"text": failure.text}
    return {"type": failure.type, "frames": failure.frames, **text}


def _record(record: UserRecord) -> Json:
    return {
        "sequenceNumber": record.sequence_number,
        "subSequenceNumber": record.sub_sequence_number,
        "isAggregated": record.is_aggregated,
        "partitionKey": record.partition_key,
        "explicitHashKey": record.explicit_hash_key,
        "approximateArrivalTimestamp": _moment(record.approximate_arrival_timestamp),
        "data": b64encode(record.data).decode(),
    }


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(value: Json) -> str:
    """ASCII, so that its length is its size in bytes."""
    return json.dumps(value, separators=(",", ":"))
