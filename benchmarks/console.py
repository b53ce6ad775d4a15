"""Measures what a refresh of each of the console's pages costs with 10,000 shards, in seconds of CPU, the client's
included.

Goal: 200 ms for a refresh. A look in the background, which no page waits for, is measured beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.testing.memory import FakeClock

import benchmarks
from tests.doubles.console_client import ConsoleClient
from tests.doubles.console_world import ConsoleWorld

SHARDS = 10_000
OWNERS = 200
ROUNDS = benchmarks.rounds(9)
GOAL_SECONDS = 0.2

PAGES = {
    "shards, worst first": "/a/orders",
    "shards by owner, the last page": "/a/orders?sort=owner&page=100",
    "shards, searched": "/a/orders?q=worker-17",
    "workers": "/a/orders/workers",
    "hash keys": "/a/orders/hash-keys",
    "one shard": f"/a/orders/shards/shardId-{SHARDS // 2:012}",
}


@dataclass(frozen=True, slots=True)
class PageCost:
    """`seconds`: the median of the refreshes. `size`: of the reply, in bytes."""

    page: str
    seconds: float
    size: int


def world() -> ConsoleWorld:
    """Looked at once. Its stream is not asked, so that only the console itself is measured."""
    made = ConsoleWorld(shards=1)
    orders, part = made.orders, (HASH_KEY_MAX + 1) // SHARDS
    for number in range(SHARDS):
        keys = HashKeyRange(number * part, (number + 1) * part - 1)
        lease = Lease(
            f"shardId-{number:012}",
            Checkpoint(f"{number + 1}"),
            1,
            f"worker-{number % OWNERS}",
            hash_key_range=keys,
            throughput_kbps=float(number % 97),
        )
        orders.table.put_row(encode_row(lease))
    orders.opened = replace(orders.opened, stream=None)
    return made


def measure() -> list[PageCost]:
    made = world()
    client = ConsoleClient(made)
    made.console.watching.look("orders")
    costs = [_cost(name, partial(_refresh, client, path)) for name, path in PAGES.items()]

    def look() -> bytes:
        assert isinstance(made.clock, FakeClock)
        made.console.watching.look("orders")
        return b""

    look_cost = _cost("a look in the background", look)
    made.console.watching.stop()
    return [*costs, look_cost]


def _refresh(client: ConsoleClient, path: str) -> bytes:
    content: bytes = client.get(path, **{"X-Sublet-Live": "1"}).content
    return content


def _cost(name: str, ask: Callable[[], bytes]) -> PageCost:
    ask()
    taken, size = [], 0
    for _ in range(ROUNDS):
        began = time.process_time()
        size = len(ask())
        taken.append(time.process_time() - began)
    return PageCost(name, median(taken), size)


def report(costs: list[PageCost]) -> bool:
    print(f"The console with {SHARDS:,} shards, medians of {ROUNDS}")
    for cost in costs:
        print(f"  {cost.page:<32} {1000 * cost.seconds:7.1f} ms of CPU {cost.size / 1000:8.1f} kB")
    worst = max(cost.seconds for cost in costs[:-1])
    met = worst < GOAL_SECONDS
    print(
        f"  the slowest refresh: {1000 * worst:.0f} ms, goal {1000 * GOAL_SECONDS:.0f} ms: {'met' if met else 'MISSED'}"
    )
    return met
