"""Draws the last hour of an application as lines of bars."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

from sublet.operate.formatting import age_text
from sublet.operate.rules.last_hour import LastHour, by_minute

BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "._-=+*%#"
UNKNOWN = " "


def hour_lines(hour: LastHour, now: datetime) -> list[str]:
    """Draws the worst lag, the throughput and the changes of owners, with a column for each minute and a scale for each
    line. Leaves out a line whose figures are not known, and the changes if there were none.
    """
    lags, rates = by_minute(hour.lags, now), by_minute(hour.kbps, now)
    lines = []
    if (worst := _most(lags)) is not None:
        lines.append(f"lag   |{bars(lags)}| at most {age_text(timedelta(seconds=worst))} in the last hour")
    if (most := _most(rates)) is not None:
        lines.append(f"KB/s  |{bars(rates)}| at most {most:,.1f} in the last hour")
    moves = by_minute(hour.moves, now)
    if (count := sum(value or 0 for value in moves)) > 0:
        lines.append(f"moves |{bars(moves)}| {count:,.0f} changes of owners in the last hour")
    return lines


def bars(values: Sequence[float | None], *, plain: bool | None = None) -> str:
    """Draws one line. `plain`: only with ASCII characters; by default if the terminal cannot show others."""
    if plain is None:
        plain = "utf" not in (sys.stdout.encoding or "").lower()
    levels, most = PLAIN_BARS if plain else BARS, _most(values) or 0
    return "".join(_bar(value, most, levels) for value in values)


def _bar(value: float | None, most: float, levels: str) -> str:
    if value is None:
        return UNKNOWN
    return levels[min(int(value / most * len(levels)), len(levels) - 1)] if most else levels[0]


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
