"""The last hour by the minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sublet.decisions.status.lease_history import LagObservation
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.operate.rules.last_hour import LastHour, RecordedHour, by_minute
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Position

from tests.doubles.fleet import NOW, fleet_of, shard_status

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
START = Position(TRIM_HORIZON)


def seen(minutes_ago: float, lag: timedelta | None) -> LagObservation:
    return LagObservation(NOW - minutes_ago * MINUTE, START, lag)


ONE = shard_status(
    0, Status.OK, StatusReason.LAG_FALLS, lag=30 * SECOND, kbps=2.0, history=(seen(3, MINUTE), seen(1.5, None))
)
OTHER = shard_status(1, Status.OK, StatusReason.LAG_FALLS, lag=20 * SECOND, kbps=1.5, history=(seen(2.9, 2 * MINUTE),))


def test_first_look_takes_the_owners_reports_and_the_worst_of_each_minute() -> None:
    hour = LastHour().after(fleet_of(ONE, OTHER))
    assert by_minute(hour.lags, NOW)[-4:] == [120.0, None, None, 30.0]
    assert by_minute(hour.kbps, NOW)[-2:] == [None, 3.5]
    assert len(by_minute(hour.lags, NOW)) == 60


def test_owners_that_changed_are_counted_in_their_minute_each_once() -> None:
    moved = [replace(shard, moved_at=NOW - 5 * MINUTE) for shard in (ONE, OTHER)]
    hour = LastHour().after(fleet_of(*moved))
    hour = hour.after(replace(fleet_of(*moved), at=NOW + MINUTE))
    assert by_minute(hour.moves, NOW + MINUTE)[-8:] == [None, 2.0, None, None, None, None, 0, 0]


def test_last_hour_prefers_metrics_and_fills_in_with_looks() -> None:
    recorded = RecordedHour({NOW: 90.0, NOW - 30 * MINUTE: 60.0, NOW - 61 * MINUTE: 9.0}, {NOW: 7.0}, {NOW: 1.0})
    hour = LastHour().after(fleet_of(ONE)).with_recorded(recorded)
    lags = by_minute(hour.lags, NOW)
    assert (lags[-1], lags[-4], lags[29]) == (90.0, 60.0, 60.0)
    assert by_minute(hour.kbps, NOW)[-1] == 7.0
    assert by_minute(hour.moves, NOW)[-1] == 1.0
    assert len(hour.lags) == 3


def test_last_hour_forgets_values_older_than_an_hour() -> None:
    hour = LastHour().after(fleet_of(ONE))
    later = replace(fleet_of(replace(ONE, lag=None, kbps=None)), at=NOW + 58 * MINUTE)
    hour = hour.after(later)
    assert by_minute(hour.lags, later.at)[:3] == [None, 30.0, None]
    assert hour.kbps
    assert not hour.after(replace(later, at=NOW + 61 * MINUTE)).kbps
