"""The last hour by the minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sublet.decisions.last_hour import LastHour, by_minute
from sublet.decisions.lease_history import Observation
from sublet.decisions.shard_verdict import Because, Word
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Position

from tests.doubles.fleet import NOW, fleet_of, shard_status

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
START = Position(TRIM_HORIZON)


def seen(minutes_ago: float, lag: timedelta | None) -> Observation:
    return Observation(NOW - minutes_ago * MINUTE, START, lag)


ONE = shard_status(
    0, Word.OK, Because.LAG_FALLS, lag=30 * SECOND, kbps=2.0, history=(seen(3, MINUTE), seen(1.5, None))
)
OTHER = shard_status(
    1, Word.OK, Because.LAG_FALLS, lag=20 * SECOND, kbps=1.5, history=(seen(2.9, 2 * MINUTE),)
)


def test_the_first_look_knows_what_owners_have_left_and_the_worst_of_a_minute_counts() -> None:
    hour = LastHour().after(fleet_of(ONE, OTHER))
    assert by_minute(hour.lags, NOW)[-4:] == [120.0, None, None, 30.0]
    assert by_minute(hour.kbps, NOW)[-2:] == [None, 3.5]
    assert len(by_minute(hour.lags, NOW)) == 60


def test_later_looks_move_it_on_and_what_is_an_hour_old_is_forgotten() -> None:
    hour = LastHour().after(fleet_of(ONE))
    later = replace(fleet_of(replace(ONE, lag=None, kbps=None)), at=NOW + 58 * MINUTE)
    hour = hour.after(later)
    assert by_minute(hour.lags, later.at)[:3] == [None, 30.0, None]
    assert hour.kbps
    assert not hour.after(replace(later, at=NOW + 61 * MINUTE)).kbps
