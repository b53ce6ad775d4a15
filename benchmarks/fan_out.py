"""Measures the CPU for a MB read by push: 100,000 records of 1 KB in four shards, by whole consumers whose handler does
nothing.

Each run is a new process that reads by enhanced fan-out over HTTP/1.1, from a server that sends what it made
beforehand. Its CPU counts after the first fifth of the records, so that starts, leases and imports are left out.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from statistics import median

import benchmarks
from benchmarks import peers, replay_server
from benchmarks.replay_server import PLAIN, PLAIN_BYTES, PLAIN_RECORDS
from benchmarks.runs import TIMEOUT, Bench, Consumer, bench

ROUNDS = benchmarks.rounds(3)
UNCOUNTED = PLAIN_RECORDS // 5
GOAL = 0.5
"""The goal, as a part of what kcl-rs takes."""

SUBLET = Consumer("sublet", "sublet_run", is_peer=False, environment={"RETRIEVAL": "FANOUT"})
BARE = Consumer("bare loop", "bare", is_peer=False, environment={"READS": "is_pushed_to"})
KCL_RS = Consumer("kcl-rs (Rust)", "kcl_rust", is_peer=True, environment={"RETRIEVAL": "FANOUT"})

Found = Mapping[str, float | None]
"""CPU milliseconds for a MB, by consumer; None: it did not finish."""


def measure() -> Found:
    """Interleaved, so that anything that slows the machine for a while slows all of them."""
    consumers = (BARE, SUBLET, KCL_RS) if peers.PYTHON.exists() else (BARE, SUBLET)
    found: dict[str, list[float | None]] = {each.name: [] for each in consumers}
    with bench(replay_server.__name__) as servers:
        for _ in range(ROUNDS):
            for each in consumers:
                found[each.name].append(_measured(servers, each))
    return {name: _middle(each) for name, each in found.items()}


def report(found: Found) -> bool:
    """Print the table; True if the goal is met."""
    print("pushed to: CPU milliseconds for a MB of records of 1 KB")
    for name, cost in found.items():
        print(f"  {name:<16}{'did not finish' if cost is None else f'{cost:.1f}'}")
    ours, theirs = found[SUBLET.name], found.get(KCL_RS.name)
    if KCL_RS.name not in found:
        print(f"  {peers.MISSING}")
        return ours is not None
    if ours is None or theirs is None:
        return False
    is_met = ours <= GOAL * theirs
    print(f"  compared with kcl-rs: {ours / theirs:.2f}   goal {GOAL:g}: {'met' if is_met else 'MISSED'}")
    return is_met


def _middle(costs: list[float | None]) -> float | None:
    done = [each for each in costs if each is not None]
    return median(done) if len(done) == len(costs) else None


def _measured(servers: Bench, consumer: Consumer) -> float | None:
    try:
        with servers.started(consumer, PLAIN, PLAIN_RECORDS, UNCOUNTED=str(UNCOUNTED)) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return None
    if process.returncode != 0 or not output:
        return None
    run = json.loads(output.splitlines()[-1])
    cost: float = run["cpu_seconds"] * 1_000 / (run["counted"] * PLAIN_BYTES / 1e6)
    return cost
