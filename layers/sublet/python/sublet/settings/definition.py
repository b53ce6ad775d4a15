"""What a field's annotation in `Settings` may say, and the resulting definitions as data.

Named tuples, because a dataclass takes four times as long to create, and these are created at every cold start.
"""

# No `from __future__ import annotations` here: a named tuple would compile each annotation's text.

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple

from sublet.errors import SettingsError
from sublet.settings.stream_choice import StreamChoice
from sublet.settings.text import duration_text, kind_text, parse_duration, parse_setting, setting_text


class AllowedValues(NamedTuple):
    """Allowed values. Errors and documents show `described`."""

    described: str
    allows: Callable[[Any], object]


def between(lowest: int, highest: int) -> AllowedValues:
    """Whole numbers, both ends included."""
    described = f"a whole number from {lowest:,} to {highest:,}"
    return AllowedValues(described, lambda number: lowest <= number <= highest)


def lasting(shortest: str, longest: str) -> AllowedValues:
    """Durations, written as in the environment; both ends included."""
    least, most = parse_duration("shortest", shortest), parse_duration("longest", longest)
    return AllowedValues(f"{shortest} to {longest}", lambda lasts: least <= lasts <= most)


def matching(pattern: str, described: str) -> AllowedValues:
    """Text that the pattern matches in full."""
    return AllowedValues(described, lambda text: re.fullmatch(pattern, text))


def any_of_kind(kind: Any) -> AllowedValues:
    """Every value of the type: an enum's members, true and false, a start position."""
    return AllowedValues(kind_text(kind), lambda _: True)


class OnlyFor(StrEnum):
    """The runtime that a setting is restricted to."""

    LAMBDA = "Lambda"
    PROCESS = "process"

    @property
    def described(self) -> str:
        return "Lambda" if self is OnlyFor.LAMBDA else "a process of your own (sublet run, Consumer)"


class OtherName(NamedTuple):
    """The setting's name in KCL or in Lambda's event source mapping (ESM), and how it differs there."""

    kcl: str = ""
    esm: str = ""
    difference: str = ""


class Definition(NamedTuple):
    """One setting. `kind` is its type, without None. `reasons` has the text below its field."""

    name: str
    kind: Any
    default: object
    allowed: AllowedValues
    only: OnlyFor | None
    elsewhere: OtherName

    @property
    def is_required(self) -> bool:
        return self.default is MISSING

    @property
    def default_text(self) -> str:
        """The default as it is written in the environment; empty if there is none."""
        return "" if self.default in (MISSING, None) else setting_text(self.default)

    @property
    def in_python(self) -> str:
        """The setting's type in words."""
        return {int: _IN_PYTHON[int], bool: _IN_PYTHON[bool]}.get(self.kind, f"a {self.kind.__name__}")

    def value_of(self, given: object) -> object:
        """Parse text as from the environment; pass other values through, for `check`. Raises SettingsError."""
        if (
            self.kind is StreamChoice
            and isinstance(given, list | tuple)
            and all(isinstance(each, str) for each in given)
        ):
            return StreamChoice.parse(",".join(given))
        if isinstance(given, str) and not isinstance(given, self.kind):
            return parse_setting(self.name, self.kind, given)
        return given

    def check(self, value: object) -> None:
        """Check a value's type and range. Raises SettingsError. A mode's text or a number of seconds would otherwise be
        misread later.
        """
        if value is None and self.default is None:
            return
        if not isinstance(value, self.kind) or isinstance(value, bool) is not (self.kind is bool):
            raise SettingsError(self.name, value, _value_of(self.kind))
        if not self.allowed.allows(value):
            shown = duration_text(value) if isinstance(value, timedelta) else value
            raise SettingsError(self.name, shown, self.allowed.described)


_IN_PYTHON = {
    int: "a whole number",
    bool: "True or False",
    timedelta: "a duration: timedelta(seconds=10), or a text such as 10s",
}


def _value_of(kind: Any) -> str:
    """The expected value in Python, where an enum's text is refused."""
    if kind in _IN_PYTHON:
        return _IN_PYTHON[kind]
    if not issubclass(kind, StrEnum):
        return f"a value of type {kind.__name__}"
    return (
        f"one of {', '.join(f'{kind.__name__}.{member.name}' for member in kind)}: from sublet import {kind.__name__}"
    )


def definitions_of(fields: Iterable[Field[Any]]) -> Mapping[str, Definition]:
    """Definitions by name, in the order of the class."""
    return MappingProxyType({field.name: _definition(field) for field in fields})


def _definition(field: Field[Any]) -> Definition:
    declared, notes = getattr(field.type, "__origin__", field.type), getattr(field.type, "__metadata__", ())
    kind = next((part for part in getattr(declared, "__args__", ()) if part is not NoneType), declared)
    allowed, only, elsewhere = None, None, OtherName()
    for note in notes:
        match note:
            case AllowedValues():
                allowed = note
            case OtherName():
                elsewhere = note
            case OnlyFor():
                only = note
    return Definition(field.name, kind, field.default, allowed or any_of_kind(kind), only, elsewhere)
