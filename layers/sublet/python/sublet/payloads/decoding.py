"""Makes the decoder of a format: a function from a record's data to its value."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from sublet.errors import PayloadUnreadable, SchemaNotUsable, SettingsError
from sublet.payloads.compression import decompressed
from sublet.payloads.csv_lines import csv_reader
from sublet.payloads.framing import Framed, of_confluent, of_glue
from sublet.payloads.json_document import json_lines_reader, json_reader
from sublet.payloads.schema_files import content_of, text_of
from sublet.payloads.schema_registry import RegisteredSchema, SchemaLanguage, SchemaRegistry
from sublet.settings.payload_format import JSON, FormatKind, PayloadFormat, parsed_format

Decoder = Callable[[bytes], Any]
"""Raises PayloadUnreadable for data that is not what the format says; with a registry SchemaRegistryError too."""

ReadJson = Callable[[bytes], Any]

NOT_IN_REGISTRY = "is not in the registry"
"""What the reason says of a record whose schema version the registry does not have."""


def decoder_of(
    form: PayloadFormat,
    registry: SchemaRegistry | None = None,
    *,
    name: str = "payload_format",
    read_json: ReadJson | None = None,
    avro_as: Any = None,
) -> Decoder:
    """Returns a decoder, which also takes gzip, zlib and zstd around the data. Reads schema files, and imports what the
    format needs. Raises SettingsError for the setting `name`.

    registry   for `glue` and `confluent`, which need it
    read_json  reads each JSON document; by default numbers with a fraction are floats
    avro_as    the Avro schema that records are read as, if it is not the one that they were written with
    """
    read = _reader(form, registry, name, read_json or json_reader(), avro_as)

    def decode(data: bytes) -> Any:
        inner = decompressed(data)
        try:
            return read(inner.data)
        except PayloadUnreadable as why:
            if inner.problem:
                raise PayloadUnreadable(f"{why}; {inner.problem}") from None
            raise

    return decode


@cache
def json_decoder() -> Decoder:
    """What decodes where no format is stated."""
    return decoder_of(JSON)


def decoder_of_setting(payload_format: str | None, registry: SchemaRegistry | None) -> Decoder | None:
    """The decoder of the setting's text; None without one. Raises SettingsError."""
    return None if payload_format is None else decoder_of(parsed_format(payload_format), registry)


def _reader(
    form: PayloadFormat, registry: SchemaRegistry | None, name: str, read_json: ReadJson, avro_as: Any
) -> Decoder:
    """The libraries of one format are imported here."""
    match form.kind:
        case FormatKind.JSON:
            return read_json
        case FormatKind.JSONL:
            return json_lines_reader(read_json)
        case FormatKind.CSV:
            return csv_reader(form.columns)
        case FormatKind.AVRO:
            from sublet.payloads.avro import avro_reader, avro_schema  # noqa: PLC0415

            return avro_reader(avro_schema(text_of(form, name), name), avro_as)
        case FormatKind.PROTOBUF:
            from sublet.payloads.protobuf import message_type, protobuf_reader  # noqa: PLC0415

            return protobuf_reader(message_type(content_of(form, name), form, name))
        case FormatKind.GLUE | FormatKind.CONFLUENT:
            assert registry is not None, "whoever asks for a registry's format gives the registry"
            return SchemaVersions(form, registry, read_json, avro_as).read
        case _:
            return _without_schema(form, name, read_json)


def _without_schema(form: PayloadFormat, name: str, read_json: ReadJson) -> Decoder:
    match form.kind:
        case FormatKind.MSGPACK:
            from sublet.payloads.message_pack import read_message_pack  # noqa: PLC0415

            return read_message_pack
        case FormatKind.CLOUDWATCH_LOGS:
            from sublet.payloads.envelopes import cloudwatch_logs_reader  # noqa: PLC0415

            return cloudwatch_logs_reader(read_json)
        case FormatKind.FIREHOSE:
            from sublet.payloads.envelopes import firehose_reader  # noqa: PLC0415

            return firehose_reader(read_json)
        case _:
            return _custom(form.custom, name)


class SchemaVersions:
    """Reads records by the schema version that each one names. What is made of a version is kept: it never changes."""

    def __init__(self, form: PayloadFormat, registry: SchemaRegistry, read_json: ReadJson, avro_as: Any) -> None:
        self._form, self._registry = form, registry
        self._read_json, self._avro_as = read_json, avro_as
        self._readers: dict[str, Decoder] = {}

    def read(self, data: bytes) -> Any:
        framed = self._framed(data)
        reader = self._readers.get(framed.version)
        if reader is None:
            try:
                schema = self._registry.version(framed.version)
            except SchemaNotUsable as why:
                raise PayloadUnreadable(f"schema version {framed.version} cannot be used: {why}") from None
            if schema is None:
                raise PayloadUnreadable(f"schema version {framed.version} {NOT_IN_REGISTRY}")
            reader = self._readers[framed.version] = self._reader_of(schema)
        return reader(framed.data)

    def _framed(self, data: bytes) -> Framed:
        return of_glue(data) if self._form.kind is FormatKind.GLUE else of_confluent(data)

    def _reader_of(self, schema: RegisteredSchema) -> Decoder:
        if self._form.subject and schema.subject and schema.subject != self._form.subject:
            raise PayloadUnreadable(f"written with schema {schema.subject}, not {self._form.subject}")
        if schema.language is SchemaLanguage.JSON:
            return self._read_json
        if schema.language is SchemaLanguage.PROTOBUF:
            raise PayloadUnreadable(
                f"schema version {schema.version} is Protobuf's, which needs a descriptor set: protobuf:FILE:MESSAGE"
            )
        return self._avro(schema)

    def _avro(self, schema: RegisteredSchema) -> Decoder:
        from sublet.payloads.avro import avro_reader, avro_schema, fastavro  # noqa: PLC0415

        fastavro("payload_format")
        try:
            return avro_reader(avro_schema(schema.definition), self._avro_as)
        except SettingsError as problem:
            raise PayloadUnreadable(f"schema version {schema.version} cannot be used: {problem.allowed}") from None


def _custom(reference: str, name: str) -> Decoder:
    """Raises SettingsError if there is no such function."""
    module, _, function = reference.partition(":")
    try:
        call = getattr(importlib.import_module(module), function)
    except Exception as fault:
        raise SettingsError(
            name, reference, f"a function that can be imported; {type(fault).__name__}: {fault}"
        ) from fault
    if not callable(call):
        raise SettingsError(name, reference, "a function that takes bytes")

    def decode(data: bytes) -> Any:
        try:
            return call(data)
        except (MemoryError, PayloadUnreadable):
            raise
        except Exception as fault:
            raise PayloadUnreadable(f"{reference} raised {type(fault).__name__}: {str(fault)[:200]}") from fault

    return decode
