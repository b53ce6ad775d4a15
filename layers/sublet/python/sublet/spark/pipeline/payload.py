"""What a pipeline's records are, and how an executor reads them (pure but for the registry's client)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sublet.payloads.decoding import Decoder, decoder_of
from sublet.payloads.json_document import json_reader
from sublet.settings.payload_format import JSON, FormatKind, PayloadFormat
from sublet.spark.pipeline.csv_values import typed_line
from sublet.spark.pipeline.json_fit import reader_of
from sublet.spark.pipeline.numerals import Numeral


class Payload(NamedTuple):
    """Travels to the executors, so it carries the content of schema files.

    avro_as  the text of the Avro schema that records are read as, if a registry has the one that they were written with
    strict   an object in JSON that repeats a key is rejected
    region   of Glue's registry; None: the executor's
    """

    form: PayloadFormat = JSON
    avro_as: str = ""
    strict: bool = False
    region: str | None = None

    @property
    def has_lines(self) -> bool:
        """Whether a record has any number of rows."""
        return self.form.kind in (FormatKind.JSONL, FormatKind.CSV)

    @property
    def may_change(self) -> bool:
        """Whether the same record may be judged otherwise later: a schema is registered, or the user's function is
        another one.
        """
        return self.has_registry or self.form.kind is FormatKind.CUSTOM

    @property
    def has_registry(self) -> bool:
        """Whether a record names its schema version, which is in a registry."""
        return self.form.kind in (FormatKind.GLUE, FormatKind.CONFLUENT)


JSON_PAYLOAD = Payload()


def payload_reader(schema: Mapping[str, Any], payload: Payload) -> Callable[[bytes], Any]:
    """Returns a function from a record's data to the fields that fit `schema`, a list of them if it has lines, or else
    the reason why it does not fit. Raises SettingsError.
    """
    return reader_of(schema, payload_decoder(schema, payload), has_lines=payload.has_lines)


def payload_decoder(schema: Mapping[str, Any], payload: Payload) -> Decoder:
    form = payload.form
    if form.kind is FormatKind.CSV:
        columns = tuple(field["name"] for field in schema["fields"])
        lines, typed = decoder_of(form._replace(columns=columns)), typed_line(schema)
        return lambda data: [typed(line) for line in lines(data)]
    avro_as = None
    if payload.avro_as:
        from sublet.payloads.avro import avro_schema

        avro_as = avro_schema(payload.avro_as, "schema")
    read_json = json_reader(Numeral, strict=payload.strict)
    return decoder_of(form, _registry(payload), name="format", read_json=read_json, avro_as=avro_as)


def _registry(payload: Payload) -> Any:
    if not payload.has_registry:
        return None
    from sublet.aws.schema_registries import registry_of
    from sublet.system.clock import SystemClock

    return registry_of(payload.form, SystemClock(), payload.region)
