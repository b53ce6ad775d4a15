"""A failure destination's message or object, read back: whole, or not at all.

Anybody may put something into a queue or a bucket. What is read here is given to the handler as records, so each field is
checked once, and nothing but NotADocument is ever raised.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct, convert, field

from sublet.errors import MalformedCheckpoint
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.failure_document import NOT_KEPT, OURS, Failure, SetAsideBatch
from sublet.protocol.records import StreamRecord, UserRecord

Json = dict[str, Any]
Count = Annotated[int, Meta(ge=0)]
Moment = Annotated[datetime, Meta(tz=True)]


class NotADocument(ValueError):
    """A message or an object that was not written by `failure_document`. Says what is wrong with it."""


class _Record(Struct, rename="camel"):
    sequence_number: str
    sub_sequence_number: Count
    is_aggregated: bool
    partition_key: str
    explicit_hash_key: str | None
    approximate_arrival_timestamp: Moment
    data: bytes | None


class _Request(Struct, rename="camel"):
    request_id: str
    function_arn: str
    condition: str


class _Response(Struct, rename="camel"):
    function_error: str | None = None


class _Info(Struct, rename="camel"):
    shard_id: str
    stream_arn: str | None


class _Ours(Struct):
    application: str
    stream: str
    attempts: Count
    error: Failure | None
    records: list[_Record] | None = None


class _Document(Struct, kw_only=True):
    request: _Request = field(name="requestContext")
    timestamp: Moment
    info: _Info = field(name="KinesisBatchInfo")
    ours: _Ours = field(name=OURS)
    response: _Response = field(name="responseContext", default_factory=_Response)


def batch_of_message(body: str) -> SetAsideBatch:
    """Raises NotADocument. A topic's envelope around it is taken off, as a queue that subscribes to one gets it."""
    document = _json(body)
    if OURS not in document and isinstance(document.get("Message"), str):
        document = _json(document["Message"])
    return _batch(document, None)


def batch_of_object(data: bytes) -> SetAsideBatch:
    """Raises NotADocument."""
    try:
        first, *lines = gzip.decompress(data).decode().splitlines()
    except (OSError, EOFError, ValueError, zlib.error) as problem:
        raise NotADocument(f"no gzip'd JSON lines: {problem}") from problem
    return _batch(_json(first), [_json(line) for line in lines])


def _batch(given: Json, lines: Sequence[Json] | None) -> SetAsideBatch:
    """`lines`: the records, where they do not stand in the document."""
    try:
        document = convert(given, _Document)
        records = document.ours.records if lines is None else convert(lines, list[_Record])
        return _as_it_was(document, tuple(_user_records(records or ())))
    except NotADocument:
        raise
    except (ValueError, OverflowError, MalformedCheckpoint) as problem:
        raise NotADocument(f"no document of sublet's: {problem}") from problem


def _as_it_was(document: _Document, records: tuple[UserRecord, ...]) -> SetAsideBatch:
    if not records:
        raise NotADocument("it has no records")
    ours, request = document.ours, document.request
    return SetAsideBatch(
        ours.application,
        ours.stream,
        document.info.stream_arn,
        document.info.shard_id,
        records,
        request.condition,
        ours.attempts,
        document.timestamp.astimezone(UTC),
        request.request_id,
        request.function_arn,
        ours.error,
        document.response.function_error is not None,
    )


def _user_records(lines: Sequence[_Record]) -> Iterator[UserRecord]:
    """As they were: a handler that is to do them again knows them by the same names. User records of one stream record share it
    again, without its data.
    """
    shared: dict[str, StreamRecord] = {}
    for line in lines:
        number, key, data = line.sequence_number, line.partition_key, line.data
        if data is None:
            raise NotADocument(f"record {number} is only named in it: an earlier version left its data out")
        if not Checkpoint.parse(number).is_sequence_number:
            raise NotADocument(f"{number} is no record's sequence number")
        arrived = line.approximate_arrival_timestamp.astimezone(UTC)
        if line.is_aggregated:
            stream_record = shared.setdefault(number, StreamRecord(number, NOT_KEPT, key, arrived))
        else:
            stream_record = StreamRecord(number, data, key, arrived)
        yield UserRecord(data, key, line.sub_sequence_number, stream_record, line.explicit_hash_key)


def _json(text: str) -> Json:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise NotADocument(f"no JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise NotADocument(f"a {type(value).__name__}, no JSON object")
    return value
