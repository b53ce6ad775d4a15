"""Every standstill fires an alarm in time, and a healthy fleet fires none. `make alarms` has more of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from sublet.settings import MetricsLevel
from sublet_cdk.alarm_kinds import Source

from tests.alarms.fleet import Fleet
from tests.alarms.healthy import a_process_dies, days, first_hours
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
each_level = pytest.mark.parametrize("level", MetricsLevel)
"""Two levels are judged by the same minutes of the same fleet."""


@each_level
@each_way
@pytest.mark.parametrize("story", STORIES)
def test_no_shard_stands_still_for_long_without_an_alarm(story: str, way: Way, level: MetricsLevel) -> None:
    """And docs/alarms.md says which alarm is on, after how many minutes."""
    told = tell(story, way, level=level)
    assert told.before == frozenset()
    assert told.silent == ()
    assert documented(level)[story][WAYS.index(way)] == cell(story, way, level), "run: python -m docs.tables"


@each_level
def test_the_documented_stories_are_these(level: MetricsLevel) -> None:
    """A catch-up that stops always has an alarm. A continuous fleet runs for hours without executions started by
    ticks."""
    assert list(documented(level)) == ["what happens", "---", *STORIES]
    assert documented(level)["what happens"] == [way.name for way in WAYS]
    caught_up = [documented(level)[story][WAYS.index(EACH_FIVE)] for story in STORIES]
    assert all(" min: `" in found for found in caught_up)


MARKS = {MetricsLevel.FULL: "stories", MetricsLevel.LEAN: "stories of lean"}


@cache
def documented(level: MetricsLevel) -> Mapping[str, Sequence[str]]:
    """The table's rows by their first column."""
    mark = MARKS[level]
    _, _, rest = (ROOT / "docs/alarms.md").read_text().partition(f"<!-- {mark} -->\n")
    table, _, _ = rest.partition(f"\n<!-- /{mark} -->")
    rows = ([part.strip() for part in line.strip("|").split("|")] for line in table.splitlines())
    return {first: cells for first, *cells in rows}


@pytest.mark.parametrize(
    "way",
    [EACH_HOUR, *(pytest.param(way, marks=SLOW) for way in (EACH_FIVE, EACH_MINUTE, ALWAYS))],
    ids=lambda way: way.name,
)
def test_healthy_fleet_raises_no_alarm_in_a_day(way: Way) -> None:
    assert days(way, 1) == {level: {} for level in MetricsLevel}


def test_process_that_dies_leaves_those_beside_it_alone() -> None:
    fleet = Fleet(replace(ALWAYS.settings, leases_per_worker=2), ALWAYS.gap, shards=4)
    fleet.run(5, lambda _: fleet.produce())
    a_process_dies(fleet, Random(0))
    fleet.run(20, lambda _: fleet.produce())
    errors = fleet.recorded[MetricsLevel.FULL].series[Source.WORKER, "Errors", None]
    assert sum(bucket.total for bucket in errors.buckets) == 1


@each_level
@each_way
def test_first_deployment_raises_no_alarm(way: Way, level: MetricsLevel) -> None:
    assert first_hours(way, level) == {}


def test_alarms_fire_when_the_first_tick_waits_for_the_schedule() -> None:
    """Why the deployment prompts the first tick, and why the alarms are created after it."""
    for level, silence in ((MetricsLevel.FULL, {"WorkersGone", "TicksMissing"}), (MetricsLevel.LEAN, {"TicksMissing"})):
        on = first_hours(EACH_HOUR, level, prompted=False)
        assert {name for names in on.values() for name in names} == silence
        assert min(on) == 1
