"""Measures whole consumers on a replay of 100,000 plain records, and of 1.6 million user records in KPL aggregates.

Each run is a new process: CPU seconds and peak memory up to the last record, and the time from the start of the
process to its last record, including imports, table and leases. The bare loop has none of these: it shows what boto3
alone costs. It also does not check hash ranges, which takes an MD5 per partition key; "filter off" is sublet without
that (`hash_range_filter`).
"""

from __future__ import annotations

from statistics import median

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks import peers
from benchmarks.replay_server import AGGREGATED, PLAIN, STREAM_RECORDS, USER_RECORDS
from benchmarks.runs import (
    ASYNC_KINESIS,
    BARE,
    ELECTREONWIRELESS,
    KCL_RS,
    SUBLET,
    SUBLET_UNFILTERED,
    Bench,
    Consumer,
    Run,
    bench,
)

ROUNDS = benchmarks.rounds(5)
PEER_ROUNDS = 1
"""They take up to a minute each, and the margins are wide."""

PEERS = (KCL_RS, ASYNC_KINESIS, ELECTREONWIRELESS)
GOAL_CPU = 1.15
GOAL_SECONDS = 4.0
GOAL_PEAK_BYTES = 400e6

Runs = dict[str, dict[str, Run | None]]
"""Medians, by stream and consumer; None: it did not finish."""


def measure() -> Runs:
    """Interleaved, so that anything that slows the machine for a while slows all of them."""
    runs: dict[str, dict[str, list[Run | None]]] = {PLAIN: {}, AGGREGATED: {}}
    with bench() as servers:
        for number in range(ROUNDS):
            rivals = PEERS if number < PEER_ROUNDS and peers.PYTHON.exists() else ()
            for stream, found in runs.items():
                for consumer in (BARE, SUBLET, SUBLET_UNFILTERED, *rivals):
                    found.setdefault(consumer.name, []).append(_run(servers, consumer, stream))
    return {stream: {name: _medians(each) for name, each in found.items()} for stream, found in runs.items()}


def _run(servers: Bench, consumer: Consumer, stream: str) -> Run | None:
    deaggregates = consumer is not ELECTREONWIRELESS
    return servers.run(consumer, stream, (USER_RECORDS if deaggregates else STREAM_RECORDS)[stream])


def _medians(runs: list[Run | None]) -> Run | None:
    done = [run for run in runs if run is not None]
    return Run(*map(median, zip(*done, strict=True))) if len(done) == len(runs) else None


def report(runs: Runs) -> bool:
    """Print the table; True if the goals are met."""
    console = Console()
    table = Table("", title="replay: CPU s / start to last record s / peak MB", title_justify="left")
    for stream in runs:
        table.add_column(f"{USER_RECORDS[stream]:,} {stream}", justify="right")
    for name in runs[PLAIN]:
        cells = (_cell(found[name]) for found in runs.values())
        table.add_row(name, *cells, style="bold" if name == SUBLET.name else None)
    console.print(table)
    if ELECTREONWIRELESS.name in runs[PLAIN]:
        console.print("  electreonwireless hands the 4,000 aggregates over as they are")
    else:
        console.print(f"  [yellow]{peers.MISSING}[/]")
    verdicts = [_verdict(console, stream, found) for stream, found in runs.items()]  # each prints
    return all(verdicts)


def _cell(run: Run | None) -> str:
    if run is None:
        return "did not finish"
    return f"{run.cpu_seconds:.1f} / {run.seconds:.1f} / {run.peak_bytes / 1e6:.0f}"


def _verdict(console: Console, stream: str, found: dict[str, Run | None]) -> bool:
    own, bare, unfiltered = found[SUBLET.name], found[BARE.name], found[SUBLET_UNFILTERED.name]
    if own is None or bare is None or unfiltered is None:
        console.print(f"  {stream}: [red]did not finish[/]")
        return False
    ratio, without = own.cpu_seconds / bare.cpu_seconds, unfiltered.cpu_seconds / bare.cpu_seconds
    peak = own.peak_bytes
    checks = {
        f"CPU {ratio:.2f} of bare boto3 (filter off {without:.2f}), goal {GOAL_CPU:g}": ratio <= GOAL_CPU,
        f"to the last record {own.seconds:.1f} s, goal {GOAL_SECONDS:g}": own.seconds < GOAL_SECONDS,
        f"peak {peak / 1e6:.0f} MB, goal {GOAL_PEAK_BYTES / 1e6:.0f}": peak < GOAL_PEAK_BYTES,
    }
    for text, met in checks.items():
        console.print(f"  {stream}: {text}: {'[green]met[/]' if met else '[red]MISSED[/]'}")
    return all(checks.values())
