"""One run: deploy, produce records, inject faults for a while, calm down, wait until all is handled, judge."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from sublet.settings import Reading

from tests.chaos.fleet import FAILURE_RATE, FUNCTIONS, TICK_SECONDS, ChaosFleet, chaos_fleet
from tests.chaos.plan import Kind, Pace, plan
from tests.chaos.recovery import Recovery, recoveries
from tests.chaos.repeating import Repeating, repeating
from tests.chaos.troublemaker import PACES, Troublemaker
from tests.chaos.verdict import Verdict, judge

KEYS = [f"key-{n}" for n in range(60)]
PRODUCE_EVERY = 0.5
"""Seconds between two rounds of one event per key; every fourth round is of KPL aggregates of three."""
LOOK_EVERY = 0.5
FIRST_SHARDS_WITHIN = 60.0
RECOVERED_WITHIN = 60.0
"""Seconds to recover from the last faults, with records still coming."""
DRAINED_WITHIN = 120.0


class ChaosFailed(Exception):
    """The run could not finish."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `seconds` since the first fault; `faults` counts by kind."""

    phase: str
    seconds: float
    faults: Mapping[str, int]
    put: int
    handled: int


@dataclass(frozen=True, slots=True)
class Found:
    """The report's content. `wrong`: broken rules of the lease table. `subscriptions`: how many began; 0 if shards are
    polled.
    """

    seed: int
    seconds: float
    verdict: Verdict
    recoveries: Sequence[Recovery]
    faults: Mapping[str, int]
    reshards: Mapping[str, int]
    hit: Mapping[str, int]
    requests: int
    refused: Mapping[str, int]
    ticks: int
    failed_ticks: int
    moves: int
    taken: int
    wrong: Sequence[str]
    subscriptions: int = 0


Show = Callable[[Progress], None]


def run(
    seed: int,
    seconds: float,
    folder: Path,
    show: Show,
    paces: Mapping[Kind, Pace] = PACES,
    failure_rate: float = FAILURE_RATE,
    reading: Reading = Reading.POLLING,
) -> Found:
    """Raises ChaosFailed if no record was handled at all, and errors of the embedded AWS and the deployment."""
    show(Progress("deploying", 0, {}, 0, 0))
    with ExitStack() as stack:
        chaos = stack.enter_context(chaos_fleet(seed, folder, reading))
        trouble = Troublemaker(chaos, plan(seed, seconds, paces))
        stack.enter_context(repeating(LOOK_EVERY, chaos.observer.look))
        stack.enter_context(repeating(TICK_SECONDS, chaos.start_tick))
        with repeating(PRODUCE_EVERY, _producer(chaos)) as producer:
            story = _Story(chaos, trouble, producer, show)
            story.until_all_deliver()
            stack.callback(trouble.calm)
            chaos.fail_handlers(failure_rate)
            story.chaos_for(seconds)
            trouble.calm()
            story.until_recovered()
        story.until_drained()
        chaos.observer.look()
        _keep_evidence(chaos, trouble)
        found = _found(seed, seconds, chaos, trouble)
    if reading is Reading.FAN_OUT and not found.subscriptions:
        raise ChaosFailed("nothing was subscribed to")
    return found


def _keep_evidence(chaos: ChaosFleet, trouble: Troublemaker) -> None:
    """For later analysis: the faults, the functions' and the emulators' logs, next to the journals."""
    faults = [[*fault[:3], sorted(fault.shards), fault.what] for fault in trouble.faults]
    (chaos.folder / "faults.json").write_text(json.dumps(faults))
    for server in chaos.aws.servers:
        shutil.copyfile(server.log, chaos.folder / f"{server.name}.log")
    for role in FUNCTIONS:
        (chaos.folder / f"{role}.log").write_text("\n".join(chaos.log_of(role)))


def _producer(chaos: ChaosFleet) -> Callable[[], object]:
    turn = 0

    def produce() -> None:
        nonlocal turn
        turn += 1
        chaos.fleet.produce(KEYS, aggregated=turn % 4 == 0)

    return produce


@dataclass
class _Story:
    """The phases of a run. Each reads the journals and shows its progress, several times a second."""

    chaos: ChaosFleet
    trouble: Troublemaker
    producer: Repeating
    show: Show
    began: float = 0.0

    def until_all_deliver(self) -> None:
        self.began = time.monotonic()
        self._until("first records", FIRST_SHARDS_WITHIN, self._all_deliver)
        if not self._all_deliver():
            raise ChaosFailed(
                f"only {sorted(self.chaos.journal.last_call)} delivered within {FIRST_SHARDS_WITHIN:.0f} s"
            )

    def chaos_over(self) -> bool:
        """Always False: the plan sets the time of faults, and the run ends them."""
        self.trouble.go_on(time.monotonic() - self.began)
        return False

    def chaos_for(self, seconds: float) -> None:
        self.began = time.monotonic()
        self._until("chaos", seconds, self.chaos_over)

    def until_recovered(self) -> None:
        """Records still come: a shard without new ones could not show that it is delivered."""
        self._until("recovering", RECOVERED_WITHIN, self._recovered)

    def until_drained(self) -> None:
        put = set(self.chaos.fleet.put)
        self._until("draining", DRAINED_WITHIN, lambda: put <= self.chaos.journal.handled)

    def _all_deliver(self) -> bool:
        open_shards = {shard["ShardId"] for shard in self.chaos.fleet.open_shards()}
        return open_shards <= self.chaos.journal.last_call.keys()

    def _recovered(self) -> bool:
        found = recoveries(self.trouble.faults, self.chaos.journal.entries, self.chaos.ticks)
        return all(recovery.seconds is not None for recovery in found)

    def _until(self, phase: str, seconds: float, done: Callable[[], bool]) -> None:
        began = time.monotonic()
        while not done() and time.monotonic() - began < seconds:
            if self.producer.failure is not None:
                raise ChaosFailed("the producer gave up") from self.producer.failure
            time.sleep(0.1)
            self.chaos.journal.read()
            self._show(phase)

    def _show(self, phase: str) -> None:
        elapsed, put = time.monotonic() - self.began, len(self.chaos.fleet.put)
        faults = Counter[str](fault.kind for fault in self.trouble.faults)
        self.show(Progress(phase, elapsed, faults, put, len(self.chaos.journal.handled)))


def _found(seed: int, seconds: float, chaos: ChaosFleet, trouble: Troublemaker) -> Found:
    faults, entries, networks = trouble.faults, chaos.journal.entries, chaos.networks
    return Found(
        seed=seed,
        seconds=seconds,
        verdict=judge(chaos.fleet.put, entries, chaos.observer.rows, trouble.suspended),
        recoveries=recoveries(faults, entries, chaos.ticks),
        faults=Counter[str](fault.kind for fault in faults),
        reshards=Counter(fault.what for fault in faults if fault.kind is Kind.RESHARD),
        hit=sum((Counter[str](each.hit) for each in networks), Counter()),
        requests=sum(each.requests for each in networks),
        refused=sum((each.refused for each in networks), Counter()),
        ticks=len(chaos.ticks),
        failed_ticks=chaos.failed_ticks,
        moves=chaos.observer.moves,
        taken=chaos.observer.taken,
        wrong=chaos.observer.wrong,
        subscriptions=sum(each.subscriptions for each in networks),
    )
