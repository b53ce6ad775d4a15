"""Settings as text, in the environment and on a command line.

A duration is a number and a unit (`200ms`, `10s`, `5m`, `2h`, `1d`); a moment is ISO 8601 with its time zone.

msgspec, which sublet uses elsewhere, could convert numbers and enums. But it reads durations only as `PT10S`, checks
ranges only of numbers, and its errors show neither the value nor the allowed values. Importing it here would cost more
than this file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sublet.errors import SettingsError
from sublet.settings.choices import StartPosition
from sublet.settings.stream_choice import ALLOWED, StreamChoice

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}

LONGEST = timedelta(days=36_525)
"""A hundred years: added to any moment that is accepted, it stays in Python's calendar."""

EARLIEST_YEAR, LATEST_YEAR = 1900, 9000


def parse_duration(name: str, text: str) -> timedelta:
    """Parse `200ms`, `10s`, `5m`, `2h` or `1d`. Raises SettingsError, also for a number without a unit."""
    unit = text.lstrip("0123456789.")
    number = text.removesuffix(unit)
    if unit not in _UNITS or not all(digits.isdecimal() for digits in number.split(".", 1)):
        raise SettingsError(name, text, kind_text(timedelta))
    try:
        duration = float(number) * _UNITS[unit]
    except OverflowError:
        duration = timedelta.max
    if duration > LONGEST:
        raise SettingsError(name, text, f"at most {LONGEST.days:,} days")
    return duration


def parse_moment(text: str) -> datetime | None:
    """ISO 8601 with its time zone, in UTC; None for anything else, and for years that a duration can leave the calendar
    from.
    """
    try:
        moment = datetime.fromisoformat(text)
        at = None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return at if at is not None and EARLIEST_YEAR <= at.year <= LATEST_YEAR else None


def duration_text(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back exactly: 30s, 200ms, 14m."""
    if not duration:
        return "0s"
    for unit in ("d", "h", "m", "s"):
        if duration % _UNITS[unit] == timedelta(0):
            return f"{duration // _UNITS[unit]}{unit}"
    milliseconds, microseconds = divmod(duration // timedelta(microseconds=1), 1000)
    return f"{milliseconds}.{microseconds:03}".rstrip("0").rstrip(".") + "ms"


def setting_text(value: object) -> str:
    """The inverse of `parse_setting`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return duration_text(value) if isinstance(value, timedelta) else str(value)


def kind_text(kind: Any) -> str:
    """The text that `parse_setting` accepts for the type."""
    if kind is timedelta:
        return "a number and a unit: 200ms, 10s, 5m, 2h or 1d"
    if kind is StartPosition:
        return "TRIM_HORIZON, LATEST or AT_TIMESTAMP:<ISO 8601 with time zone>"
    if kind is StreamChoice:
        return ALLOWED
    if members := _members(kind):
        return " or ".join(members) if kind is bool else f"one of {', '.join(members)}"
    return "a whole number" if kind is int else "text"


def parse_setting(name: str, kind: Any, text: str) -> object:
    """A setting's text as a value of its declared type. Raises SettingsError."""
    if kind is str:
        return text
    if kind is timedelta:
        return parse_duration(name, text)
    if kind is StartPosition:
        return StartPosition.parse(text)
    if kind is StreamChoice:
        return StreamChoice.parse(text)
    if kind is int and re.fullmatch(r"-?[0-9]{1,12}", text):
        return int(text)
    if text in (members := _members(kind)):
        return members[text]
    raise SettingsError(name, text, kind_text(kind))


def _members(kind: Any) -> Mapping[str, object]:
    """The values of an enum or bool, by their text."""
    if kind is bool:
        return {"true": True, "false": False}
    return {member.value: member for member in kind} if issubclass(kind, StrEnum) else {}
