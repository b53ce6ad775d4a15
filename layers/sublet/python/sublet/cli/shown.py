"""Values in a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def printable(text: str) -> str:
    """Escapes control characters, which could move a terminal's cursor: the row may come from anyone."""
    return text if text.isprintable() else repr(text)


def age_text(age: timedelta) -> str:
    seconds = max(0, round(age.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def time_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
