"""Measures how long pulling blocks an event loop: how late a timer is, in milliseconds, during a replay of KPL
aggregates.

Four shards are far behind, at the pace that Kinesis allows (2 MB a second each: about 60,000 user records a second),
with pages as a pulled consumer requests them and as large as Kinesis returns. For comparison, a timer alone, in the
same minutes.
If the system allows it, their processes have priority over all others, so that load on the machine does not count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks.replay_server import AGGREGATED
from benchmarks.runs import Bench, Consumer, bench

RECORDS = 500_000
ROUNDS = benchmarks.rounds(3)
PATIENCE = 180.0
SHARES = (0.5, 0.99, 0.999)
GOAL = 0.002
"""Seconds: p99.9 beyond that of a timer alone."""


ALONE = "nothing"
OURS = "pages as it asks for them"


class Kind(NamedTuple):
    loop: str
    beside: str
    environment: Mapping[str, str]


KINDS = tuple(
    Kind(loop, beside, {"LOOP": loop, **environment})
    for loop in ("asyncio", "uvloop")
    for beside, environment in (
        (ALONE, {"BESIDE": "nothing"}),
        (OURS, {}),
        ("pages of 10 MB", {"POLL_BYTES": "0"}),
    )
)

Found = dict[tuple[str, str], list[float]]
"""Seconds late, sorted, by loop and by what runs beside the timer."""


def measure() -> Found:
    found: Found = {}
    with bench() as servers:
        for _ in range(ROUNDS):
            for kind in KINDS:
                found.setdefault((kind.loop, kind.beside), []).extend(_late(servers, kind))
    return {key: sorted(late) for key, late in found.items()}


def _late(servers: Bench, kind: Kind) -> list[float]:
    consumer = Consumer(kind.beside, "loop_delays", is_peer=False, environment=kind.environment)
    with servers.started(consumer, AGGREGATED, RECORDS) as process:
        output, _ = process.communicate(timeout=PATIENCE)
    late: list[float] = json.loads(output.splitlines()[-1])
    return late


def report(found: Found) -> bool:
    """Print the table; True if the goal is met."""
    table = Table("loop", "beside it", title="how late a timer is, ms", title_justify="left")
    for share in SHARES:
        table.add_column(f"p{share * 100:g}", justify="right")
    table.add_column("most", justify="right")
    for (loop, beside), late in found.items():
        table.add_row(loop, beside, *(f"{1000 * at(late, share):.2f}" for share in (*SHARES, 1.0)))
    console = Console()
    console.print(table)
    met = True
    for loop in ("asyncio", "uvloop"):
        ours, alone = (at(found[loop, beside], SHARES[-1]) for beside in (OURS, ALONE))
        fast = ours - alone <= GOAL
        console.print(f"  {loop}: {1000 * (ours - alone):.2f} ms later: {'met' if fast else 'MISSED'}")
        met &= fast
    return met


def at(sorted_: list[float], share: float) -> float:
    return sorted_[min(int(len(sorted_) * share), len(sorted_) - 1)]
