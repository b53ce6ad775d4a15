"""Measures how long a record takes from put to handler, in a continuous process, on the embedded Kinesis with streams
of two shards. Some consumers poll, others read by push (SubscribeToShard).

Records arrive at random (Poisson): ten a second per shard, and one in five seconds. Each consumer has streams of its
own, and the records are put to all of them at the same moments, so that they share whatever slows the machine.
If Java is installed, the KCL takes part: its workers are those of tests/interop, whose output says how long each record
took to reach them.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks import peers
from benchmarks.consumers.tally import stamped
from benchmarks.runs import ENVIRONMENT, Bench, Consumer
from infra.local.embedded import embedded_aws
from tests.interop.build import Profile, build, command, problem

SHARDS = 2
WARM_UP = 100
"""Records, one a second, that do not count; after these every consumer has its leases. kcl-rs needs more than a
minute."""
PATIENCE = 120.0

POLLS, FANS_OUT = {"MEASURE": "arrivals"}, {"MEASURE": "arrivals", "RETRIEVAL": "FANOUT"}
SUBLET = Consumer("sublet", "sublet_run", is_peer=False, environment=POLLS)
PUSHED = Consumer("sublet, pushed to", "sublet_run", is_peer=False, environment=FANS_OUT)
BARE = Consumer("bare loop, pushed to", "bare", is_peer=False, environment={**POLLS, "READS": "is_pushed_to"})
PUSHED_P50, PUSHED_P99, SLOWER_MAX = 0.1, 0.25, 1.3
"""Goals of a push at the first load: seconds, and p50 beside the bare loop's."""
KCL_RS = Consumer("kcl-rs, each 200 ms", "kcl_rust", is_peer=True, environment=POLLS)
KCL_RS_PUSHED = Consumer("kcl-rs, pushed to", "kcl_rust", is_peer=True, environment=FANS_OUT)


POLL_MILLIS = 250
"""KCL 2.x and 3.x poll once in 1.5 s by default (PollingConfig.idleTimeBetweenReadsInMillis); here, as in the interop
tests, they poll almost at the five polls a second that Kinesis allows."""


class Kcl(NamedTuple):
    """A KCL that takes part. `fans_out`: SubscribeToShard reads, by a consumer that the KCL registers."""

    name: str
    profile: Profile
    fans_out: bool = False

    @property
    def application(self) -> str:
        return f"{self.profile}-pushed" if self.fans_out else str(self.profile)


FANS_OUT_KCL = Kcl("KCL 3.x, pushed to", Profile.KCL_3, fans_out=True)
KCLS = (
    Kcl(f"KCL 2.x, each {POLL_MILLIS} ms", Profile.KCL_2),
    Kcl(f"KCL 3.x, each {POLL_MILLIS} ms", Profile.KCL_3),
    FANS_OUT_KCL,
)

Arrivals = list[tuple[float, float]]
"""When each record was put, and how many seconds it took."""


class Load(NamedTuple):
    """`rate`: records per second. Goals in seconds."""

    rate: float
    records: int
    p50: float
    p99: float | None


LOADS = (Load(20, 800, 0.15, 0.40), Load(0.4, 100, 0.5, None))

Found = dict[float, dict[str, list[float]]]
"""Seconds of the records, sorted, by rate and consumer."""


def measure() -> Found:
    ours = (SUBLET, PUSHED, BARE)
    consumers = (*ours, KCL_RS, KCL_RS_PUSHED) if peers.PYTHON.exists() else ours
    return measured(consumers, kcls(), LOADS)


def measured(consumers: Sequence[Consumer], kcls: Sequence[Kcl], loads: Sequence[Load]) -> Found:
    with embedded_aws() as aws:
        bench = Bench(aws, {**ENVIRONMENT, **aws.environment})
        return {load.rate: _measured(bench, load, consumers, kcls) for load in loads}


def report(found: Found) -> bool:
    """Print the table; True if the goals are met."""
    print("from put to handler, seconds: p50 / p90 / p99")
    met = True
    for load in LOADS:
        for name, seconds in found[load.rate].items():
            p50, p90, p99 = (seconds[int(len(seconds) * share)] for share in (0.5, 0.9, 0.99))
            line = f"  {load.rate:>4g} a second  {name:<22}{p50:.2f} / {p90:.2f} / {p99:.2f}"
            if name == SUBLET.name:
                goal = f"{load.p50:g}" + (f" and {load.p99:g}" if load.p99 else "")
                fast = p50 <= load.p50 and (load.p99 is None or p99 <= load.p99)
                line += f"   goal {goal}: {'met' if fast else 'MISSED'}"
                met &= fast
            print(line)
    met &= pushed_in_time(found[LOADS[0].rate])
    if KCL_RS.name not in found[LOADS[0].rate]:
        print(f"  {peers.MISSING}")
    return met


def pushed_in_time(found: Mapping[str, Sequence[float]]) -> bool:
    """Print the goals of a push, and other clients that are pushed to; True if the goals are met."""
    pushed, bare = sorted(found[PUSHED.name]), sorted(found[BARE.name])
    p50, p99, bare_p50 = pushed[len(pushed) // 2], pushed[int(len(pushed) * 0.99)], bare[len(bare) // 2]
    for rival in (FANS_OUT_KCL.name, KCL_RS_PUSHED.name):
        if rival in found:
            theirs = sorted(found[rival])
            middle, last = theirs[len(theirs) // 2], theirs[int(len(theirs) * 0.99)]
            print(f"  {rival}: p50 {middle * 1000:.1f} ms, p99 {last * 1000:.1f} ms")
            print(f"    beside it, sublet: {p50 / middle:.2f} and {p99 / last:.2f} times")
    is_fast = p50 < PUSHED_P50 and p99 < PUSHED_P99 and p50 <= SLOWER_MAX * bare_p50
    print(
        f"  pushed to: p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms; bare loop p50 {bare_p50 * 1000:.1f} ms"
        f"   goal {PUSHED_P50 * 1000:g} ms, {PUSHED_P99 * 1000:g} ms, {SLOWER_MAX:g} times: "
        f"{'met' if is_fast else 'MISSED'}"
    )
    return is_fast


def _measured(bench: Bench, load: Load, consumers: Sequence[Consumer], kcls: Sequence[Kcl]) -> dict[str, list[float]]:
    kinesis = bench.aws.client("kinesis")
    streams = [f"arrivals-{number}-{load.records}" for number in range(len(consumers))]
    java = {f"{kcl.application}-{load.records}": kcl for kcl in kcls}
    for stream in (*streams, *java):
        kinesis.create_stream(StreamName=stream, ShardCount=SHARDS)
        kinesis.get_waiter("stream_exists").wait(StreamName=stream, WaiterConfig={"Delay": 1})
    with ExitStack() as stack:
        started = {
            each.name: stack.enter_context(bench.started(each, stream, WARM_UP + load.records))
            for each, stream in zip(consumers, streams, strict=True)
        }
        workers = {kcl.name: stack.enter_context(java_started(bench, kcl, stream)) for stream, kcl in java.items()}
        counted_from: list[float] = []
        puts = threading.Thread(target=_put_all, args=(kinesis, (*streams, *java), load, counted_from), daemon=True)
        puts.start()
        lasts = WARM_UP + 1.5 * load.records / load.rate + PATIENCE
        told = {
            name: json.loads(process.communicate(timeout=lasts)[0].splitlines()[-1])
            for name, process in started.items()
        }
        told |= {name: worker.arrivals(WARM_UP + load.records, PATIENCE) for name, worker in workers.items()}
    return {name: _counted(arrivals, counted_from[0]) for name, arrivals in told.items()}


def _counted(arrivals: Arrivals, since: float) -> list[float]:
    return sorted(seconds for put, seconds in arrivals if put >= since)


def _put_all(kinesis: Any, streams: Sequence[str], load: Load, counted_from: list[float]) -> None:
    """`counted_from` gets the time at which the warm-up ends."""
    chance = Random(20)
    due = time.time()
    for number in range(WARM_UP + load.records):
        if number == WARM_UP:
            counted_from.append(time.time())
        due += 1.0 if number < WARM_UP else chance.expovariate(load.rate)
        time.sleep(max(0.0, due - time.time()))
        key = f"{chance.getrandbits(64):x}"
        for stream in streams:
            kinesis.put_record(StreamName=stream, PartitionKey=key, Data=stamped())


class JavaWorker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def arrivals(self, expected: int, patience: float) -> Arrivals:
        """The first `expected` arrivals. Raises TimeoutError."""
        until = time.monotonic() + patience
        while len(found := self._found()) < expected:
            if time.monotonic() > until:
                raise TimeoutError(f"{len(found)} of {expected} records were handled: {self._folder}")
            time.sleep(1)
        return found

    def _found(self) -> Arrivals:
        lines = [line for file in self._folder.glob("*.jsonl") for line in file.read_text().splitlines(keepends=True)]
        handled = [json.loads(line) for line in lines if line.endswith("\n")]
        return [(float(data), nanoseconds / 1e9 - float(data)) for nanoseconds, *_, data in handled]


def kcls() -> Sequence[Kcl]:
    """The built workers, if Java is installed."""
    if problem() is not None:
        return ()
    build()
    return KCLS


@contextmanager
def java_started(bench: Bench, kcl: Kcl, stream: str) -> Iterator[JavaWorker]:
    """Starts at the stream's beginning, under an application of its own."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        arguments = [f"{stream}-{kcl.application}", stream, f"{kcl.application}-worker", "TRIM_HORIZON"]
        fans_out = f"-Dinterop.fansOut={str(kcl.fans_out).lower()}"
        process = subprocess.Popen(
            [*command(kcl.profile, "Consumer", fans_out), *arguments],
            env={**bench.environment, "RECORDER_DIRECTORY": folder},
            stdout=log,
            stderr=log,
        )
        try:
            yield JavaWorker(Path(folder))
        finally:
            process.kill()
            process.wait()
