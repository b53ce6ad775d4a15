"""Settings as text, as they stand in the environment and on a command line.

A duration is a number and a unit (`200ms`, `10s`, `5m`, `2h`, `1d`); a moment is ISO 8601 with its time zone.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Any

from sublet.errors import SettingsError
from sublet.settings.kinds import StartPosition

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(name: str, text: str) -> timedelta:
    """`200ms`, `10s`, `5m`, `2h`, `1d`; a number without its unit is refused rather than guessed."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise SettingsError(name, text, "a number and a unit: 200ms, 10s, 5m, 2h or 1d")
    try:
        return float(match[1]) * _UNITS[match[2]]
    except OverflowError:
        raise SettingsError(name, text, f"at most {timedelta.max.days:,} days") from None


def duration_text(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back exactly: 30s, 200ms, 14m."""
    for unit in ("d", "h", "m", "s"):
        if duration and duration % _UNITS[unit] == timedelta(0):
            return f"{duration // _UNITS[unit]}{unit}"
    milliseconds, microseconds = divmod(duration // timedelta(microseconds=1), 1000)
    return f"{milliseconds}.{microseconds:03}".rstrip("0").rstrip(".") + "ms"


def setting_text(value: object) -> str:
    """A setting's value as `from_environment` reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return duration_text(value) if isinstance(value, timedelta) else str(value)


def parse_setting(name: str, kind: Any, text: str) -> object:
    """A setting's text as a value of its declared type, or SettingsError."""
    if kind is timedelta:
        return parse_duration(name, text)
    if kind is StartPosition:
        return StartPosition.parse(text)
    if kind is bool:
        if text not in ("true", "false"):
            raise SettingsError(name, text, "true or false")
        return text == "true"
    if kind is int:
        if not re.fullmatch(r"\d{1,12}", text):
            raise SettingsError(name, text, "a whole number")
        return int(text)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if text not in [member.value for member in kind]:
            raise SettingsError(name, text, f"one of {', '.join(kind)}")
        return kind(text)
    return text
