"""The texts of a CSV line as JSON's values, by their columns' types, which then check them (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sublet.errors import SettingsError
from sublet.spark.pipeline.numerals import Numeral


class NoNumber(str):
    """A text in a column of numbers that is none. A DECIMAL would take some of these texts, such as 007, from JSON."""

    __slots__ = ()


_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,40})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_TRUTH = {"true": True, "false": False}


def typed_line(schema: Mapping[str, Any]) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    """Returns a function over the fields of a line. An empty field is null. A text that is no number as JSON writes it
    becomes a NoNumber, which a column of numbers then refuses: 007 is not 7. Raises SettingsError for a column that CSV
    cannot have.
    """
    for field in schema["fields"]:
        kind = field["type"] if isinstance(field["type"], str) else field["type"]["type"]
        if kind in ("struct", "array", "map", "variant"):
            raise SettingsError(f"schema.{field['name']}", kind, "a type that CSV has")
    of = {field["name"]: _typed(field) for field in schema["fields"]}

    def typed(line: Mapping[str, str]) -> dict[str, Any]:
        return {name: of[name](text) if text else None for name, text in line.items()}

    return typed


def _typed(field: Mapping[str, Any]) -> Callable[[str], Any]:
    kind = field["type"]
    if kind == "boolean":
        return lambda text: _TRUTH.get(text, text)
    is_epoch = str(field.get("metadata", {}).get("comment", "")).startswith("epoch ")
    if is_epoch or kind in ("byte", "short", "integer", "long", "float", "double") or kind.startswith("decimal"):
        return _number
    return lambda text: text


def _number(text: str) -> Any:
    if _WHOLE.fullmatch(text):
        return int(text)
    return Numeral(text) if _NUMBER.fullmatch(text) else NoNumber(text)
