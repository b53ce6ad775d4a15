"""`make alarms`: a healthy month in each way of running, and every story from every minute between two ticks."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

from sublet_cdk.alarm_pace import MINUTE

from tests.alarms.healthy import days
from tests.alarms.stories import EACH_HOUR, STORIES, WAYS, Way, tell

DAYS = 30
PHASES_MAX = 12
"""Of an hour, every five minutes."""


def main() -> int:
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        stories = [(story, way, phase) for story, way in product(STORIES, WAYS) for phase in _phases(way)]
        failed = [line for line in pool.map(_story, stories) if line]
        print(f"{len(stories)} stories", flush=True)
        for way, line in zip(WAYS, pool.map(_month, WAYS), strict=True):
            print(f"{DAYS} healthy days, {way.name}: {line or 'no alarm'}", flush=True)
            failed += [line] if line else []
    print("\n".join(failed))
    return int(bool(failed))


def _phases(way: Way) -> range:
    gap = max(1, way.gap // MINUTE)
    return range(0, gap, gap // PHASES_MAX if way is EACH_HOUR else 1)


def _story(of: tuple[str, Way, int]) -> str:
    story, way, phase = of
    told = tell(story, way, phase)
    # A tick that finds nothing waiting in the shards that a limit leaves over takes an alarm on what lasts a span
    # longer.
    late = told.first is not None and told.first > way.noticed_within + way.pace.span
    return f"{story}, {way.name}, {phase} min after a tick: {told}" if told.silent or told.before or late else ""


def _month(way: Way) -> str:
    on = days(way, DAYS, seed=1)
    return f"{sorted({name for names in on.values() for name in names})} from minute {min(on)}" if on else ""
