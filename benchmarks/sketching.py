"""Measures what a sketch costs a lease worker: CPU of the worker loop with sketches and without, in interleaved pairs,
over a stream in memory and with a handler that does nothing. `PAIRS=9` for a short run.

Pages of 10,000 records are those of a worker that catches up, pages of 200 those of one at the tip of a shard that is
full: it polls five times a second.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, count
from statistics import median
from typing import NamedTuple

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import Claim, WorkerItem
from sublet.decisions.session.window import Outcome
from sublet.engine.worker.worker import LeaseWorker
from sublet.ports import Signal
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.shard import FULL_RANGE
from sublet.settings import Mode, Settings
from sublet.system.clock import SystemClock
from sublet.system.garbage_collection import collect_seldom
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryLeaseTable, MemoryStream, memory_ports

from benchmarks.replay_server import AGGREGATED, PLAIN, SHARDS, Record, aggregates, plain_records
from benchmarks.worker_loop import Counting

PAIRS = int(os.environ.get("PAIRS", "21"))
GOAL = 0.02
TIMES = 50
ARRIVE_EVERY = timedelta(milliseconds=1)
"""The pause between arrivals: as many records as a shard takes, so that a page of 200 is of one second, or of two."""
SHARD_ID = "shardId-000000000000"
SHAPES: dict[tuple[str, int], Callable[[], Iterator[Record]]] = {
    (PLAIN, 10_000): lambda: plain_records(0),
    (PLAIN, 200): lambda: chain.from_iterable(map(plain_records, range(SHARDS))),
    (AGGREGATED, 10_000): lambda: aggregates(0),
}
"""What makes the records, by their kind and the most stream records of a page."""


class Cost(NamedTuple):
    """The cost as a part of the CPU without sketches: the median of the pairs, and the interval that has it in 19 of 20
    cases.
    """

    median: float
    least: float
    most: float


def measure() -> dict[tuple[str, int], Cost]:
    thresholds = gc.get_threshold()
    try:
        return {shape: _cost(make, shape[1]) for shape, make in SHAPES.items()}
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def report(costs: dict[tuple[str, int], Cost]) -> bool:
    """Print the table; True if the goal is met."""
    print(f"a sketch's share of the worker loop's CPU, {PAIRS} interleaved pairs:")
    for (name, page), cost in costs.items():
        verdict = "met" if cost.median <= GOAL else "MISSED"
        interval = f"{cost.least:+.1%} to {cost.most:+.1%}"
        print(f"{name:<12}{page:>7,} a page{cost.median:>8.1%}  ({interval})  goal {GOAL:.0%}: {verdict}")
    return all(cost.median <= GOAL for cost in costs.values())


class FastClock:
    """The Clock port, many times as fast: a worker's pauses between polls take no time and no CPU."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self.began = self._real.steady()

    def steady(self) -> datetime:
        return self.began + (self._real.steady() - self.began) * TIMES

    now = steady


@dataclass(frozen=True, slots=True)
class FastSignal:
    """The Signal port by that clock."""

    real: Signal

    def set(self) -> None:
        self.real.set()

    def is_set(self) -> bool:
        return self.real.is_set()

    def wait(self, timeout: timedelta) -> bool:
        return self.real.wait(timeout / TIMES)

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self.real.on_set(callback)


class FastTasks:
    """The Tasks port by that clock."""

    def __init__(self) -> None:
        self._real = ThreadTasks()
        self.spawn, self.lock, self.slots = self._real.spawn, self._real.lock, self._real.slots

    def signal(self) -> Signal:
        return FastSignal(self._real.signal())


def _cost(make: Callable[[], Iterator[Record]], page: int) -> Cost:
    clock = FastClock()
    arrivals = count()
    stream = MemoryStream(
        clock=clock, name="memory", stamp=lambda at: at + next(arrivals) * ARRIVE_EVERY - (at - clock.began)
    )
    stream.put_all(make())
    collect_seldom()
    ratios = []
    for pair in range(PAIRS):
        first, second = (_cpu(stream, clock, page, sketches=bool((pair + turn) % 2)) for turn in range(2))
        without, with_sketch = (second, first) if pair % 2 else (first, second)
        ratios.append(with_sketch / without - 1)
    return Cost(median(ratios), *_interval(sorted(ratios)))


def _interval(ratios: list[float]) -> tuple[float, float]:
    """Returns the median's interval by order: the ranks n/2 -+ 0.98 sqrt(n)."""
    away = round(0.98 * len(ratios) ** 0.5)
    middle = len(ratios) // 2
    return ratios[max(0, middle - away)], ratios[min(len(ratios) - 1, middle + away)]


def _cpu(stream: MemoryStream, clock: FastClock, page: int, *, sketches: bool) -> float:
    """Seconds of one window over all of it."""
    settings = Settings(application="benchmark", stream="memory", mode=Mode.CATCH_UP, poll_limit=page)
    lease = Lease(SHARD_ID, TRIM_HORIZON, lease_counter=0, hash_key_range=FULL_RANGE)
    ports = memory_ports(stream, MemoryLeaseTable([lease]), clock=clock, tasks=FastTasks())
    if not sketches:
        ports = replace(ports, sketches=None)
    worker = LeaseWorker(ports, Counting(), settings)
    claim = Claim(SHARD_ID, lease.lease_owner, lease.lease_counter, ClaimReason.FREE)
    item = WorkerItem("item", "worker", (claim,), windows_left=1)
    deadline = ports.clock.steady() + timedelta(hours=2)
    start = time.process_time()
    [left] = worker.run_window(item, "invocation", deadline, cut_off=deadline + settings.window_margin).leases
    assert left.outcome is Outcome.CAUGHT_UP, left
    return time.process_time() - start
