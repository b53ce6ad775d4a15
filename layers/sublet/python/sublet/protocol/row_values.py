"""Reads single attributes of a row; the error names an attribute that is not as KCL writes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sublet.protocol.lease import AttributeValue

T = TypeVar("T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


_NO_TEXTS: frozenset[str] = frozenset()


class UnreadableAttribute(Exception):
    """Raised for an attribute that is not what KCL writes. The reader of the row makes it a MalformedRow."""


def required(value: T | None, name: str) -> T:
    if value is None:
        raise UnreadableAttribute(f"attribute {name} is missing")
    return value


def _typed(item: Mapping[str, AttributeValue], name: str, kind: str) -> Any:
    """The attribute's value; None if it is missing or of DynamoDB's NULL type (some clients write that for no
    owner).
    """
    value = item.get(name)
    if value is None or "NULL" in value:
        return None
    if kind not in value:
        raise UnreadableAttribute(f"attribute {name} is {dict(value)!r:.80}, expected DynamoDB type {kind}")
    return value[kind]


def text_in(item: Mapping[str, AttributeValue], name: str) -> str | None:
    value: str | None = _typed(item, name, "S") if name in item else None
    return value


def texts_in(item: Mapping[str, AttributeValue], name: str) -> frozenset[str]:
    return frozenset(_typed(item, name, "SS") or ()) if name in item else _NO_TEXTS


def number_in(item: Mapping[str, AttributeValue], name: str) -> int | None:
    value = _typed(item, name, "N") if name in item else None
    try:
        return None if value is None else int(value)
    except ValueError:
        raise UnreadableAttribute(f"attribute {name} is {value!r:.80}, expected a whole number") from None


def count_in(item: Mapping[str, AttributeValue], name: str) -> int:
    """0 if it is missing. NULL is refused: DynamoDB cannot add to it, so the lease could not be acquired."""
    value = number_in(item, name) if name in item else 0
    if value is None or value < 0:
        raise UnreadableAttribute(f"attribute {name} is {dict(item[name])!r:.80}, expected a count")
    return value


def fraction_in(item: Mapping[str, AttributeValue], name: str) -> float | None:
    value = _typed(item, name, "N")
    try:
        return None if value is None else float(value)
    except ValueError:
        raise UnreadableAttribute(f"attribute {name} is {value!r:.80}, expected a number") from None


def moment_in(item: Mapping[str, AttributeValue], name: str) -> datetime | None:
    value = number_in(item, name)
    try:
        return None if value is None else EPOCH + value * MILLISECOND
    except OverflowError:
        raise UnreadableAttribute(f"attribute {name} is {value}, expected epoch milliseconds") from None
