"""Measures what a tick over 1,000 quiet shards costs: CPU seconds, compared with a bare boto3 loop that only makes the
same GetRecords; calls and units at the wire; and what a month of such ticks costs.

The tick scans both tables and plans as well. It has run once before, so that it has an iterator for each shard; `first`
is the tick before. `SHARDS=100 TURNS=3` for a short run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, NamedTuple

import boto3
from botocore.config import Config
from sublet.decisions.manager.quiet_shards import ASKED_AT_MOST_EVERY
from sublet.engine.manager.quiet_probing import BOUNDS
from sublet.operate.rules.prices import quiet_month
from sublet.settings import Mode
from sublet.testing.memory import FakeClock

from benchmarks import large_stream_server
from benchmarks.large_stream_server import ITERATOR, QUIET
from benchmarks.limits import counts_of, manager_of
from benchmarks.peers import ROOT
from infra.local.embedded import HOST, REGION, free_ports
from infra.local.server import running

SHARDS = int(os.environ.get("SHARDS", "1000"))
TURNS = int(os.environ.get("TURNS", "7"))
GOAL = 1.3
GOAL_DOLLARS = {100: 3.0, 1_000: 20.0}


class Cost(NamedTuple):
    cpu_seconds: float
    seconds: float
    calls: dict[str, float]


class Found(NamedTuple):
    first: Cost
    ticks: list[Cost]
    bare: list[Cost]


def measure() -> Found:
    [port] = free_ports(1)
    url = f"http://{HOST}:{port}"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "layers/sublet/python")])
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "PYTHONPATH": paths}
    command = [sys.executable, "-m", large_stream_server.__name__, str(port)]
    with running("large-stream-server", command, environment, url):
        clock = FakeClock()
        manager = manager_of(url, f"{QUIET}-{SHARDS}", Mode.CATCH_UP, clock)
        loop = _bare(url)

        def tick() -> None:
            clock.advance(ASKED_AT_MOST_EVERY)
            if found := manager.tick().dispatched:
                raise ValueError(f"{len(found)} workers were sent where nothing waits")

        first = _cost(url, tick)
        loop()
        pairs = [(_cost(url, tick), _cost(url, loop)) for _ in range(TURNS)]
    return Found(first, [ours for ours, _ in pairs], [bare for _, bare in pairs])


def _bare(url: str) -> Callable[[], None]:
    """Makes one GetRecords per shard, in as many threads as a tick has."""
    create: Any = boto3.client
    client = create(
        "kinesis",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 -- our own server
        config=Config(max_pool_connections=BOUNDS.at_once),
    )
    threads = ThreadPoolExecutor(BOUNDS.at_once)

    def poll(_: int) -> None:
        client.get_records(ShardIterator=ITERATOR, Limit=BOUNDS.limit)

    def poll_all() -> None:
        for _ in threads.map(poll, range(SHARDS)):
            pass

    return poll_all


def _cost(url: str, run: Callable[[], None]) -> Cost:
    counts_of(url)
    started, cpu = time.perf_counter(), time.process_time()
    run()
    return Cost(time.process_time() - cpu, time.perf_counter() - started, counts_of(url))


def report(found: Found) -> bool:
    """Print the table; True if the goals are met."""
    ratio = median(ours.cpu_seconds / bare.cpu_seconds for ours, bare in zip(found.ticks, found.bare, strict=True))
    print(f"a tick over {SHARDS:,} quiet shards, medians of {TURNS} in turns")
    for name, costs in (("first", [found.first]), ("tick", found.ticks), ("bare boto3 loop", found.bare)):
        calls = ", ".join(f"{operation} {number:,g}" for operation, number in sorted(costs[-1].calls.items()))
        print(
            f"  {name:<16}CPU {median(each.cpu_seconds for each in costs):.2f} s, "
            f"{median(each.seconds for each in costs):.2f} s; {calls}"
        )
    print(f"  {ratio:.2f} times the bare loop's CPU   goal {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}")
    months = {shards: quiet_month(shards) for shards in GOAL_DOLLARS}
    for shards, month in months.items():
        is_met = month.total <= GOAL_DOLLARS[shards]
        print(
            f"  {shards:,} idle shards, a tick each minute: ${month.total:.2f} a month   "
            f"goal {GOAL_DOLLARS[shards]:g}: {'met' if is_met else 'MISSED'}   {month}"
        )
    return ratio <= GOAL and all(months[shards].total <= most for shards, most in GOAL_DOLLARS.items())
