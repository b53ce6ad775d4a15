"""The evaluation, by the tables of CloudWatch's guide and what follows from them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sublet_cdk.alarm_kinds import Alarm, Figure, Missing, Source

from tests.alarms.cloudwatch import LATE_MINUTES, Recorded, calculate, is_on, judge

THREE_OF_THREE = Alarm(
    "Alarm", {"figure": Figure("m", "Sum")}, minutes=1, periods=3, when="it does", then="Do.", points=3
)
X, O = 1.0, 0.0  # noqa: E741 - as the guide writes them
M = None


@pytest.mark.parametrize(
    ("points", "if_breaching", "if_not"),
    [
        ((O, M, X, M, X), False, False),
        ((O, M, M, M, M), False, False),
        ((M, M, M, M, M), True, False),
        ((O, X, X, M, X), True, True),
        ((M, M, X, M, M), True, False),
        ((M, M, M, M, X), True, False),
    ],
)
def test_three_of_three_as_in_the_guide(points: tuple[float | None, ...], if_breaching: bool, if_not: bool) -> None:
    assert judge(replace(THREE_OF_THREE, missing=Missing.BREACHING), points) == if_breaching
    assert judge(replace(THREE_OF_THREE, missing=Missing.NOT_BREACHING), points) == if_not


@pytest.mark.parametrize(
    ("points", "if_breaching", "if_not"),
    [((O, M, X, M, X), True, True), ((O, M, X, M, M), True, False), ((M, M, M, M, X), True, False)],
)
def test_alarm_of_two_points_in_three_fires_as_in_the_guide(
    points: tuple[float | None, ...], if_breaching: bool, if_not: bool
) -> None:
    alarm = replace(THREE_OF_THREE, points=2)
    assert judge(replace(alarm, missing=Missing.BREACHING), points) == if_breaching
    assert judge(replace(alarm, missing=Missing.NOT_BREACHING), points) == if_not


def silence_of(alarm: Alarm) -> int:
    """How many minutes after the last data it is on."""
    recorded, last = Recorded(), 60
    for minute in range(last + 1):
        recorded.put(Source.APPLICATION, "m", minute, 1)
    return next(now for now in range(last + 1, 200) if is_on(alarm, recorded, now)) - (last + 1)


def test_missing_data_taken_for_bad_comes_later_than_filled_with_zero() -> None:
    """This is why alarms on silence use metric math."""
    plain = replace(THREE_OF_THREE, minutes=5, periods=2, points=2, below=True, missing=Missing.BREACHING)
    assert silence_of(plain) == 5 * (2 + 2) - LATE_MINUTES + 1
    assert silence_of(replace(plain, expression="FILL(figure, 0)")) == 5 * 2


def test_a_window_slides_by_the_minute_and_figures_come_late() -> None:
    alarm = replace(THREE_OF_THREE, minutes=5, periods=1, points=1)
    recorded = Recorded()
    recorded.put(Source.APPLICATION, "m", 7, 1)
    assert next(now for now in range(30) if is_on(alarm, recorded, now)) == 7 + 1 + LATE_MINUTES


@pytest.mark.parametrize(
    ("expression", "figures", "value"),
    [
        ("shards - leases", {"shards": 3, "leases": 1}, 2),
        ("shards - leases", {"shards": 3, "leases": None}, None),
        ("IF(busiest > 6, busiest / average, 0)", {"busiest": 8, "average": 2}, 4),
        ("IF(busiest > 6, busiest / average, 0)", {"busiest": 5, "average": 2}, 0),
        ("FILL(figure, 0)", {"figure": None}, 0),
    ],
)
def test_metric_math(expression: str, figures: dict[str, float | None], value: float | None) -> None:
    assert calculate(expression, figures) == value
