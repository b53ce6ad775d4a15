"""A partition key that is made from a record's fields, such as `{customer}` or `{order.country}-{order.id}`."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any, NamedTuple

from sublet.errors import PayloadUnreadable


class KeyTemplate(NamedTuple):
    """Pieces of a text, each followed by a field's path or by nothing.

    text  as it was given
    """

    text: str
    pieces: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def parse(cls, text: str) -> KeyTemplate:
        """`{{` and `}}` are braces. Raises ValueError, which says what is wrong."""
        found = []
        for literal, name, form, conversion in Formatter().parse(text):
            path = () if name is None else tuple(name.split("."))
            if name is not None and (form or conversion or not all(path) or "[" in name):
                raise ValueError("a field is written as {customer} or {order.customer}")
            found.append((literal, path))
        return cls(text, tuple(found))

    @property
    def has_fields(self) -> bool:
        return any(path for _, path in self.pieces)

    def key_of(self, value: Any = None) -> str:
        """The key of a record with this value. Raises PayloadUnreadable if the value lacks a field, or one is neither a
        text, nor a number, nor true or false.
        """
        return "".join(literal + (_text(value, path) if path else "") for literal, path in self.pieces)


def _text(value: Any, path: tuple[str, ...]) -> str:
    name = ".".join(path)
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            raise PayloadUnreadable(f"the record has no field {name}, which the partition key is made of")
        value = value[part]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    kind = "null" if value is None else "an array" if isinstance(value, list) else "an object"
    raise PayloadUnreadable(f"field {name} is {kind}; a partition key is made of texts, numbers, true and false")
