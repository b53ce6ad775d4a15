"""Measures what a tick's decisions cost on 1,000 and on 10,000 leases and shards, in seconds of CPU.

Goals: less than a second in total at 10,000, and linear growth. Ten times the leases should cost ten times as much;
sorting makes that 13, and a snapshot that no longer fits in the CPU's cache about 16. Anything quadratic would cost
100 times as much.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median

from sublet.decisions.manager.choose_leases import choose_leases
from sublet.decisions.manager.hash_range_audit import holes
from sublet.decisions.manager.lease_cleanup import plan_lease_cleanup
from sublet.decisions.manager.liveness import observe
from sublet.decisions.manager.packing import executions, pack
from sublet.decisions.manager.shard_sync import plan_shard_sync
from sublet.decisions.manager.tick_plan import Look, plan_tick
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange, Shard
from sublet.settings import Mode, Settings, StartKind, StartPosition

FEW = 1_000
MANY = 10_000
REPETITIONS = 9
GOAL_SECONDS = 1.0
GOAL_GROWTH = 25.0
NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
SETTINGS = Settings(
    application="app",
    stream="stream",
    mode=Mode.CONTINUOUS,
    start_position=StartPosition(StartKind.LATEST),
    worker_count=4,
    leases_to_acquire=10_000,
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians, in seconds of CPU."""

    decision: str
    few: float
    many: float

    @property
    def growth(self) -> float:
        return self.many / self.few


def measure() -> list[Cost]:
    """The cost of each decision; the whole tick last."""
    few, many = _decisions(_look(FEW)), _decisions(_look(MANY))
    return [Cost(name, _seconds(few[name]), _seconds(many[name])) for name in many]


def report(costs: list[Cost]) -> bool:
    """Print the table; True if the goals are met."""
    print(f"decisions: seconds of CPU, medians of {REPETITIONS}")
    print(f"{'':<24}{FEW:>10,}{MANY:>10,}    growth")
    for cost in costs:
        print(f"{cost.decision:<24}{cost.few:>10.4f}{cost.many:>10.4f}{cost.growth:>9.1f}x")
    whole = costs[-1]
    met = whole.many < GOAL_SECONDS and whole.growth < GOAL_GROWTH
    print(f"goal: under {GOAL_SECONDS:g} s and {GOAL_GROWTH:g}x: {'met' if met else 'MISSED'}")
    return met


def _look(size: int) -> Look:
    """A stream amid a reshard: every third shard has split in two; a tenth of the children have no lease yet.

    Of the others, a third is free, a third has a live owner, and a third has lost its owner.
    """
    parents = size // 3
    width = (HASH_KEY_MAX + 1) // parents
    shards: list[Shard] = []
    for n in range(parents):
        left, right = n * width, HASH_KEY_MAX if n == parents - 1 else (n + 1) * width - 1
        middle = (left + right) // 2
        parent = f"shardId-{n:012}"
        shards.append(Shard(parent, HashKeyRange(left, right), None, None, str(n), is_open=False))
        for side, keys in enumerate((HashKeyRange(left, middle), HashKeyRange(middle + 1, right))):
            number = parents + 2 * n + side
            shards.append(Shard(f"shardId-{number:012}", keys, parent, None, str(number)))
    leases = tuple(lease for n, shard in enumerate(shards) if (lease := _lease(n, shard)) is not None)
    long_ago = NOW - timedelta(minutes=1)
    seen = observe({}, leases, long_ago)
    moved = tuple(replace(lease, lease_counter=8) if n % 3 else lease for n, lease in enumerate(leases))
    return Look(LeaseScan(moved), shards, seen, NOW)


def _lease(number: int, shard: Shard) -> Lease | None:
    if shard.is_open and number % 10 == 0:
        return None
    return Lease(
        shard.shard_id,
        Checkpoint("5") if shard.is_open else SHARD_END,
        lease_counter=7,
        lease_owner=None if number % 3 == 0 else f"w{number % 7}",
        parent_shard_ids=shard.parent_shard_ids,
        hash_key_range=shard.hash_key_range,
    )


def _decisions(look: Look) -> dict[str, Callable[[], object]]:
    leases, shards = look.scan.leases, look.shards
    sightings = observe(look.sightings, leases, NOW)
    ids = SETTINGS.own_worker_ids
    choices = choose_leases(leases, sightings, NOW, Random(7), SETTINGS, ids).choices
    return {
        "liveness": lambda: observe(look.sightings, leases, NOW),
        "shard sync": lambda: plan_shard_sync(leases, (), shards, SETTINGS.start_position),
        "lease cleanup": lambda: plan_lease_cleanup(leases, shards),
        "hash range audit": lambda: holes(leases, shards),
        "choosing leases": lambda: choose_leases(leases, sightings, NOW, Random(7), SETTINGS, ids),
        "packing": lambda: executions(pack(choices, SETTINGS, Random(7))),
        "all of a tick": lambda: plan_tick(look, Random(7), SETTINGS),
    }


def _seconds(decide: Callable[[], object]) -> float:
    """Measures without the garbage collector, as timeit does: it would walk the snapshot at arbitrary moments."""

    def once() -> float:
        start = time.process_time()
        decide()
        return time.process_time() - start

    gc.disable()
    try:
        return median(once() for _ in range(REPETITIONS))
    finally:
        gc.enable()


if __name__ == "__main__":
    raise SystemExit(not report(measure()))
