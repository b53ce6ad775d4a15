"""--decode and --where show records' fields, or why there are none."""

from __future__ import annotations

import gzip
import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sublet.errors import PayloadNotEncodable, PayloadUnreadable, SettingsError
from sublet.operate.cli.options.decoding import add_decoding, decoding
from sublet.operate.cli.records.put import records_of
from sublet.operate.cli.text.record_text import RecordForm, decoded_text
from sublet.payloads.encoding import encoder_of
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings.payload_format import parsed_format

from tests.doubles.payload_schemas import avro_schema_file, order

HEAD = "2026-11-22T08:00:00Z"


def record(data: bytes) -> UserRecord:
    return UserRecord(data, "key", 0, StreamRecord("5", data, "key", datetime(2026, 11, 22, 8, tzinfo=UTC)))


def shown(data: bytes, form: RecordForm = RecordForm.LINE, *words: str, environment: str = "") -> str:
    """What is shown without the head; "" if it is left out."""
    parser = ArgumentParser()
    add_decoding(parser)
    looking = decoding(parser.parse_args(words), {"SUBLET_PAYLOAD_FORMAT": environment} if environment else {})
    decoded = looking.of(record(data))
    if decoded is None:
        return ""
    text = decoded_text(decoded, form, is_stated=looking.is_stated)
    return text.partition("5:0")[2] if form is not RecordForm.JSON else text


def test_json_is_shown_without_being_asked_also_within_gzip() -> None:
    plain, packed = b'{"a": 1.10}', gzip.compress(b'{"a": 1.10, "b": "\x1b"}'.replace(b"\x1b", b"\\u001b"))
    assert shown(plain) == '  {"a": 1.10}', "as its producer wrote it"
    assert shown(packed) == '  {"a": 1.1, "b": "\\u001b"}'
    assert shown(plain, RecordForm.TEXT) == '\n  {\n    "a": 1.1\n  }'
    assert shown(packed, RecordForm.HEX).startswith("\n  00000000  1f 8b 08"), "bytes stay the record's own"
    assert json.loads(shown(plain, RecordForm.JSON)).keys().isdisjoint({"decoded", "problem"})


def test_data_that_is_not_json_is_shown_as_it_is() -> None:
    assert shown(b"price=10\x1b[2J") == "  price=10·[2J"
    assert shown(b"price=10\nid=7", RecordForm.TEXT) == "\n  price=10\n  id=7"


def test_stated_format_shows_fields_in_each_form(tmp_path: Path) -> None:
    text = f"avro:{avro_schema_file(tmp_path)}"
    data = encoder_of(parsed_format(text))(order())
    words = ("--decode", text)
    assert shown(data, RecordForm.LINE, *words).startswith('  {"id": 7, "price": 10.5, "country": "DE", ')
    assert '\n    "country": "DE",' in shown(data, RecordForm.TEXT, *words)
    assert json.loads(shown(data, RecordForm.JSON, *words))["decoded"] == order()
    assert shown(data, RecordForm.LINE, environment=text) == shown(data, RecordForm.LINE, *words)


def test_data_that_is_not_of_the_stated_format_is_shown_as_bytes_with_the_reason() -> None:
    words, reason = ("--decode", "msgpack"), "not MessagePack: "
    assert shown(b"\xc1\x00", RecordForm.LINE, *words).startswith(f"  {reason}")
    assert shown(b"\xc1\x00", RecordForm.LINE, *words).endswith(": c1 00")
    head, *lines = shown(b"\xc1\x00", RecordForm.TEXT, *words).split("\n")
    assert (head, lines[0][: 2 + len(reason)], lines[1][:17]) == ("", f"  {reason}", "  00000000  c1 00")
    assert json.loads(shown(b"\xc1\x00", RecordForm.JSON, *words))["problem"].startswith(reason)


def test_where_leaves_out_what_does_not_match() -> None:
    words = ("--where", 'price > 10 and country == "DE"')
    assert shown(b'{"price": 11, "country": "DE"}', RecordForm.LINE, *words)
    assert shown(gzip.compress(b'{"price": 11, "country": "DE"}'), RecordForm.LINE, *words)
    for other in (b'{"price": 9, "country": "DE"}', b'{"country": "DE"}', b"text", b"[1]"):
        assert shown(other, RecordForm.LINE, *words) == ""


def test_wrong_options_are_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="setting decode = 'xml'"):
        shown(b"", RecordForm.LINE, "--decode", "xml")
    with pytest.raises(SettingsError, match="setting where = 'price >'"):
        shown(b"", RecordForm.LINE, "--where", "price >")


def test_put_encodes_json_by_a_format(tmp_path: Path) -> None:
    text = f"avro:{avro_schema_file(tmp_path)}"
    lines = [json.dumps(order(number)).encode() for number in range(3)]
    encode = encoder_of(parsed_format(text))
    found = [each.data for each in records_of(iter(lines), None, text)]
    assert found == [encode(order(number)) for number in range(3)]
    assert [each.data for each in records_of(iter([b"as it is"]), None, None)] == [b"as it is"]
    with pytest.raises(PayloadUnreadable, match="not JSON"):
        next(records_of(iter([b"{"]), None, text))
    with pytest.raises(PayloadNotEncodable, match="does not fit the Avro schema"):
        next(records_of(iter([b'{"id": "seven"}']), None, text))
