"""Moments and durations as an operator reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def age_text(age: timedelta) -> str:
    seconds = max(0, round(age.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def time_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 lease`, `2 leases`."""
    return f"{count} {one if count == 1 else many or one + 's'}"
