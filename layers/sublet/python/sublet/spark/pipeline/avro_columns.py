"""The columns of an Avro schema (pure)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sublet.errors import SettingsError
from sublet.payloads.avro import avro_schema


def columns_of_avro(text: str) -> dict[str, Any]:
    """The columns of a record's Avro schema, as Spark's JSON for them. Raises SettingsError for a type that no column
    has.
    """
    avro_schema(text, "schema")
    schema = json.loads(text)
    kind = _column(schema, {}, "schema", "")
    if not isinstance(kind, dict) or kind.get("type") != "struct":
        raise SettingsError("schema", text, "an Avro schema of a record")
    return kind


_PRIMITIVE = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL = {
    "date": "date",
    "uuid": "string",
    **dict.fromkeys(("timestamp-millis", "timestamp-micros"), "timestamp"),
    **dict.fromkeys(("local-timestamp-millis", "local-timestamp-micros"), "timestamp_ntz"),
}


def _column(schema: Any, named: dict[str, Any], path: str, namespace: str) -> Any:
    """`named`: the types by their names, since a schema may use one again."""
    if isinstance(schema, str):
        found = named.get(schema) or named.get(f"{namespace}.{schema}") or _PRIMITIVE.get(schema)
        if found is None:
            raise SettingsError(path, schema, "a type that a column can have, which one that nests itself is not")
        return found
    if not isinstance(schema, Mapping):
        raise SettingsError(path, schema, "one type, with or without null: a column has one")
    found = _logical(schema, path) or _complex(schema, named, path, namespace)
    if "name" in schema:
        space = schema.get("namespace", namespace)
        named[schema["name"]] = named[f"{space}.{schema['name']}"] = found
    return found


def _logical(schema: Mapping[str, Any], path: str) -> str | None:
    logical = schema.get("logicalType", "")
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical.startswith("time-"):
        raise SettingsError(path, logical, "a type that a column can have: Spark has no time of day")
    return _LOGICAL.get(logical)


def _complex(schema: Mapping[str, Any], named: dict[str, Any], path: str, namespace: str) -> Any:
    kind = schema["type"]
    if kind == "array":
        element, nullable = _nullable(schema["items"], named, f"{path}[]", namespace)
        return {"type": "array", "elementType": element, "containsNull": nullable}
    if kind == "map":
        value, nullable = _nullable(schema["values"], named, f"{path}{{}}", namespace)
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": nullable}
    if "name" not in schema:
        return _column(kind, named, path, namespace)
    return _record(schema, named, path, namespace) if kind == "record" else _PRIMITIVE[kind]


def _record(schema: Mapping[str, Any], named: dict[str, Any], path: str, namespace: str) -> dict[str, Any]:
    space, fields = schema.get("namespace", namespace), []
    for field in schema["fields"]:
        kind, nullable = _nullable(field["type"], named, f"{path}.{field['name']}", space)
        fields.append({"name": field["name"], "type": kind, "nullable": nullable, "metadata": {}})
    return {"type": "struct", "fields": fields}


def _nullable(schema: Any, named: dict[str, Any], path: str, namespace: str) -> tuple[Any, bool]:
    """A union of null and one other type is a nullable column."""
    if not isinstance(schema, list):
        return _column(schema, named, path, namespace), False
    others = [each for each in schema if each != "null"]
    if len(others) != 1:
        raise SettingsError(path, schema, "one type, with or without null: a column has one")
    return _column(others[0], named, path, namespace), "null" in schema
