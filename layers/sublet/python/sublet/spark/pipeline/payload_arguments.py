"""--format and --strict, of the commands that read a pipeline's records, and what goes with what (pure)."""

from __future__ import annotations

import argparse

from sublet.errors import SettingsError
from sublet.settings.payload_format import FormatKind, parsed_format


def add_format(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--format",
        metavar="FORMAT",
        help="what the records are, also within gzip, zlib or zstd: json (default), jsonl, csv, msgpack, avro (by the "
        "schema) or avro:FILE, protobuf:FILE:MESSAGE, glue, confluent:URL, cloudwatch-logs, firehose, or your "
        "module:function",
    )
    group.add_argument("--strict", action="store_true", help="reject a record whose JSON repeats a key in an object")


def check_format(form: str | None, schema: str | None, *, one_row: str | None = None) -> None:
    """Raises SettingsError for a format that is none, or that the schema does not go with. `one_row`: what needs a
    record to be one row, since it tells rows apart by their records' positions.
    """
    if one_row is not None and form is not None and form.partition(":")[0] in (FormatKind.JSONL, FormatKind.CSV):
        raise SettingsError("format", form, f"a format with one row a record, for {one_row}")
    if form is not None and schema is None:
        raise SettingsError("format", form, "only with schema: without one there is only raw, with the bytes")
    if schema is not None and schema.endswith(".avsc") and form is None:
        raise SettingsError("format", None, "required with an Avro schema: avro, glue or confluent:URL")
    if form == FormatKind.AVRO:
        if not str(schema).endswith(".avsc"):
            raise SettingsError("format", form, "avro:FILE, or avro with an Avro schema's file (.avsc) as schema")
    elif form is not None and parsed_format(form, "format").columns:
        raise SettingsError("format", form, "csv: the schema names the columns")
