"""Measures the size of the log: bytes that ticks and windows write, as log lines and embedded metrics, per lease and
hour in each mode.

Runs the real log and metrics adapters and the whole engine in memory, ten leases in a worker, a record a second in
each shard, on a clock that jumps: an hour of either mode takes seconds. Lambda's own lines (START, END, REPORT) are
added with their usual length.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from datetime import timedelta
from random import Random

from sublet.aws.log import PowertoolsLog
from sublet.aws.metrics import EmfMetrics
from sublet.decisions.manager.packing import WorkerItem
from sublet.engine.manager.tick import LeaseManager
from sublet.engine.worker.worker import LeaseWorker
from sublet.settings import MetricsByShard, Mode, Settings
from sublet.testing.memory import FakeClock, MemoryDispatcher, MemoryStream, memory_ports
from sublet.testing.turn_taking import TurnTaking

from benchmarks.idle_writes import Idle

LEASES = 10
HOUR = timedelta(hours=1)
LAMBDAS_OWN = 330
"""Bytes of START, END and REPORT of one invocation."""

Modes = Mapping[str, tuple[Mode, timedelta]]
PACES: Modes = {
    "catch_up every 5 min": (Mode.CATCH_UP, timedelta(minutes=5)),
    "catch_up every minute": (Mode.CATCH_UP, timedelta(minutes=1)),
    "continuous": (Mode.CONTINUOUS, timedelta(minutes=1)),
}


def measure() -> dict[str, dict[MetricsByShard, float]]:
    """Bytes per lease and hour, by pace and by which shards have metrics of their own."""
    return {
        name: {by_shard: _an_hour(mode, every, by_shard=by_shard) for by_shard in MetricsByShard}
        for name, (mode, every) in PACES.items()
    }


def report(found: Mapping[str, Mapping[MetricsByShard, float]]) -> bool:
    """Print the table. There is no goal."""
    print(f"log_bytes: kB of log per lease and hour, {LEASES} leases in a worker, a record a second in each")
    for name, found_bytes in found.items():
        figures = ", ".join(f"{by_shard} {size / 1000:,.0f} kB" for by_shard, size in found_bytes.items())
        print(f"  {name:<24}metrics by shard: {figures}")
    return True


def _an_hour(mode: Mode, tick_every: timedelta, *, by_shard: MetricsByShard) -> float:
    settings = Settings(application="measured", stream="measured", mode=mode, worker_count=1)
    clock, lines = FakeClock(), io.StringIO()
    with redirect_stdout(lines):
        # A logger name of its own: Powertools keeps a name's stream.
        stream = MemoryStream(LEASES, clock=clock, name="measured")
        ports = memory_ports(
            stream,
            clock=clock,
            tasks=TurnTaking(clock),
            chance=Random(0),
            metrics=EmfMetrics("measured", by_shard=by_shard),
            log=PowertoolsLog(f"{tick_every} {by_shard} {mode}"),
        )
        dispatcher, worker = MemoryDispatcher(), LeaseWorker(ports, Idle(), settings)
        manager, ends, invocations = LeaseManager(ports, dispatcher, settings), clock.now() + HOUR, 0
        items: list[WorkerItem] = []
        while clock.now() < ends:
            if mode is Mode.CATCH_UP:
                _feed(stream, int(tick_every.total_seconds()))
            manager.tick()
            items = [*items, *dispatcher.take()] if mode is Mode.CONTINUOUS else list(dispatcher.take())
            invocations += 1 + len(items)
            items = [
                worker.run_window(item, f"window-{invocations}", clock.now() + settings.window).item for item in items
            ]
            if mode is Mode.CATCH_UP:
                clock.advance(tick_every)
    return (len(lines.getvalue().encode()) + invocations * LAMBDAS_OWN) / LEASES


def _feed(stream: MemoryStream, records: int) -> None:
    for shard in stream.list_shards():
        for number in range(records):
            stream.put(str(number), b"x" * 100, explicit_hash_key=shard.hash_key_range.starting)
