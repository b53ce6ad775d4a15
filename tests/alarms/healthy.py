"""A fleet that has nothing wrong with it but what happens to everybody: deployments, reshards, quiet nights, passing faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from sublet.errors import LeaseTableUnavailable, StreamUnavailable
from sublet.handler import Batch
from sublet.ports import PollRefusal
from sublet.protocol.lease_writes import LeaseWrite

from tests.alarms.cloudwatch import RETRIEVED_BEYOND
from tests.alarms.fleet import Fleet
from tests.alarms.stories import Way, alarms_on
from tests.doubles.engine_world import MINUTE, Result

HOUR = 60
DAY = 24 * HOUR
EVENING = 20 * HOUR
WAKING_UP = 30
"""Minutes of the night that are run, before and after the stretch that is skipped."""


class PassingTrouble(Exception):
    """What a handler raises once in a while."""


def days(way: Way, count: int, seed: int = 0) -> Mapping[int, tuple[str, ...]]:
    """The minutes in which an alarm was on, and which. A day begins at midnight, and the first hours are not judged."""
    fleet, chance = Fleet(way.settings, way.gap), Random(seed)
    gap = max(1, way.gap // MINUTE)
    for day in range(count):
        _run_night(fleet, gap)
        trouble = {
            day * DAY + chance.randrange(9 * HOUR, EVENING): happens for happens in _what_happens(chance)
        }
        fleet.run(day * DAY + EVENING - fleet.minute(), lambda minute: _minute(fleet, minute, trouble))  # noqa: B023 - run here
        fleet.run((day + 1) * DAY - fleet.minute())
    judged = range((way.most_periods() + RETRIEVED_BEYOND) * way.pace.span, fleet.minute())
    return {minute: names for minute, names in alarms_on(fleet, way, judged).items() if names}


def _run_night(fleet: Fleet, gap: int) -> None:
    """From midnight to eight nothing arrives."""
    fleet.run(max(WAKING_UP, 2 * gap))
    fleet.skip(-(-4 * HOUR // gap) * gap)
    fleet.run(8 * HOUR - fleet.minute() % DAY)


def _minute(fleet: Fleet, minute: int, trouble: Mapping[int, Callable[[Fleet, Random], None]]) -> None:
    fleet.produce()
    if minute in trouble:
        trouble[minute](fleet, Random(minute))


def _what_happens(chance: Random) -> list[Callable[[Fleet, Random], None]]:
    """A deployment and a reshard a day, and two of the faults that pass."""
    return [reshard, deploy, *chance.sample(PASSING, 2)]


def reshard(fleet: Fleet, chance: Random) -> None:
    """Six shards at most: then two that touch are merged."""
    open_logs = sorted(
        (log for log in fleet.world.shards.logs if log.is_open), key=lambda log: log.hash_key_range
    )
    if len(open_logs) < 6:
        fleet.world.shards.split(chance.choice(open_logs).shard_id)
    else:
        place = chance.randrange(len(open_logs) - 1)
        fleet.world.shards.merge(open_logs[place].shard_id, open_logs[place + 1].shard_id)


def deploy(fleet: Fleet, _chance: Random) -> None:
    """The new handler's first call fails: something it needs is a moment late."""
    fails_once(fleet, PassingTrouble("not warm yet"))


def fails_once(fleet: Fleet, failure: Exception) -> None:
    def handle(_batch: Batch) -> None:
        fleet.handles = lambda _: None
        raise failure

    fleet.handles = handle


def handler_fails_once(fleet: Fleet, _chance: Random) -> None:
    fails_once(fleet, PassingTrouble("a database was restarted"))


def a_process_dies(fleet: Fleet, _chance: Random) -> None:
    """Once; its next attempt is well."""

    def deadly(_batch: Batch) -> bool:
        fleet.broken.deadly = lambda _: False
        return True

    fleet.broken.deadly = deadly


def polls_are_throttled(fleet: Fleet, _chance: Random) -> None:
    """Another consumer catches up, for twenty seconds."""
    _for_seconds(fleet, 20, lambda _: PollRefusal.THROTTLED)


def kinesis_is_away(fleet: Fleet, _chance: Random) -> None:
    def refuse(_poll: object) -> PollRefusal:
        raise StreamUnavailable("no answer")

    _for_seconds(fleet, 20, refuse)


def _for_seconds(fleet: Fleet, seconds: int, answer: Callable[[object], PollRefusal]) -> None:
    until = fleet.world.seconds() + seconds
    fleet.world.stream.disturb = lambda poll: answer(poll) if fleet.world.seconds() < until else poll()


def the_table_is_away(fleet: Fleet, _chance: Random) -> None:
    until = fleet.world.seconds() + 20

    def write(_write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if fleet.world.seconds() < until:
            raise LeaseTableUnavailable("no answer")
        return apply()

    fleet.refuse_writes = write


PASSING = (handler_fails_once, a_process_dies, polls_are_throttled, kinesis_is_away, the_table_is_away)
