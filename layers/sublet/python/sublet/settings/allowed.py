"""What a setting's value may be, and what else its definition says: parts of its annotation in `Settings`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from sublet.settings.text import duration_text, parse_duration


class Allowed(Protocol):
    """As text, what an error and the documents say of it."""

    def allows(self, value: Any) -> bool: ...


@dataclass(frozen=True, slots=True)
class Between:
    """Whole numbers or durations, both ends included."""

    lowest: int | timedelta
    highest: int | timedelta

    def allows(self, value: Any) -> bool:
        return bool(self.lowest <= value <= self.highest)

    def __str__(self) -> str:
        match self.lowest, self.highest:
            case timedelta() as shortest, timedelta() as longest:
                return f"{duration_text(shortest)} to {duration_text(longest)}"
            case lowest, highest:
                return f"a whole number from {lowest:,} to {highest:,}"


def lasting(shortest: str, longest: str) -> Between:
    """Durations, written as in the environment."""
    return Between(parse_duration("shortest", shortest), parse_duration("longest", longest))


@dataclass(frozen=True, slots=True)
class Matching:
    """Text that the whole pattern matches; `described` says which."""

    pattern: str
    described: str

    def allows(self, value: Any) -> bool:
        return re.fullmatch(self.pattern, value) is not None

    def __str__(self) -> str:
        return self.described


@dataclass(frozen=True, slots=True)
class OfItsKind:
    """Whatever the type allows: an enum's members, true and false, a start position."""

    described: str

    def allows(self, value: Any) -> bool:  # noqa: ARG002 -- the type has been checked
        return True

    def __str__(self) -> str:
        return self.described


class Only(StrEnum):
    """Whom a setting is for, when it is not for all runtimes."""

    LAMBDA = "Lambda"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What KCL or Lambda's event source mapping (ESM) calls it, and in what theirs differs."""

    kcl: str = ""
    esm: str = ""
    difference: str = ""
