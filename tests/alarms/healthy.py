"""Models a healthy fleet under normal events: deployments, reshards, quiet nights, transient faults.

Beside shards with a record in each minute of the day, it has one that never gets any, one that gets some after an
hour to twenty days, and one that a KCL worker holds, which gets as few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from sublet.errors import LeaseTableUnavailable, StreamUnavailable
from sublet.handler import Batch
from sublet.ports import PollRefusal
from sublet.protocol.lease_writes import LeaseWrite
from sublet.settings import MetricsLevel
from sublet_cdk.alarm_kinds import Missing

from tests.alarms.cloudwatch import LATE_MINUTES, RETRIEVED_BEYOND
from tests.alarms.fleet import Fleet
from tests.alarms.foreign import ForeignOwner
from tests.alarms.stories import Way, alarms_on
from tests.doubles.engine_world import MINUTE, Result

HOUR = 60
DAY = 24 * HOUR
EVENING = 20 * HOUR
SELDOM = ("shardId-000000000003", "shardId-000000000004")
NEVER = "shardId-000000000005"
WAKING_UP = 30
"""Minutes of the night that are simulated, before and after the stretch that is skipped."""


class PassingTrouble(Exception):
    """Raised by a handler once in a while."""


def days(way: Way, count: int, seed: int = 0) -> Mapping[MetricsLevel, Mapping[int, tuple[str, ...]]]:
    """By level, the minutes in which alarms were on, and which. A day begins at midnight; the first hours are not
    judged.
    """
    fleet = month(way, count, seed)
    judged = range((way.most_periods() + RETRIEVED_BEYOND) * way.pace.span, fleet.minute())
    return {level: _fired(fleet, way, judged, level) for level in MetricsLevel}


def month(way: Way, count: int, seed: int = 0, *, exports: bool = False) -> Fleet:
    """A healthy fleet after so many days."""
    fleet, chance = Fleet(way.settings, way.gap, shards=6, exports=exports), Random(seed)
    idle = Idle(fleet, Random(seed))
    gap = max(1, way.gap // MINUTE)
    for day in range(count):
        _run_night(fleet, gap)
        trouble = {day * DAY + chance.randrange(9 * HOUR, EVENING): happens for happens in _what_happens(chance)}
        idle.begin()
        fleet.run(day * DAY + EVENING - fleet.minute(), lambda minute: _minute(idle, minute, trouble))  # noqa: B023 - run here
        fleet.run((day + 1) * DAY - fleet.minute())
    return fleet


def _fired(fleet: Fleet, way: Way, judged: range, level: MetricsLevel) -> Mapping[int, tuple[str, ...]]:
    return {minute: names for minute, names in alarms_on(fleet, way, judged, level).items() if names}


def first_hours(way: Way, level: MetricsLevel, *, prompted: bool = True) -> Mapping[int, tuple[str, ...]]:
    """After a first deployment: the minutes in which an alarm was on. EventBridge counts a rate from the rule's
    creation, so without a prompt the first tick comes one gap later; with one, alarms on silence exist once its
    metrics have arrived."""
    fleet, gap = Fleet(way.settings, way.gap), max(1, way.gap // MINUTE)
    fleet.first_tick(timedelta(0) if prompted else way.gap)
    fleet.run(gap + 3 * way.pace.span, lambda minute: fleet.produce() if minute % gap == 0 else None)
    judged = range(_first_figures(fleet, way, level) if prompted else 1, fleet.minute())
    return _fired(fleet, way, judged, level)


def _first_figures(fleet: Fleet, way: Way, level: MetricsLevel) -> int:
    """The minute in which CloudWatch has data of each metric that an alarm needs: what the deployment's check waits
    for."""
    missed = [
        figure for alarm in way.alarms(level) if alarm.missing is Missing.BREACHING for figure in alarm.figures.values()
    ]
    return next(
        minute + LATE_MINUTES
        for minute in range(fleet.minute())
        if all(fleet.recorded[level].datapoint(figure, range(minute)) is not None for figure in missed)
    )


def _run_night(fleet: Fleet, gap: int) -> None:
    """No records arrive from midnight to eight."""
    fleet.run(max(WAKING_UP, 2 * gap))
    fleet.skip(-(-4 * HOUR // gap) * gap)
    fleet.run(8 * HOUR - fleet.minute() % DAY)


@dataclass(slots=True)
class Idle:
    """Which shards get hardly any records, and when the next ones come."""

    fleet: Fleet
    chance: Random
    due: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """In the morning, when there are leases. A KCL worker takes one, because during the skipped night it would
        look dead."""
        if not self.due:
            self.due = {seldom: self._next() for seldom in SELDOM}
        ForeignOwner(self.fleet, shard_id=SELDOM[-1]).start()

    def produce(self) -> None:
        now = self.fleet.minute()
        for shard_id, due in self.due.items():
            if due <= now:
                self.fleet.produce([shard_id])
                self.due[shard_id] = self._next()
        busy = {log.shard_id for log in self.fleet.world.shards.logs}.difference(SELDOM, [NEVER])
        self.fleet.produce(busy)

    def _next(self) -> int:
        return self.fleet.minute() + int(HOUR * (20 * DAY / HOUR) ** self.chance.random())


def _minute(idle: Idle, minute: int, trouble: Mapping[int, Callable[[Fleet, Random], None]]) -> None:
    fleet = idle.fleet
    idle.produce()
    if minute in trouble:
        trouble[minute](fleet, Random(minute))


def _what_happens(chance: Random) -> list[Callable[[Fleet, Random], None]]:
    """A deployment and a reshard a day, and two transient faults."""
    return [reshard, deploy, *chance.sample(PASSING, 2)]


def reshard(fleet: Fleet, chance: Random) -> None:
    """At most six shards, besides the idle ones; beyond that, two adjacent ones are merged."""
    busy = (log for log in fleet.world.shards.logs if log.is_open and log.shard_id not in (*SELDOM, NEVER))
    open_logs = sorted(busy, key=lambda log: log.hash_key_range)
    if len(open_logs) < 6:
        fleet.world.shards.split(chance.choice(open_logs).shard_id)
    else:
        place = chance.randrange(len(open_logs) - 1)
        fleet.world.shards.merge(open_logs[place].shard_id, open_logs[place + 1].shard_id)


def deploy(fleet: Fleet, _chance: Random) -> None:
    """The new handler's first call fails: a dependency is a moment late."""
    fails_once(fleet, PassingTrouble("not warm yet"))


def fails_once(fleet: Fleet, failure: Exception) -> None:
    def handle(_batch: Batch) -> None:
        fleet.handles = lambda _: None
        raise failure

    fleet.handles = handle


def handler_fails_once(fleet: Fleet, _chance: Random) -> None:
    fails_once(fleet, PassingTrouble("a database was restarted"))


def a_process_dies(fleet: Fleet, _chance: Random) -> None:
    """Once; its next attempt succeeds."""

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
