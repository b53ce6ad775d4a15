"""`filter_criteria`: which records a handler wants, as event patterns in the event source mapping's format.

A record is wanted if any pattern matches. A pattern is an object of fields; all of its fields must match. A field's condition is
a list, at least one of whose elements must match: a value, or one of the operators below. `$or` has a list of patterns.

The operators are those that the Lambda Developer Guide lists for a mapping ("Filter rule syntax"). EventBridge's own rules have
more (`wildcard`, `cidr`), which are refused.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sublet.errors import SettingsError

NAME = "filter_criteria"
DATA = "data"
"""The key of a record's data in the event that patterns match."""
FILTERS_MAX = 10
"""ESM's maximum quota; its default is five."""
PATTERN_MAX = 4096
"""Characters, as in ESM."""

Matches = Callable[[Any], bool]
"""Whether a value matches. A missing field's value is ABSENT."""

ABSENT = object()

_COMPARED = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """Fields, each with a nested pattern or a condition, and alternatives, one of which must match.

    is_of_data   the pattern is on a record's `data`. Data that are not a JSON object match no such pattern, even if it requires
                 a field to be absent ("Filtering for Kinesis" in the Lambda Developer Guide: such records are dropped)
    """

    fields: Mapping[str, Pattern | Matches]
    any_of: tuple[Pattern, ...] = ()
    is_of_data: bool = False

    def matches(self, value: Any) -> bool:
        """A value that is not an object has none of the fields."""
        if self.is_of_data and not isinstance(value, Mapping):
            return False
        of = value if isinstance(value, Mapping) else {}
        if not all(_field_matches(wanted, of.get(name, ABSENT)) for name, wanted in self.fields.items()):
            return False
        return not self.any_of or any(each.matches(value) for each in self.any_of)


def _field_matches(wanted: Pattern | Matches, found: Any) -> bool:
    """Any element of a list may match."""
    if isinstance(wanted, Pattern):
        return any(map(wanted.matches, found)) if isinstance(found, list) else wanted.matches(found)
    return any(map(wanted, found)) if isinstance(found, list) and found else wanted(found)


def patterns_of(text: str) -> tuple[Pattern, ...]:
    """Parse `{"Filters": [{"Pattern": "..."}, ...]}`; a pattern may also be an object. Raises SettingsError."""
    try:
        return _patterns(text)
    except RecursionError as problem:
        raise _refused(text, "patterns that are not nested too deeply") from problem


def _patterns(text: str) -> tuple[Pattern, ...]:
    given = _json(text)
    filters = given.get("Filters") if isinstance(given, dict) else None
    if not isinstance(filters, list) or not 1 <= len(filters) <= FILTERS_MAX:
        raise _refused(text, f'{{"Filters": [{{"Pattern": "..."}}]}}, with one to {FILTERS_MAX} of them')
    return tuple(_of_filter(each) for each in filters)


def _of_filter(given: object) -> Pattern:
    pattern = given.get("Pattern") if isinstance(given, dict) else None
    if isinstance(pattern, str):
        if len(pattern) > PATTERN_MAX:
            raise _refused(pattern, f"a pattern of at most {PATTERN_MAX} characters")
        pattern = _json(pattern)
    return _pattern(pattern, {DATA})


def _pattern(given: object, of_data: Collection[str] = (), *, is_of_data: bool = False) -> Pattern:
    """`of_data`: the fields that hold a record's data."""
    if not isinstance(given, dict) or not given:
        raise _refused(given, "a pattern: an object of fields, each with a list of conditions")
    fields = {
        name: _field(wanted, is_data=name in of_data) for name, wanted in given.items() if name != "$or"
    }
    alternatives = given.get("$or", [])
    if "$or" in given and (not isinstance(alternatives, list) or len(alternatives) < 2):
        raise _refused(alternatives, "$or with a list of two patterns or more")
    return Pattern(fields, tuple(_pattern(each, of_data) for each in alternatives), is_of_data)


def _field(wanted: object, *, is_data: bool) -> Pattern | Matches:
    if isinstance(wanted, dict):
        return _pattern(wanted, is_of_data=is_data)
    if not isinstance(wanted, list) or not wanted:
        raise _refused(wanted, "a list of conditions, or a nested pattern")
    conditions = [_condition(each) for each in wanted]
    return lambda found: any(condition(found) for condition in conditions)


def _condition(wanted: object) -> Matches:
    if isinstance(wanted, dict):
        if len(wanted) != 1 or (name := next(iter(wanted))) not in _OPERATORS:
            raise _refused(wanted, f"one operator of {', '.join(_OPERATORS)}")
        return _OPERATORS[name](wanted[name])
    if isinstance(wanted, list):
        raise _refused(wanted, "a value or an operator")
    return lambda found: _is(found, wanted)


def _is(found: object, wanted: object) -> bool:
    """1 equals 1.0, but neither true nor "1"."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return found == wanted


def _text_operator(matches: Callable[[str, str], bool]) -> Callable[[object], Matches]:
    def made(wanted: object) -> Matches:
        if not isinstance(wanted, str):
            raise _refused(wanted, "a text")
        return lambda found: isinstance(found, str) and matches(found, wanted)

    return made


def _anything_but(wanted: object) -> Matches:
    """Matches only a field that is present."""
    unwanted = [_condition(each) for each in (wanted if isinstance(wanted, list) else [wanted])]
    return lambda found: found is not ABSENT and not any(condition(found) for condition in unwanted)


def _exists(wanted: object) -> Matches:
    if not isinstance(wanted, bool):
        raise _refused(wanted, "exists with true or false")
    return lambda found: (found is not ABSENT) is wanted


def _numeric(wanted: object) -> Matches:
    """Pairs of a comparison and a number, all of which must hold."""
    if not isinstance(wanted, list) or not wanted or len(wanted) % 2:
        raise _refused(wanted, 'numeric with pairs, such as [">", 0, "<=", 5]')
    pairs = list(zip(wanted[::2], wanted[1::2], strict=True))
    for how, number in pairs:
        if how not in _COMPARED or not _is_number(number):
            raise _refused(wanted, f"comparisons of {', '.join(_COMPARED)}, each with a number")
    return lambda found: _is_number(found) and all(_COMPARED[how](found, number) for how, number in pairs)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_OPERATORS: Mapping[str, Callable[[object], Matches]] = {
    "exists": _exists,
    "prefix": _text_operator(str.startswith),
    "suffix": _text_operator(str.endswith),
    "equals-ignore-case": _text_operator(lambda found, wanted: found.casefold() == wanted.casefold()),
    "anything-but": _anything_but,
    "numeric": _numeric,
}


def any_matches(patterns: Sequence[Pattern], value: Mapping[str, Any]) -> bool:
    return any(pattern.matches(value) for pattern in patterns)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as problem:
        raise _refused(text, f"JSON ({problem})") from problem


def _refused(found: object, expected: str) -> SettingsError:
    return SettingsError(NAME, found, expected)
