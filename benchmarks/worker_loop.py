"""Measures the lease worker over a stream in memory, with a handler that does nothing, compared with a bare loop over
the same pages.

The bare loop only polls and deaggregates. Both keep the pace that Kinesis allows, a poll every 200 ms on a shard: CPU
time is measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from statistics import median
from typing import NamedTuple

from sublet import Batch, Mode, Settings
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.worker.worker import LeaseWorker
from sublet.handlers.batch import HandlerFunctions
from sublet.ports import PollRefusal
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.hash_keys import KeysInside
from sublet.protocol.lease import Lease
from sublet.protocol.shard import FULL_RANGE
from sublet.settings import POLL_LIMIT_MAX
from sublet.system.clock import SystemClock
from sublet.system.heap import collect_seldom
from sublet.testing.memory import MemoryLeaseTable, MemoryStream, memory_ports

import benchmarks
from benchmarks.replay_server import AGGREGATED, PLAIN, SHARDS, aggregates, plain_records

ROUNDS = benchmarks.rounds(21)
GOAL = 0.8
SHARD_ID = "shardId-000000000000"
SETTINGS = Settings(application="benchmark", stream="memory", mode=Mode.CATCH_UP)


class Pace(NamedTuple):
    """Medians, in user records per second of CPU."""

    worker: float
    bare: float


class Counting:
    def __init__(self) -> None:
        self.records = 0

    def handle(self, batch: Batch) -> None:
        self.records += len(batch.records)


def measure() -> dict[str, Pace]:
    """Measures each kind of record, interleaved."""
    thresholds = gc.get_threshold()
    try:
        return {PLAIN: _pace(plain_records), AGGREGATED: _pace(aggregates)}
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def report(paces: dict[str, Pace]) -> bool:
    """Print the table; True if the goal is met."""
    print("worker loop: user records a second of CPU")
    print(f"{'':<12}{'worker':>12}{'bare loop':>12}{'ratio':>8}")
    for name, pace in paces.items():
        ratio = pace.worker / pace.bare
        verdict = "met" if ratio >= GOAL else "MISSED"
        print(f"{name:<12}{pace.worker:>12,.0f}{pace.bare:>12,.0f}{ratio:>8.2f}  goal {GOAL:g}: {verdict}")
    return all(pace.worker / pace.bare >= GOAL for pace in paces.values())


def _pace(records: Callable[[int], Iterator[tuple[str, bytes]]]) -> Pace:
    stream = MemoryStream(clock=SystemClock(), name="memory")
    for shard in range(SHARDS):
        stream.put_all(records(shard))
    collect_seldom()
    taken: dict[Callable[[MemoryStream], int], list[float]] = {_worker: [], _bare: []}
    for _ in range(ROUNDS):
        for consume, rates in taken.items():
            start = time.process_time()
            handled = consume(stream)
            rates.append(handled / (time.process_time() - start))
    return Pace(*map(median, taken.values()))


def _worker(stream: MemoryStream) -> int:
    """One window over a free lease, until it has caught up. Returns how many user records were handled."""
    lease = Lease(SHARD_ID, TRIM_HORIZON, lease_counter=0, hash_key_range=FULL_RANGE)
    ports, handler = memory_ports(stream, MemoryLeaseTable([lease])), Counting()
    worker = LeaseWorker(ports, HandlerFunctions(handler.handle), SETTINGS)
    claim = LeaseClaim(SHARD_ID, lease.lease_owner, lease.lease_counter, ClaimReason.FREE)
    item = WorkerItem("item", "worker", (claim,), windows_left=1)
    deadline = ports.clock.steady() + timedelta(minutes=5)
    cut_off = deadline + SETTINGS.window_margin  # as on Lambda: a call of the handler has a time limit
    [left] = worker.run_window(item, "invocation", deadline, cut_off=cut_off).leases
    assert left.outcome is SessionOutcome.CAUGHT_UP, left
    return handler.records


def _bare(stream: MemoryStream) -> int:
    handled = 0
    iterator = stream.open(SHARD_ID, ReadPosition(IteratorType.TRIM_HORIZON))
    while True:
        reply = stream.poll(iterator, POLL_LIMIT_MAX)
        assert not isinstance(reply, PollRefusal), reply
        page = reply.page
        if not page.records or reply.next_iterator is None:
            return handled
        handled += len(deaggregate(page.records, KeysInside(FULL_RANGE)).user_records)
        iterator = reply.next_iterator
        time.sleep(SETTINGS.poll_interval.total_seconds())
