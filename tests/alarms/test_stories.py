"""Every standstill fires an alarm in time, and a healthy fleet fires none. `make alarms` has more of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.alarms.healthy import days, first_hours
from tests.alarms.stories import ALWAYS, EACH_FIVE, EACH_HOUR, EACH_MINUTE, STORIES, WAYS, Way, cell, tell
from tests.exploring import explores

ROOT = Path(__file__).parents[2]
SLOW = (pytest.mark.slow, explores, pytest.mark.timeout(400))
"""A continuous day is forty seconds of polls."""

each_way = pytest.mark.parametrize(
    "way",
    [pytest.param(way, marks=() if way in (EACH_FIVE, ALWAYS) else explores) for way in WAYS],
    ids=lambda way: way.name,
)


@each_way
@pytest.mark.parametrize("story", STORIES)
def test_no_shard_stands_still_for_long_without_an_alarm(story: str, way: Way) -> None:
    """And docs/operations.md says which alarm is on, after how many minutes."""
    told = tell(story, way)
    assert told.before == frozenset()
    assert told.silent == ()
    assert documented()[story][WAYS.index(way)] == cell(story, way), "run: python -m docs.tables"


def test_the_documented_stories_are_these() -> None:
    """A catch-up that stops always has an alarm. A continuous fleet runs for hours without executions started by
    ticks."""
    assert list(documented()) == ["what happens", "---", *STORIES]
    assert documented()["what happens"] == [way.name for way in WAYS]
    caught_up = [documented()[story][WAYS.index(EACH_FIVE)] for story in STORIES]
    assert all(" min: `" in found for found in caught_up)


@cache
def documented() -> Mapping[str, Sequence[str]]:
    """The table's rows by their first column."""
    _, _, rest = (ROOT / "docs/operations.md").read_text().partition("<!-- stories -->\n")
    table, _, _ = rest.partition("\n<!-- /stories -->")
    rows = ([part.strip() for part in line.strip("|").split("|")] for line in table.splitlines())
    return {first: cells for first, *cells in rows}


@pytest.mark.parametrize(
    "way",
    [EACH_HOUR, *(pytest.param(way, marks=SLOW) for way in (EACH_FIVE, EACH_MINUTE, ALWAYS))],
    ids=lambda way: way.name,
)
def test_healthy_fleet_raises_no_alarm_in_a_day(way: Way) -> None:
    assert days(way, 1) == {}


@each_way
def test_first_deployment_raises_no_alarm(way: Way) -> None:
    assert first_hours(way) == {}


def test_alarms_fire_when_the_first_tick_waits_for_the_schedule() -> None:
    """Why the deployment prompts the first tick, and why the alarms are created after it."""
    on = first_hours(EACH_HOUR, prompted=False)
    assert {name for names in on.values() for name in names} == {"WorkersGone", "TicksMissing"}
    assert min(on) == 1
