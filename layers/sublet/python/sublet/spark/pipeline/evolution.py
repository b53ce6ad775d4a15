"""How a table's columns may change: columns are added, and types become wider; anything else is refused. Pure.

Columns are as Spark's and Delta's schemas write them in JSON: `{"name": "price", "type": "decimal(9,2)", ...}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sublet.errors import SettingsError
from sublet.spark.pipeline.merge import quoted

Column = Mapping[str, Any]
Type = Any
"""A name such as "integer", or a nested type's mapping."""

_INTEGERS = ("byte", "short", "integer", "long")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class Evolution:
    """`columns`: the table's columns from now on. `added` are new, `widened` have a wider type now."""

    columns: tuple[Column, ...]
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()


CanWiden = Callable[[Type, Type], bool]
"""(the table's type, a type that holds all its values): whether this kind of table can change to that."""


def evolution(table: str, columns: Sequence[Column], rows: Sequence[Column], can_widen: CanWiden) -> Evolution:
    """What the table has to become to hold the rows. A column that the rows lack stays, and is null in them. Raises
    SettingsError for a type that changes otherwise."""
    wanted = {column["name"].lower(): column for column in rows}
    kept, widened = [], []
    for column in columns:
        theirs = wanted.pop(column["name"].lower(), column)["type"]
        now = _merged(f"{table}.{column['name']}", column["type"], theirs, can_widen)
        kept.append(column if now == column["type"] else {**column, "type": now})
        if kept[-1] is not column:
            widened.append(kept[-1])
    added = tuple({**column, "nullable": True} for column in wanted.values())
    return Evolution((*kept, *added), added, tuple(widened))


def _merged(name: str, ours: Type, theirs: Type, can_widen: CanWiden) -> Type:
    if _plain(ours) == _plain(theirs) or is_wider(ours, theirs):
        return ours
    if is_wider(theirs, ours) and can_widen(ours, theirs):
        return theirs
    said = f"the table has {type_name(ours)}, and these rows have {type_name(theirs)}: restore the old type"
    wider = ", rewrite the table with the wider one (see Tables in docs/spark-pipeline.md)"
    raise SettingsError("schema", name, f"{said}{wider if is_wider(theirs, ours) else ''}, or give another output")


def is_wider(wide: Type, narrow: Type) -> bool:
    """True if `wide` holds each value of `narrow` exactly, and is another size of the same kind."""
    if not isinstance(wide, str) or not isinstance(narrow, str):
        return False
    if wide in _INTEGERS and narrow in _INTEGERS:
        return _INTEGERS.index(wide) > _INTEGERS.index(narrow)
    one, other = _DECIMAL.fullmatch(wide), _DECIMAL.fullmatch(narrow)
    if one is not None and other is not None:
        (digits, scale), (less, fewer) = map(int, one.groups()), map(int, other.groups())
        return (digits, scale) != (less, fewer) and scale >= fewer and digits - scale >= less - fewer
    return (wide, narrow) == ("double", "float")


def _plain(kind: Type) -> Type:
    """A type without what does not change its values: whether parts may be null, and their metadata."""
    if not isinstance(kind, Mapping):
        return kind
    ignored = ("nullable", "containsNull", "valueContainsNull", "metadata")
    return {
        name: [_plain(each) for each in value] if isinstance(value, list) else _plain(value)
        for name, value in kind.items()
        if name not in ignored
    }


def type_name(kind: Type) -> str:
    """A type as DDL writes it, with the names of its parts quoted."""
    if not isinstance(kind, Mapping):
        return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(kind, str(kind))
    match kind["type"]:
        case "struct":
            parts = ", ".join(f"{quoted(part['name'])}: {type_name(part['type'])}" for part in kind["fields"])
            return f"struct<{parts}>"
        case "array":
            return f"array<{type_name(kind['elementType'])}>"
        case "map":
            return f"map<{type_name(kind['keyType'])}, {type_name(kind['valueType'])}>"
        case other:
            return str(other)


def adding(columns: Iterable[Column]) -> str:
    """What ALTER TABLE says to add the columns."""
    added = ", ".join(f"{quoted(column['name'])} {type_name(column['type'])}" for column in columns)
    return f"ADD COLUMNS ({added})"


def widening(column: Column) -> str:
    """What ALTER TABLE says to give a column the wider type."""
    return f"ALTER COLUMN {quoted(column['name'])} TYPE {type_name(column['type'])}"
