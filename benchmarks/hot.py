"""Measures a hot shard in a fleet: four processes on a stream of sixteen shards, one of which gets 80% of the bytes,
with `balance=lease` and with `balance=throughput`, on the embedded AWS.

Time goes into the handler's sleep, not into CPU: 150 ms a call and 20 ms a record, at most 50 records a call, one call
at a time in each process. A process with nothing but the hot shard handles 43 records a second, and 36 come. Each shard
beside it costs at least another 150 ms a call. Figures are of the last 30 seconds. `SECONDS=60` for a shorter run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple

from sublet.protocol.shard import HASH_KEY_MAX

from benchmarks.consumers.hot_handler import FILE
from benchmarks.peers import ROOT
from infra.local.embedded import EmbeddedAws, embedded_aws

SHARDS, PROCESSES = 16, 4
HOT = "shardId-000000000000"
A_SECOND, HOT_SHARE = 45, 0.8
SIZE = 1_000
PUT_EVERY = 0.2
SECONDS = float(os.environ.get("SECONDS", "100"))
LAST = 30.0
"""Seconds at the end of a run that are its figures."""

BALANCES = ("lease", "throughput")
SETTINGS = {
    "SUBLET_FAILOVER_TIME": "6s",
    "SUBLET_HEARTBEAT_INTERVAL": "2s",
    "SUBLET_CHECKPOINT_INTERVAL": "2s",
    "SUBLET_BATCH_SIZE": "50",
    "SUBLET_START_POSITION": "TRIM_HORIZON",
}


class Call(NamedTuple):
    """`waited`: seconds from the put of its oldest record until it was handled."""

    at: float
    process: int
    shard_id: str
    size: int
    waited: float


class Shared(NamedTuple):
    """The last LAST seconds of a run.

    share    of the bytes, of the process that handled most
    beside   how many shards the hot shard's process handled beside it
    lag      of the hot shard: the median over its calls of how long the oldest record had waited, in seconds
    longest  the longest such time
    nearby   the same median of the shards beside it, which wait for the process' one call at a time; 0 if there are
             none
    """

    share: float
    beside: int
    lag: float
    longest: float
    nearby: float


def measure() -> Mapping[str, Shared]:
    found: dict[str, Shared] = {}
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as folder, embedded_aws() as aws:
        for balance in BALANCES:
            file = Path(folder) / balance
            _run(aws, balance, file)
            found[balance] = judged([_call(line) for line in file.read_text().splitlines()])
    return found


def report(found: Mapping[str, Shared]) -> bool:
    """Print the table; True if the hot shard has fewer neighbours and less lag with `throughput`."""
    load = f"one with {HOT_SHARE:.0%} of {A_SECOND} records a second"
    print(f"hot: {PROCESSES} processes, {SHARDS} shards, {load}, {SECONDS:g} s each")
    for balance, one in found.items():
        print(
            f"  balance={balance:11} highest share {one.share:.0%}, {one.beside} shards beside the hot one; its lag: "
            f"median {one.lag:.1f} s, longest {one.longest:.1f} s; theirs {one.nearby:.1f} s"
        )
    before, after = (found[balance] for balance in BALANCES)
    met = after.beside < before.beside and after.lag < before.lag
    print(f"  goal fewer shards beside it, and less lag: {'met' if met else 'MISSED'}")
    return met


def judged(calls: Sequence[Call]) -> Shared:
    end = max(call.at for call in calls)
    last = [call for call in calls if call.at > end - LAST]
    by_process = Counter[int]()
    for call in last:
        by_process[call.process] += call.size
    owner = next(call.process for call in reversed(last) if call.shard_id == HOT)
    hot = [call.waited for call in last if call.shard_id == HOT]
    nearby = [call for call in last if call.process == owner and call.shard_id != HOT]
    return Shared(
        max(by_process.values()) / by_process.total(),
        len({call.shard_id for call in nearby}),
        median(hot),
        max(hot),
        median([call.waited for call in nearby] or [0.0]),
    )


def _call(line: str) -> Call:
    at, process, shard_id, size, waited = line.split(" ")
    return Call(float(at), int(process), shard_id, int(size), float(waited))


def _run(aws: EmbeddedAws, balance: str, file: Path) -> None:
    kinesis, stream = aws.client("kinesis"), f"hot-{balance}"
    kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
    kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    processes = [_process(aws, stream, balance, file) for _ in range(PROCESSES)]
    try:
        _until_owned(aws, stream)
        with _load(kinesis, stream):
            time.sleep(SECONDS)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _process(aws: EmbeddedAws, stream: str, balance: str, file: Path) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "layers/sublet/python")])
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "PYTHONPATH": paths}
    environment |= {**aws.environment, **SETTINGS, "SUBLET_BALANCE": balance, FILE: str(file)}
    command = [
        sys.executable,
        "-m",
        "sublet",
        "run",
        "--application",
        stream,
        "--stream",
        stream,
        "--handler",
        "benchmarks.consumers.hot_handler:handle",
    ]
    with file.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)


def _until_owned(aws: EmbeddedAws, table: str) -> None:
    """Until each lease has an owner. With `balance=throughput` leases that carry nothing are not evened out."""
    dynamodb = aws.client("dynamodb")
    for _ in range(120):
        time.sleep(1)
        try:
            rows = dynamodb.scan(TableName=table)["Items"]
        except dynamodb.exceptions.ResourceNotFoundException:
            continue
        if sum("S" in row.get("leaseOwner", {}) for row in rows) == SHARDS:
            return
    raise TimeoutError("after two minutes there are leases without an owner")


@contextmanager
def _load(kinesis: Any, stream: str) -> Iterator[None]:
    over, chance, width = threading.Event(), Random(23), (HASH_KEY_MAX + 1) // SHARDS

    def put() -> None:
        began, number = time.monotonic(), 0
        while not over.wait(PUT_EVERY):
            due = int((time.monotonic() - began) * A_SECOND)
            data = f"{time.time()!r} ".encode().ljust(SIZE, b".")
            shards = [0 if chance.random() < HOT_SHARE else chance.randrange(1, SHARDS) for _ in range(due - number)]
            kinesis.put_records(
                StreamName=stream,
                Records=[
                    {"Data": data, "PartitionKey": "k", "ExplicitHashKey": str(shard * width)} for shard in shards
                ],
            )
            number = due

    producer = threading.Thread(target=put, daemon=True)
    producer.start()
    try:
        yield
    finally:
        over.set()
        producer.join()


if __name__ == "__main__":
    raise SystemExit(not report(measure()))
