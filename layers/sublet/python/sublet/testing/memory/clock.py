"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
"""Where a FakeClock starts, so that every run of a test sees the same times."""


class FakeClock:
    """The Clock port. Both clocks show the time last set, until the wall clock jumps; the steady one never goes
    back.
    """

    def __init__(self, start: datetime = BEGINNING) -> None:
        if start.tzinfo is None:
            raise ValueError(f"start {start!r} has no time zone")
        self._now = start
        self._wall = start

    def now(self) -> datetime:
        return self._wall

    def steady(self) -> datetime:
        return self._now

    def jump(self, by: timedelta) -> None:
        """Sets the wall clock forwards or back."""
        self._wall += by

    def suspend(self, duration: timedelta) -> None:
        """The machine is suspended, so its steady clock stands still."""
        self._wall += duration

    def advance(self, by: timedelta) -> datetime:
        """Move on, and return the new time."""
        return self.set(self._now + by)

    def set(self, moment: datetime) -> datetime:
        """Move to `moment`, which must not be in the past. Raises ValueError."""
        if moment < self._now:
            raise ValueError(f"a clock does not go back from {self._now} to {moment}")
        self._wall += moment - self._now
        self._now = moment
        return moment
