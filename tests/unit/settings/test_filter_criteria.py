"""Event patterns: the rules that the Lambda Developer Guide lists for event source mappings ("Filter rule syntax")."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.settings.filter_criteria import any_matches, parsed, patterns_of


def criteria(*patterns: Any) -> str:
    return json.dumps({"Filters": [{"Pattern": json.dumps(pattern)} for pattern in patterns]})


METADATA = {"UserID": "", "Name": "Ann", "Price": 100, "Flag": True, "Nothing": None, "Tags": ["a", "b"]}


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ({"UserID": [""]}, True),
        ({"Nothing": [None]}, True),
        ({"Name": [None]}, False),
        ({"Name": ["Ann"]}, True),
        ({"Name": ["ann"]}, False),
        ({"Name": [{"equals-ignore-case": "ANN"}]}, True),
        ({"Name": ["Ann"], "Price": [100]}, True),
        ({"Name": ["Ann"], "Price": [101]}, False),
        ({"Name": ["Bob", "Ann"]}, True),
        ({"$or": [{"Name": ["Bob"]}, {"Price": [100]}]}, True),
        ({"$or": [{"Name": ["Bob"]}, {"Price": [1]}]}, False),
        ({"Name": [{"anything-but": ["Bob"]}]}, True),
        ({"Name": [{"anything-but": ["Ann", "Bob"]}]}, False),
        ({"Name": [{"anything-but": "Ann"}]}, False),
        ({"Name": [{"anything-but": {"prefix": "A"}}]}, False),
        ({"Missing": [{"anything-but": ["x"]}]}, False),
        ({"Price": [{"numeric": ["=", 100]}]}, True),
        ({"Price": [{"numeric": [">", 10, "<=", 20]}]}, False),
        ({"Price": [{"numeric": [">", 10, "<=", 100.0]}]}, True),
        ({"Name": [{"numeric": [">", 10]}]}, False),
        ({"Flag": [{"numeric": ["=", 1]}]}, False),
        ({"Flag": [True]}, True),
        ({"Price": [True]}, False),
        ({"Price": ["100"]}, False),
        ({"Name": [{"exists": True}]}, True),
        ({"Name": [{"exists": False}]}, False),
        ({"Missing": [{"exists": False}]}, True),
        ({"Name": [{"prefix": "A"}]}, True),
        ({"Name": [{"suffix": "nn"}]}, True),
        ({"Price": [{"prefix": "1"}]}, False),
        ({"Tags": ["b"]}, True),
        ({"Tags": ["c"]}, False),
        ({"Name": {"First": ["Ann"]}}, False),
        ({"Missing": {"First": [{"exists": False}]}}, True),
        ({"Name": {"First": [{"exists": False}]}}, True),
    ],
    ids=lambda given: json.dumps(given)[:60],
)
def test_a_pattern(pattern: dict[str, Any], matches: bool) -> None:
    assert any_matches(patterns_of(criteria(pattern)), METADATA) is matches


ABSENT, PRESENT = [{"exists": False}], [{"exists": True}]


@pytest.mark.parametrize(
    ("pattern", "event", "matches"),
    [
        ({"a": ABSENT}, {"a": []}, True),
        ({"a": ABSENT}, {"a": {}}, True),
        ({"a": ABSENT}, {"a": [[], {}]}, True),
        ({"a": ABSENT}, {"a": {"b": None}}, True),
        ({"a": ABSENT}, {"a": None}, False),
        ({"a": ABSENT}, {"a": [{"b": 1}, 2]}, False),
        ({"a": PRESENT}, {"a": []}, False),
        ({"a": PRESENT}, {"a": {"b": 1}}, False),
        ({"a": PRESENT}, {"a": [[None]]}, True),
        ({"a": [{"anything-but": ["x"]}]}, {"a": {}}, False),
        ({"a": [{"anything-but": ["x"]}]}, {"a": ["x", "y"]}, True),
        ({"a": [1]}, {"a": [[2], [[1]]]}, True),
        ({"a": {"b": ABSENT}}, {"a": []}, True),
        ({"a": {"b": ABSENT}}, {"a": [{"b": []}, {}]}, True),
        ({"a": {"b": ABSENT}}, {"a": [{"b": 1}, {}]}, False),
        ({"a": {"b": ABSENT}, "c": [1]}, {"a": [], "c": 1}, True),
        ({"a": {"b": [1], "c": [2]}}, {"a": [{"b": 1, "c": 0}, {"b": 0, "c": 2}]}, False),
        ({"a": {"b": [1], "c": [2]}}, {"a": [{"b": 1}, {"b": [0, 1], "c": [2]}]}, True),
        ({"a": {"b": [1], "c": ABSENT}}, {"a": [{"b": 1}, {"c": 1}]}, True),
        ({"a": {"b": ABSENT, "c": [1]}}, {"a": [{"b": 1}, {"c": 1}]}, True),
        ({"a": {"x": [1]}, "$or": [{"a": {"y": [2]}}, {"z": [3]}]}, {"a": [{"x": 1}, {"y": 2}]}, False),
        (
            {"a": {"x": [1]}, "$or": [{"a": {"y": [2]}}, {"z": [3]}]},
            {"a": [{"x": 1}, {"y": 2}], "z": 3},
            True,
        ),
        ({"a": {"b": [1]}}, {"a.b": 1}, True),
        ({"a.b": [1]}, {"a": {"b": 1}}, True),
        ({"a.b": [1]}, {"a.b": 1, "a": {"b": 2}}, True),
        ({"a.b": [1]}, {"a.b": 1, "a": 2}, True),
        ({"a": [1], "a.b": [2]}, {"a": [1, {"b": 2}]}, True),
        ({"a": [{"equals-ignore-case": "ı"}]}, {"a": "I"}, True),
    ],
    ids=lambda given: json.dumps(given)[:60],
)
def test_conditions_are_about_leaves_and_an_array_stands_for_its_elements(
    pattern: dict[str, Any], event: dict[str, Any], matches: bool
) -> None:
    """As event-ruler answers, but where `b` is absent in the element that has `c`: it looks at all of `a`, as `b` comes
    first.
    """
    assert any_matches(patterns_of(criteria(pattern)), event) is matches


def test_number_matches_by_its_exact_decimal_value() -> None:
    patterns = patterns_of(criteria({"a": [{"anything-but": [1]}]}))
    assert any_matches(patterns, parsed('{"a": 1.00000000000000000001}'))
    assert not any_matches(patterns, parsed('{"a": 1.0}'))
    assert any_matches(patterns_of(criteria({"a": [{"numeric": [">", 5]}]})), parsed('{"a": 1e9999999999999999999}'))
    assert not any_matches(patterns_of(criteria({"a": [{"numeric": [">", 5]}]})), parsed('{"a": NaN}'))


def test_filter_matches_if_any_of_its_patterns_does() -> None:
    patterns = patterns_of(criteria({"Name": ["Bob"]}, {"Price": [100]}))
    assert any_matches(patterns, METADATA)
    assert not any_matches(patterns, {"Name": "Eve"})


def test_a_pattern_may_be_an_object() -> None:
    assert any_matches(patterns_of('{"Filters": [{"Pattern": {"Name": ["Ann"]}}]}'), METADATA)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "JSON"),
        ("[]", "Filters"),
        ('{"Filters": []}', "one to 10"),
        ('{"Filters": [{}]}', "an object of fields"),
        (criteria({}), "an object of fields"),
        (criteria({"a": "b"}), "a list of conditions"),
        (criteria({"a": []}), "a list of conditions"),
        (criteria({"a": [{"wildcard": "*"}]}), "one operator of exists, prefix"),
        (criteria({"a": [{"cidr": "10.0.0.0/8"}]}), "one operator of exists, prefix"),
        (criteria({"a": [{"anything-but": {"wildcard": "*"}}]}), "one operator of exists, prefix"),
        (criteria({"a": [{"numeric": [">"]}]}), "pairs"),
        (criteria({"a": [{"numeric": ["~", 1]}]}), "comparisons of"),
        (criteria({"a": [{"prefix": 1}]}), "a text"),
        (criteria({"a": [{"exists": "yes"}]}), "true or false"),
        (criteria({"a": [["b"]]}), "a value or an operator"),
        (criteria({"$or": [{"a": ["b"]}]}), "two patterns or more"),
        (criteria({"a": ["x" * 5000]}), "at most 4096 characters"),
        (criteria(*[{"a": ["b"]}] * 11), "one to 10"),
        ('{"Filters": [{"Pattern": ' + '{"a": ' * 101 + "[1]" + "}" * 101 + "}]}", "nested too deeply"),
        (
            criteria({str(a): {"$or": [{"b": [1]}, {"c": [1]}]} for a in range(10)}),
            "at most 1000 combinations",
        ),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_filter_criteria_are_refused_for_an_invalid_pattern(text: str, says: str) -> None:
    with pytest.raises(SettingsError, match="setting filter_criteria") as error:
        patterns_of(text)
    assert says in str(error.value)
