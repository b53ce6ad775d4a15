"""Measures how soon records reach the handler, on the stack deployed to the embedded AWS with a stream of two shards,
in seconds.

first record    lease manager invoked on an empty lease table, with records waiting -> first record in the handler:
                first with every function cold, then with all of them warm
after release   the same with leases that a worker has released
after a kill    SIGKILL of the lease worker in mid-window, while records arrive -> every one of its shards delivers
again
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from statistics import median
from typing import NamedTuple

import benchmarks
from infra.local.embedded import embedded_aws
from tests.e2e.deliveries import wait_until
from tests.e2e.fleet import Fleet, deployed, kill

ROUNDS = benchmarks.rounds(5)
KILLS = benchmarks.rounds(3)
"""The state machine runs an item three times again, then leaves it to the next tick."""
GOAL_FIRST = 3.0
GOAL_KILLED = 5.0
KEYS = [f"key-{n}" for n in range(20)]
PUT_EVERY = 0.1
PATIENCE = 60.0
NANOSECONDS = 1e9

Seconds = list[float]


class Latencies(NamedTuple):
    first_cold: float
    first_warm: Seconds
    released: Seconds
    killed: Seconds


def measure() -> Latencies:
    with _fleet("bench-catch-up", mode="catch_up") as fleet:
        cold, *warm = [_first_record(fleet, forget=True) for _ in range(ROUNDS + 1)]
        released = [_first_record(fleet, forget=False) for _ in range(ROUNDS)]
    with _fleet("bench-continuous", mode="continuous") as fleet, _traffic(fleet):
        fleet.tick()
        killed = [_after_kill(fleet) for _ in range(KILLS)]
    return Latencies(cold, warm, released, killed)


def report(found: Latencies) -> bool:
    """Print the table; True if the goals are met."""
    rows = {
        "first record, all cold": ([found.first_cold], GOAL_FIRST),
        "first record, warm": (found.first_warm, GOAL_FIRST),
        "after a release and a tick": (found.released, GOAL_FIRST),
        "after kill -9, every shard": (found.killed, GOAL_KILLED),
    }
    print(f"latency: seconds, medians of {ROUNDS} ({KILLS} kills) and the worst")
    for name, (seconds, goal) in rows.items():
        verdict = "met" if median(seconds) < goal else "MISSED"
        print(f"  {name:<28}{median(seconds):>6.2f}{max(seconds):>7.2f}   goal {goal:g}: {verdict}")
    return all(median(seconds) < goal for seconds, goal in rows.values())


@contextmanager
def _fleet(application: str, mode: str) -> Iterator[Fleet]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sublet-bench-")))
        aws = stack.enter_context(embedded_aws())
        with redirect_stdout(StringIO()):  # the CDK's progress
            fleet = stack.enter_context(deployed(aws, application, folder, mode=mode))
        yield fleet


def _first_record(fleet: Fleet, *, forget: bool) -> float:
    """Returns the seconds from the invocation to the first of the new records. `forget`: delete all leases first."""
    fleet.wait_until_free()
    if forget:
        for table, key in ((fleet.outputs["LeaseTable"], "leaseKey"), (_sightings(fleet), "chunk")):
            for row in fleet.dynamodb.scan(TableName=table)["Items"]:
                fleet.dynamodb.delete_item(TableName=table, Key={key: row[key]})
    texts = set(fleet.produce(KEYS))
    invoked_at = time.time_ns()
    fleet.tick()
    wait = partial(_first, fleet, lambda text: text in texts, invoked_at)
    wait_until(lambda: wait() is not None, PATIENCE, lambda: "no record came")
    return ((wait() or 0) - invoked_at) / NANOSECONDS


def _first(fleet: Fleet, wanted: Callable[[str], bool], after: int) -> int | None:
    return min(
        (each.at for each in fleet.recorder.deliveries() if each.at > after and wanted(each.text)),
        default=None,
    )


def _sightings(fleet: Fleet) -> str:
    return f"{fleet.outputs['LeaseTable']}-sightings"


@contextmanager
def _traffic(fleet: Fleet) -> Iterator[None]:
    """Puts records into every shard, continuously."""
    over = threading.Event()

    def put() -> None:
        while not over.wait(PUT_EVERY):
            fleet.produce(KEYS)

    producer = threading.Thread(target=put, daemon=True)
    producer.start()
    try:
        yield
    finally:
        over.set()
        producer.join()


def _after_kill(fleet: Fleet) -> float:
    """Returns the seconds until the last of the shards delivers again; the worker was handling all of them before."""
    shards = {shard["ShardId"] for shard in fleet.open_shards()}
    began = time.time_ns()
    _all_deliver(fleet, shards, began)
    pids = {pid for pid in fleet.recorder.pids() if Path(f"/proc/{pid}").exists()}
    killed_at = time.time_ns()
    kill(pids)
    return (_all_deliver(fleet, shards, killed_at) - killed_at) / NANOSECONDS


def _all_deliver(fleet: Fleet, shards: set[str], after: int) -> int:
    """Returns when each of the shards had delivered something after that time."""
    found: dict[str, int] = {}

    def every_shard() -> bool:
        for each in fleet.recorder.deliveries():
            if each.at > after:
                found.setdefault(each.shard_id, each.at)
        return found.keys() >= shards

    wait_until(every_shard, PATIENCE, lambda: f"only {sorted(found)} of {sorted(shards)} deliver")
    return max(found.values())
