"""Every standstill reaches a person in time, and a healthy fleet wakes nobody. `make alarms` has more of both."""

from __future__ import annotations

import pytest

from tests.alarms.healthy import days, first_hours
from tests.alarms.stories import ALWAYS, EACH_FIVE, EACH_HOUR, EACH_MINUTE, STORIES, WAYS, Way, tell
from tests.exploring import explores

SLOW = (pytest.mark.slow, explores, pytest.mark.timeout(400))
"""A continuous day is forty seconds of polls."""

each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)


@each_way
@pytest.mark.parametrize("story", STORIES)
def test_no_shard_stands_still_for_long_without_an_alarm(story: str, way: Way) -> None:
    told = tell(story, way)
    assert told.before == frozenset()
    assert told.silent == ()


@pytest.mark.parametrize("story", STORIES)
def test_each_story_that_stops_a_catch_up_has_an_alarm(story: str) -> None:
    """A continuous fleet runs for hours without executions started by ticks."""
    assert tell(story, EACH_FIVE).names


@pytest.mark.parametrize(
    "way",
    [EACH_FIVE, EACH_HOUR, *(pytest.param(way, marks=SLOW) for way in (EACH_MINUTE, ALWAYS))],
    ids=lambda way: way.name,
)
def test_a_day_of_a_healthy_fleet_raises_none(way: Way) -> None:
    assert days(way, 1) == {}


@each_way
def test_a_first_deployment_raises_none(way: Way) -> None:
    assert first_hours(way) == {}


def test_one_whose_first_tick_the_schedule_brings_would() -> None:
    """Why the deployment prompts the first tick, and why the alarms are created after it."""
    on = first_hours(EACH_HOUR, prompted=False)
    assert {name for names in on.values() for name in names} == {"WorkersGone", "TicksMissing"}
    assert min(on) == 1
