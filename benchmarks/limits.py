"""Measures one tick over 1,000 and over 10,000 shards and leases, through boto3 and HTTP: time, memory, calls and read
units.

`first` finds an empty table and creates every lease; `continuous` finds each lease held and alive; `catch_up` finds
each free, and starts workers for all of them; `quiet` finds each free and read to the tip, asks Kinesis about each,
and starts none. Each runs in a process of its own, and has ticked once before (except `first`). The services' page
sizes are real, their answers immediate; a real service adds its latency to each of the calls, one after another.

Goals at 10,000: within the tick's own minute and Lambda's 512 MB, linear growth, and a second of CPU for `continuous`
and `catch_up`.
"""

from __future__ import annotations

import json
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import boto3
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.stepfunctions import StepFunctionsDispatcher
from sublet.aws.tables.lease_table import DynamoDbLeaseTable
from sublet.aws.tables.sightings import DynamoDbSightingStore
from sublet.decisions.manager.dispatching import WORKER_STARTS_WITHIN
from sublet.decisions.manager.quiet_shards import ASKED_AT_MOST_EVERY
from sublet.engine.manager.tick import LeaseManager
from sublet.settings import Mode, Settings
from sublet.system.heap import collect_seldom
from sublet.testing.memory import FakeClock, memory_ports

import benchmarks
from benchmarks import large_stream_server
from benchmarks.large_stream_server import EMPTY, FREE, HELD, QUIET
from benchmarks.runs import served
from infra.local.embedded import REGION

FEW = 1_000
MANY = 10_000
ROUNDS = benchmarks.rounds(7)
FIRST = "first"
TICKS = {FIRST: EMPTY, "continuous": HELD, "catch_up": FREE, QUIET: QUIET}
GOAL_SECONDS = 60.0
GOAL_CPU_SECONDS = 1.0
GOAL_MEGABYTES = 512.0
GOAL_GROWTH = 15.0
"""Linear, plus half as much for caches and noise; quadratic would be 100."""
MIB = 2**20


class Tick(NamedTuple):
    """`calls` by operation, with the read and write units that they cost."""

    seconds: float
    cpu_seconds: float
    peak_megabytes: float
    """The peak memory of the whole process, boto3 included."""
    items: int
    calls: dict[str, float]


def measure() -> dict[str, tuple[Tick, Tick]]:
    """Each kind of tick, over few and over many."""
    with served(large_stream_server.__name__) as url:
        return {name: (_alone(url, name, FEW), _alone(url, name, MANY)) for name in TICKS}


def report(ticks: dict[str, tuple[Tick, Tick]]) -> bool:
    """Print the table; True if the goals are met."""
    print(f"limits: one tick over {FEW:,} / {MANY:,} shards and leases")
    for name, (few, many) in ticks.items():
        calls = ", ".join(f"{operation} {number:,g}" for operation, number in sorted(many.calls.items()))
        print(
            f"  {name:<12}{few.seconds:>7.2f} /{many.seconds:>6.2f} s, CPU {few.cpu_seconds:.2f} / "
            f"{many.cpu_seconds:.2f} s, {few.peak_megabytes:.0f} / {many.peak_megabytes:.0f} MB, {many.items:,} "
            f"worker items\n  {'':<12}calls and units at {MANY:,}: {calls}"
        )
    slow = [name for name, (_, many) in ticks.items() if many.seconds > GOAL_SECONDS]
    busy = [name for name in ("continuous", "catch_up") if ticks[name][1].cpu_seconds > GOAL_CPU_SECONDS]
    large = [name for name, (_, many) in ticks.items() if many.peak_megabytes > GOAL_MEGABYTES]
    steep = [name for name, (few, many) in ticks.items() if many.cpu_seconds > few.cpu_seconds * GOAL_GROWTH]
    for goal, missed in (
        (f"within {GOAL_SECONDS:g} s", slow),
        (f"within {GOAL_CPU_SECONDS:g} s of CPU", busy),
        (f"within {GOAL_MEGABYTES:g} MB", large),
        (f"linear (at most {GOAL_GROWTH:g}x the CPU time for 10x the leases)", steep),
    ):
        print(f"goal: {goal}: {'MISSED by ' + ', '.join(missed) if missed else 'met'}")
    return not (slow or busy or large or steep)


def _alone(url: str, name: str, size: int) -> Tick:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_tick, url, name, size).result()


def _tick(url: str, name: str, size: int) -> Tick:
    """Median time, and the calls of the last tick."""
    mode = Mode.CONTINUOUS if name == "continuous" else Mode.CATCH_UP
    clock = FakeClock()
    manager = manager_of(url, f"{TICKS[name]}-{size}", mode, clock)
    if name != FIRST:
        manager.tick()
    seconds, cpu_seconds = [], []
    for _ in range(1 if name == FIRST else ROUNDS):
        counts_of(url)
        if mode is Mode.CATCH_UP:
            clock.advance(max(WORKER_STARTS_WITHIN, ASKED_AT_MOST_EVERY))  # each lease is free, each shard asked about
        started, cpu = time.perf_counter(), time.process_time()
        tick = manager.tick()
        seconds.append(time.perf_counter() - started)
        cpu_seconds.append(time.process_time() - cpu)
    expected = {FIRST: (size, size), "continuous": (0, 0), "catch_up": (0, size), QUIET: (0, 0)}[name]
    claims = sum(len(item.claims) for item in tick.dispatched)
    if (tick.created, claims, tick.total_leases) != (*expected, size):
        raise ValueError(f"{name}: created {tick.created}, dispatched {claims} of {tick.total_leases} leases")
    return Tick(median(seconds), median(cpu_seconds), peak_bytes() / MIB, len(tick.dispatched), counts_of(url))


def manager_of(url: str, name: str, mode: Mode, clock: FakeClock) -> LeaseManager:
    """Makes a lease manager as Lambda's entry point does, except for the log and metrics."""
    settings = Settings(application=name, stream=name, mode=mode, leases_to_acquire=MANY)

    def client(service: str) -> Any:
        create: Any = boto3.client  # its stubs accept literal names only
        return create(
            service,
            endpoint_url=url,
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 -- our own server
        )

    collect_seldom()
    return LeaseManager(
        memory_ports(
            KinesisStream(client("kinesis"), client("kinesis"), settings),
            DynamoDbLeaseTable(client("dynamodb"), settings.lease_table),
            sightings=DynamoDbSightingStore(lambda: client("dynamodb"), settings.sightings_table),
            clock=clock,
        ),
        StepFunctionsDispatcher(client("stepfunctions"), "arn:aws:states:us-east-1:000000000000:stateMachine:large"),
        settings,
    )


def counts_of(url: str) -> dict[str, float]:
    """Returns the counts since the last call."""
    with urllib.request.urlopen(f"{url}/counts") as reply:  # noqa: S310 -- our own server on loopback
        counts: dict[str, float] = json.load(reply)
    return counts


def peak_bytes() -> int:
    """Returns the peak memory of this process alone, if the system provides that: Linux' getrusage includes its
    parent's memory.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        import resource  # noqa: PLC0415 -- not on every system

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024
