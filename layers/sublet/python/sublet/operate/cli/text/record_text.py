"""Selects records and shows them in a terminal, for every command that shows payloads."""

from __future__ import annotations

import base64
import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from sublet.operate.formatting import time_text
from sublet.payloads.readable_json import as_json, json_text

if TYPE_CHECKING:
    from sublet.operate.decoded_records import DecodedRecord
    from sublet.protocol.records import UserRecord

SHOWN_CHARACTERS = 80
HEX_BYTES = 16
"""How many bytes a line shows."""


class RecordForm(StrEnum):
    LINE = "line"
    """One line, with the beginning of the data."""
    TEXT = "text"
    """Prints the line without the data, then all of the data as UTF-8."""
    HEX = "hex"
    """Prints the line without the data, then all of the data as bytes."""
    JSON = "json"
    """One line of JSON, with the data in base64."""


def add_selecting(parser: ArgumentParser) -> None:
    parser.add_argument("--key", metavar="TEXT", help="only records with this partition key")
    parser.add_argument("--grep", metavar="TEXT", help="only records whose data contains this text")


def add_form(parser: ArgumentParser) -> None:
    forms = parser.add_mutually_exclusive_group()
    for form, meaning in (
        (RecordForm.TEXT, "all of each record's data, as indented JSON if it has fields, or else as text"),
        (RecordForm.HEX, "all of each record's data, as bytes"),
        (RecordForm.JSON, "a line of JSON for each record, with its data in base64"),
    ):
        forms.add_argument(
            f"--{form}", dest="form", action="store_const", const=form, default=RecordForm.LINE, help=meaning
        )


def count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a number of records, 1 or more")
    return int(text)


def is_selected(record: UserRecord, options: Namespace) -> bool:
    """True if the record passes the options of `add_selecting`."""
    has_key = options.key in (None, record.partition_key)
    return has_key and (options.grep is None or options.grep.encode() in record.data)


def text_of(record: UserRecord, form: RecordForm, shard_id: str | None = None) -> str:
    """Shows a record without anything that could move a terminal's cursor. `shard_id`: given, and shown, if records of
    several shards mix.
    """
    if form is RecordForm.JSON:
        return json_of(record, shard_id)
    head = _head(record, shard_id)
    if form is RecordForm.LINE:
        return f"{head}  {_beginning(record.data)}"
    lines = _hex_lines(record.data) if form is RecordForm.HEX else _text_lines(record.data)
    return "\n".join((head, *(f"  {line}" for line in lines)))


def decoded_text(decoded: DecodedRecord, form: RecordForm, shard_id: str | None = None, *, is_stated: bool) -> str:
    """Shows a record with its value: in a line, or as indented JSON. If it has none, it is shown as it is; if somebody
    has stated what it is (`is_stated`), as bytes, with the reason.
    """
    record = decoded.record
    if form is RecordForm.HEX or (not is_stated and (form is RecordForm.JSON or decoded.problem)):
        return text_of(record, form, shard_id)
    if form is RecordForm.JSON:
        return json_of(record, shard_id, decoded)
    head = _head(record, shard_id)
    if decoded.problem:
        reason = _printable(decoded.problem)
        if form is RecordForm.LINE:
            return f"{head}  {reason}: {record.data[:HEX_BYTES].hex(' ')}"
        return "\n".join((head, f"  {reason}", *(f"  {line}" for line in _hex_lines(record.data))))
    if form is RecordForm.LINE:
        shown = _beginning(record.data) if decoded.is_plain else _printable(json_text(decoded.value))
        return f"{head}  {shown[:SHOWN_CHARACTERS]}"
    return "\n".join((head, *(f"  {_printable(line)}" for line in json_text(decoded.value, indent=2).split("\n"))))


def _beginning(data: bytes) -> str:
    return _printable(data[: 4 * SHOWN_CHARACTERS].decode(errors="replace"))[:SHOWN_CHARACTERS]


def json_of(record: UserRecord, shard_id: str | None = None, decoded: DecodedRecord | None = None) -> str:
    """Returns a line of JSON with the engine's names: a record's number within its aggregate is
    `sub_sequence_number`. With `decoded` it has the value, or the problem, too.
    """
    shard = {} if shard_id is None else {"shard_id": shard_id}
    value: dict[str, object] = {}
    if decoded is not None:
        value = {"problem": decoded.problem} if decoded.problem else {"decoded": as_json(decoded.value)}
    return json.dumps(
        {
            **shard,
            "arrived": record.approximate_arrival_timestamp.isoformat(),
            "partition_key": record.partition_key,
            "sequence_number": record.sequence_number,
            "sub_sequence_number": record.sub_sequence_number,
            "is_aggregated": record.is_aggregated,
            "data": base64.b64encode(record.data).decode(),
            **value,
        }
    )


def _head(record: UserRecord, shard_id: str | None) -> str:
    """Shows arrival time, shard, size, partition key and position."""
    key = "-" if record.partition_key is None else repr(record.partition_key)[1:-1]
    at = f"{record.sequence_number}:{record.sub_sequence_number}"
    shard = "" if shard_id is None else f"{shard_id}  "
    arrived = time_text(record.approximate_arrival_timestamp)
    return f"{arrived}  {shard}{len(record.data):>8} B  {key:<24}  {at}"


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "·" for each in text)


def _text_lines(data: bytes) -> Iterator[str]:
    for line in data.decode(errors="replace").split("\n"):
        yield _printable(line.removesuffix("\r"))


def _hex_lines(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), HEX_BYTES):
        part = data[start : start + HEX_BYTES]
        ascii_ = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"{start:08x}  {part.hex(' '):<{3 * HEX_BYTES}} |{ascii_}|"
