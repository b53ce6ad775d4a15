"""The page of a shard's next records. Reading them moves nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from sublet.decisions.plurals import counted
from sublet.errors import SeekRefused, SubletError
from sublet.operate.console.applications import OpenApplication
from sublet.operate.console.console_parts import Console, opened
from sublet.operate.console.leaving import left
from sublet.operate.console.rendering import page
from sublet.operate.console.search import search
from sublet.operate.decoded_records import DecodedRecord, RecordDecoding
from sublet.operate.peek import PeekStart, start_at, start_at_lease, unopened_text, upcoming
from sublet.operate.positions.seek_time import place
from sublet.operate.where import Where, check_bounded
from sublet.payloads.decoding import json_decoder
from sublet.payloads.readable_json import json_text
from sublet.ports import Signal
from sublet.protocol.records import UserRecord
from sublet.reading.several_streams import named_shards

READS_MAX = 12
"""How often one page reads the shard at most, which takes six seconds."""

RECORDS_MAX = 200
RECORDS = 25
PREVIEW = 160
WHOLE = 16 * 1024
"""How many bytes of a record the page shows at most."""

DOCUMENT_MAX = 8 * WHOLE
"""Characters of a record's value, which may be indented, or have been compressed."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record as text.

    size      in bytes
    document  its data's value as indented JSON, if it has fields or the console was told its format
    problem   why it is not of the format that the console was told
    shard     its shard, if several were searched
    """

    position: str
    arrived: datetime
    key: str
    size: int
    preview: str
    text: str
    hexadecimal: str
    document: str
    is_aggregated: bool
    problem: str = ""
    shard: str = ""


@dataclass(frozen=True, slots=True)
class RecordsRequest:
    """The operator's request."""

    shard: str = ""
    start: str = ""
    key: str = ""
    contains: str = ""
    where: str = ""
    records: int = RECORDS

    @property
    def selects(self) -> bool:
        return bool(self.key or self.contains or self.where)


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    asked = request.query_params
    count = asked.get("n", "")
    wish = RecordsRequest(
        asked.get("shard", "").strip(),
        asked.get("from", "").strip(),
        asked.get("key", ""),
        asked.get("contains", ""),
        asked.get("where", "").strip(),
        min(max(int(count), 1), RECORDS_MAX) if count.isdecimal() and len(count) < 6 else RECORDS,
    )
    problem = note = ""
    found: tuple[ShownRecord, ...] = ()
    if wish.shard:
        try:
            (shard,) = named_shards([wish.shard], application.ports)
            wish = replace(wish, shard=shard)
            start = _start(application, wish)
            note = unopened_text(wish.shard) if start is not None and start.is_unopened else ""
            decoding = _decoding(console, wish)
            stop = left(request)
            found = tuple(shown(each, decoding) for each in _found(application, wish, start, decoding, stop))
            note = note or _unjudged(decoding)
        except SubletError as refused:
            problem = str(refused)
    elif wish.selects:
        try:
            found, note = _searched(console, application, wish, left(request))
        except SubletError as refused:
            problem = str(refused)
    seen = console.watching.seen(application.name)
    shards = () if seen is None or seen.status is None else seen.status.shards
    return page(
        request,
        "records.html",
        application=application,
        wish=wish,
        records=found,
        problem=problem,
        note=note,
        whole=WHOLE,
        shard_ids=[shard.shard_id for shard in shards][:1000],
        tab="records",
    )


def _start(application: OpenApplication, wish: RecordsRequest) -> PeekStart | None:
    """Returns None if the shard is handled to its end. Raises what Stream and LeaseTable raise, and SeekRefused."""
    if not application.streams:
        raise SeekRefused(
            f"the stream of {application.name} is not known: start the console with {application.name}=STREAM"
        )
    ports = application.ports
    if wish.start:
        return start_at(place(wish.start), ports)
    return start_at_lease(wish.shard, application.name, ports)


def _searched(
    console: Console, application: OpenApplication, wish: RecordsRequest, stop: Signal
) -> tuple[tuple[ShownRecord, ...], str]:
    """Looks in every shard. Raises what `_start`, Stream and the schema registry raise."""
    if not wish.start:
        raise SeekRefused("to search all shards, say from when: earliest, 10m, or a time")
    start, decoding = _start(application, wish), _decoding(console, wish)
    assert start is not None, "from a moment"

    def wanted(record: UserRecord) -> DecodedRecord | None:
        return decoding.of(record) if _is_wanted(record, wish) else None

    result = search(start, application.ports, wanted, wish.records, stop)
    left = f", and {counted(result.left, 'shard')} not as far: search from a later time" if result.left else ""
    searched = f"{counted(result.shards, 'shard')} searched, some seconds each at most{left}"
    found = (replace(shown(each.decoded, decoding), shard=each.shard_id) for each in result.records)
    return tuple(found), _unjudged(decoding) or searched


def _is_wanted(record: UserRecord, wish: RecordsRequest) -> bool:
    return wish.key in ("", record.partition_key) and wish.contains.encode() in record.data


def _decoding(console: Console, wish: RecordsRequest) -> RecordDecoding:
    """Raises SettingsError for the condition."""
    check_bounded(wish.where)
    where, decode = Where(wish.where) if wish.where else None, console.decode
    return RecordDecoding(decode or json_decoder(), is_stated=decode is not None, where=where)


def _unjudged(decoding: RecordDecoding) -> str:
    where = decoding.where
    if where is None or not where.unjudged:
        return ""
    return f"The condition could not be applied to {where.unjudged} records, of the first: {where.problem}"


def _found(
    application: OpenApplication,
    wish: RecordsRequest,
    start: PeekStart | None,
    decoding: RecordDecoding,
    stop: Signal,
) -> Iterable[DecodedRecord]:
    """Raises what Stream and the schema registry raise."""
    if start is None:
        return ()
    every = upcoming(wish.shard, start.at, start.after, application.ports, READS_MAX, stop=stop)
    wanted = (record for record in every if _is_wanted(record, wish))
    decoded = (decoding.of(record) for record in wanted)
    return islice((each for each in decoded if each is not None), wish.records)


def shown(decoded: DecodedRecord, decoding: RecordDecoding) -> ShownRecord:
    record, document = decoded.record, _document(decoded, decoding)
    part = record.data[:WHOLE]
    text = part.decode(errors="replace")
    return ShownRecord(
        f"{record.sequence_number}:{record.sub_sequence_number}",
        record.approximate_arrival_timestamp,
        "" if record.partition_key is None else record.partition_key,
        len(record.data),
        _visible(_line(decoded, decoding, text))[:PREVIEW],
        "\n".join(_visible(line) for line in text.split("\n")),
        hex_dump(part[:1024]),
        document,
        record.is_aggregated,
        decoded.problem if decoding.is_stated else "",
    )


def _visible(text: str) -> str:
    return "".join(each if each.isprintable() else "·" for each in text)


def _line(decoded: DecodedRecord, decoding: RecordDecoding, text: str) -> str:
    if decoding.is_stated and decoded.problem:
        return decoded.problem
    is_raw = decoded.problem or decoded.is_plain or len(decoded.record.data) > WHOLE
    return text.replace("\n", " ") if is_raw else json_text(decoded.value)


def _document(decoded: DecodedRecord, decoding: RecordDecoding) -> str:
    """Returns nothing for data without a value, for a text or a number alone, and for a value that is too large."""
    has_fields = decoding.is_stated or isinstance(decoded.value, dict | list)
    if decoded.problem or not has_fields or len(decoded.record.data) > WHOLE:
        return ""
    document = json_text(decoded.value, indent=2)
    return document if len(document) <= DOCUMENT_MAX else ""


def hex_dump(data: bytes) -> str:
    """Shows sixteen bytes a line: their offset, the bytes, and those that are ASCII characters."""

    def line(start: int) -> str:
        part = data[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        return f"{start:08x}  {part.hex(' '):<47}  {letters}"

    return "\n".join(line(start) for start in range(0, len(data), 16))
