"""A condition selects records by their fields, and says what it could not be applied to."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.operate.where import Where

ORDER: dict[str, Any] = {
    "price": 10.5,
    "country": "DE",
    "id": 2**63,
    "paid": True,
    "note": None,
    "customer": {"name": "Ada", "tags": ["new"]},
    "items": [{"sku": "a", "count": 3}],
}


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ('price > 10 and country == "DE"', True),
        ('price > 10.5 or country != "DE"', False),
        ("id == 9223372036854775808", True),
        ("not paid", False),
        ("note == null", True),
        ("missing == null", True),
        ('customer["name"] =~ "A.*"', True),
        ('"new" in customer["tags"]', True),
        ('items[0]["count"] >= 3', True),
        ("price == 10.5", True),
    ],
)
def test_condition_selects_records_by_their_fields(condition: str, matches: bool) -> None:
    where = Where(condition)
    assert where.matches(ORDER) is matches
    assert where.unjudged == 0


def test_decimal_and_float_compare_alike() -> None:
    assert Where("price == 10.5").matches({"price": Decimal("10.5")})


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("missing > 10", ORDER),
        ("country > 10", ORDER),
        ('items[7]["sku"] == "a"', ORDER),
        ("price > 10", [1, 2]),
        ("price > 10", None),
        ("price > 10", {"price": object()}),
    ],
)
def test_record_that_a_condition_cannot_be_applied_to_does_not_match_and_is_counted(condition: str, value: Any) -> None:
    where = Where(condition)
    assert [where.matches(value), where.matches(value)] == [False, False]
    assert where.unjudged == 2
    assert where.problem


@pytest.mark.parametrize(
    "condition",
    ["", " ", "price >", "price = 10", "import os", "().__class__", "not " * 5_000 + "a", " or ".join(["a"] * 5_000)],
    ids=["empty", "blank", "no end", "one equals sign", "python", "attribute", "deep", "long"],
)
def test_text_that_is_no_condition_is_refused(condition: str) -> None:
    with pytest.raises(SettingsError, match=r"setting where = .*a condition such as price > 10"):
        Where(condition)


@pytest.mark.parametrize("condition", ["__import__('os')", "f(1)", "open('/etc/passwd')"])
def test_condition_calls_no_function_of_python(condition: str) -> None:
    try:
        where = Where(condition)
    except SettingsError:
        return
    assert not where.matches(ORDER)


def test_condition_reaches_no_attribute_of_python() -> None:
    where = Where('customer.__class__.__name__ == "dict"')
    assert not where.matches({"customer": object()})


def test_condition_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rule_engine", None)
    with pytest.raises(SettingsError, match="install sublet with its extra payloads"):
        Where("price > 10")
