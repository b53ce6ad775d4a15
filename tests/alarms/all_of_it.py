"""`make alarms`: a healthy month in each way of running, and every story from every minute between two ticks."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

from sublet.settings import MetricsLevel
from sublet_cdk.alarm_pace import MINUTE

from tests.alarms.healthy import days
from tests.alarms.stories import EACH_HOUR, STORIES, WAYS, Way, tell

DAYS = 30
PHASES_MAX = 12
"""Of an hour, every five minutes."""


def main() -> int:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        stories = [(story, way, phase) for story, way in product(STORIES, WAYS) for phase in _phases(way)]
        failed = [line for lines in pool.map(_story, stories) for line in lines]
        print(f"{len(stories)} stories", flush=True)
        for way, line in zip(WAYS, pool.map(_month, WAYS), strict=True):
            print(f"{DAYS} healthy days, {way.name}: {line or 'no alarm'}", flush=True)
            failed += [line] if line else []
    print("\n".join(failed))
    return int(bool(failed))


def _phases(way: Way) -> range:
    gap = max(1, way.gap // MINUTE)
    return range(0, gap, gap // PHASES_MAX if way is EACH_HOUR else 1)


def _story(of: tuple[str, Way, int]) -> list[str]:
    """What is wrong on either level."""
    return [line for level in MetricsLevel if (line := _told(*of, level))]


def _told(story: str, way: Way, phase: int, level: MetricsLevel) -> str:
    told = tell(story, way, phase, level)
    # A tick that finds nothing waiting in the shards that a limit leaves over takes an alarm on what lasts a span
    # longer.
    # Lean does not watch for a handler that is slow and gets on: it promises only that no stall is silent.
    late = level is MetricsLevel.FULL and told.first is not None and told.first > way.noticed_within + way.pace.span
    return (
        f"{story}, {level}, {way.name}, {phase} min after a tick: {told}" if told.silent or told.before or late else ""
    )


def _month(way: Way) -> str:
    fired = days(way, DAYS, seed=1)
    return "; ".join(
        f"{level}: {sorted({name for names in on.values() for name in names})} from minute {min(on)}"
        for level, on in fired.items()
        if on
    )
