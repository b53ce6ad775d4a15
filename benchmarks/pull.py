"""Measures records pulled one by one, from a replay of 100,000 plain records and of 1.6 million in KPL aggregates, in
records per CPU second.

Compares `async for record in consumer.messages(auto_ack=True)`, the same in plain Python, our own handler contract
(whole batches), async-kinesis, kcl-rs and a bare boto3 loop. The replay's goals do not apply: each record is
acknowledged individually.
"""

from __future__ import annotations

from statistics import median

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks import peers
from benchmarks.replay_server import AGGREGATED, PLAIN, USER_RECORDS
from benchmarks.runs import (
    ASYNC_KINESIS,
    BARE,
    KCL_RS,
    SUBLET,
    SUBLET_ON_A_LOOP,
    SUBLET_PULLED,
    Consumer,
    Run,
    bench,
)

ROUNDS = benchmarks.rounds(3)
OWN = (SUBLET_ON_A_LOOP, SUBLET_PULLED, SUBLET, BARE)
PEERS = (KCL_RS, ASYNC_KINESIS)
GOALS = ((ASYNC_KINESIS, 5.0), (KCL_RS, 1.0), (SUBLET, 0.5))
"""How many times the records per CPU second of each of these `async for` must reach."""

Speeds = dict[str, dict[str, float | None]]
"""Median records per CPU second, by stream and consumer; None: it did not finish."""


def measure() -> Speeds:
    """Interleaved, so that anything that slows the machine for a while slows all of them."""
    runs: dict[str, dict[str, list[float | None]]] = {PLAIN: {}, AGGREGATED: {}}
    with bench() as servers:
        for number in range(ROUNDS):
            rivals = PEERS if number == 0 and peers.PYTHON.exists() else ()
            for stream, found in runs.items():
                for consumer in (*OWN, *rivals):
                    run = servers.run(consumer, stream, USER_RECORDS[stream])
                    found.setdefault(consumer.name, []).append(_speed(run, stream))
    return {stream: {name: _median(each) for name, each in found.items()} for stream, found in runs.items()}


def _speed(run: Run | None, stream: str) -> float | None:
    return None if run is None else USER_RECORDS[stream] / run.cpu_seconds


def _median(speeds: list[float | None]) -> float | None:
    done = [speed for speed in speeds if speed is not None]
    return median(done) if len(done) == len(speeds) else None


def report(speeds: Speeds) -> bool:
    """Print the table; True if the goals are met."""
    console = Console()
    table = Table("", title="pull: thousand records a CPU second", title_justify="left")
    for stream in speeds:
        table.add_column(f"{USER_RECORDS[stream]:,} {stream}", justify="right")
    for name in speeds[PLAIN]:
        cells = (_cell(found[name]) for found in speeds.values())
        table.add_row(name, *cells, style="bold" if name == SUBLET_ON_A_LOOP.name else None)
    console.print(table)
    if not peers.PYTHON.exists():
        console.print(f"  [yellow]{peers.MISSING}[/]")
    verdicts = [_verdict(console, stream, found, *goal) for stream, found in speeds.items() for goal in GOALS]
    return all(verdicts)


def _cell(speed: float | None) -> str:
    return "did not finish" if speed is None else f"{speed / 1e3:,.0f}"


def _verdict(console: Console, stream: str, found: dict[str, float | None], peer: Consumer, goal: float) -> bool:
    own, other = found[SUBLET_ON_A_LOOP.name], found.get(peer.name)
    if own is None:
        console.print(f"  {stream}: [red]did not finish[/]")
        return False
    if other is None:
        return True
    met = own / other >= goal
    verdict = "[green]met[/]" if met else "[red]MISSED[/]"
    console.print(f"  {stream}: async for / {peer.name}: {own / other:.2f}, goal {goal:g}: {verdict}")
    return met
