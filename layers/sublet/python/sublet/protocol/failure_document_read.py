"""Parses a failure destination's message or object, completely or not at all.

Anyone may put something into a queue or a bucket, and the result is passed to the handler as records, which may use a
shard id as a file name. So each field must have Kinesis' format, or the document is refused. NotADocument is the only
exception.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from gzip import GzipFile
from io import BytesIO
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct, convert, field

from sublet.protocol.checkpoint import MAX_DIGITS
from sublet.protocol.failure_document import NOT_KEPT, OURS, Failure, SetAsideBatch
from sublet.protocol.records import StreamRecord, UserRecord

EXPANDED_MAX = 256 * 2**20
LINE_MAX = 32 * 2**20
RECORDS_MAX = 100_000
"""Limits on the unpacked bytes of an object and of one of its lines, and on its records: twice the need of the largest
batch. A few bytes of gzip can stand for gigabytes.
"""

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)

Json = dict[str, Any]
Name = Annotated[str, Meta(pattern=r"^(?!\.*\Z)[A-Za-z0-9_.-]{1,200}\Z")]
"""The name of a shard, a stream or an application: it is safe as a file name."""
StreamArn = Annotated[
    str, Meta(pattern=r"^arn:[\w-]+:kinesis:[\w-]+:[0-9]{12}:stream/(?!\.*\Z)[A-Za-z0-9_.-]{1,128}\Z")
]
SequenceNumber = Annotated[str, Meta(pattern=rf"^(0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}})\Z")]
SubSequenceNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]
HashKey = Annotated[str, Meta(pattern=r"^[0-9]{1,39}\Z")]
Word = Annotated[str, Meta(pattern=r"^[A-Za-z]{1,64}\Z")]
Line = Annotated[str, Meta(max_length=1_000)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Moment = Annotated[datetime, Meta(tz=True)]


class NotADocument(ValueError):
    """A message or an object that `failure_document` did not write. The text says what is wrong."""


class _Record(Struct, rename="camel"):
    """The producer chose the partition key, so it may be any text."""

    sequence_number: SequenceNumber
    sub_sequence_number: SubSequenceNumber
    is_aggregated: bool
    partition_key: str | None
    explicit_hash_key: HashKey | None
    approximate_arrival_timestamp: Moment
    data: bytes | None


class _Request(Struct, rename="camel"):
    request_id: Line
    function_arn: Line
    condition: Word


class _Response(Struct, rename="camel"):
    function_error: Word | None = None


class _Info(Struct, rename="camel"):
    shard_id: Name
    stream_arn: StreamArn | None


class _Ours(Struct):
    application: Name
    stream: Name
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
    """Raises NotADocument. Unwraps a topic's envelope, which a subscribed queue receives."""
    document = _json(body)
    if OURS not in document and isinstance(document.get("Message"), str):
        document = _json(document["Message"])
    return _batch(document, None)


def batch_of_object(data: bytes) -> SetAsideBatch:
    """Raises NotADocument."""
    try:
        lines = _lines(data)
        return _batch(_json(next(lines, "")), map(_json, lines))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as problem:
        raise NotADocument(f"not gzipped JSON lines: {problem}") from problem


def _lines(data: bytes) -> Iterator[str]:
    """Yields lines lazily, so that no more is unpacked than is read. Raises NotADocument if it is too much."""
    left = EXPANDED_MAX
    with GzipFile(fileobj=BytesIO(data)) as unpacked:
        while line := unpacked.readline(min(left, LINE_MAX) + 1):
            left -= len(line)
            if left < 0 or len(line) > LINE_MAX:
                raise NotADocument(
                    f"its {len(data):,} bytes unpack to more than any batch: over {EXPANDED_MAX // 2**20} MiB in all, "
                    f"or {LINE_MAX // 2**20} MiB in a line"
                )
            yield line.decode()


def _batch(given: Json, lines: Iterable[Json] | None) -> SetAsideBatch:
    """`lines`: the records, if they are not in the document itself."""
    try:
        document = convert(given, _Document)
        if lines is None:
            records = document.ours.records or []
        else:
            records = [convert(line, _Record) for line in islice(lines, RECORDS_MAX + 1)]
        return _as_it_was(document, tuple(_user_records(records)))
    except NotADocument:
        raise
    except (ValueError, OverflowError) as problem:
        raise NotADocument(f"not a document of sublet: {problem}") from problem


def _as_it_was(document: _Document, records: tuple[UserRecord, ...]) -> SetAsideBatch:
    if not 0 < len(records) <= RECORDS_MAX:
        raise NotADocument("it has no records" if not records else f"it has more than {RECORDS_MAX:,} records")
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


def _user_records(lines: Iterable[_Record]) -> Iterator[UserRecord]:
    """The user records as they were, with the same positions and order, for the handler that retries them. Those of one
    stream record share it again, without its data.
    """
    shared: dict[str, StreamRecord] = {}
    before = (-1, -1)
    for line in lines:
        number, key, data = line.sequence_number, line.partition_key, line.data
        if data is None:
            raise NotADocument(f"record {number} has no data: an earlier version left it out")
        before, after = (int(number), line.sub_sequence_number), before
        if before <= after:
            raise NotADocument(f"record {number} does not come after the one before it")
        (key or "").encode()  # raises for text that is not valid Unicode
        arrived = line.approximate_arrival_timestamp.astimezone(UTC)
        if arrived < EARLIEST:
            raise NotADocument(f"record {number} arrived in {arrived.year}")
        if line.is_aggregated:
            stream_record = shared.setdefault(number, StreamRecord(number, NOT_KEPT, key, arrived))
        else:
            stream_record = StreamRecord(number, data, key, arrived)
        yield UserRecord(data, key, line.sub_sequence_number, stream_record, line.explicit_hash_key)


def _json(text: str) -> Json:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise NotADocument(f"not JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise NotADocument(f"a {type(value).__name__}, not a JSON object")
    return value
