"""Event patterns: the rules that the Lambda Developer Guide lists for event source mappings ("Filter rule syntax")."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sublet.errors import SettingsError
from sublet.settings.filter_criteria import any_matches, patterns_of


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
    ],
    ids=lambda given: json.dumps(given)[:60],
)
def test_a_pattern(pattern: dict[str, Any], matches: bool) -> None:
    assert any_matches(patterns_of(criteria(pattern)), METADATA) is matches


def test_any_of_several_patterns_is_enough() -> None:
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
        ('{"Filters": [{"Pattern": ' + '{"a": ' * 900 + "1" + "}" * 900 + "}]}", "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_pattern_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(SettingsError, match="setting filter_criteria") as error:
        patterns_of(text)
    assert says in str(error.value)
