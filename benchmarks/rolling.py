"""Measures a rolling deployment: four processes replaced one by one while records come, on the embedded AWS with a
stream of eight shards.

As ECS does it by default: the new process starts, and half a minute later the old one gets SIGTERM. A shard's pause
is the longest time that any of its records waited for the handler, from its put, so that a slow producer does not
count.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks import peers
from benchmarks.consumers.tally import NOTES
from benchmarks.runs import ENVIRONMENT
from infra.local.embedded import EmbeddedAws, embedded_aws

SHARDS = 8
PROCESSES = 4
PUTS = 10
"""Records per put."""
PUT_EVERY = 0.25
SETTLES = 150.0
"""Seconds until every lease is held and balanced: kcl-rs needs two minutes for that."""
READY_AFTER = 30.0
"""Seconds until an orchestrator's first health checks."""
KILLED_AFTER = 30.0
"""Seconds after SIGTERM, as in ECS by default."""
ENDS = 40.0
LONGEST_PAUSE = 3.0


class Deployed(NamedTuple):
    """`repeated`: user records that came again, and how many on the worst shard. `pauses`: the longest wait of each
    shard's records. `before`: the longest in the minute before, without replacements, which is due to the machine."""

    put: int
    lost: int
    repeated: int
    repeated_most: int
    pauses: list[float]
    before: float


@dataclass
class Fleet:
    """Processes of one consumer, oldest first."""

    name: str
    python: str
    aws: EmbeddedAws
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    shards: dict[str, str] = field(default_factory=dict)
    """Each record's shard, by its data."""

    @property
    def stream(self) -> str:
        return f"rolling-{self.name.replace('_', '-')}"

    def start(self) -> None:
        notes = {"MEASURE": "notes", NOTES: str(self.folder / self.name)}
        environment = {**ENVIRONMENT, **self.aws.environment, **notes}
        command = [self.python, "-m", f"benchmarks.consumers.{self.name}", self.stream, self.stream, "0"]
        log = (self.folder / f"{self.name}.log").open("ab")
        self.processes.append(subprocess.Popen(command, env=environment, cwd=peers.ROOT, stdout=log, stderr=log))

    def replace_oldest(self) -> None:
        oldest = self.processes.pop(0)
        oldest.send_signal(signal.SIGTERM)
        try:
            oldest.wait(KILLED_AFTER)
        except subprocess.TimeoutExpired:
            oldest.kill()
            oldest.wait()

    def put(self, kinesis: Any, number: int, chance: Random) -> None:
        datas = [f"{number * PUTS + n}@{time.time()!r}" for n in range(PUTS)]
        records = [{"Data": data.encode(), "PartitionKey": f"{chance.getrandbits(64)}"} for data in datas]
        for data, put in zip(
            datas, kinesis.put_records(StreamName=self.stream, Records=records)["Records"], strict=True
        ):
            if "ShardId" in put:
                self.shards[data] = put["ShardId"]

    def deployed(self, since: float) -> Deployed:
        lines = [line.split(" ") for line in (self.folder / self.name).read_text().splitlines()]
        times = Counter(data for _, data in lines)
        repeated = Counter({data: number - 1 for data, number in times.items() if number > 1})
        by_shard, pauses, before = Counter[str](), defaultdict[str, float](float), 0.0
        for data, number in repeated.items():
            by_shard[self.shards[data]] += number
        first: dict[str, float] = {}
        for at, data in lines:
            first[data] = min(float(at), first.get(data, float(at)))
        for data, handled_at in first.items():
            put_at = float(data.partition("@")[2])
            if put_at >= since and data in self.shards:
                pauses[self.shards[data]] = max(pauses[self.shards[data]], handled_at - put_at)
            elif since - 60 <= put_at < since:
                before = max(before, handled_at - put_at)
        lost = len(self.shards.keys() - times.keys())
        return Deployed(
            len(self.shards),
            lost,
            repeated.total(),
            max(by_shard.values(), default=0),
            sorted(pauses.values()),
            before,
        )


def measure() -> Mapping[str, Deployed]:
    pythons = {"sublet_run": sys.executable}
    if peers.PYTHON.exists():
        pythons["kcl_rust"] = str(peers.PYTHON)
    with tempfile.TemporaryDirectory(prefix="sublet-bench-") as folder, embedded_aws() as aws:
        fleets = [Fleet(name, python, aws, Path(folder)) for name, python in pythons.items()]
        return {fleet.name: _replaced(fleet, aws.client("kinesis")) for fleet in fleets}


def report(found: Mapping[str, Deployed]) -> bool:
    """Print the table; True if the goals are met."""
    print(
        f"rolling: {PROCESSES} processes on {SHARDS} shards replaced one by one, {PUTS / PUT_EVERY:g} records a second"
    )
    for name, each in found.items():
        print(
            f"  {name:<10}{each.put} put, {each.lost} lost, {each.repeated} repeated (of one shard "
            f"{each.repeated_most}), pause of a shard: median {each.pauses[len(each.pauses) // 2]:.2f} s, longest "
            f"{each.pauses[-1]:.2f} s ({each.before:.2f} s before)"
        )
    ours = found["sublet_run"]
    met = ours.lost == 0 and ours.pauses[-1] < LONGEST_PAUSE
    print(f"  goal 0 lost, under {LONGEST_PAUSE:g} s: {'met' if met else 'MISSED'}")
    if "kcl_rust" not in found:
        print(f"  {peers.MISSING}")
    return met


def _replaced(fleet: Fleet, kinesis: Any) -> Deployed:
    kinesis.create_stream(StreamName=fleet.stream, ShardCount=SHARDS)
    kinesis.get_waiter("stream_exists").wait(StreamName=fleet.stream, WaiterConfig={"Delay": 1})
    with _ended(fleet), _load(fleet, kinesis):
        for _ in range(PROCESSES):
            fleet.start()
        time.sleep(SETTLES)
        since = time.time()
        for _ in range(PROCESSES):
            fleet.start()
            time.sleep(READY_AFTER)
            fleet.replace_oldest()
        time.sleep(ENDS)
    return fleet.deployed(since)


@contextmanager
def _ended(fleet: Fleet) -> Iterator[None]:
    try:
        yield
        time.sleep(ENDS)  # for the last records put
    finally:
        for process in fleet.processes:
            process.kill()
            process.wait()


@contextmanager
def _load(fleet: Fleet, kinesis: Any) -> Iterator[None]:
    over, chance = threading.Event(), Random(20)

    def put() -> None:
        number = 0
        while not over.wait(PUT_EVERY):
            fleet.put(kinesis, number, chance)
            number += 1

    producer = threading.Thread(target=put, daemon=True)
    producer.start()
    try:
        yield
    finally:
        over.set()
        producer.join()
