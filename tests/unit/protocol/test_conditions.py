"""Conditions judge a row as DynamoDB does; each test names the rule of DynamoDB that it holds."""

from __future__ import annotations

import pytest
from sublet.protocol.conditions import (
    Absent,
    Clause,
    Condition,
    Equal,
    Exists,
    Less,
    NotEqual,
    Row,
    Size,
    all_of,
    any_of,
    broken_clauses,
    holds,
    render,
)
from sublet.protocol.lease import AttributeValue

ROW: Row = {"key": {"S": "k"}, "count": {"N": "7"}, "checkpoint": {"S": "495"}, "null": {"NULL": True}}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Exists("key"), True),
        (Exists("null"), True),  # a NULL is a value
        (Exists("missing"), False),
        (Absent("missing"), True),
        (Absent("null"), False),
        (Equal("count", {"N": "7"}), True),
        (Equal("count", {"N": "7.0"}), True),  # numbers by value
        (Equal("count", {"S": "7"}), False),  # never across types
        (Equal("missing", {"S": "k"}), False),
        (Equal("null", {"NULL": True}), True),
        (NotEqual("key", {"S": "other"}), True),
        (NotEqual("key", {"S": "k"}), False),
        (NotEqual("missing", {"S": "k"}), True),  # a missing attribute is unlike every value
        (Less("count", {"N": "10"}), True),  # by value, though "7" > "10" as text
        (Less("count", {"N": "7"}), False),
        (Less("count", {"S": "9"}), False),
        (Less("checkpoint", {"S": "5"}), True),  # by bytes, though 495 > 5
        (Less("missing", {"N": "1"}), False),
        (Size("checkpoint", "=", 3), True),
        (Size("checkpoint", "<", 4), True),
        (Size("checkpoint", "<", 3), False),
        (Size("missing", "<", 3), False),
        (Size("null", "<", 3), False),
    ],
)
def test_comparison_holds_as_in_dynamodb(condition: Condition, expected: bool) -> None:
    assert holds(condition, ROW) is expected


def test_no_row_is_a_row_without_attributes() -> None:
    assert holds(Absent("key"), None)
    assert not holds(Exists("key"), None)
    assert holds(NotEqual("key", {"S": "k"}), None)


def test_conditions_combine_by_all_of_and_any_of() -> None:
    assert holds(all_of(Exists("key"), Exists("count")), ROW)
    assert not holds(all_of(Exists("key"), Exists("missing")), ROW)
    assert holds(any_of(Exists("missing"), Exists("count")), ROW)
    assert not holds(any_of(Exists("missing")), ROW)


def test_broken_clauses_are_named_and_only_those() -> None:
    condition = all_of(
        Clause("counter_stands", Equal("count", {"N": "8"}), "the fence"),
        Clause("exists", Exists("key"), "no half rows"),
        Clause("not_ended", NotEqual("checkpoint", {"S": "495"}), "ended stays ended"),
    )
    assert broken_clauses(condition, ROW) == ("counter_stands", "not_ended")
    assert broken_clauses(condition, {"count": {"N": "8"}}) == ("exists",)


def test_render_keeps_names_and_values_out_of_the_text() -> None:
    values: list[AttributeValue] = []

    def value(given: AttributeValue) -> str:
        values.append(given)
        return f":v{len(values)}"

    condition = all_of(
        Clause("fence", Equal("count", {"N": "7"}), ""),
        any_of(
            Absent("owner"),
            NotEqual("owner", {"S": "me"}),
            Less("count", {"N": "9"}),
            Size("checkpoint", "<", 56),
        ),
        Exists("key"),
    )
    assert render(condition, lambda name: f"#{name}", value) == (
        "(#count = :v1 AND (attribute_not_exists(#owner) OR #owner <> :v2 OR #count < :v3 OR size(#checkpoint) < :v4)"
        " AND attribute_exists(#key))"
    )
    assert values == [{"N": "7"}, {"S": "me"}, {"N": "9"}, {"N": "56"}]
