"""An application's last hour by the minute: its worst lag, how much it handles, and how often a shard changed its
owner. The figures come from its metrics if CloudWatch has them, otherwise from what was observed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from sublet.decisions.status.fleet_status import FleetStatus

MINUTE = timedelta(minutes=1)
MINUTES = 60
NONE: Mapping[datetime, float] = MappingProxyType({})


class RecordedHour(NamedTuple):
    """What an application's own metrics say, by the beginning of each minute; empty if it puts no metrics.

    lags   the worst lag of any shard, in seconds
    kbps   KB a second of all shards
    moves  leases that one owner took from another
    """

    lags: Mapping[datetime, float] = NONE
    kbps: Mapping[datetime, float] = NONE
    moves: Mapping[datetime, float] = NONE


class LastHour(NamedTuple):
    """The hour in RecordedHour's form. `at`: the time of the last look. `moves`: shards whose owner changed; each
    counts once, when it last changed.
    """

    lags: Mapping[datetime, float] = NONE
    kbps: Mapping[datetime, float] = NONE
    at: datetime = datetime.min.replace(tzinfo=UTC)
    moves: Mapping[datetime, float] = NONE

    def after(self, status: FleetStatus) -> LastHour:
        """Adds this look and, for the minutes before the first look, what owners have left in the rows."""
        lags = _recent(self.lags, status.at)
        if not self.lags:
            for at, lag in status.earlier_lags:
                _raise_to(lags, at, lag.total_seconds())
        if status.lag is not None:
            _raise_to(lags, status.at, status.lag.total_seconds())
        kbps, total = _recent(self.kbps, status.at), status.kbps
        if total is not None:
            kbps[_minute(status.at)] = total
        return LastHour(_recent(lags, status.at), kbps, status.at, self._moves_after(status))

    def _moves_after(self, status: FleetStatus) -> Mapping[datetime, float]:
        seen = Counter(_minute(shard.moved_at) for shard in status.shards if shard.moved_at is not None)
        moves = _recent(self.moves, status.at)
        for minute, count in {_minute(status.at): 0, **seen}.items():
            _raise_to(moves, minute, count)
        return _recent(moves, status.at)

    def with_recorded(self, recorded: RecordedHour) -> LastHour:
        """Replaces minutes by what metrics say about them: a look sees one moment of a minute, and the program may just
        have started.
        """
        return self._replace(
            lags={**self.lags, **_recent(recorded.lags, self.at)},
            kbps={**self.kbps, **_recent(recorded.kbps, self.at)},
            moves={**self.moves, **_recent(recorded.moves, self.at)},
        )


def by_minute(values: Mapping[datetime, float], now: datetime) -> Sequence[float | None]:
    """One value for each of the last sixty minutes, oldest first; None: not known."""
    last = _minute(now)
    return [values.get(last - ago * MINUTE) for ago in range(MINUTES - 1, -1, -1)]


def _recent(values: Mapping[datetime, float], now: datetime) -> dict[datetime, float]:
    return {at: value for at, value in values.items() if now - at < MINUTES * MINUTE}


def _raise_to(values: dict[datetime, float], at: datetime, value: float) -> None:
    minute = _minute(at)
    values[minute] = max(values.get(minute, value), value)


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
