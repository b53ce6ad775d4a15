"""Lag over hours and days: steps that fit a screen, and moments without a figure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sublet.operate.cli.monitor.lag import as_json, lines_of
from sublet.operate.rules.lag_over_time import LONGEST, ROWS_MAX, LagOverTime, lag_over_time, step_for

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SECOND = timedelta(seconds=1)
NIGHT = datetime(2026, 11, 28, 2, tzinfo=UTC)
FOUND = lag_over_time(
    {NIGHT: 2 * SECOND, NIGHT + 30 * MINUTE: 10 * MINUTE, NIGHT + 90 * MINUTE: 0 * SECOND}, 30 * MINUTE
)


@pytest.mark.parametrize(
    ("over", "step"),
    [(MINUTE, MINUTE), (48 * MINUTE, MINUTE), (HOUR, 5 * MINUTE), (DAY, 30 * MINUTE), (14 * DAY, 12 * HOUR)],
)
def test_a_step_is_the_shortest_that_fits_a_screen(over: timedelta, step: timedelta) -> None:
    assert step_for(over) == step


def test_no_time_that_cloudwatch_keeps_has_more_rows_than_a_screen() -> None:
    assert all(days * DAY / step_for(days * DAY) <= ROWS_MAX for days in range(1, LONGEST // DAY + 1))


def test_a_step_without_a_figure_is_shown_as_one() -> None:
    assert FOUND.lags == (
        (NIGHT, 2 * SECOND),
        (NIGHT + 30 * MINUTE, 10 * MINUTE),
        (NIGHT + 60 * MINUTE, None),
        (NIGHT + 90 * MINUTE, 0 * SECOND),
    )
    assert list(lines_of(FOUND, "orders-audit", DAY)) == [
        "lag of orders-audit, the worst in each 30m; at most 10m, at 2026-11-28T02:30:00Z",
        "2026-11-28T02:00:00Z     2s",
        "2026-11-28T02:30:00Z    10m  ########################################",
        "2026-11-28T03:00:00Z      -  no metric: nothing ran, or it could not put one",
        "2026-11-28T03:30:00Z     0s",
    ]
    assert as_json(FOUND) == {
        "step_seconds": 1800.0,
        "lags": [
            {"at": "2026-11-28T02:00:00+00:00", "seconds": 2.0},
            {"at": "2026-11-28T02:30:00+00:00", "seconds": 600.0},
            {"at": "2026-11-28T03:00:00+00:00", "seconds": None},
            {"at": "2026-11-28T03:30:00+00:00", "seconds": 0.0},
        ],
    }


def test_an_application_that_never_lagged_has_no_bars() -> None:
    never = LagOverTime(HOUR, ((NIGHT, timedelta(0)),))
    assert list(lines_of(never, "orders-audit", DAY))[1:] == ["2026-11-28T02:00:00Z     0s"]


@pytest.mark.parametrize(
    ("of", "why"),
    [
        ("orders-audit", "an application puts it unless monitoring=none"),
        ("shardId-3 of orders-audit", "with monitoring=full, one of several streams has metrics of its own"),
    ],
)
def test_nothing_found_says_which_setting_puts_the_metric(of: str, why: str) -> None:
    head, reason = lines_of(lag_over_time({}, MINUTE), of, 6 * HOUR, is_of_part=" of " in of)
    assert head == f"CloudWatch has no lag of {of} in the last 6h"
    assert reason.startswith(why)
