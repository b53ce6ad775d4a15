"""One stream, one lease table, two kinds of workers, and what happens to them. Every step waits for the fleet to have settled.

A step's time is until each shard in play is held by a living worker of the wanted side; of a kill, until every lease of
the killed one is held by another.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.e2e.deliveries import wait_until
from tests.e2e.fleet import Fleet
from tests.mixed_fleet.table_watch import TableWatch
from tests.mixed_fleet.workers import Employer, Side, Worker

KEYS = [f"key-{n}" for n in range(40)]
PRODUCE_EVERY = 0.5
"""Seconds between two rounds of one event per key; every fourth round is of KPL aggregates."""
PATIENCE = 150.0
"""Seconds for any step: a worker's cold start, two failover times and KCL's 20 s between two assignments."""


@dataclass
class Step:
    what: str
    seconds: float
    owners: dict[str, int]


@dataclass
class Story:
    fleet: Fleet
    employer: Employer
    watch: TableWatch
    tell: Callable[[str], None]
    workers: list[Worker] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def run(self) -> None:
        with self._producing():
            self._both_sides_share()
            self._reshards()
            self._kills()
            self._all_to_sublet()
            self._all_back_to_kcl_rs()
        self._drained()

    def _both_sides_share(self) -> None:
        for name in ("1", "2"):
            self._hire(self.employer.kcl_rs(name))
        self._settle("two kcl-rs workers start the application", self._alive(), each=True)
        for name in ("1", "2"):
            self._hire(self.employer.sublet(name))
        self._settle("two sublet processes join and take their share", self._alive(), each=True)

    def _reshards(self) -> None:
        self.fleet.split()
        self._settle("a split while both sides work", self._alive())
        self.fleet.merge()
        self._settle("a merge while both sides work", self._alive())

    def _kills(self) -> None:
        for side in Side:
            victim = max(self._alive(side), key=lambda worker: self._held()[worker.worker_id])
            victim.kill()
            self._settle(f"SIGKILL of {victim.worker_id}", self._alive())

    def _all_to_sublet(self) -> None:
        self._hire(self.employer.sublet("3"))
        for worker in self._alive(Side.KCL_RS):
            worker.stop()
        self._settle("kcl-rs is stopped: everything to sublet", self._alive(Side.SUBLET), each=True)
        self.fleet.split()
        self._settle("a split, on sublet alone", self._alive(Side.SUBLET))

    def _all_back_to_kcl_rs(self) -> None:
        for name in ("3", "4"):
            self._hire(self.employer.kcl_rs(name))
        self._settle("two kcl-rs workers come back and take their share", self._alive(), each=True)
        for worker in self._alive(Side.SUBLET):
            worker.stop()
        self._settle("sublet is stopped: everything back to kcl-rs", self._alive(), each=True)
        self.fleet.merge()
        self._settle("a merge, on kcl-rs alone", self._alive())

    def _drained(self) -> None:
        started = time.monotonic()
        self.fleet.recorder.wait_for(self.fleet.put, PATIENCE)
        self._note("the producer has stopped: every record is handled", started)
        for worker in self._alive():
            worker.stop()

    def end(self) -> None:
        """Whatever has happened, no worker stays behind."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill()

    def _hire(self, worker: Worker) -> None:
        self.workers.append(worker)

    def _alive(self, side: Side | None = None) -> list[Worker]:
        return [worker for worker in self.workers if worker.end is None and side in (None, worker.side)]

    def _held(self) -> Counter[str | None]:
        return Counter(self.watch.owners().values())

    def _settle(self, what: str, wanted: Iterable[Worker], *, each: bool = False) -> None:
        """Wait until the leases in play are those of the open shards, and all held by `wanted` workers (by `each` of them)."""
        started, names = time.monotonic(), {worker.worker_id for worker in wanted}

        def settled() -> bool:
            owners = self.watch.owners()
            open_shards = {shard["ShardId"] for shard in self.fleet.open_shards()}
            held_by = set(owners.values())
            return owners.keys() == open_shards and (held_by == names if each else held_by <= names)

        wait_until(
            settled, PATIENCE, lambda: f"{what}: did not settle: {self.watch.owners()}, wanted {names}"
        )
        self._note(what, started)

    def _note(self, what: str, started: float) -> None:
        step = Step(what, time.monotonic() - started, dict(Counter(map(str, self.watch.owners().values()))))
        self.steps.append(step)
        held = ", ".join(f"{owner} {count}" for owner, count in sorted(step.owners.items()))
        self.tell(f"{step.seconds:6.1f} s  {what}  [{held}]")

    @contextmanager
    def _producing(self) -> Iterator[None]:
        over = threading.Event()
        faults: list[BaseException] = []

        def produce() -> None:
            turn = 0
            try:
                while not over.wait(PRODUCE_EVERY):
                    turn += 1
                    self.fleet.produce(KEYS, aggregated=turn % 4 == 0)
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
