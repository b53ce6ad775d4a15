"""The page of a shard's next records. Reading them moves nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from sublet.errors import SeekRefused, SubletError
from sublet.operate.console.applications import OpenApplication
from sublet.operate.console.page_parts import Console, opened
from sublet.operate.console.rendering import page
from sublet.operate.peek import PeekStart, start_at, start_at_lease, unopened_text, upcoming
from sublet.operate.positions.seek_time import place
from sublet.protocol.records import UserRecord
from sublet.reading.several_streams import named_shards

READS_MAX = 12
"""How often one page reads the shard at most, which takes six seconds."""

RECORDS_MAX = 200
RECORDS = 25
PREVIEW = 160
WHOLE = 16 * 1024
"""How many bytes of a record the page shows at most."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record as text. `document`: its data as indented JSON, if it is JSON. `size`: in bytes."""

    position: str
    arrived: datetime
    key: str
    size: int
    preview: str
    text: str
    hexadecimal: str
    document: str
    is_aggregated: bool


@dataclass(frozen=True, slots=True)
class RecordsRequest:
    """The operator's request."""

    shard: str = ""
    start: str = ""
    key: str = ""
    contains: str = ""
    records: int = RECORDS


def show(console: Console, request: Request) -> Response:
    application = opened(console, request.path_params["application"])
    asked = request.query_params
    count = asked.get("n", "")
    wish = RecordsRequest(
        asked.get("shard", "").strip(),
        asked.get("from", "").strip(),
        asked.get("key", ""),
        asked.get("contains", ""),
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
            found = tuple(shown(record) for record in _found(application, wish, start))
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


def _found(application: OpenApplication, wish: RecordsRequest, start: PeekStart | None) -> Iterable[UserRecord]:
    """Raises what Stream raises."""
    if start is None:
        return ()
    text = wish.contains.encode()
    every = upcoming(wish.shard, start.at, start.after, application.ports, READS_MAX)
    wanted = (record for record in every if wish.key in ("", record.partition_key) and text in record.data)
    return islice(wanted, wish.records)


def shown(record: UserRecord) -> ShownRecord:
    part = record.data[:WHOLE]
    text = part.decode(errors="replace")
    return ShownRecord(
        f"{record.sequence_number}:{record.sub_sequence_number}",
        record.approximate_arrival_timestamp,
        "" if record.partition_key is None else record.partition_key,
        len(record.data),
        _visible(text.replace("\n", " "))[:PREVIEW],
        "\n".join(_visible(line) for line in text.split("\n")),
        hex_dump(part[:1024]),
        _document(record.data),
        record.is_aggregated,
    )


def _visible(text: str) -> str:
    return "".join(each if each.isprintable() else "·" for each in text)


def _document(data: bytes) -> str:
    """Returns indented JSON; nothing if the data is not JSON, or too large."""
    if len(data) > WHOLE or data[:1] not in (b"{", b"["):
        return ""
    try:
        return json.dumps(json.loads(data), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""


def hex_dump(data: bytes) -> str:
    """Shows sixteen bytes a line: their offset, the bytes, and those that are ASCII characters."""

    def line(start: int) -> str:
        part = data[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        return f"{start:08x}  {part.hex(' '):<47}  {letters}"

    return "\n".join(line(start) for start in range(0, len(data), 16))
