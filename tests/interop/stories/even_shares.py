"""A KCL 3.x leader distributes eight evenly loaded shards among two Java workers and two of sublet's; times in seconds.

Whichever starts first, each has two within three minutes, give or take one lease; after that at most one moves in five
minutes. A killed worker's leases have new owners within a failover time and one tick, if it was sublet's: Java's
leader only looks every two failover times.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tests.e2e.deliveries import wait_until
from tests.e2e.fleet import Fleet
from tests.interop.build import Profile
from tests.interop.workers import SIDES, Java
from tests.mixed_fleet.stage import PATIENCE, Stage
from tests.mixed_fleet.verdict import LOST
from tests.mixed_fleet.workers import How, Side, Worker


class Size(NamedTuple):
    shards: int
    failover_seconds: int


OF_FOUR = Size(shards=8, failover_seconds=10)
ON_LAMBDA = Size(shards=6, failover_seconds=90)
KEYS_A_SHARD = 2
PRODUCE_EVERY = 0.2
TICK_SECONDS = 60
EVEN_ON_LAMBDA_WITHIN = 1_800.0
"""KCL balances every sixth failover time: three rounds for six, none and none."""
EVEN_WITHIN = 180.0
WATCHED = 300.0
MOVES_AT_MOST = 1
LOOKS_EVERY = 2 / 3
"""Of a failover time: a process' tick."""
SLACK = 1.0
"""Until a dead process is known to be dead, and a write is made and seen."""
APART = 10.0
"""Between two Java starts on one table: if two start in the same second, the loser of KCL's race ends (3.5.1)."""


class First(StrEnum):
    NEITHER = "together"
    JAVA = "java-first"
    SUBLET = "sublet-first"


@dataclass(frozen=True)
class EvenShares:
    stage: Stage
    java: Java
    first: First
    profile: Profile = Profile.KCL_3
    repeats_nothing: Container[str] = (How.STOPPED, LOST)

    def run(self) -> None:
        stage = self.stage
        even_load(stage, OF_FOUR.shards)
        with stage.producing():
            if self.first is not First.JAVA:
                self._hire_ours()
            if self.first is First.SUBLET:
                self._is_even(PATIENCE)
            self._hire_java()
            if self.first is First.JAVA:
                self._is_even(PATIENCE)
                self._hire_ours()
            self._is_even(EVEN_WITHIN, but_for=1)
            self._rests()
            late = [self._loses(stage.busiest(side)) for side in (Side.SUBLET, SIDES[self.profile])]
        stage.drained()
        assert not any(late), f"too late: {[what for what in late if what]}"

    def _hire_java(self) -> None:
        self.stage.hire(self.java.kcl(self.profile, "1"))
        time.sleep(APART)
        self.stage.hire(self.java.kcl(self.profile, "2"))

    def _hire_ours(self) -> None:
        for name in ("1", "2"):
            self.stage.hire(self.java.employer.sublet(name))

    def _is_even(self, limit: float, *, but_for: int = 0) -> None:
        """`but_for`: allowed deviation in leases, because KCL moves none that would put a worker above the average,
        by its last measurement."""
        stage, started = self.stage, time.monotonic()
        names = [worker.worker_id for worker in stage.alive()]
        share = OF_FOUR.shards // len(names)

        def is_even() -> bool:
            held = stage.held()
            off = sum(abs(held[name] - share) for name in names)
            return set(held) <= set(names) and held.total() == OF_FOUR.shards and off <= 2 * but_for

        wait_until(is_even, limit, lambda: f"not even: {stage.watch.owners()}, wanted {share} each")
        stage.note(f"even, since {names[-1]} was started", started)

    def _rests(self) -> None:
        stage, started = self.stage, time.monotonic()
        before = len(stage.watch.moves)
        time.sleep(WATCHED)
        moves = stage.watch.moves[before:]
        stage.note(f"{len(moves)} moved", started)
        assert len(moves) <= MOVES_AT_MOST, f"moved though it was even: {moves}"

    def _loses(self, victim: Worker) -> str | None:
        """What took too long, if anything."""
        stage = self.stage
        lost = {key for key, owner in stage.watch.owners().items() if owner == victim.worker_id}
        started = time.monotonic()
        victim.kill()

        def is_taken() -> bool:
            return all(stage.watch.owners().get(key) != victim.worker_id for key in lost)

        bound = (1 + LOOKS_EVERY) * self.java.employer.failover_seconds + SLACK
        wait_until(is_taken, 10 * bound, lambda: f"still of {victim.worker_id}: {stage.watch.owners()}")
        lasted = time.monotonic() - started
        stage.note(f"{len(lost)} leases of {victim.worker_id}, which was killed, are others'", started)
        return None if lasted <= bound else f"what {victim.worker_id} held was another's after {lasted:.1f} s"


@dataclass(frozen=True)
class EvenOnLambda:
    """Two Java workers beside a deployment in `continuous` mode, which ticks once a minute: two of six shards each."""

    stage: Stage
    java: Java
    repeats_nothing: Container[str] = (How.STOPPED, LOST)

    def run(self) -> None:
        stage = self.stage
        even_load(stage, ON_LAMBDA.shards)
        deployment = stage.others = f"{stage.fleet.outputs['LeaseTable']}-lambda-0"
        with stage.producing(), ticking(stage.fleet):
            started = time.monotonic()
            stage.hire(self.java.kcl(Profile.KCL_3, "1"))
            time.sleep(APART)
            stage.hire(self.java.kcl(Profile.KCL_3, "2"))
            names = [deployment, *(worker.worker_id for worker in stage.alive())]
            even = dict.fromkeys(names, ON_LAMBDA.shards // len(names))
            wait_until(
                lambda: stage.held() == even,
                EVEN_ON_LAMBDA_WITHIN,
                lambda: f"not even: {stage.watch.owners()}",
            )
            stage.note("two each", started)
        stage.drained()


@contextmanager
def ticking(fleet: Fleet) -> Iterator[None]:
    """Replaces a schedule."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(TICK_SECONDS):
            fleet.tick()

    fleet.tick()
    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def even_load(stage: Stage, shards: int) -> None:
    """The same number of keys and bytes for each of several equal shards, each time: KCL's average covers the last
    few seconds."""
    found: dict[int, list[str]] = {shard: [] for shard in range(shards)}
    for number in range(1_000):
        key = f"key-{number:03}"
        found[int(hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(), 16) * shards >> 128].append(key)
    stage.keys = [key for keys in found.values() for key in keys[:KEYS_A_SHARD]]
    stage.aggregates, stage.produce_every = False, PRODUCE_EVERY
