"""Measures a lease worker's peak memory with the most expensive pages: 10 leases at once, with the settings for a
Lambda of 512 MB.

Each kind of page runs in a process of its own, over boto3 and HTTP, with a slow handler, so that the other leases
wait with full buffers. Goal: never more than the Lambda's memory, whatever was put, and every user record handled
once.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from typing import NamedTuple

from benchmarks import hostile_server
from benchmarks.hostile_server import NAMES, PAGES, hostile
from benchmarks.limits import peak_bytes
from benchmarks.peers import ROOT
from infra.local.embedded import HOST, REGION, free_ports
from infra.local.server import running

LEASES = 10
WORKER_MEMORY = 512
"""MiB: the construct's default."""
MIB = 2**20
HANDLER_SECONDS = 0.005


class Found(NamedTuple):
    """`began_megabytes`: with everything imported, before it consumes."""

    began_megabytes: float
    peak_megabytes: float
    user_records: int
    calls: int
    most_in_a_call: int
    cpu_seconds: float
    problems: list[str]


def measure(names: list[str] = NAMES) -> dict[str, Found]:
    """Measures each kind of page."""
    [port] = free_ports(1)
    url = f"http://{HOST}:{port}"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "layers/sublet/python")])
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "PYTHONPATH": paths}
    command = [sys.executable, "-m", hostile_server.__name__, str(port)]
    with running("hostile-server", command, environment, url):
        return {name: _alone(url, NAMES.index(name)) for name in names}


def report(found: dict[str, Found]) -> bool:
    """Print the table; True if the goal is met."""
    print(f"memory: a lease worker's peak with {LEASES} leases, in MiB (goal {WORKER_MEMORY})")
    met = True
    for name, one in found.items():
        expected = hostile(name).user_records * PAGES * LEASES
        wrong = [
            *one.problems,
            *([f"{one.user_records:,} of {expected:,}"] if one.user_records != expected else []),
        ]
        is_met = one.peak_megabytes <= WORKER_MEMORY and not wrong
        met &= is_met
        print(
            f"  {name:<50}{one.began_megabytes:>5.0f} ->{one.peak_megabytes:>6.0f}   {one.user_records:>11,} records "
            f"in {one.calls:>6,} calls of at most {one.most_in_a_call:>7,}, CPU {one.cpu_seconds:>5.1f} s"
            f"{'' if is_met else '  MISSED'} {'; '.join(wrong)}",
            flush=True,
        )
    return met


def _alone(url: str, number: int) -> Found:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_window, url, str(number)).result()


def _window(url: str, stream: str) -> Found:
    """One window over all leases, until each has caught up. Imports as a worker does."""
    os.environ |= {
        "AWS_ENDPOINT_URL_KINESIS": url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    from benchmarks.memory_worker import Counting, worker_of  # noqa: PLC0415 -- counts a worker's imports

    handler = Counting(HANDLER_SECONDS)
    worker, item = worker_of(stream, handler, LEASES)
    began, cpu = peak_bytes() / MIB, time.process_time()
    deadline = worker.ports.clock.steady() + timedelta(minutes=10)
    report = worker.run_window(item, "invocation", deadline)
    problems = sorted({lease.problem or lease.outcome for lease in report.leases} - {"caught_up"})
    return Found(
        began,
        peak_bytes() / MIB,
        handler.records,
        handler.calls,
        handler.most,
        time.process_time() - cpu,
        problems,
    )
