"""How a table's columns may change."""

from __future__ import annotations

from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.spark.pipeline.evolution import Evolution, adding, evolution, type_name, widening


def column(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}, **more}


def evolved(ours: Any, theirs: Any, *, widens: bool = True) -> Any:
    """The type of a column after rows of another type came."""
    found = evolution("parsed", [column("price", ours)], [column("price", theirs)], lambda _one, _other: widens)
    [now] = found.columns
    assert bool(found.widened) == (now["type"] != ours)
    return now["type"]


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("integer", "long"),
        ("byte", "integer"),
        ("float", "double"),
        ("decimal(9,2)", "decimal(12,2)"),
        ("decimal(9,2)", "decimal(11,4)"),
    ],
)
def test_type_becomes_wider_and_narrower_rows_fit(narrow: str, wide: str) -> None:
    assert evolved(narrow, wide) == wide
    assert evolved(wide, narrow, widens=False) == wide
    with pytest.raises(SettingsError, match=r"parsed\.price"):
        evolved(narrow, wide, widens=False)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("double", "decimal(9,2)"),
        ("decimal(9,2)", "decimal(9,3)"),
        ("string", "integer"),
        ("integer", "double"),
        ("timestamp", "timestamp_ntz"),
        ({"type": "array", "elementType": "integer", "containsNull": True}, "string"),
    ],
)
def test_any_other_type_is_refused_by_name(ours: Any, theirs: Any) -> None:
    said = rf"setting schema = 'parsed\.price': the table has {type_name(ours)}, and these rows have".replace(
        "(", r"\("
    )
    with pytest.raises(SettingsError, match=said.replace(")", r"\)")):
        evolved(ours, theirs)


def test_columns_are_added_at_the_end_and_stay_when_rows_lack_them() -> None:
    id_, gone = column("id", "long"), column("gone", "string")
    country = column("country", "string", nullable=False)
    found = evolution("parsed", [id_, gone], [country, column("ID", "long")], lambda _one, _other: True)
    assert found == Evolution((id_, gone, {**country, "nullable": True}), ({**country, "nullable": True},))


def test_nested_type_is_the_same_whether_its_parts_may_be_null_or_not() -> None:
    def struct(*, nullable: bool) -> dict[str, Any]:
        return {"type": "struct", "fields": [column("a", "integer", nullable=nullable)]}

    assert evolved(struct(nullable=True), struct(nullable=False)) == struct(nullable=True)
    with pytest.raises(SettingsError, match=r"the table has struct<`a`: int>, and these rows have struct<`b`: int>"):
        evolved(struct(nullable=True), {"type": "struct", "fields": [column("b", "integer")]})


def test_names_within_a_type_are_quoted() -> None:
    kind = {"type": "struct", "fields": [column("content-type", "string"), column("a`b", "long")]}
    added = adding([column("meta", {"type": "array", "elementType": kind, "containsNull": True}), column("n", "byte")])
    assert added == "ADD COLUMNS (`meta` array<struct<`content-type`: string, `a``b`: bigint>>, `n` tinyint)"
    assert widening(column("a-b", "long")) == "ALTER COLUMN `a-b` TYPE bigint"
