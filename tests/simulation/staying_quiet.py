"""Worlds of a catch-up whose producers fall silent: no worker is sent where nothing waits, and a shard that wakes is
handled within a tick. Until the faults stop, replies are throttled, get lost, or are empty pages that lag.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from sublet.settings import Mode
from sublet.testing.simulation.producer_and_operator import Producer, put_number
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND
from sublet.testing.simulation.shard_time import MINUTE
from sublet.testing.simulation.world import World

from tests.simulation.mutations import UNCHANGED, Mutation

WAKINGS = 3
SETTLES_WITHIN = 150 * SECOND
"""Two ticks of the slowest schedule: a worker's visit after the faults."""
LONGEST_TICK = 63 * SECOND
WORKER_TAKES = 20 * SECOND
SENT_IN_VAIN_MAX = 0.34
"""Of the visits that a tick would otherwise make: a new process may have to walk too far to prove that a shard is
quiet.
"""


def stay_quiet(seed: int, *, is_recorded: bool = False, mutation: Mutation = UNCHANGED) -> Result:
    """Run this seed's world to its end, or to the first broken invariant."""
    return play(
        seed,
        is_recorded=is_recorded,
        wiring=replace(mutation, at_the_end=wake_now_and_then),
        idle=True,
        mode=Mode.CATCH_UP,
        quiet_visit_interval=timedelta(hours=12),
    )


def wake_now_and_then(world: World) -> str | None:
    """The wiring's check of a world that has drained."""
    scheduler, producer = world.scheduler, Producer(world, 0, 1, 0, put_number, put=100_000)
    for _ in range(WAKINGS):
        scheduler.run_until(scheduler.now_us + SETTLES_WITHIN)
        is_walkable = world.shard_time.shortest >= MINUTE  # Kinesis' pages cover more than the time between two ticks
        if (problem := _sent_in_vain(world)) and is_walkable:
            return problem
        producer.prepare(records=world.chance.randint(1, 3), reshards=0)
        scheduler.run_until(scheduler.now_us + _handled_within(world))
        if (waiting := _waiting(world)) and not is_walkable:
            world.older = 0  # the previous version walks from the checkpoint: often too far for its window
            scheduler.run_until(scheduler.now_us + _handled_within(world))
            waiting = _waiting(world)
        if waiting and world.violation is None:
            return f"{waiting} woke and was not handled within {_handled_within(world) // SECOND} s"
    return None


def _waiting(world: World) -> list[str]:
    return [shard_id for shard_id, truth in world.ledger.shards.items() if not truth.is_all_done]


def _sent_in_vain(world: World) -> str | None:
    items, ticks = len(world.items), world.ticks
    world.scheduler.run_until(world.scheduler.now_us + int(world.chance.uniform(60, 900)) * SECOND)
    unended = sum(not truth.is_closed for truth in world.ledger.shards.values())
    sent, visits = len(world.items) - items, (world.ticks - ticks) * unended
    if sent > SENT_IN_VAIN_MAX * visits + 1:
        return f"{sent} workers were sent where nothing waits, in {world.ticks - ticks} ticks over {unended} shards"
    return None


def _handled_within(world: World) -> int:
    """A tick, and a worker that may have to walk the time since its last visit, which is at most the world's."""
    pages = world.scheduler.now_us * MICROSECOND / world.shard_time.shortest
    walk = int(pages * (world.settings.poll_interval // MICROSECOND))
    return LONGEST_TICK + WORKER_TAKES + walk
