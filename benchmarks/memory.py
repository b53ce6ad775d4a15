"""Measures a lease worker's peak memory with the most expensive pages: 10 leases at once, with the settings for a
Lambda of 512 MB.

Each kind of page runs in a process of its own, over boto3 and HTTP, with a slow handler, so that the other leases
wait with full buffers. Goal: never more than the Lambda's memory, whatever was put, and every user record handled
once.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from typing import NamedTuple

from sublet import Batch, Mode, Settings
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis.stream import KinesisStream
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.engine.worker.worker import LeaseWorker
from sublet.handlers.batch import HandlerFunctions
from sublet.protocol.checkpoint import TRIM_HORIZON
from sublet.protocol.lease import Lease
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.system.heap import collect_seldom, use_one_heap
from sublet.testing.memory import MemoryLeaseTable, memory_ports

from benchmarks import hostile_server
from benchmarks.hostile_server import NAMES, PAGES, hostile
from benchmarks.limits import peak_bytes
from benchmarks.runs import served
from infra.local.embedded import REGION

LEASES = 10
WORKER_MEMORY = 512
"""MiB: the construct's default."""
MIB = 2**20
HANDLER_SECONDS = 0.005


ALMOST_ALL = HashKeyRange(0, HASH_KEY_MAX - 1)
"""All hash keys but one: with a shard's full range, no key would need to be checked."""


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
    with served(hostile_server.__name__) as url:
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
    """One window over all leases, until each has caught up."""
    os.environ |= {
        "AWS_ENDPOINT_URL_KINESIS": url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    handler = Counting(HANDLER_SECONDS)
    worker, item = _worker_of(stream, handler, LEASES)
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


class Counting:
    """A slow handler."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.records = self.calls = self.most = 0

    def handle(self, batch: Batch) -> None:
        time.sleep(self._seconds)
        self.records += len(batch.records)
        self.calls += 1
        self.most = max(self.most, len(batch.records))


def _worker_of(stream: str, handler: Counting, leases: int) -> tuple[LeaseWorker, WorkerItem]:
    """Composed as in the runtimes."""
    use_one_heap()
    settings = Settings(application="memory", stream=stream, mode=Mode.CATCH_UP)
    shards = [f"shardId-{number:012}" for number in range(leases)]
    table = MemoryLeaseTable(
        [Lease(shard, TRIM_HORIZON, lease_counter=0, hash_key_range=ALMOST_ALL) for shard in shards]
    )
    kinesis = KinesisStream(kinesis_client(), kinesis_poll_client(), settings)
    claims = tuple(LeaseClaim(shard, None, 0, ClaimReason.FREE) for shard in shards)
    collect_seldom()
    return LeaseWorker(memory_ports(kinesis, table), HandlerFunctions(handler.handle), settings), WorkerItem(
        "item", "worker", claims, windows_left=1
    )
