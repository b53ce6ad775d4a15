"""Each format is decoded to its value, and what is not of the format is refused with the reason."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import sys
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from backports import zstd
from sublet.errors import (
    PayloadUnreadable,
    SchemaNotUsable,
    SchemaRegistryAccessDenied,
    SchemaRegistryUnavailable,
    SettingsError,
)
from sublet.payloads.avro import avro_reader, avro_schema, avro_writer
from sublet.payloads.compression import decompressed
from sublet.payloads.decoding import Decoder, decoder_of
from sublet.payloads.encoding import encoder_of
from sublet.payloads.framing import for_confluent, for_glue
from sublet.payloads.json_document import json_reader
from sublet.payloads.registry_cache import UNKNOWN_FOR, UNKNOWN_MAX, CachedRegistry
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage
from sublet.settings.payload_format import FormatKind, PayloadFormat, parsed_format
from sublet.testing.memory import MemorySchemaRegistry

from tests.doubles.payload_schemas import ORDER, ORDER_TEXT, VERSION, avro_schema_file, descriptor_set_file, order

REGISTERED = RegisteredSchema(VERSION, SchemaLanguage.AVRO, ORDER_TEXT, "shop/orders")
OTHER = "00000000-0000-4000-8000-000000000001"


def decode(text: str, data: bytes, registry: MemorySchemaRegistry | None = None) -> Any:
    return decoder_of(parsed_format(text), registry)(data)


def refused(text: str, data: bytes, registry: MemorySchemaRegistry | None = None) -> str:
    with pytest.raises(PayloadUnreadable) as caught:
        decode(text, data, registry)
    return str(caught.value)


def shout(data: bytes) -> str:
    return data.decode().upper()


def boil(data: bytes) -> str:
    raise KeyError("kettle")


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zstd": zstd.compress,
    "nothing": bytes,
}


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_json_is_decoded_whatever_compresses_it(name: str) -> None:
    assert decode("json", COMPRESSIONS[name](b'{"id": 7, "price": 10.5}')) == {"id": 7, "price": 10.5}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"\xff{}", "not UTF-8: invalid start byte at byte 0"),
        (b'{"a": NaN}', "not JSON: NaN is not a JSON number"),
        (b'{"a": 1e999}', "not JSON: a number is too large"),
        (b"[" * 100_000, "not JSON that can be read: nested too deeply"),
        (
            gzip.compress(b"{}", mtime=0)[:-4],
            "not UTF-8: invalid start byte at byte 1; not gzip either: it ends before its end",
        ),
        (
            gzip.compress(b"{", mtime=0),
            "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
    ],
)
def test_data_that_is_not_json_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    assert refused("json", data) == reason


def test_record_of_more_values_than_memory_bears_is_refused_before_it_is_parsed() -> None:
    """Some kilobytes of zlib became 1.6 GB of lists."""
    many = 1_100_000
    bombs = {
        "json": b"[" + b"[]," * many + b"0]",
        "jsonl": b"{}\n" * many,
        "firehose": json.dumps(
            {"records": [{"data": base64.b64encode(zlib.compress(b"[" * many)).decode()}] * 2}
        ).encode(),
    }
    for text, bomb in bombs.items():
        assert refused(text, zlib.compress(bomb)) == (
            "not JSON that can be read: more than 2000000 commas, brackets and lines"
        )
    for data in (b"\n" * 2 * many, b"," * 2 * many, b"a\n" * many):
        assert refused("csv", data) == "not CSV that can be read: more than 2000000 fields and lines"


@pytest.mark.timeout(30)
def test_commas_and_brackets_in_text_are_no_values() -> None:
    text = '\\",[{' * 1_000_000
    assert decode("json", json.dumps({"a": text, "b": [text]}).encode()) == {"a": text, "b": [text]}
    assert refused("json", b'"' + b'\\"' * 2_000_000 + b",[").startswith("not JSON: Unterminated string")
    numbers = list(range(900_000))
    assert decode("json", json.dumps(numbers).encode()) == numbers


def test_firehose_delivery_may_hold_as_much_as_one_record_in_all() -> None:
    data = base64.b64encode(gzip.compress(bytes(40 * 2**20))).decode()
    delivery = json.dumps({"records": [{"data": data}, {"data": data}]}).encode()
    assert refused("firehose", delivery).startswith("gzip: more than ")


def test_text_that_looks_like_zlib_stays_text() -> None:
    assert decode("csv", b"x^2,1\n") == [["x^2", "1"]]


@pytest.mark.parametrize("name", ["gzip", "zlib", "zstd"])
def test_decompression_bomb_is_refused_without_its_size_in_memory(name: str) -> None:
    bomb = COMPRESSIONS[name](bytes(10 * 2**20))
    assert len(bomb) < 20_000
    with pytest.raises(PayloadUnreadable, match=f"^{name}: more than 1048576 bytes when decompressed$"):
        decompressed(bomb, limit=2**20)
    assert len(decompressed(bomb).data) == 10 * 2**20


def test_several_gzip_members_are_decompressed_to_their_end_and_counted_together() -> None:
    both = gzip.compress(b'{"a":') + gzip.compress(b"1}")
    assert decode("json", both) == {"a": 1}
    with pytest.raises(PayloadUnreadable, match="more than 6 bytes"):
        decompressed(both, limit=6)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_record_of_members_without_data_is_decompressed_at_once(name: str) -> None:
    """Each of them copied what was behind it: minutes for a record of Kinesis' size."""
    empty = COMPRESSIONS[name](b"")
    whole = empty * (2 * 2**20 // len(empty)) + COMPRESSIONS[name](b'{"id": 7}')
    assert decode("json", whole) == {"id": 7}


@pytest.mark.parametrize("name", ["gzip", "zlib", "zstd"])
@pytest.mark.parametrize("size", [4095, 4096, 4097, 100_000])
def test_data_is_decompressed_whatever_its_size(name: str, size: int) -> None:
    noise = Random(size).randbytes(size)
    packed = COMPRESSIONS[name](noise)
    assert decompressed(packed).data == noise
    assert decompressed(packed + packed).data == noise + noise
    for cut in (packed[:-1], packed[: len(packed) // 2]):
        assert decompressed(cut).problem == f"not {name} either: it ends before its end"


def test_zstd_window_larger_than_the_limit_is_refused() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    one = zstd.ZstdCompressor(options=options)
    frame = one.compress(b"1") + one.flush()
    assert "not zstd either" in decompressed(frame).problem


def test_json_lines_are_a_value_a_line_and_blank_lines_are_none() -> None:
    assert decode("jsonl", b'{"a": 1}\n\n{"a": 2}\r\n') == [{"a": 1}, {"a": 2}]
    assert refused("jsonl", b"{}\n\n{") == (
        "line 3: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )


def test_csv_lines_are_dicts_by_the_columns_that_the_format_names() -> None:
    assert decode("csv:id,name", b'7,"a, b\nc"\n8,\n') == [{"id": "7", "name": "a, b\nc"}, {"id": "8", "name": ""}]
    assert refused("csv:id,name", b"7,a\n8\n") == "line 2: 1 fields; the columns are 2"
    assert refused("csv", b'"7') == "not CSV: unexpected end of data"


@pytest.mark.timeout(10)
def test_repeated_key_among_many_is_found_at_once() -> None:
    """Each key was counted in all of them."""
    keys = ",".join(f'"{number}":0' for number in range(100_000))
    with pytest.raises(PayloadUnreadable, match="the key '99999' is repeated"):
        json_reader(strict=True)(f'{{{keys},"99999":1}}'.encode())


def test_message_pack_is_decoded() -> None:
    assert decode("msgpack", msgspec.msgpack.encode(order())) == order()
    assert refused("msgpack", b"\xc1").startswith("not MessagePack: ")


def test_avro_is_decoded_by_its_schema_file(tmp_path: Path) -> None:
    text = f"avro:{avro_schema_file(tmp_path)}"
    data = encoder_of(parsed_format(text))(order())
    assert decode(text, data) == order()
    assert decode(text, gzip.compress(data)) == order()
    assert refused(text, data + b"\0") == "not Avro by its schema: 1 bytes are left over"
    assert refused(text, data[:-3]).startswith("not Avro by its schema: ")


def test_avro_logical_types_are_python_s_own() -> None:
    schema = avro_schema(
        json.dumps(
            {
                "type": "record",
                "name": "R",
                "fields": [
                    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
                ],
            }
        )
    )
    value = {"at": datetime(2026, 1, 31, 8, tzinfo=UTC), "id": UUID(VERSION)}
    assert avro_reader(schema)(avro_writer(schema)(value)) == value


@pytest.mark.timeout(10)
@pytest.mark.parametrize("is_nested", [False, True])
def test_avro_decimal_of_many_bytes_is_refused_at_once(is_nested: bool) -> None:
    """It took time by the square of its bytes: hours for a record of Kinesis' size."""
    kind: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    fields: list[dict[str, Any]] = [{"name": "a", "type": ["null", kind]}]
    if is_nested:  # which another reader of fastavro's reads
        fields.append({"name": "next", "type": ["null", "R"], "default": None})
    schema = {"type": "record", "name": "R", "fields": fields}
    rest = {"next": None} if is_nested else {}
    plain = json.loads(json.dumps(schema).replace('"logicalType": "decimal", ', ""))
    write, read = avro_writer(avro_schema(json.dumps(plain))), avro_reader(avro_schema(json.dumps(schema)))
    assert read(write({"a": (1050).to_bytes(16, signed=True), **rest}))["a"] == Decimal("10.50")
    with pytest.raises(PayloadUnreadable, match="ValueError: a decimal of 400000 bytes; 1024 are read"):
        read(write({"a": b"\x11" * 400_000, **rest}))


def test_avro_written_with_an_older_schema_is_read_as_the_reader_s() -> None:
    wanted = {**ORDER, "fields": [*ORDER["fields"], {"name": "rank", "type": "int", "default": 3}]}
    registry = MemorySchemaRegistry(REGISTERED)
    data = encoder_of(parsed_format("glue:shop/orders"), registry)(order())
    read = decoder_of(parsed_format("glue"), registry, avro_as=avro_schema(json.dumps(wanted)))
    assert read(data) == {**order(), "rank": 3}


@pytest.mark.parametrize(
    "items", ["null", {"type": "fixed", "name": "F", "size": 0}, {"type": "record", "name": "E", "fields": []}]
)
def test_avro_schema_by_which_a_few_bytes_are_endless_items_is_refused(items: object) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": items}}]}
    with pytest.raises(SettingsError, match="whose arrays have items with a size"):
        avro_schema(json.dumps(schema))


@pytest.mark.parametrize("text", ["", "{}", '{"type": "record"}', '{"type": "nothing"}', "[[", '"x.y"'])
def test_text_that_is_no_avro_schema_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="an Avro schema; "):
        avro_schema(text)


def test_avro_schema_may_nest_itself() -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    data = b"\x02\x02\x00"
    assert avro_reader(avro_schema(json.dumps(node)))(data) == {"next": {"next": {"next": None}}}


@pytest.mark.parametrize(
    ("schema", "level"),
    [
        ({"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}, b"\x02"),
        (
            {"type": "record", "name": "x.N", "fields": [{"name": "all", "type": {"type": "array", "items": "N"}}]},
            b"\x02",
        ),
        (
            [
                "null",
                {"type": "record", "name": "N", "fields": [{"name": "m", "type": {"type": "map", "values": "N"}}]},
            ],
            b"\x02\x00",
        ),
        ({"type": "record", "name": "N", "fields": [{"name": "endless", "type": "N"}]}, b"\x02"),
    ],
    ids=["union", "array", "map", "no bytes at all"],
)
def test_avro_nested_by_thousands_is_a_reason_and_not_the_end_of_the_process(schema: object, level: bytes) -> None:
    read = avro_reader(avro_schema(json.dumps(schema)))
    with pytest.raises(PayloadUnreadable, match="not Avro that can be read: nested too deeply"):
        read(b"\x02" + level * 100_000)


def test_protobuf_is_decoded_by_a_descriptor_set(tmp_path: Path) -> None:
    text = f"protobuf:{descriptor_set_file(tmp_path)}:shop.Order"
    value = {**order(), "state": "PAID", "picture": "AP8=", "at": "2026-01-31T08:00:00Z", "counts": {"a": 1}}
    data = encoder_of(parsed_format(text))(value)
    assert decode(text, data) == {**value, "picture": b"\x00\xff"}
    assert decode(text, b"") == {
        "id": 0,
        "price": 0.0,
        "country": None,
        "tags": [],
        "state": "OPEN",
        "picture": b"",
        "at": None,
        "counts": {},
    }
    assert refused(text, b"\x08").startswith("not a shop.Order: DecodeError: ")


def test_protobuf_message_is_checked_against_the_index_in_its_framing(tmp_path: Path) -> None:
    """Glue numbers shop.Address 0, shop.Address.Line 1, shop.Order 2. Confluent's path of it is [1]: 2 is 1, zigzag."""
    text = f"protobuf:{descriptor_set_file(tmp_path)}:shop.Order"
    data = encoder_of(parsed_format(text))(order())
    expected = decode(text, data)
    assert decode(text, for_glue(VERSION, b"\x02" + data)) == expected
    assert decode(text, for_glue(VERSION, b"\x02" + data, compress=True)) == expected
    assert decode(text, for_confluent("9", b"\x02\x02" + data)) == expected
    assert refused(text, for_glue(VERSION, b"\x00" + data)) == (
        "another message of its schema (index 0), not shop.Order"
    )
    assert refused(text, for_confluent("9", b"\x00" + data)) == (
        "another message of its schema (index 0), not shop.Order"
    )
    assert refused(text, for_confluent("9", b"\xff" * 12)) == "framed with a message index that does not end"


def test_descriptor_set_without_the_message_names_those_that_it_has(tmp_path: Path) -> None:
    file = descriptor_set_file(tmp_path)
    with pytest.raises(
        SettingsError, match=r"a message of .*: google\.protobuf\.Timestamp, shop\.Address, shop\.Order$"
    ):
        decoder_of(parsed_format(f"protobuf:{file}:shop.Oder"))
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="a descriptor set, which protoc --descriptor_set_out writes"):
        decoder_of(parsed_format(f"protobuf:{file}:shop.Order"))


@pytest.mark.parametrize("compress", [False, True])
def test_glue_framing_is_decoded_by_its_schema_version_asked_once(compress: bool) -> None:
    registry = MemorySchemaRegistry(REGISTERED)
    plain = encoder_of(parsed_format("glue:shop/orders"), registry)(order())
    assert plain[:2] == b"\x03\x00"
    assert UUID(bytes=plain[2:18]) == UUID(VERSION)
    data = for_glue(VERSION, plain[18:], compress=compress)
    registry.asked.clear()
    read = decoder_of(parsed_format("glue"), registry)
    assert [read(data), read(data)] == [order(), order()]
    assert registry.asked == [VERSION]


def test_glue_bytes_of_the_java_serializer_are_decoded() -> None:
    """By hand: its header, its zlib, and an Avro datum as Java's encoder writes it."""
    datum = b"\x0e" + b"\x00\x00\x00\x00\x00\x00\x25\x40" + b"\x02\x04DE" + b"\x02\x06new\x00"
    registry = MemorySchemaRegistry(REGISTERED)
    framing = bytes.fromhex("0305") + bytes.fromhex("b7b4a7f09c964e4aa687fb5de9ef0c63")
    assert decode("glue", framing + zlib.compress(datum), registry) == {
        "id": 7,
        "price": 10.5,
        "country": "DE",
        "tags": ["new"],
    }


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"id": 7}', "not framed by Glue Schema Registry: it begins with byte 3 and has 18 bytes of framing"),
        (b"\x03\x00abc", "not framed by Glue Schema Registry: it begins with byte 3 and has 18 bytes of framing"),
        (b"\x03\x07" + bytes(16), "framed by Glue Schema Registry with compression 7; 0 and 5 (zlib) are known"),
        (b"\x03\x05" + bytes(20), "not zlib, which its framing says: Error -3 while decompressing data: "),
        (for_glue(OTHER, b""), f"schema version {OTHER} is not in the registry"),
    ],
)
def test_record_that_glue_s_registry_does_not_explain_is_refused(data: bytes, reason: str) -> None:
    assert refused("glue", data, MemorySchemaRegistry(REGISTERED)).startswith(reason)


def test_record_of_another_schema_than_the_named_one_is_refused() -> None:
    registry = MemorySchemaRegistry(REGISTERED)
    data = encoder_of(parsed_format("glue:shop/orders"), registry)(order())
    assert decode("glue:shop/orders", data, registry) == order()
    assert refused("glue:shop/refunds", data, registry) == "written with schema shop/orders, not shop/refunds"


def test_registered_json_is_read_and_registered_protobuf_asks_for_a_descriptor_set() -> None:
    registry = MemorySchemaRegistry(
        RegisteredSchema(VERSION, SchemaLanguage.JSON, "{}", "shop/json"),
        RegisteredSchema(OTHER, SchemaLanguage.PROTOBUF, "", "shop/protobuf"),
    )
    assert decode("glue", encoder_of(parsed_format("glue:shop/json"), registry)({"a": 1}), registry) == {"a": 1}
    assert refused("glue", for_glue(OTHER, b"\x00"), registry) == (
        f"schema version {OTHER} is Protobuf's, which needs a descriptor set: protobuf:FILE:MESSAGE"
    )


def test_registered_schema_that_is_none_is_a_reason_of_its_records() -> None:
    registry = MemorySchemaRegistry(RegisteredSchema(VERSION, SchemaLanguage.AVRO, "{}", "shop/orders"))
    assert refused("glue", for_glue(VERSION, b""), registry).startswith(
        f"schema version {VERSION} cannot be used: an Avro schema; "
    )


def test_registry_that_denies_or_fails_is_no_fault_of_the_record() -> None:
    registry = MemorySchemaRegistry(REGISTERED)
    read, data = decoder_of(parsed_format("glue"), registry), for_glue(VERSION, b"")
    registry.is_denied = True
    with pytest.raises(SchemaRegistryAccessDenied, match="glue:GetSchemaVersion"):
        read(data)
    registry.is_denied, registry.is_unavailable = False, True
    with pytest.raises(SchemaRegistryUnavailable):
        read(data)
    registry.is_unavailable = False
    assert refused("glue", data, registry).startswith("not Avro by its schema")


def test_unknown_version_is_asked_for_again_after_a_minute() -> None:
    now = datetime(2026, 1, 31, 8, tzinfo=UTC)
    registry = MemorySchemaRegistry()
    cached = CachedRegistry(registry, lambda: now)
    assert [cached.version(VERSION), cached.version(VERSION)] == [None, None]
    assert registry.asked == [VERSION]
    registry.register(REGISTERED)
    now += UNKNOWN_FOR - timedelta(seconds=1)
    assert cached.version(VERSION) is None
    now += timedelta(seconds=1)
    assert [cached.version(VERSION), cached.version(VERSION)] == [REGISTERED, REGISTERED]
    assert registry.asked == [VERSION, VERSION]


def test_version_that_cannot_be_used_is_a_reason_of_its_records_for_a_minute() -> None:
    class Registry(MemorySchemaRegistry):
        def version(self, version: str) -> RegisteredSchema | None:
            super().version(version)
            raise SchemaNotUsable("it is of XSD, which is not known")

    registry, now = Registry(), datetime(2026, 1, 31, 8, tzinfo=UTC)
    read = decoder_of(parsed_format("glue"), CachedRegistry(registry, lambda: now))
    for _ in range(2):
        with pytest.raises(PayloadUnreadable, match=f"schema version {VERSION} cannot be used: it is of XSD"):
            read(for_glue(VERSION, b""))
    assert registry.asked == [VERSION]
    now += UNKNOWN_FOR
    with pytest.raises(PayloadUnreadable):
        read(for_glue(VERSION, b""))
    assert registry.asked == [VERSION, VERSION]


def test_unknown_versions_that_are_kept_are_bounded() -> None:
    cached = CachedRegistry(MemorySchemaRegistry(), lambda: datetime(2026, 1, 31, tzinfo=UTC))
    for number in range(3 * UNKNOWN_MAX):
        cached.version(str(UUID(int=number)))
    assert len(cached._unknown_since) <= UNKNOWN_MAX


def test_confluent_framing_is_decoded_by_its_schema_id() -> None:
    class Registry:
        def version(self, version: str) -> RegisteredSchema | None:
            return REGISTERED._replace(version="9", subject="") if version == "9" else None

        def latest(self, subject: str) -> RegisteredSchema | None:
            return REGISTERED._replace(version="9", subject=subject)

    data = encoder_of(parsed_format("confluent:http://localhost:8081#orders-value"), Registry())(order())
    assert data[:5] == b"\x00\x00\x00\x00\x09"
    read = decoder_of(parsed_format("confluent:http://localhost:8081"), Registry())
    assert read(data) == order()
    with pytest.raises(PayloadUnreadable, match="schema version 10 is not in the registry"):
        read(for_confluent("10", b""))


@pytest.mark.parametrize("version", [2**31, 2**32 - 1])
def test_confluent_id_beyond_its_range_is_no_framing_and_is_not_asked_for(version: int) -> None:
    """A registry answers such an id with 400."""
    registry = MemorySchemaRegistry()
    assert refused("confluent:http://localhost:8081", for_confluent(str(version), b"{}"), registry) == (
        "not framed for Confluent's registry: an id of a schema is less than 2147483648"
    )
    assert registry.asked == []


def test_csv_field_may_be_longer_than_python_s_usual_limit() -> None:
    usual, long = csv.field_size_limit(131_072), "x" * 200_000
    try:
        assert decode("csv", f'7,"{long}"\n'.encode()) == [["7", long]]
        assert refused("csv", f'"{long}'.encode()) == "not CSV: unexpected end of data"
    finally:
        csv.field_size_limit(usual)


LOGS: dict[str, Any] = {
    "messageType": "DATA_MESSAGE",
    "owner": "123456789012",
    "logGroup": "/aws/lambda/orders",
    "logStream": "2026/01/31/[$LATEST]1",
    "subscriptionFilters": ["all"],
    "logEvents": [{"id": "1", "timestamp": 1769846400000, "message": "hello"}],
}


def test_cloudwatch_logs_subscription_is_decoded() -> None:
    assert decode("cloudwatch-logs", gzip.compress(json.dumps(LOGS).encode())) == LOGS
    assert refused("cloudwatch-logs", b"[]") == "not from a subscription of CloudWatch Logs: it has no messageType"


def test_firehose_delivery_is_decoded_with_the_data_in_it() -> None:
    def inside(data: bytes) -> dict[str, str]:
        return {"data": base64.b64encode(data).decode()}

    records = [inside(b'{"a": 1}'), inside(gzip.compress(b'{"a": 2}')), inside(b"text"), inside(b"\xff")]
    delivery = {"requestId": "r", "timestamp": 1, "records": records}
    assert decode("firehose", json.dumps(delivery).encode()) == {
        "requestId": "r",
        "timestamp": 1,
        "records": [{"data": {"a": 1}}, {"data": {"a": 2}}, {"data": "text"}, {"data": b"\xff"}],
    }
    wrongs: list[dict[str, Any]] = [{}, {"records": [1]}, {"records": [{}]}, {"records": [{"data": "!"}]}]
    for wrong in wrongs:
        assert refused("firehose", json.dumps(wrong).encode()).startswith("not a delivery of Firehose: ")


def test_custom_function_gets_the_decompressed_data_and_its_exception_is_the_reason() -> None:
    assert decode(f"{__name__}:shout", gzip.compress(b"a")) == "A"
    assert refused(f"{__name__}:boil", b"a") == f"{__name__}:boil raised KeyError: 'kettle'"
    for wrong in (f"{__name__}:missing", "no_such_module:read", f"{__name__}:LOGS"):
        with pytest.raises(SettingsError, match="a function that "):
            decoder_of(parsed_format(wrong))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("csv:a, b", PayloadFormat(FormatKind.CSV, columns=("a", "b"))),
        ("avro:C:/orders.avsc", PayloadFormat(FormatKind.AVRO, file="C:/orders.avsc")),
        ("protobuf:a:b.desc:shop.Order", PayloadFormat(FormatKind.PROTOBUF, file="a:b.desc", message="shop.Order")),
        ("glue:shop/orders", PayloadFormat(FormatKind.GLUE, subject="shop/orders")),
        (
            "confluent:https://registry:8081/api/#orders-value",
            PayloadFormat(FormatKind.CONFLUENT, url="https://registry:8081/api", subject="orders-value"),
        ),
        ("orders.payloads:read", PayloadFormat(FormatKind.CUSTOM, custom="orders.payloads:read")),
    ],
)
def test_format_is_taken_apart(text: str, expected: PayloadFormat) -> None:
    assert parsed_format(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "xml", "json:loads", "csv:", "csv:a,,b", "csv:a,a", "avro", "avro:", "protobuf", "protobuf:orders.desc"),
        *("glue:orders", "confluent", "confluent:registry", "confluent:http://user:secret@host", "a:b:c", "custom:x:y"),
    ],
)
def test_text_that_is_no_format_is_refused_with_all_of_them(text: str) -> None:
    with pytest.raises(SettingsError, match=r"avro:FILE, protobuf:FILE:MESSAGE, glue, confluent:URL"):
        parsed_format(text)


def test_avro_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    registry, data = MemorySchemaRegistry(REGISTERED), for_glue(VERSION, b"")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    readers: list[Callable[[], Decoder | object]] = [
        lambda: decoder_of(parsed_format(f"avro:{avro_schema_file(tmp_path)}")),
        lambda: decode("glue", data, registry),
    ]
    for read in readers:
        with pytest.raises(SettingsError, match="install sublet with its extra payloads"):
            read()


def test_zstd_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    data = zstd.compress(b"{}")
    for name in ("compression", "backports", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    assert refused("json", data) == "compressed with zstd: install sublet with its extra payloads"
