"""Measures a producer's records per CPU second, beside aiokpl and a plain loop over boto3: small records in KPL
aggregates, from a program with threads and on an event loop, into a stream of four shards that takes everything.
`RECORDS=5000 ROUNDS=1` for a short run.

Each round runs all of them in turns, each in a process of its own. The server takes apart what it gets, and counts:
none may be lost, and none come twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

import benchmarks
from benchmarks import peers, producing_server
from benchmarks.runs import ENVIRONMENT, served

RECORDS = int(os.environ.get("RECORDS", "20000"))
ROUNDS = benchmarks.rounds(3)
SIZES = (100, 1_000)
SHARDS = 4
GOAL = 2.0


class Producing(NamedTuple):
    name: str
    producer: str
    """In `benchmarks.producers`."""
    is_peer: bool


PRODUCERS = (
    Producing("sublet.Producer", "sublet_plain", is_peer=False),
    Producing("aiokpl.SyncProducer", "aiokpl_plain", is_peer=True),
    Producing("sublet.aio.Producer", "sublet_on_loop", is_peer=False),
    Producing("aiokpl.Producer", "aiokpl_on_loop", is_peer=True),
    Producing("boto3's put_records", "boto3_plain", is_peer=False),
)
PAIRED = ((PRODUCERS[0], PRODUCERS[1]), (PRODUCERS[2], PRODUCERS[3]))


class Run(NamedTuple):
    cpu_seconds: float
    seconds: float
    stored: int
    delivered: int
    stream_records: int
    calls: int


Found = dict[int, dict[str, list[Run]]]
"""Runs by the records' size and the producer's name."""


def measure() -> Found:
    present = [one for one in PRODUCERS if not one.is_peer or peers.PYTHON.exists()]
    found: Found = {size: {one.name: [] for one in present} for size in SIZES}
    with served(producing_server.__name__, str(SHARDS)) as url:
        for _ in range(ROUNDS):
            for size in SIZES:
                for one in present:
                    found[size][one.name].append(_run(one, url, size))
    return found


def _run(one: Producing, url: str, size: int) -> Run:
    python = str(peers.PYTHON) if one.is_peer else sys.executable
    _counts(url)
    ran = subprocess.run(
        [python, "-m", "benchmarks.producers", url, str(RECORDS), str(size), one.producer],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
        timeout=600,
    )
    said, counts = json.loads(ran.stdout), _counts(url)
    # One more record was put to warm up.
    return Run(
        **said,
        delivered=counts["user_records"] - 1,
        stream_records=counts["stream_records"] - 1,
        calls=counts["PutRecords"] - 1,
    )


def _counts(url: str) -> dict[str, int]:
    with urlopen(f"{url}/counts") as reply:  # noqa: S310 -- our own server, on loopback
        counts: dict[str, int] = json.loads(reply.read())
    return counts


def report(found: Found) -> bool:
    """Print the table; True if the goals are met that can be judged without the missing peers."""
    is_met = True
    for size, by_name in found.items():
        print(f"producing {RECORDS:,} records of {size:,} bytes, medians of {ROUNDS}:")
        for name, runs in by_name.items():
            lost = sum(run.delivered != RECORDS for run in runs)
            is_met &= not lost
            print(f"  {name:22} {_figures(runs)}" + (f"; {lost} runs lost or repeated records" if lost else ""))
        for ours, theirs in PAIRED:
            if theirs.name not in by_name:
                continue
            pairs = zip(by_name[ours.name], by_name[theirs.name], strict=True)
            ratio = median(their.cpu_seconds / our.cpu_seconds for our, their in pairs)
            is_met &= ratio >= GOAL
            print(f"  {ours.name} / {theirs.name}: {ratio:.2f} (goal {GOAL:g}): {'met' if ratio >= GOAL else 'MISSED'}")
    if len(next(iter(found.values()))) < len(PRODUCERS):
        print(f"  {peers.MISSING}")
    return is_met


def _figures(runs: Sequence[Run]) -> str:
    rate = median(RECORDS / run.cpu_seconds for run in runs)
    seconds = median(RECORDS / run.seconds for run in runs)
    calls, records = median(run.calls for run in runs), median(run.stream_records for run in runs)
    return (
        f"{rate:9,.0f} records a CPU second, {seconds:9,.0f} a second, {calls:5,.0f} calls of {records:5,.0f} "
        "stream records"
    )
