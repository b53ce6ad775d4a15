"""Any value comes back from its format, and any bytes are a value or a refusal with its reason."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from backports import zstd
from hypothesis import example, given
from hypothesis import strategies as st
from sublet.errors import PayloadUnreadable
from sublet.payloads.decoding import Decoder, decoder_of
from sublet.payloads.encoding import encoder_of
from sublet.payloads.framing import for_glue
from sublet.payloads.readable_json import json_text
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage
from sublet.settings.payload_format import FormatKind, parsed_format
from sublet.testing.memory import MemorySchemaRegistry

from tests.doubles.payload_schemas import ORDER_TEXT, VERSION, avro_schema_file, descriptor_set_file

REGISTRY = MemorySchemaRegistry(RegisteredSchema(VERSION, SchemaLanguage.AVRO, ORDER_TEXT, "shop/orders"))
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)
ORDERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "price": st.floats(allow_nan=False, allow_infinity=False),
        "country": st.none() | TEXT,
        "tags": st.lists(TEXT),
    }
)
FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("schemas")
    avro_schema_file(found)
    descriptor_set_file(found)
    return found


def formats(folder: Path) -> Iterator[str]:
    yield from ("json", "jsonl", "csv", "csv:a,b", "msgpack", "glue", "cloudwatch-logs", "firehose")
    yield f"avro:{folder / 'orders.avsc'}"
    yield f"protobuf:{folder / 'orders.desc'}:shop.Order"


def comes_back(text: str, value: Any, read_by: str = "") -> None:
    data = encoder_of(parsed_format(text), REGISTRY)(value)
    for pack in PACKERS:
        assert decoder_of(parsed_format(read_by or text), REGISTRY)(pack(data)) == value


PACKERS: tuple[Callable[[bytes], bytes], ...] = (gzip.compress, zlib.compress, zstd.compress)


@given(JSON)
def test_any_json_comes_back(value: Any) -> None:
    comes_back("json", value)
    comes_back("msgpack", value)


@given(st.lists(JSON))
def test_any_json_lines_come_back(values: list[Any]) -> None:
    comes_back("jsonl", values)


@given(st.lists(st.lists(FIELD, min_size=2, max_size=2), min_size=1))
def test_any_csv_comes_back(rows: list[list[str]]) -> None:
    comes_back("csv", rows)


@given(ORDERS)
def test_any_avro_and_protobuf_value_comes_back(folder: Path, value: dict[str, Any]) -> None:
    comes_back(f"avro:{folder / 'orders.avsc'}", value)
    comes_back("glue:shop/orders", value, read_by="glue")
    text = parsed_format(f"protobuf:{folder / 'orders.desc'}:shop.Order")
    back = decoder_of(text)(encoder_of(text)({key: each for key, each in value.items() if each is not None}))
    assert {key: back[key] for key in value} == value


def decoded_or_refused(read: Decoder, data: bytes) -> None:
    try:
        value = read(data)
    except PayloadUnreadable as refused:
        why = str(refused)
    else:
        why = json_text(value)
        json.loads(why)
    assert why
    why.encode()


@given(st.binary(max_size=300))
@example(b"\x1f\x8b\x08")
@example(b"\x28\xb5\x2f\xfd\xff")
@example(b"\x78\x9c\x03")
@example(b'"\\ud800"')
@example(b"\x81\xc4\x01a\x01")
@example(b"[" * 900 + b"]" * 900)
def test_arbitrary_bytes_are_a_value_or_a_refusal_with_its_reason(folder: Path, data: bytes) -> None:
    for text in formats(folder):
        read = decoder_of(parsed_format(text), REGISTRY)
        for each in (data, *(pack(data) for pack in PACKERS), for_glue(VERSION, data)):
            decoded_or_refused(read, each)


@given(ORDERS, st.integers(0, 400), st.integers(0, 255))
def test_one_wrong_byte_is_a_value_or_a_refusal_with_its_reason(
    folder: Path, value: dict[str, Any], at: int, byte: int
) -> None:
    for text in formats(folder):
        form = parsed_format(text)
        if form.kind in (FormatKind.CLOUDWATCH_LOGS, FormatKind.FIREHOSE, FormatKind.CSV, FormatKind.JSONL):
            continue
        written = parsed_format("glue:shop/orders") if form.kind is FormatKind.GLUE else form
        present = {key: each for key, each in value.items() if each is not None}
        data = bytearray(encoder_of(written, REGISTRY)(present if form.kind is FormatKind.PROTOBUF else value))
        if data:
            data[at % len(data)] = byte
        decoded_or_refused(decoder_of(form, REGISTRY), bytes(data))
