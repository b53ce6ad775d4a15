"""Every format is checked against the columns as strictly as JSON: what fits is unchanged, the rest has a reason."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sublet.errors import SchemaRegistryAccessDenied, SettingsError
from sublet.payloads.decoding import decoder_of
from sublet.payloads.encoding import encoder_of
from sublet.payloads.framing import for_glue
from sublet.payloads.schema_files import with_content
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage
from sublet.settings.payload_format import PayloadFormat, parsed_format
from sublet.spark.pipeline.avro_columns import columns_of_avro
from sublet.spark.pipeline.json_fit import reader_of
from sublet.spark.pipeline.payload import JSON_PAYLOAD, Payload, payload_reader
from sublet.testing.memory import MemorySchemaRegistry

from tests.doubles.payload_schemas import ORDER_TEXT, VERSION, descriptor_set_file, order

MISSING = "00000000-0000-4000-8000-000000000001"


def columns(**kinds: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return {"type": "struct", "fields": fields}


def read(schema: dict[str, Any], text: str, data: bytes) -> Any:
    return payload_reader(schema, Payload(parsed_format(text)))(data)


ORDER_COLUMNS = columns(
    id="long", price="double", country="string", tags={"type": "array", "elementType": "string", "containsNull": False}
)


def test_avro_columns_follow_its_schema() -> None:
    assert columns_of_avro(ORDER_TEXT) == {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {}},
            {"name": "price", "type": "double", "nullable": False, "metadata": {}},
            {"name": "country", "type": "string", "nullable": True, "metadata": {}},
            {
                "name": "tags",
                "nullable": False,
                "metadata": {},
                "type": {"type": "array", "elementType": "string", "containsNull": False},
            },
        ],
    }


EVERY_AVRO = {
    "type": "record",
    "name": "All",
    "namespace": "shop",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "wall", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "half", "type": "float"},
        {"name": "raw", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "again", "type": "Two"},
        {"name": "fee", "type": {"type": "fixed", "name": "Fee", "size": 4, "logicalType": "decimal", "precision": 9}},
        {"name": "fee_again", "type": "shop.Fee"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "counts", "type": {"type": "map", "values": ["null", "int"]}},
        {"name": "inner", "type": {"type": "record", "name": "In", "fields": [{"name": "ok", "type": "boolean"}]}},
    ],
}


def test_avro_types_fit_their_own_columns_unchanged() -> None:
    text = json.dumps(EVERY_AVRO)
    value = {
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 8, 0, 0, 1, tzinfo=UTC),
        "wall": datetime.fromisoformat("2026-01-31T08:00:00"),
        "id": VERSION,
        "money": Decimal("10.50"),
        "half": 0.5,
        "raw": b"ab",
        "again": b"cd",
        "fee": Decimal(7),
        "fee_again": Decimal(-8),
        "state": "PAID",
        "counts": {"a": 1, "b": None},
        "inner": {"ok": True},
    }
    form = PayloadFormat(parsed_format("avro:x").kind, content=text.encode())
    found = payload_reader(columns_of_avro(text), Payload(form))(encoder_of(form)(value))
    assert found == {**value, "counts": [("a", 1), ("b", None)]}


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (["int", "string"], "one type, with or without null"),
        ({"type": "int", "logicalType": "time-millis"}, "no time of day"),
        (["null", "shop.R"], "which one that nests itself is not"),
    ],
)
def test_avro_type_that_no_column_has_is_refused_by_its_place(kind: Any, says: str) -> None:
    schema = {"type": "record", "name": "R", "namespace": "shop", "fields": [{"name": "a", "type": kind}]}
    with pytest.raises(SettingsError, match=r"schema\.a") as refused:
        columns_of_avro(json.dumps(schema))
    assert says in str(refused.value)
    with pytest.raises(SettingsError, match="an Avro schema of a record"):
        columns_of_avro('"string"')


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"7,10.50,DE\n8,,\n", [{"id": 7, "price": 10.5, "name": "DE"}, {"id": 8, "price": None, "name": None}]),
        (b"", "the record: at least one line expected, found []"),
        (b"\n\r\n", "the record: at least one line expected, found []"),
        (b"007,1,a\n", 'line 1.id: a whole number of 64 bits expected, found "007"'),
        (b"7,1,a\n8,x,b\n", 'line 2.price: a number that 64 bits hold expected, found "x"'),
        (b"7,1\n", "line 1: 2 fields; the columns are 3"),
    ],
)
def test_csv_lines_fit_all_or_the_record_is_rejected(data: bytes, expected: Any) -> None:
    assert read(columns(id="long", price="double", name="string"), "csv", data) == expected


def test_json_lines_fit_all_or_the_record_is_rejected() -> None:
    of = columns(id="long")
    assert read(of, "jsonl", gzip.compress(b'{"id": 1}\n{"id": 2}\n')) == [{"id": 1}, {"id": 2}]
    assert read(of, "jsonl", b'{"id": 1}\n{"id": "2"}') == ('line 2.id: a whole number of 64 bits expected, found "2"')


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\n"])
def test_record_without_lines_is_rejected_with_that_reason(data: bytes) -> None:
    assert read(columns(id="long"), "jsonl", data) == "the record: at least one line expected, found []"


@pytest.mark.parametrize("kind", ["long", "double", "decimal(9,2)"])
def test_csv_text_that_json_would_not_write_as_a_number_is_none(kind: str) -> None:
    assert read(columns(a=kind), "csv", b"007\n").endswith('expected, found "007"')
    assert read(columns(a="string"), "csv", b"007\n") == [{"a": "007"}]


def test_csv_column_that_nests_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"schema\.tags"):
        payload_reader(ORDER_COLUMNS, Payload(parsed_format("csv")))


def test_message_pack_and_protobuf_fit_the_columns(tmp_path: Path) -> None:
    assert read(ORDER_COLUMNS, "msgpack", msgspec.msgpack.encode(order())) == order()
    form = parsed_format(f"protobuf:{descriptor_set_file(tmp_path)}:shop.Order")
    data, carried = encoder_of(form)(order()), with_content(form, "format")._replace(file="gone")
    assert payload_reader(ORDER_COLUMNS, Payload(carried))(data) == order(), "an executor has no such file"
    assert read(columns(price="long"), "msgpack", msgspec.msgpack.encode({"price": 1.5})) == (
        "price: a whole number of 64 bits expected, found 1.5"
    )
    assert read(columns(price="float"), "msgpack", msgspec.msgpack.encode({"price": 0.1})) == (
        "price: a number that 32 bits hold expected, found 0.1"
    )


def test_value_that_json_has_not_is_shown_in_the_reason() -> None:
    assert read(columns(a="long"), "msgpack", msgspec.msgpack.encode({"a": b"\xff"})) == (
        'a: a whole number of 64 bits expected, found "/w=="'
    )


def test_unknown_glue_version_is_rejected_and_a_denied_registry_fails_the_batch() -> None:
    registry = MemorySchemaRegistry(RegisteredSchema(VERSION, SchemaLanguage.AVRO, ORDER_TEXT, "shop/orders"))
    data = encoder_of(parsed_format("glue:shop/orders"), registry)(order())
    read_record = reader_of(ORDER_COLUMNS, decoder_of(parsed_format("glue"), registry))
    assert read_record(data) == order()
    assert read_record(for_glue(MISSING, data[18:])) == f"schema version {MISSING} is not in the registry"
    registry.is_denied = True
    with pytest.raises(SchemaRegistryAccessDenied):
        read_record(for_glue(MISSING[:-1] + "2", data[18:]))


EPOCH = {"comment": "epoch milliseconds"}


@pytest.mark.parametrize(
    ("comment", "text", "expected"),
    [
        ("epoch seconds", "1769846400", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("epoch seconds", "1769846400.25", datetime(2026, 1, 31, 8, 0, 0, 250_000, tzinfo=UTC)),
        ("epoch milliseconds", "1769846400001", datetime(2026, 1, 31, 8, 0, 0, 1_000, tzinfo=UTC)),
        ("epoch microseconds", "-1", datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("epoch milliseconds", "0.0001", "at: a number of milliseconds since 1970, to microseconds expected, "),
        (
            "epoch milliseconds",
            '"1769846400001"',
            "at: a number of milliseconds since 1970, to microseconds expected, ",
        ),
        ("epoch seconds", "1e30", "at: a number of seconds since 1970, to microseconds expected, "),
        ("epoch seconds", "1e999999999", "at: a number of seconds since 1970, to microseconds expected, "),
        (
            "epoch seconds",
            "1." + 30 * "0" + "1",
            "at: a number of seconds since 1970, to microseconds expected, ",
        ),
        ("epoch seconds", "1." + 40 * "0", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("epoch seconds", "true", "at: a number of seconds since 1970, to microseconds expected, "),
        ("when it came", '"2026-01-31T08:00:00Z"', datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ],
)
def test_timestamp_may_be_a_number_by_its_column_s_comment(comment: str, text: str, expected: Any) -> None:
    fields = [{"name": "at", "type": "timestamp", "nullable": True, "metadata": {"comment": comment}}]
    found = payload_reader({"type": "struct", "fields": fields}, JSON_PAYLOAD)(b'{"at": %s}' % text.encode())
    if isinstance(expected, str):
        assert found.startswith(expected)
    else:
        assert found == {"at": expected}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", ["1e999990", "-1e999990", "1" + "0" * 25 + "e999900"])
def test_moment_of_a_million_digits_is_rejected_at_once(text: str) -> None:
    """To make an `int` of it took a minute, in one call that nothing can interrupt."""
    fields = [{"name": "at", "type": "timestamp", "nullable": True, "metadata": EPOCH}]
    for form, data in (("json", f'{{"at": {text}}}'), ("csv", text)):
        found = read({"type": "struct", "fields": fields}, form, data.encode())
        assert "at: a number of milliseconds since 1970, to microseconds expected, " in found


def test_comment_that_only_looks_like_a_unit_is_refused() -> None:
    fields = [{"name": "at", "type": "timestamp", "nullable": True, "metadata": {"comment": "epoch millis"}}]
    with pytest.raises(SettingsError, match="epoch and one of seconds, milliseconds, microseconds"):
        payload_reader({"type": "struct", "fields": fields}, JSON_PAYLOAD)


def test_repeated_key_is_rejected_if_parsing_is_strict() -> None:
    data, of = b'{"a": 1, "b": {"c": 1, "c": 2}}', columns(a="long")
    assert payload_reader(of, JSON_PAYLOAD)(data) == {"a": 1}
    assert payload_reader(of, Payload(strict=True))(data) == "not JSON: the key 'c' is repeated"
