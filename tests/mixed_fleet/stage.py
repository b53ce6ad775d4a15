"""Sets the stage for every story with several kinds of workers: one stream, one lease table, its workers, and a
producer.

All waits have the same bound, which is for failures and measures nothing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from infra.local.embedded import EmbeddedAws
from tests.e2e.deliveries import Recorder, wait_until
from tests.e2e.fleet import Fleet
from tests.mixed_fleet.history import TableHistory
from tests.mixed_fleet.table_watch import TableWatch
from tests.mixed_fleet.verdict import Verdict, judge, read_handled
from tests.mixed_fleet.workers import Side, Worker

KEYS = tuple(f"key-{n}" for n in range(40))
PRODUCE_EVERY = 0.5
"""Seconds between two rounds of one event per key; every fourth round is of KPL aggregates."""
PATIENCE = 240.0
"""Seconds for any step: a worker's cold start, two failover times and KCL's 20 s between two assignments."""


@dataclass
class Stage:
    """`unordered`: texts put by others than the fleet's own producer; `others`: the worker id of processes that the
    story did not start, such as a deployment's; `keys`: of the events that are put; `aggregates`: put some of them as
    aggregates."""

    fleet: Fleet
    folder: Path
    history: TableHistory
    tell: Callable[[str], None]
    workers: list[Worker] = field(default_factory=list)
    unordered: list[str] = field(default_factory=list)
    others: str | None = None
    keys: Sequence[str] = KEYS
    aggregates: bool = True
    produce_every: float = PRODUCE_EVERY

    @property
    def watch(self) -> TableWatch:
        return self.history.watch

    def hire(self, worker: Worker) -> Worker:
        self.workers.append(worker)
        return worker

    def at_work(self, worker: Worker) -> Worker:
        """Hire it, and wait until it has handled something."""
        self.hire(worker)
        self.handles(worker)
        return worker

    def alive(self, side: Side | None = None) -> list[Worker]:
        return [worker for worker in self.workers if worker.end is None and side in (None, worker.side)]

    def held(self) -> Counter[str | None]:
        return Counter(self.watch.owners().values())

    def busiest(self, side: Side) -> Worker:
        held = self.held()
        return max(self.alive(side), key=lambda worker: held[worker.worker_id])

    def settle(self, what: str, wanted: Iterable[Worker], *, each: bool = False) -> None:
        """Wait until the leases in play are those of the open shards, and all held by `wanted` workers (by `each` of
        them)."""
        started, names = time.monotonic(), {worker.worker_id for worker in wanted}

        def settled() -> bool:
            owners = self.watch.owners()
            open_shards = {shard["ShardId"] for shard in self.fleet.open_shards()}
            held_by = set(owners.values())
            return owners.keys() == open_shards and (held_by == names if each else held_by <= names)

        wait_until(settled, PATIENCE, lambda: f"{what}: did not settle: {self.watch.owners()}, wanted {names}")
        self.note(what, started)

    def handles(self, worker: Worker) -> None:
        """Wait until it has handled something."""
        started, lines = time.monotonic(), self.folder / f"{worker.process.pid}.jsonl"
        wait_until(lines.exists, PATIENCE, lambda: f"{worker.worker_id} handles nothing: {worker.log}")
        self.note(f"{worker.worker_id} handles records", started)

    def reports(self, worker: Worker) -> None:
        """Wait until the table has the report of a KCL 3.x worker, which it writes once it is up."""
        started = time.monotonic()
        wait_until(
            lambda: worker.worker_id in self.watch.rows,
            PATIENCE,
            lambda: f"{worker.worker_id} does not report: {worker.log}",
        )
        self.note(f"{worker.worker_id} is up", started)

    def drained(self) -> None:
        """Wait until every record has been handled, then stop all workers."""
        started = time.monotonic()
        self.fleet.recorder.wait_for([*self.fleet.put, *self.unordered], PATIENCE)
        self.note("the producer has stopped: every record is handled", started)
        for worker in self.alive():
            worker.stop()

    def end(self) -> None:
        """Whatever has happened, no worker stays behind."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill()

    def note(self, what: str, started: float) -> None:
        held = ", ".join(f"{owner} {count}" for owner, count in sorted(self.held().items(), key=str))
        self.tell(f"{time.monotonic() - started:6.1f} s  {what}  [{held}]")

    @contextmanager
    def producing(self) -> Iterator[None]:
        over = threading.Event()
        faults: list[BaseException] = []

        def produce() -> None:
            turn = 0
            try:
                while not over.wait(self.produce_every):
                    turn += 1
                    self.fleet.produce(self.keys, aggregated=self.aggregates and turn % 4 == 0)
            except BaseException as fault:  # noqa: BLE001 - raised below, in the thread that asks
                faults.append(fault)

        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if faults:
            raise faults[0]

    def verdict(self) -> Verdict:
        """After all workers, and the history, have ended."""
        shards = self.fleet.kinesis.list_shards(StreamName=self.fleet.stream)["Shards"]
        parents = {
            shard["ShardId"]: [shard[name] for name in ("ParentShardId", "AdjacentParentShardId") if name in shard]
            for shard in shards
        }
        ends = {worker.worker_id: worker.end for worker in self.workers}
        handled = read_handled(self.folder, self.workers, self.others)
        return judge(handled, self.fleet.put, parents, ends, self.history.writes, self.unordered)


def new_fleet(aws: EmbeddedAws, application: str, shards: int, folder: Path) -> Fleet:
    """A new stream; the lease table's name is the stream's and the application's."""
    kinesis = aws.client("kinesis")
    kinesis.create_stream(StreamName=application, ShardCount=shards)
    kinesis.get_waiter("stream_exists").wait(StreamName=application, WaiterConfig={"Delay": 1})
    return Fleet(aws, application, {"LeaseTable": application}, Recorder(folder))


def stage_of(fleet: Fleet, folder: Path, tell: Callable[[str], None]) -> Stage:
    """Its lease table is watched from the first row on."""
    return Stage(fleet, folder, TableHistory(fleet.aws, fleet.outputs["LeaseTable"], TableWatch()), tell)


def is_well(stage: Stage, story: Callable[[], None], *, repeats_nothing: Container[str] = ()) -> bool:
    """Play the story to its end, and report the result: True if nothing was lost, late, early or unexplained.

    `repeats_nothing`: ends (How's values and LOST) after which nothing may be handled again.
    """
    stage.history.start()
    stuck = ""
    try:
        story()
    except AssertionError as problem:
        stuck = str(problem)
    finally:
        stage.end()
        stage.history.stop()
        stage.history.keep(stage.folder / "writes.log")
    verdict = stage.verdict()
    _show(stage, verdict, stuck)
    unwanted = [repeat for repeat in verdict.repeats if repeat.what in repeats_nothing]
    return verdict.is_clean and not (stuck or stage.watch.wrong or unwanted)


def _show(stage: Stage, verdict: Verdict, stuck: str) -> None:
    sides = Counter(
        (before.rpartition("-")[0], after.rpartition("-")[0]) for before, after in stage.watch.moves if before and after
    )
    moves = ", ".join(f"{before} to {after} {count}" for (before, after), count in sorted(sides.items()))
    put = len(stage.fleet.put) + len(stage.unordered)
    stage.tell(
        f"\n{put:,} records put, {verdict.handled:,} handled; {len(stage.history.writes):,} writes to the table; "
        f"leases moved: {moves or 'none'}"
    )
    for what, found in (
        ("missing", verdict.missing),
        ("out of order", verdict.out_of_order),
        ("children before their parents", verdict.children_too_early),
        ("repeats and others that no checkpoint explains", verdict.unexplained),
        ("broken rules of the lease table", stage.watch.wrong),
        ("stuck", [stuck] if stuck else []),
    ):
        stage.tell(f"{len(found):>6}  {what}" + "".join(f"\n        {one}" for one in found[:10]))
    if stage.watch.set_back:
        stage.tell(
            f"{stage.watch.set_back:>6}  late checkpoints that a KCL wrote its own, older position over (see "
            "table_watch.py)"
        )
    stage.tell(f"{sum(verdict.repeats.values()):>6}  repeated")
    for explanation, count in sorted(verdict.repeats.items()):
        stage.tell(f"{count:>14}  {explanation}")
