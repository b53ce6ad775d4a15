"""Makes the encoder of a format: a function from a value to a record's data, which the decoder reads back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from sublet.errors import PayloadNotEncodable, SettingsError
from sublet.payloads.framing import for_confluent, for_glue
from sublet.payloads.schema_files import content_of, text_of
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage, SchemaRegistry
from sublet.settings.payload_format import FormatKind, PayloadFormat

Encoder = Callable[[Any], bytes]
"""Raises PayloadNotEncodable."""


def encoder_of(form: PayloadFormat, registry: SchemaRegistry | None = None, *, name: str = "payload_format") -> Encoder:
    """Returns an encoder. With a registry it writes by the latest version of the schema that the format names, which
    is looked up here, once. Raises SettingsError for the setting `name`, and what the registry raises.
    """
    match form.kind:
        case FormatKind.JSON:
            return json_data
        case FormatKind.JSONL:
            return _json_lines
        case FormatKind.CSV:
            return partial(_csv_lines, form.columns)
        case FormatKind.MSGPACK:
            return _message_pack
        case FormatKind.AVRO:
            from sublet.payloads.avro import avro_schema, avro_writer  # noqa: PLC0415

            return avro_writer(avro_schema(text_of(form, name), name))
        case FormatKind.PROTOBUF:
            from sublet.payloads.protobuf import message_type, protobuf_writer  # noqa: PLC0415

            return protobuf_writer(message_type(content_of(form, name), form, name))
        case FormatKind.GLUE | FormatKind.CONFLUENT:
            assert registry is not None, "whoever asks for a registry's format gives the registry"
            return _framed(form, registry, name)
        case _:
            raise SettingsError(name, form.custom or form.kind.value, "a format that records are written in")


def _framed(form: PayloadFormat, registry: SchemaRegistry, name: str) -> Encoder:
    if not form.subject:
        named = "glue:REGISTRY/SCHEMA" if form.kind is FormatKind.GLUE else "confluent:URL#SUBJECT"
        raise SettingsError(name, form.kind.value, f"{named}: the schema to write with")
    schema = registry.latest(form.subject)
    if schema is None:
        raise SettingsError(name, form.subject, "a schema that the registry has, with a version")
    write = _writer_of(schema, name)
    frame = for_glue if form.kind is FormatKind.GLUE else for_confluent
    return lambda value: frame(schema.version, write(value))


def _writer_of(schema: RegisteredSchema, name: str) -> Encoder:
    if schema.language is SchemaLanguage.JSON:
        return json_data
    if schema.language is SchemaLanguage.PROTOBUF:
        raise SettingsError(name, schema.subject, "a schema of Avro or JSON; for Protobuf use protobuf:FILE:MESSAGE")
    from sublet.payloads.avro import avro_schema, avro_writer  # noqa: PLC0415

    return avro_writer(avro_schema(schema.definition, name))


def json_data(value: Any) -> bytes:
    """Compact JSON in UTF-8. Raises PayloadNotEncodable, also for NaN."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as fault:
        raise PayloadNotEncodable(f"the value cannot be JSON: {fault}") from fault


def _json_lines(values: Any) -> bytes:
    if not isinstance(values, list | tuple):
        raise PayloadNotEncodable("jsonl takes a list, each item a line")
    return b"".join(json_data(value) + b"\n" for value in values)


def _csv_lines(columns: tuple[str, ...], rows: Any) -> bytes:
    """A value without columns is a list of fields, and with them also a dict."""
    sink = io.StringIO()
    lines = csv.writer(sink, lineterminator="\n")
    for row in rows if isinstance(rows, list) and rows and isinstance(rows[0], list | dict) else [rows]:
        fields = [row.get(name) for name in columns] if isinstance(row, dict) else row
        if not isinstance(fields, list) or (columns and len(fields) != len(columns)):
            raise PayloadNotEncodable("csv takes lists of fields, or dicts by the columns that the format names")
        lines.writerow(fields)
    return sink.getvalue().encode()


def _message_pack(value: Any) -> bytes:
    import msgspec  # noqa: PLC0415

    try:
        return msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        raise PayloadNotEncodable(f"the value cannot be MessagePack: {fault}") from fault
