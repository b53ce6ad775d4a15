"""How far behind an application or a shard has been, as lines or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
STEPS = (MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 7 * DAY, 30 * DAY)
ROWS_MAX = 48
"""As many fit a screen."""
LONGEST = 455 * DAY
"""CloudWatch keeps figures for this long."""


class LagOverTime(Struct, frozen=True):
    """`lags`: the worst lag by the beginning of its step, oldest first; None where nothing was put."""

    step: timedelta
    lags: tuple[tuple[datetime, timedelta | None], ...]

    @property
    def worst(self) -> tuple[timedelta, datetime] | None:
        """The latest of the worst."""
        return max(((lag, at) for at, lag in self.lags if lag is not None), default=None)


def step_for(over: timedelta) -> timedelta:
    """Returns the shortest step of which at most ROWS_MAX fill that time."""
    return next((step for step in STEPS if over <= ROWS_MAX * step), STEPS[-1])


def lag_over_time(found: Mapping[datetime, timedelta], step: timedelta) -> LagOverTime:
    """Fills the steps between the first and the last figure."""
    if not found:
        return LagOverTime(step, ())
    first, last = min(found), max(found)
    moments = (first + number * step for number in range((last - first) // step + 1))
    return LagOverTime(step, tuple((at, found.get(at)) for at in moments))
