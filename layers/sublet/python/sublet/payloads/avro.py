"""Avro's binary encoding of one datum, by fastavro."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any

from sublet.errors import PayloadNotEncodable, PayloadUnreadable, SettingsError

if TYPE_CHECKING:
    from types import ModuleType

Schema = Any
"""A parsed schema, as fastavro has it."""


def fastavro(name: str) -> ModuleType:
    """Raises SettingsError for the setting `name` if the package is not installed."""
    try:
        return import_module("fastavro")
    except ModuleNotFoundError:
        raise SettingsError(
            name, "avro", "another format, or install sublet with its extra payloads, which brings fastavro"
        ) from None


def avro_schema(text: str, name: str = "payload_format") -> Schema:
    """Raises SettingsError for a text that is no schema, and for one by which a few bytes are endlessly many items."""
    module = fastavro(name)
    try:
        schema = module.parse_schema(json.loads(text))
        endless = _without_size(schema, {})
    except Exception as fault:  # noqa: BLE001 - what is no schema makes fastavro raise anything
        raise SettingsError(name, text, f"an Avro schema; {type(fault).__name__}: {fault}") from None
    if endless:
        raise SettingsError(name, text, f"an Avro schema whose arrays have items with a size, unlike {endless}")
    return schema


def avro_reader(written: Schema, read_as: Schema | None = None) -> Callable[[bytes], Any]:
    """Returns a function that reads one datum, and raises PayloadUnreadable.

    read_as  the schema that the reader wants, if another: Avro's schema resolution applies
    """
    reader, written = _schemaless_reader(written), _with_short_decimals(written)

    def read(data: bytes) -> Any:
        source = io.BytesIO(data)
        try:
            value = reader(source, written, read_as)
        except MemoryError:
            raise
        except RecursionError:
            raise PayloadUnreadable("not Avro that can be read: nested too deeply") from None
        except Exception as fault:  # noqa: BLE001 - bytes that are no datum make fastavro raise anything
            raise PayloadUnreadable(f"not Avro by its schema: {type(fault).__name__}: {str(fault)[:100]}") from None
        if source.tell() != len(data):
            raise PayloadUnreadable(f"not Avro by its schema: {len(data) - source.tell()} bytes are left over")
        return value

    return read


def _with_short_decimals(schema: Schema) -> Schema:
    """The schema with a logical type of our own for decimals, which refuses long ones."""
    if isinstance(schema, list):
        return [_with_short_decimals(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inside = {key: each if key == "default" else _with_short_decimals(each) for key, each in schema.items()}
    if schema.get("logicalType") == "decimal" and schema.get("type") in ("bytes", "fixed"):
        known = fastavro("payload_format").read.LOGICAL_READERS
        known[f"{schema['type']}-{SHORT_DECIMAL}"] = partial(_short_decimal, known[f"{schema['type']}-decimal"])
        inside["logicalType"] = SHORT_DECIMAL
    return inside


SHORT_DECIMAL = "sublet-decimal"
DECIMAL_BYTES_MAX = 1024
"""Which are 2,466 digits. The time to read a decimal grows with the square of its bytes: 400 KB take half a minute."""


def _short_decimal(read: Callable[..., Any], data: bytes, *schemas: Schema) -> Any:
    if len(data) > DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal of {len(data)} bytes; {DECIMAL_BYTES_MAX} are read")
    return read(data, *schemas)


def _schemaless_reader(written: Schema) -> Callable[[IO[bytes], Schema, Schema | None], Any]:
    """fastavro's. The compiled one ends the process (SIGSEGV) on data that is nested by some thousand levels, which a
    type within itself allows. Its own reader in Python raises RecursionError.
    """
    module = fastavro("payload_format")
    if _is_within_itself(written, ()):
        module = import_module("fastavro._read_py")
    return module.schemaless_reader  # type: ignore[no-any-return]


def _is_within_itself(schema: Schema, within: tuple[str, ...]) -> bool:
    """Whether a named type has a field, item or value that may again be one of it. `within`: the types around."""
    if isinstance(schema, str):
        return schema in within
    if isinstance(schema, list):
        return any(_is_within_itself(each, within) for each in schema)
    inside = (*within, schema["name"]) if "name" in schema else within
    parts = [schema.get("items"), schema.get("values"), *(field["type"] for field in schema.get("fields", ()))]
    kind = schema.get("type")
    return any(_is_within_itself(part, inside) for part in (kind, *parts) if part is not None)


def avro_writer(schema: Schema) -> Callable[[Any], bytes]:
    """Returns a function that raises PayloadNotEncodable."""
    writer = fastavro("payload_format").schemaless_writer

    def write(value: Any) -> bytes:
        sink = io.BytesIO()
        try:
            writer(sink, schema, value, strict=True)
        except Exception as fault:
            raise PayloadNotEncodable(
                f"the value does not fit the Avro schema: {type(fault).__name__}: {fault}"
            ) from fault
        return sink.getvalue()

    return write


def _without_size(schema: Schema, named: dict[str, Schema]) -> str:
    """The type of an array's items that take no bytes, of which a few bytes can announce any number; "" if there is
    none.
    """
    if isinstance(schema, list):
        return next((found for each in schema if (found := _without_size(each, named))), "")
    if not isinstance(schema, Mapping):
        return ""
    kind = schema.get("type")
    if "name" in schema:
        if schema["name"] in named:
            return ""
        named[schema["name"]] = schema
    if kind == "array":
        items = schema["items"]
        return str(items)[:100] if _is_empty(items, named, ()) else _without_size(items, named)
    if kind in ("record", "error"):
        return next((found for each in schema["fields"] if (found := _without_size(each["type"], named))), "")
    return _without_size(schema.get("values") if kind == "map" else kind, named)


def _is_empty(schema: Schema, named: Mapping[str, Schema], within: tuple[str, ...]) -> bool:
    if isinstance(schema, str):
        return schema == "null" or (
            schema in named and schema not in within and _is_empty(named[schema], named, (*within, schema))
        )
    if not isinstance(schema, Mapping):
        return False
    kind = schema.get("type")
    if kind in ("record", "error"):
        inside = (*within, str(schema.get("name")))
        return all(_is_empty(field["type"], named, inside) for field in schema["fields"])
    return (kind == "fixed" and schema.get("size") == 0) or kind == "null"
