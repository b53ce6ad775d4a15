"""Stories of standstills. Each says what breaks, which alarms fire, and when.

The table in docs/alarms.md is made from these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial

from sublet.errors import LeaseTableUnavailable, StreamKeyUnavailable
from sublet.handler import Batch
from sublet.ports import PollRefusal
from sublet.settings import MetricsLevel, Mode, Settings
from sublet_cdk.alarm_definitions import alarms, lean_alarms
from sublet_cdk.alarm_kinds import Alarm
from sublet_cdk.alarm_pace import AlarmThresholds, Pace

from tests.alarms.cloudwatch import RETRIEVED_BEYOND, is_on
from tests.alarms.fleet import Fleet
from tests.alarms.foreign import ForeignOwner
from tests.doubles.engine_world import MINUTE, SHARD, raising

CATCH_UP = Settings(application="orders", stream="events", linger=timedelta(0))
CONTINUOUS = replace(CATCH_UP, mode=Mode.CONTINUOUS)
LONG = timedelta(days=30)


@dataclass(frozen=True)
class Way:
    """How a deployment runs."""

    name: str
    settings: Settings
    gap: timedelta

    @property
    def pace(self) -> Pace:
        return Pace(self.gap)

    @property
    def noticed_within(self) -> int:
        return self.pace.noticed_within // MINUTE

    def alarms(self, level: MetricsLevel) -> Sequence[Alarm]:
        of = lean_alarms if level is MetricsLevel.LEAN else alarms
        return of(self.pace, AlarmThresholds(), on_lambda=True)

    def most_periods(self) -> int:
        return max(alarm.periods for level in MetricsLevel for alarm in self.alarms(level))


EACH_MINUTE = Way("a tick each minute", CATCH_UP, MINUTE)
EACH_FIVE = Way("each 5 minutes", CATCH_UP, 5 * MINUTE)
EACH_HOUR = Way("each hour", CATCH_UP, 60 * MINUTE)
ALWAYS = Way("continuous", CONTINUOUS, MINUTE)
WAYS = (EACH_MINUTE, EACH_FIVE, EACH_HOUR, ALWAYS)


def key_disabled(fleet: Fleet) -> None:
    fleet.world.stream.disturb_open = raising(StreamKeyUnavailable("the key is disabled"))
    fleet.world.stream.disturb = raising(StreamKeyUnavailable("the key is disabled"))


def stream_deleted(fleet: Fleet) -> None:
    fleet.world.shards.delete()


def always_throttled(fleet: Fleet) -> None:
    fleet.world.stream.disturb = lambda _: PollRefusal.THROTTLED


def handler_hangs(fleet: Fleet) -> None:
    fleet.handles = on_one_shard(lambda: fleet.world.tasks.sleep(LONG))


def handler_fails(fleet: Fleet) -> None:
    fleet.handles = on_one_shard(raising(ValueError("poison")))


def handler_slow(fleet: Fleet) -> None:
    fleet.handles = lambda _: fleet.world.tasks.sleep(timedelta(seconds=150))


def handler_kills(fleet: Fleet) -> None:
    fleet.broken.deadly = lambda batch: batch.shard_id == SHARD


def on_one_shard(do: Callable[[], object]) -> Callable[[Batch], None]:
    def handle(batch: Batch) -> None:
        if batch.shard_id == SHARD:
            do()

    return handle


def ticks_stop(fleet: Fleet) -> None:
    fleet.broken.ticks = False


def workers_not_started(fleet: Fleet) -> None:
    fleet.broken.can_start = False


def executions_fail(fleet: Fleet) -> None:
    fleet.broken.executions_fail = True


def table_refuses_writes(fleet: Fleet) -> None:
    fleet.refuse_writes = raising(LeaseTableUnavailable("no answer"))


def row_malformed(fleet: Fleet) -> None:
    fleet.world.table.real.put_row({"leaseKey": {"S": SHARD}, "checkpoint": {"S": "nonsense"}})


def one_lease_too_many(fleet: Fleet) -> None:
    for shard_id in (SHARD, "shardId-000000000001"):
        fleet.world.shards.split(shard_id)
    fleet.world.settings = replace(fleet.settings, max_leases_for_worker=2)


def kcl_worker_hangs(fleet: Fleet) -> None:
    ForeignOwner(fleet, hangs=lambda: True).start()


def process_hangs(fleet: Fleet) -> None:
    ForeignOwner(fleet, hangs=lambda: True, is_ours=True).start()


STORIES: Mapping[str, Callable[[Fleet], None]] = {
    "the stream's KMS key is disabled, or a permission is missing": key_disabled,
    "the stream is deleted": stream_deleted,
    "every poll is throttled": always_throttled,
    "the handler hangs on one shard, and the others are healthy": handler_hangs,
    "the handler raises on one shard": handler_fails,
    "a KCL worker on the same table heartbeats and hangs": kcl_worker_hangs,
    "so does a process of this application whose metrics are not collected": process_hangs,
    "the handler takes 2.5 minutes for each batch of every shard": handler_slow,
    "one shard's records kill the handler's process": handler_kills,
    "the schedule is disabled": ticks_stop,
    "Lambda does not start workers": workers_not_started,
    "executions fail": executions_fail,
    "the lease table refuses writes": table_refuses_writes,
    "one row is malformed": row_malformed,
    "a limit leaves shards without an owner": one_lease_too_many,
}


FULL, LEAN = MetricsLevel.FULL, MetricsLevel.LEAN


@dataclass(frozen=True)
class Told:
    """A story's result. `first`: minutes until the first alarm, and those that were on then.

    silent   minutes in which a shard had stood still for too long without an alarm
    """

    first: int | None
    names: tuple[str, ...]
    silent: tuple[int, ...]
    before: frozenset[str]
    """Alarms that were on before anything broke."""


@cache
def lived(story: str, way: Way, after_tick: int) -> tuple[Fleet, range, int]:
    """The fleet, the minutes that are judged, and the one in which it broke."""
    fleet = Fleet(way.settings, way.gap, exports=True)
    gap = max(1, way.gap // MINUTE)
    history = (way.most_periods() + RETRIEVED_BEYOND) * way.pace.span
    healthy, broken = -(-history // gap) * gap + after_tick % gap, way.noticed_within + 3 * way.pace.span

    def produce(minute: int) -> None:
        if minute % max(1, gap // 5) == 0:
            fleet.produce()

    fleet.run(healthy, produce)
    broke_at = fleet.minute()
    STORIES[story](fleet)
    fleet.run(broken, produce)
    return fleet, range(history, broke_at + broken + 1), broke_at


@cache
def tell(story: str, way: Way, after_tick: int = 1, level: MetricsLevel = FULL) -> Told:
    """`after_tick`: how many minutes after a tick it breaks."""
    fleet, minutes, broke_at = lived(story, way, after_tick)
    on = alarms_on(fleet, way, minutes, level)
    first = next((minute for minute in sorted(on) if minute > broke_at and on[minute]), None)
    return Told(
        None if first is None else first - broke_at,
        () if first is None else on[first],
        silent_minutes(fleet, way, on),
        frozenset(name for minute in on if minute <= broke_at for name in on[minute]),
    )


def alarms_on(fleet: Fleet, way: Way, minutes: range, level: MetricsLevel = FULL) -> Mapping[int, tuple[str, ...]]:
    """By minute, the names of the alarms that are on."""
    defined, recorded = way.alarms(level), fleet.recorded[level]
    return {minute: tuple(alarm.name for alarm in defined if is_on(alarm, recorded, minute)) for minute in minutes}


def silent_minutes(fleet: Fleet, way: Way, on: Mapping[int, Sequence[str]]) -> tuple[int, ...]:
    return tuple(
        sorted(
            {
                minute
                for seen in fleet.stalled.values()
                for minute, since in seen
                if minute - since > way.noticed_within and minute in on and not on[minute]
            }
        )
    )


def rows(level: MetricsLevel = FULL, ways: Sequence[Way] = WAYS) -> list[tuple[str, ...]]:
    """The table's rows: the story, and for each way of running the first alarms and after how many minutes they are
    on."""
    return [(story, *map(partial(cell, story, level=level), ways)) for story in STORIES]


def cell(story: str, way: Way, level: MetricsLevel = FULL) -> str:
    told = tell(story, way, level=level)
    names = ", ".join(f"`{name}`" for name in told.names)
    return f"{told.first} min: {names}" if told.names else "no shard is stalled yet"
