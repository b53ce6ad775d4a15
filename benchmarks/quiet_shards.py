"""Measures what 200 quiet shards cost a pulled consumer: CPU seconds a minute, compared with a bare boto3 loop that
only makes the same polls; and how late a record comes that is put into one of them, at 20 a second over all.

`SHARDS=50 SECONDS=20 ROUNDS=1` for a short run. Linux only: CPU time and threads are read from /proc.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple
from urllib.request import urlopen

import benchmarks
from benchmarks import quiet_server
from benchmarks.consumers.tally import stamped
from benchmarks.counting_proxy import CountingProxy, counting_proxy
from benchmarks.quiet_server import STREAM
from benchmarks.runs import Bench, Consumer, bench

SHARDS = int(os.environ.get("SHARDS", "200"))
SECONDS = float(os.environ.get("SECONDS", "60"))
ROUNDS = benchmarks.rounds(3)
RATE = 20
RECORDS = int(RATE * SECONDS)
SETTLES_WITHIN = 180.0
QUIET_POLLS = 0.4
"""Per second and shard: a poll in two seconds, and up to a tenth later. More polls mean that the start is not over."""
GOAL = 1.3
TICKS = os.sysconf("SC_CLK_TCK")

OURS = Consumer("sublet, for", "sublet_pulled", is_peer=False, environment={"PULLED": "quiet"})
BARE = Consumer("bare boto3 loop", "bare", is_peer=False, environment={"READS": "polls_quiet"})


class Cost(NamedTuple):
    """The cost of a minute without a record."""

    cpu_seconds: float
    threads: float
    calls: dict[str, float]
    """Per second, by operation."""

    @property
    def a_poll(self) -> float:
        return self.cpu_seconds / self.calls["GetRecords"]


class Found(NamedTuple):
    costs: dict[str, list[Cost]]
    arrivals: list[float]
    """Seconds from put to received, sorted."""


def measure() -> Found:
    costs: dict[str, list[Cost]] = {}
    arrivals: list[float] = []
    with bench(quiet_server.__name__, str(SHARDS)) as servers:
        for _ in range(ROUNDS):
            cost, seconds = _pulled(servers)
            costs.setdefault(OURS.name, []).append(cost)
            arrivals += seconds
            with servers.started(BARE, STREAM, 0) as process:
                _wait_until_quiet(servers)
                costs.setdefault(BARE.name, []).append(_cost(servers, process.pid))
    return Found(costs, sorted(arrivals))


def _pulled(servers: Bench) -> tuple[Cost, list[float]]:
    """Measures one process: its cost while no records come, and then how late records are."""
    _ask(servers, "forget")
    with (
        counting_proxy(servers.aws.environment["AWS_ENDPOINT_URL"]) as proxy,
        servers.started(OURS, STREAM, RECORDS, AWS_ENDPOINT_URL_DYNAMODB=proxy.url) as process,
    ):
        _wait_until_quiet(servers)
        cost = _cost(servers, process.pid, proxy)
        threading.Thread(target=_put_all, args=(servers,), daemon=True).start()
        output, _ = process.communicate(timeout=2 * SECONDS + SETTLES_WITHIN)
    return cost, [seconds for _, seconds in json.loads(output.splitlines()[-1])]


def _cost(servers: Bench, pid: int, proxy: CountingProxy | None = None) -> Cost:
    _counts(servers)
    before, asked = _cpu_seconds(pid), Counter() if proxy is None else Counter(proxy.counts)
    time.sleep(SECONDS)
    used, calls = _cpu_seconds(pid) - before, _counts(servers)
    calls.update({} if proxy is None else proxy.counts - asked)
    a_second = {operation: number / SECONDS for operation, number in calls.items()}
    return Cost(used * 60 / SECONDS, _threads(pid), a_second)


def _wait_until_quiet(servers: Bench) -> None:
    """Waits until every shard is polled, and no faster than a quiet one."""
    until = time.monotonic() + SETTLES_WITHIN
    seconds = 5
    while time.monotonic() < until:
        _counts(servers)
        time.sleep(seconds)
        found = _counts(servers)
        a_second = found["GetRecords"] / seconds / SHARDS
        if not found["GetShardIterator"] and QUIET_POLLS < a_second < 1.5 * QUIET_POLLS:
            return
    raise TimeoutError(f"not quiet after {SETTLES_WITHIN:g} s: {found}")


def _counts(servers: Bench) -> Counter[str]:
    return Counter(json.loads(_ask(servers, "counts")))


def _ask(servers: Bench, what: str) -> bytes:
    url = f"{servers.environment['AWS_ENDPOINT_URL_KINESIS']}/{what}"
    with urlopen(url) as reply:  # noqa: S310 - loopback
        body: bytes = reply.read()
    return body


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def _put_all(servers: Bench) -> None:
    kinesis: Any = servers.client("kinesis", servers.environment["AWS_ENDPOINT_URL_KINESIS"])
    chance, due = Random(20), time.time()
    for _ in range(RECORDS):
        due += chance.expovariate(RATE)
        time.sleep(max(0.0, due - time.time()))
        kinesis.put_record(StreamName=STREAM, PartitionKey=f"{chance.getrandbits(64):x}", Data=stamped())


def report(found: Found) -> bool:
    """Print both; True if the goal is met."""
    print(f"{SHARDS} quiet shards, medians of {ROUNDS} in turns of {SECONDS:g} s each")
    for name, costs in found.costs.items():
        operations = sorted({operation for cost in costs for operation in cost.calls})
        calls = ", ".join(
            f"{operation} {median(cost.calls.get(operation, 0) for cost in costs):.1f}" for operation in operations
        )
        used = " ".join(f"{cost.cpu_seconds:.2f}" for cost in costs)
        threads = median(cost.threads for cost in costs)
        print(f"  {name:<22}{_used(costs):>6.2f} CPU s a minute ({used}), {threads:.0f} threads; a second: {calls}")
    ratio = _ratio(found.costs[OURS.name], found.costs[BARE.name])
    verdict = "met" if ratio <= GOAL else "MISSED"
    print(f"  {OURS.name}: {ratio:.2f} times what the bare loop takes for as many polls   goal {GOAL}: {verdict}")
    shares = (found.arrivals[int((len(found.arrivals) - 1) * share)] for share in (0.5, 0.9, 0.99, 1))
    print(f"put -> received, {RATE} a second over all shards, seconds: p50 / p90 / p99 / most")
    print(f"  {OURS.name:<22}" + " / ".join(f"{seconds:.2f}" for seconds in shares))
    return ratio <= GOAL


def _ratio(costs: list[Cost], bare: list[Cost]) -> float:
    """Median of the pairs, per poll actually made: on a busy machine either may make fewer polls than it should."""
    return median(ours.a_poll / other.a_poll for ours, other in zip(costs, bare, strict=True))


def _used(costs: list[Cost]) -> float:
    return median(cost.cpu_seconds for cost in costs)
