"""`filter_criteria`: which records a handler wants, as event patterns in the event source mapping's format.

A record is wanted if any pattern matches. A pattern is an object of fields; all of its fields must match. A field's
condition is a list, at least one of whose elements must match: a value, or one of the operators below. `$or` has a list
of patterns. What a field of an event is, `event_pattern` says; `python -m tests.interop.filters` compares both with
AWS' own matcher.

The operators are those that the Lambda Developer Guide lists for a mapping ("Filter rule syntax"). EventBridge's own
rules have more (`wildcard`, `cidr`), which are refused.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sublet.errors import SettingsError
from sublet.settings.event_pattern import LeafCondition, Path, PatternNode, node_of

NAME = "filter_criteria"
DATA = "data"
"""The key of a record's data in the event that patterns match."""
FILTERS_MAX = 10
"""ESM's maximum quota; its default is five."""
PATTERN_MAX = 4096
"""Characters, as in ESM."""

COMBINATIONS_MAX = 1000
"""Of the alternatives in a pattern's `$or`, as in EventBridge."""
DEPTH_MAX = 100
"""Fields within fields, which are matched by recursion."""
EXISTS = "exists"

Matches = Callable[[Any], bool]
"""Whether a leaf matches."""
Combination = Mapping[Path, LeafCondition]

_COMPARED = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """One combination of a pattern's alternatives.

    is_of_fields    it wants fields of the record's data. Data that are not a JSON object match no such pattern, even if
                    it requires a field to be absent ("Filtering for Kinesis" in the Lambda Developer Guide: such
                    records are dropped)
    """

    wanted: PatternNode
    is_of_fields: bool


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
    return tuple(pattern for each in filters for pattern in _of_filter(each))


def _of_filter(given: object) -> Iterator[Pattern]:
    pattern = given.get("Pattern") if isinstance(given, dict) else None
    if isinstance(pattern, str):
        if len(pattern) > PATTERN_MAX:
            raise _refused(pattern, f"a pattern of at most {PATTERN_MAX} characters")
        pattern = _json(pattern)
    for conditions in _combinations(pattern, (), [{}]):
        is_of_fields = any(path[0] == DATA and len(path) > 1 for path in conditions)
        yield Pattern(node_of(conditions), is_of_fields)


def _combinations(given: object, at: Path, so_far: list[Combination]) -> list[Combination]:
    """Each combination with the pattern's fields; with `$or` once for each alternative, in which a condition replaces
    an earlier one of the same field.
    """
    if not isinstance(given, dict) or not given:
        raise _refused(given, "a pattern: an object of fields, each with a list of conditions")
    for name, wanted in given.items():
        path = (*at, *name.split("."))
        if len(path) > DEPTH_MAX:
            raise RecursionError
        if name == "$or":
            if not isinstance(wanted, list) or len(wanted) < 2:
                raise _refused(wanted, "$or with a list of two patterns or more")
            so_far = [made for each in wanted for made in _combinations(each, at, so_far)]
        elif isinstance(wanted, dict):
            so_far = _combinations(wanted, path, so_far)
        else:
            condition = _condition_of(wanted)
            so_far = [{**each, path: condition} for each in so_far]
        if len(so_far) > COMBINATIONS_MAX:
            raise _refused(name, f"at most {COMBINATIONS_MAX} combinations of $or in a pattern")
    return so_far


def _condition_of(wanted: object) -> LeafCondition:
    """One of a list is enough."""
    if not isinstance(wanted, list) or not wanted:
        raise _refused(wanted, "a list of conditions, or a nested pattern")
    conditions = [_condition(each) for each in wanted]
    return LeafCondition(
        lambda found: any(each.matches(found) for each in conditions),
        any(each.wants_absence for each in conditions),
    )


def _condition(wanted: object) -> LeafCondition:
    if isinstance(wanted, dict):
        if len(wanted) != 1 or (name := next(iter(wanted))) not in _OPERATORS:
            raise _refused(wanted, f"one operator of {', '.join(_OPERATORS)}")
        made = _OPERATORS[name](wanted[name])
        return LeafCondition(made, wants_absence=name == EXISTS and wanted[name] is False)
    if isinstance(wanted, list):
        raise _refused(wanted, "a value or an operator")
    return LeafCondition(lambda found: _is(found, wanted))


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
    unwanted = [_condition(each) for each in (wanted if isinstance(wanted, list) else [wanted])]
    return lambda found: not any(condition.matches(found) for condition in unwanted)


def _exists(wanted: object) -> Matches:
    if not isinstance(wanted, bool):
        raise _refused(wanted, "exists with true or false")
    return lambda _: wanted


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
    """NaN, which Python's JSON has, is compared with nothing."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and value == value


def _without_case(text: str) -> str:
    """By way of capitals, because a letter may have several small ones."""
    return text.upper().casefold()


_OPERATORS: Mapping[str, Callable[[object], Matches]] = {
    EXISTS: _exists,
    "prefix": _text_operator(str.startswith),
    "suffix": _text_operator(str.endswith),
    "equals-ignore-case": _text_operator(lambda found, wanted: _without_case(found) == _without_case(wanted)),
    "anything-but": _anything_but,
    "numeric": _numeric,
}


def any_matches(patterns: Sequence[Pattern], value: Mapping[str, Any]) -> bool:
    return any(pattern.wanted.matches(value) for pattern in patterns)


def parsed(text: str) -> Any:
    """JSON with its numbers as they are written: 1.00000000000000000001 is not 1. Raises ValueError."""
    try:
        return json.loads(text, parse_float=_decimal)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of more digits than Python parses: JSON has no such limit
        return json.loads(text, parse_float=_decimal, parse_int=_decimal)


def _decimal(text: str) -> Decimal | float:
    """As a float where the exponent is beyond what Decimal has."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return float(text)


def _json(text: str) -> Any:
    try:
        return parsed(text)
    except ValueError as problem:
        raise _refused(text, f"JSON ({problem})") from problem


def _refused(found: object, expected: str) -> SettingsError:
    return SettingsError(NAME, found, expected)
