"""An application's last hour in minutes: its worst lag, and how much it handles. As far as it was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from sublet.decisions.fleet_status import FleetStatus

MINUTE = timedelta(minutes=1)
MINUTES = 60
NONE: Mapping[datetime, float] = MappingProxyType({})


class LastHour(NamedTuple):
    """By the beginning of a minute: the worst lag of any shard, in seconds, and KB a second of all. `at`: of the last look."""

    lags: Mapping[datetime, float] = NONE
    kbps: Mapping[datetime, float] = NONE
    at: datetime = datetime.min.replace(tzinfo=UTC)

    def after(self, status: FleetStatus) -> LastHour:
        """With this look, and with what owners have left in the rows of the minutes before the first one."""
        lags = _recent(self.lags, status.at)
        if not self.lags:
            for at, lag in status.earlier_lags:
                _raise_to(lags, at, lag.total_seconds())
        if status.lag is not None:
            _raise_to(lags, status.at, status.lag.total_seconds())
        kbps, total = _recent(self.kbps, status.at), status.kbps
        if total is not None:
            kbps[_minute(status.at)] = total
        return LastHour(_recent(lags, status.at), kbps, status.at)


def by_minute(values: Mapping[datetime, float], now: datetime) -> Sequence[float | None]:
    """One for each of the last sixty minutes, oldest first; None: not known."""
    last = _minute(now)
    return [values.get(last - ago * MINUTE) for ago in range(MINUTES - 1, -1, -1)]


def _recent(values: Mapping[datetime, float], now: datetime) -> dict[datetime, float]:
    return {at: value for at, value in values.items() if now - at < MINUTES * MINUTE}


def _raise_to(values: dict[datetime, float], at: datetime, value: float) -> None:
    minute = _minute(at)
    values[minute] = max(values.get(minute, value), value)


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
