"""The real clock: the only place of the library that asks the system for the time."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """The Clock port."""

    def now(self) -> datetime:
        return datetime.now(UTC)
