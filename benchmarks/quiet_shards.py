"""Measures what 200 quiet shards cost a pulled consumer: CPU seconds a minute, compared with a bare boto3 loop that
only makes the same polls; and how late a record comes that is put into one of them, at 20 a second over all.

`SHARDS=50 SECONDS=20 PAIRS=1` for a short run; `BESIDE=/path/of/another/checkout` also measures that one's `sublet`,
in turns. Linux only: CPU time and threads are read from /proc.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple
from urllib.request import urlopen

from benchmarks import quiet_server
from benchmarks.consumers.arrivals import stamped
from benchmarks.counting_proxy import CountingProxy, counting_proxy
from benchmarks.peers import ROOT
from benchmarks.quiet_server import HOST, STREAM
from benchmarks.runs import Bench, Consumer
from infra.local.embedded import embedded_aws, free_ports
from infra.local.server import running

SHARDS = int(os.environ.get("SHARDS", "200"))
SECONDS = float(os.environ.get("SECONDS", "60"))
PAIRS = int(os.environ.get("PAIRS", "3"))
RATE = 20
RECORDS = int(RATE * SECONDS)
SETTLES_WITHIN = 180.0
QUIET_POLLS = 0.4
"""Per second and shard: a poll in two seconds, and up to a tenth later. More polls mean that the start is not over."""
GOAL = 1.3
TICKS = os.sysconf("SC_CLK_TCK")

OURS = Consumer("sublet, for", "quiet_pulled", is_peer=False)
BARE = Consumer("bare boto3 loop", "quiet_bare", is_peer=False)


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
    arrivals: dict[str, list[float]]
    """Seconds from put to received, sorted."""


def measure() -> Found:
    consumers = [OURS]
    if other := os.environ.get("BESIDE"):
        source = Path(other).resolve() / "layers/sublet/python"
        consumers.append(
            OURS._replace(
                name="the same, of BESIDE",
                environment={"PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])},
            )
        )
    costs: dict[str, list[Cost]] = {}
    arrivals: dict[str, list[float]] = {}
    with _bench() as bench:
        for _ in range(PAIRS):
            for consumer in consumers:
                cost, seconds = _pulled(bench, consumer)
                costs.setdefault(consumer.name, []).append(cost)
                arrivals.setdefault(consumer.name, []).extend(seconds)
            with bench.started(BARE, STREAM, 0) as process:
                _wait_until_quiet(bench)
                costs.setdefault(BARE.name, []).append(_cost(bench, process.pid))
    return Found(costs, {name: sorted(seconds) for name, seconds in arrivals.items()})


@contextmanager
def _bench() -> Iterator[Bench]:
    [port] = free_ports(1)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "layers/sublet/python")])
    inherited = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "PYTHONPATH": paths}
    url = f"http://{HOST}:{port}"
    command = [sys.executable, "-m", quiet_server.__name__, str(port), str(SHARDS)]
    with embedded_aws() as aws, running("quiet-server", command, inherited, url):
        yield Bench(aws, {**inherited, **aws.environment, "AWS_ENDPOINT_URL_KINESIS": url})


def _pulled(bench: Bench, consumer: Consumer) -> tuple[Cost, list[float]]:
    """Measures one process: its cost while no records come, and then how late records are."""
    _ask(bench, "forget")
    with (
        counting_proxy(bench.aws.environment["AWS_ENDPOINT_URL"]) as proxy,
        bench.started(consumer, STREAM, RECORDS, AWS_ENDPOINT_URL_DYNAMODB=proxy.url) as process,
    ):
        _wait_until_quiet(bench)
        cost = _cost(bench, process.pid, proxy)
        threading.Thread(target=_put_all, args=(bench,), daemon=True).start()
        output, _ = process.communicate(timeout=2 * SECONDS + SETTLES_WITHIN)
    return cost, [seconds for _, seconds in json.loads(output.splitlines()[-1])]


def _cost(bench: Bench, pid: int, proxy: CountingProxy | None = None) -> Cost:
    _counts(bench)
    before, asked = _cpu_seconds(pid), Counter() if proxy is None else Counter(proxy.counts)
    time.sleep(SECONDS)
    used, calls = _cpu_seconds(pid) - before, _counts(bench)
    calls.update({} if proxy is None else proxy.counts - asked)
    a_second = {operation: number / SECONDS for operation, number in calls.items()}
    return Cost(used * 60 / SECONDS, _threads(pid), a_second)


def _wait_until_quiet(bench: Bench) -> None:
    """Waits until every shard is polled, and no faster than a quiet one."""
    until = time.monotonic() + SETTLES_WITHIN
    seconds = 5
    while time.monotonic() < until:
        _counts(bench)
        time.sleep(seconds)
        found = _counts(bench)
        a_second = found["GetRecords"] / seconds / SHARDS
        if not found["GetShardIterator"] and QUIET_POLLS < a_second < 1.5 * QUIET_POLLS:
            return
    raise TimeoutError(f"not quiet after {SETTLES_WITHIN:g} s: {found}")


def _counts(bench: Bench) -> Counter[str]:
    return Counter(json.loads(_ask(bench, "counts")))


def _ask(bench: Bench, what: str) -> bytes:
    url = f"{bench.environment['AWS_ENDPOINT_URL_KINESIS']}/{what}"
    with urlopen(url) as reply:  # noqa: S310 - loopback
        body: bytes = reply.read()
    return body


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def _put_all(bench: Bench) -> None:
    kinesis: Any = bench.client("kinesis", bench.environment["AWS_ENDPOINT_URL_KINESIS"])
    chance, due = Random(20), time.time()
    for _ in range(RECORDS):
        due += chance.expovariate(RATE)
        time.sleep(max(0.0, due - time.time()))
        kinesis.put_record(StreamName=STREAM, PartitionKey=f"{chance.getrandbits(64):x}", Data=stamped())


def report(found: Found) -> bool:
    """Print both; True if the goal is met."""
    print(f"{SHARDS} quiet shards, medians of {PAIRS} in turns of {SECONDS:g} s each")
    for name, costs in found.costs.items():
        operations = sorted({operation for cost in costs for operation in cost.calls})
        calls = ", ".join(
            f"{operation} {median(cost.calls.get(operation, 0) for cost in costs):.1f}" for operation in operations
        )
        used = " ".join(f"{cost.cpu_seconds:.2f}" for cost in costs)
        threads = median(cost.threads for cost in costs)
        print(f"  {name:<22}{_used(costs):>6.2f} CPU s a minute ({used}), {threads:.0f} threads; a second: {calls}")
    ratios = {name: _ratio(costs, found.costs[BARE.name]) for name, costs in found.costs.items() if name != BARE.name}
    for name, ratio in ratios.items():
        goal = f"   goal {GOAL}: {'met' if ratio <= GOAL else 'MISSED'}" if name == OURS.name else ""
        print(f"  {name}: {ratio:.2f} times what the bare loop takes for as many polls{goal}")
    print(f"put -> received, {RATE} a second over all shards, seconds: p50 / p90 / p99 / most")
    for name, seconds in found.arrivals.items():
        shares = " / ".join(f"{seconds[int((len(seconds) - 1) * share)]:.2f}" for share in (0.5, 0.9, 0.99, 1))
        print(f"  {name:<22}{shares}")
    return ratios[OURS.name] <= GOAL


def _ratio(costs: list[Cost], bare: list[Cost]) -> float:
    """Median of the pairs, per poll actually made: on a busy machine either may make fewer polls than it should."""
    return median(ours.a_poll / other.a_poll for ours, other in zip(costs, bare, strict=True))


def _used(costs: list[Cost]) -> float:
    return median(cost.cpu_seconds for cost in costs)
