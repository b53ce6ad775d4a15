"""Conditions on a lease row, as values: the part of DynamoDB's grammar that lease writes need.

One value serves both implementations: `render` makes the ConditionExpression, and `holds` evaluates it on a row as
DynamoDB would. In DynamoDB a comparison with a missing attribute, or one of another type, is false; so it is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from msgspec import Struct

from sublet.protocol.lease import AttributeValue

Row = Mapping[str, AttributeValue]


class Exists(Struct, frozen=True):
    attribute: str


class Absent(Struct, frozen=True):
    attribute: str


class Equal(Struct, frozen=True):
    attribute: str
    value: AttributeValue


class NotEqual(Struct, frozen=True):
    """The condition also holds if the attribute is missing, as in DynamoDB."""

    attribute: str
    value: AttributeValue


class Less(Struct, frozen=True):
    """Strings by UTF-8 bytes, numbers by value."""

    attribute: str
    value: AttributeValue


class Size(Struct, frozen=True):
    """The attribute is a string whose length in characters is `=` or `<` (`is_`) `length`. DynamoDB's grammar has no
    `size(:value)`.
    """

    attribute: str
    is_: str
    length: int


class AllOf(Struct, frozen=True):
    conditions: tuple[Condition, ...]


class AnyOf(Struct, frozen=True):
    conditions: tuple[Condition, ...]


class Clause(Struct, frozen=True):
    """A named part of a write's condition, with the reason for it."""

    name: str
    condition: Condition
    because: str


Condition = Exists | Absent | Equal | NotEqual | Less | Size | AllOf | AnyOf | Clause


def all_of(*conditions: Condition) -> AllOf:
    return AllOf(conditions)


def any_of(*conditions: Condition) -> AnyOf:
    return AnyOf(conditions)


def render(condition: Condition, name: Callable[[str], str], value: Callable[[AttributeValue], str]) -> str:
    """The ConditionExpression's text. `name` and `value` return the placeholder for an attribute's name and for a
    value.
    """
    match condition:
        case Exists(attribute):
            return f"attribute_exists({name(attribute)})"
        case Absent(attribute):
            return f"attribute_not_exists({name(attribute)})"
        case Equal(attribute, wanted):
            return f"{name(attribute)} = {value(wanted)}"
        case NotEqual(attribute, unwanted):
            return f"{name(attribute)} <> {value(unwanted)}"
        case Less(attribute, bound):
            return f"{name(attribute)} < {value(bound)}"
        case Size(attribute, is_, length):
            return f"size({name(attribute)}) {is_} {value({'N': str(length)})}"
        case AllOf(parts):
            return "(" + " AND ".join(render(part, name, value) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " OR ".join(render(part, name, value) for part in parts) + ")"
        case Clause(_, inner, _):
            return render(inner, name, value)


def holds(condition: Condition, row: Row | None) -> bool:
    """Whether DynamoDB would accept the condition on this row (None: no such row)."""
    row = row or {}
    match condition:
        case Clause(_, inner, _):
            return holds(inner, row)
        case Equal(attribute, wanted):
            return attribute in row and _same(row[attribute], wanted)
        case AllOf(parts):
            return all(holds(part, row) for part in parts)
        case AnyOf(parts):
            return any(holds(part, row) for part in parts)
        case Exists(attribute):
            return attribute in row
        case Absent(attribute):
            return attribute not in row
        case NotEqual(attribute, unwanted):
            return attribute not in row or not _same(row[attribute], unwanted)
        case Less(attribute, bound):
            return attribute in row and _less(row[attribute], bound)
        case Size(attribute, is_, length):
            size = len(row.get(attribute, {}).get("S", "")) if "S" in row.get(attribute, {}) else None
            return size is not None and (size < length if is_ == "<" else size == length)


def broken_clauses(condition: Condition, row: Row | None) -> tuple[str, ...]:
    """The names of the clauses that do not hold, to log why a write was refused."""
    match condition:
        case Clause(clause_name, inner, _):
            return () if holds(inner, row) else (clause_name,)
        case AllOf(parts):
            return tuple(broken for part in parts for broken in broken_clauses(part, row))
        case _:
            return ()


def _same(left: AttributeValue, right: AttributeValue) -> bool:
    if "N" in left and "N" in right:
        return Decimal(left["N"]) == Decimal(right["N"])
    return dict(left) == dict(right)


def _less(left: AttributeValue, right: AttributeValue) -> bool:
    if "N" in left and "N" in right:
        return Decimal(left["N"]) < Decimal(right["N"])
    return "S" in left and "S" in right and left["S"].encode() < right["S"].encode()
