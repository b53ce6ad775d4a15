"""What a failure destination is given: the event source mapping's document, and what that leaves out, above all the records.

For a queue or a topic it is the body of a message; records that do not fit into one go into several, in order, each with the
document of its own part. In a bucket it is the first line of an object of gzip'd JSON lines; each other line is a record.
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
from sublet.protocol.json_text import shortened
from sublet.protocol.records import UserRecord

MESSAGE_BYTES_MAX = 256 * 1024
"""What a topic takes, and a queue that nobody has told to take more."""

ROOM_FOR_PART = 100
"""Bytes, for what tells the parts of one document apart."""

OBJECT_SUFFIX = ".jsonl.gz"
_OBJECT_NAME = re.compile(r"([0-9]{1,129})-([0-9]{1,19})(?:-([0-9a-f]{64}))?" + re.escape(OBJECT_SUFFIX))

OURS = "sublet"
"""The field of a document that holds what ESM's has not."""

NOT_KEPT = b"(not kept)"
"""Stands for an aggregate's data, of which only the user records that are set aside are kept. It is no user record's data."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the handler did not do it: its exception's type and frames; its text only if that may be told."""

    type: str
    frames: str
    text: str | None = None


class Place(NamedTuple):
    """Where a batch begins, and which batch it is of those that begin there: the order in which a redrive takes them."""

    shard_id: str
    sequence_number: int
    sub_sequence_number: int
    size: int = 0
    identity: str = ""


@dataclass(frozen=True, slots=True)
class SetAsideBatch:
    """Records of one shard that are given up together, in order.

    condition   in ESM's words
    attempts    calls of the handler, and crashes, with the first of them
    failure     of the last call that they were in; None where there was none, or it died, or only named what it could not do
    has_raised  it raised or died, and did not just say so
    holder      of the lease: which worker item and invocation
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
    def place(self) -> Place:
        first, size = self.records[0], len(self.records)
        return Place(
            self.shard_id, int(first.sequence_number), first.sub_sequence_number, size, self.identity
        )

    @property
    def identity(self) -> str:
        """64 hexadecimal digits that two batches share only if they hold the same records.

        After a crash, or with other settings, the same records are grouped anew: a batch that begins where another one began, and
        is as large, may hold other records. A whole aggregate stands at the place of one of its user records.
        """
        places = (f"{record.checkpoint}{'' if record.is_aggregated else ' plain'}" for record in self.records)
        return hashlib.sha256("\n".join((self.application, self.shard_id, *places)).encode()).hexdigest()


class Message(NamedTuple):
    """`identity` is the same when the same records are set aside once more; the body is not."""

    body: str
    identity: str


def messages(batch: SetAsideBatch, limit: int = MESSAGE_BYTES_MAX) -> list[Message]:
    """The batch as messages of at most `limit` bytes. Records come first: the exception's text has what the largest leaves.

    Raises DestinationRefused for a record that is too large for one by itself. Without its data it would not be kept.
    """
    lines = [_record(record) for record in batch.records]
    largest = max(len(_text(line)) + 1 for line in lines)
    batch = _with_less_text(batch, limit - largest - ROOM_FOR_PART)
    room = limit - len(_text(_document(batch))) - ROOM_FOR_PART
    if largest > room:
        raise DestinationRefused(
            f"the largest record, as JSON of {largest:,} bytes, is too large for a message of {limit:,}: a bucket takes any"
        )
    parts = list(_parts(list(zip(batch.records, lines, strict=True)), room))
    return [_message(batch, part, number, len(parts)) for number, part in enumerate(parts, 1)]


def _message(
    batch: SetAsideBatch, part: Sequence[tuple[UserRecord, Json]], number: int, parts: int
) -> Message:
    records = tuple(record for record, _ in part)
    one = replace(batch, records=records)
    document = _document(one)
    document[OURS] |= {"part": number, "parts": parts, "records": [line for _, line in part]}
    return Message(_text(document), one.identity)


def _with_less_text(batch: SetAsideBatch, room: int) -> SetAsideBatch:
    """So that its document without records fits into `room`, as far as that is the text's doing."""
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
    """Of the records' positions alone: what is set aside twice, since a crash came before the checkpoint, is there once. Of all
    of them: a batch that begins alike takes no other's place.
    """
    first = batch.records[0]
    folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    name = f"{first.sequence_number}-{first.sub_sequence_number}-{batch.identity}"
    return f"{folder}{batch.application}/{batch.shard_id}/{name}{OBJECT_SUFFIX}"


def place_of_key(key: str) -> Place:
    """Of an object, by its key alone: as `object_key` names it, or an earlier version did, without the identity. Any other comes
    first in its folder.
    """
    folder, _, name = key.rpartition("/")
    found = _OBJECT_NAME.fullmatch(name)
    if found is None:
        return Place(folder, 0, 0)
    number, sub, identity = found.groups("")
    return Place(folder, int(number), int(sub), identity=identity)


def application_of_key(key: str) -> str | None:
    """Which application put the object there, by its key alone; None for one that was not named by `object_key`."""
    parts = key.rsplit("/", 3)[-3:]
    return parts[0] if len(parts) == 3 and _OBJECT_NAME.fullmatch(parts[2]) else None


def object_bytes(batch: SetAsideBatch) -> bytes:
    lines = [_text(_document(batch)), *(_text(_record(record)) for record in batch.records)]
    return gzip.compress("\n".join(lines).encode(), mtime=0)


def _document(batch: SetAsideBatch) -> Json:
    """Field for field as ESM's, and a field of ours."""
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
    """In ASCII, so that its length is its bytes."""
    return json.dumps(value, separators=(",", ":"))
