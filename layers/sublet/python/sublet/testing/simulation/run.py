"""One seed, from the first record to the last check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from sublet.protocol.lease import Lease
from sublet.settings import Mode, Settings, StartKind
from sublet.testing.memory import MemoryLeaseTable, MemorySightingStore, MemoryStream
from sublet.testing.simulation.balance import Neighbours, SharedOut
from sublet.testing.simulation.drawn_settings import draw_settings
from sublet.testing.simulation.fleet import SimulatedFleet, Wiring
from sublet.testing.simulation.producer_and_operator import Data, Operator, Producer, Wanted, all_wanted, put_number
from sublet.testing.simulation.recreated_stream import see_replaced
from sublet.testing.simulation.retention import draw_day_off, never_told, trim_on
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Scheduler
from sublet.testing.simulation.shard_time import draw_shard_time
from sublet.testing.simulation.weather import Fault, draw_weather
from sublet.testing.simulation.world import World

CALM_FROM = 480 * SECOND
"""Eight minutes of faults: sixteen failover times, several windows, a dozen ticks or more."""


ASKING_TICKS = 20 * SECOND
"""The longest gap between ticks: announcements lapse in a minute, so a process that requests leases must tick twice
before.
"""

MANY_SHARDS = 64
"""How many shards a few worlds have. Each of these takes as long as a dozen others."""


NEIGHBOURS_SEEN_FOR = 1500 * SECOND
"""How long the neighbours of a bad shard are watched after the faults."""

WORKERS_IDLE_MAX = 2
"""How many of the workers that are sent may find nothing to do, besides a tenth of all: a dead owner had their leases
until a moment ago.
"""

PLAIN = Wiring()


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    violation: str | None
    history: tuple[str, ...]
    steps: int
    handled: int
    records: int
    lost: int
    """Records that were past retention before they were read."""
    furthest_behind: int
    """The greatest lag of any shard beside a bad one, in microseconds."""
    faults: dict[str, int]


def play(
    seed: int,
    *,
    is_recorded: bool = False,
    wiring: Wiring = PLAIN,
    neighbours: Callable[[Random, Settings], Neighbours | None] = lambda *_: None,
    without: frozenset[Fault] = frozenset(),
    data: Data = put_number,
    wanted: Wanted = all_wanted,
    days_off: float = 0,
    a_bad_shard: bool = False,
    replaced: bool = False,
    switches: int = 0,
    idle: bool = False,
    **settings: Any,
) -> Result:
    """Run the seed's world to its end, or to the first broken invariant. `settings` replace drawn ones.

    days_off     the probability of a day without readers
    a_bad_shard  no record of the first shard is ever handled (the wiring has to arrange that): its neighbours must not
                 suffer
    replaced     after the faults the stream is deleted and created again
    switches     how often the stream places records itself for a while, so that aggregates are out of their shards'
                 ranges
    idle         producers fall silent often, and half of the workers have the previous version
    """
    run = _Run(
        seed,
        is_recorded,
        wiring,
        neighbours,
        without,
        data,
        wanted,
        days_off,
        a_bad_shard,
        switches,
        settings,
        idle,
    )
    run.is_replaced = replaced
    try:
        run.play()
    finally:
        run.world.scheduler.close(run.world.processes)
    return run.result()


class _Run:
    def __init__(
        self,
        seed: int,
        is_recorded: bool,
        wiring: Wiring,
        neighbours: Callable[[Random, Settings], Neighbours | None],
        without: frozenset[Fault],
        data: Data,
        wanted: Wanted,
        days_off: float,
        a_bad_shard: bool,
        switches: int,
        given: dict[str, Any],
        is_idle: bool,
    ) -> None:
        chance = Random(seed)
        scheduler = Scheduler(chance)
        settings = replace(draw_settings(chance), **given)
        self.day_off = draw_day_off(chance, days_off, CALM_FROM)
        shard_time = draw_shard_time(
            chance,
            is_long=bool(self.day_off.lasts),
            is_idle=is_idle,
            are_stamps_right=bool(switches),  # the stream's placement is known by arrival time
        )
        self.neighbours = None if self.day_off.lasts else neighbours(chance, settings)
        self.world = World(
            seed,
            chance,
            scheduler,
            draw_weather(chance, CALM_FROM + self.day_off.lasts, without | self._without(settings)),
            settings,
            MemoryLeaseTable(),
            MemoryStream(
                MANY_SHARDS if chance.random() < 0.01 else chance.randint(1, 4),
                clock=scheduler,
                throttled=chance.random() < 0.5,
                short_numbers=chance.random() < 0.3,
                advance=shard_time.advance,
                stamp=shard_time.stamp,
            ),
            MemorySightingStore(),
            shard_time,
            max_skew=timedelta(seconds=chance.choice((0, 1, 3))),
            is_recorded=is_recorded,
            day_off=self.day_off,
            starts_alone=self.neighbours is None,
            older=0.5 if is_idle else chance.choice((0, 0, 0.5)),
        )
        if a_bad_shard:
            self.world.bad_shard = self.world.stream.logs[0].shard_id
        if not wiring.has_rules:
            self.world.watch.rules = None
        self.tick_interval = chance.choice((20, 30, 60)) * SECOND
        self.world.asks = seed % 2 == 0 and self.tick_interval == ASKING_TICKS
        self.stays_to_see_balance = chance.random() < 0.3 and wiring.sees_balance
        """Whether the run checks the balance, which takes as long as the rest of a world."""
        self.is_replaced = False
        self.furthest_behind = 0
        self.fleet = SimulatedFleet(self.world, self.tick_interval, wiring)
        self.producer = Producer(
            self.world,
            until=CALM_FROM + NEIGHBOURS_SEEN_FOR
            if a_bad_shard
            else int(CALM_FROM * chance.uniform(0.5, 1.1)) + self.day_off.lasts,
            pause=int(chance.choice((1.5, 5, 20)) * SECOND),
            reshards=chance.choice((0, 1, 2, 4, 6)),
            data=data,
            wanted=wanted,
            switches=switches,
        )

    def _without(self, settings: Settings) -> frozenset[Fault]:
        """Leaves out faults that no implementation survives: without its row LATEST forgets where it was, and Java
        stops at a bad row.
        """
        is_latest = settings.start_position.kind is StartKind.LATEST
        without = {Fault.ROW_DELETED} if is_latest else set()
        return frozenset(without | ({Fault.ROW_GONE_BAD} if self.neighbours else set()))

    def play(self) -> None:
        world, chance = self.world, self.world.chance
        self.producer.prepare(chance.choice((0, 5, 30)), chance.choice((0, 0, 1, 3)))
        self.producer.start()
        Operator(world, world.weather.calm_from).start()
        self.fleet.start()
        self.fleet.wiring.begin(world)
        if self.day_off.lasts:
            world.at(self.day_off.ends, "retention", partial(trim_on, world))
        if self.neighbours is not None:
            self.neighbours.start(world)
        world.scheduler.run_until(world.weather.calm_from)
        world.note("weather", "calm from now on")
        if self.is_replaced:
            if problem := see_replaced(world):
                self._complain(problem)
        elif world.bad_shard is None:
            self._run_calm()
        else:
            self._see_neighbours()

    def _see_neighbours(self) -> None:
        """Lets one shard stand still while records keep arriving in the others: each of those must stay near its
        tip.
        """
        world, scheduler = self.world, self.world.scheduler
        bound = self._patience_with_neighbours()
        scheduler.run_until(world.weather.calm_from + bound)
        while scheduler.now_us < world.weather.calm_from + NEIGHBOURS_SEEN_FOR and not scheduler.is_stopped:
            scheduler.run_until(scheduler.now_us + 5 * SECOND)
            for shard_id, truth in world.ledger.shards.items():
                behind = truth.oldest_waits(scheduler.now_us) if self._may_go_on(shard_id) else 0
                self.furthest_behind = max(self.furthest_behind, behind)
                if behind > bound and not scheduler.is_stopped:
                    self._complain(
                        f"{shard_id} is {behind / SECOND:.0f} s behind, beside a bad one: {bound / SECOND:.0f} s are "
                        "plenty"
                    )
                    return

    def _patience_with_neighbours(self) -> int:
        """Returns a window with its margin, and the time of the tick that sends the next worker."""
        settings = self.world.settings
        window = (settings.window + settings.window_margin + settings.failover_time) // MICROSECOND
        return window + 2 * self.tick_interval

    def _may_go_on(self, shard_id: str) -> bool:
        """Whether neither the shard nor an ancestor is the bad one, which holds back its descendants."""
        truth = self.world.ledger.shards.get(shard_id)
        return shard_id != self.world.bad_shard and (truth is None or all(map(self._may_go_on, truth.parents)))

    def _run_calm(self) -> None:
        """Gives the world limited time to drain, then watches a period in which nothing may move."""
        scheduler, calm_from = self.world.scheduler, self.world.weather.calm_from
        patience, ticks = self._patience(), self.world.ticks
        bound = calm_from + patience
        while scheduler.now_us < bound and not scheduler.is_stopped and not self._is_drained():
            scheduler.run_until(scheduler.now_us + self.tick_interval)
        if not scheduler.is_stopped and not self._is_drained():
            self._complain(f"not drained {patience / SECOND:.0f} s after the faults stopped: {self._left()}")
        self._check_calm(self.world.ticks - ticks, scheduler.now_us - calm_from)
        self._check_told()
        self._check_workers()
        self._check_beside()
        if scheduler.is_stopped or self.world.violation is not None:
            return
        if self.world.settings.mode is Mode.CONTINUOUS and self.stays_to_see_balance:
            SharedOut(self.world, self.tick_interval, self.neighbours, self._complain).check()

    def _check_told(self) -> None:
        """Checks that each loss was reported, shard by shard."""
        if self.world.violation is None and (untold := never_told(self.world)):
            self._complain(f"records are past retention, and no loss is reported: {untold}")

    def _check_beside(self) -> None:
        """Runs the wiring's own check at the end."""
        if self.world.violation is None and (problem := self.fleet.wiring.at_the_end(self.world)):
            self._complain(problem)

    def _check_workers(self) -> None:
        """Checks that each worker that is sent after the faults gets a lease. It does not check this beside Java, which
        may be faster.
        """
        world = self.world
        calm = [
            process
            for process, item in world.items.items()
            if world.senders[item.item_id].started_at >= world.weather.calm_from
        ]
        idle = [process for process in calm if process not in self.world.acquirers]
        most = WORKERS_IDLE_MAX + len(calm) // 10
        if self.neighbours is None and len(idle) > most and self.world.violation is None:
            self._complain(f"{len(idle)} of {len(calm)} workers got no lease in the calm, where {most} are plenty")

    def _check_calm(self, ticks: int, lasted: int) -> None:
        """Checks the number of ticks. Prompts come at the ends of shards and executions; if there are more, workers and
        ticks chase each other.
        """
        windows = lasted // (self.world.settings.window // MICROSECOND) + 2
        most = 2 * (lasted // self.tick_interval + windows * len(self.world.ledger.shards)) + 40
        if ticks > most and self.world.violation is None:
            self._complain(f"{ticks} ticks in {lasted / SECOND:.0f} s of calm, where {most} are plenty")

    def _patience(self) -> int:
        """Returns how long the world may take to drain: a failover, then a tick or two for each generation of shards
        still to be read, and a window in between. All the shards' time may have to be walked, twice if a worker dies in
        the middle.
        """
        settings = self.world.settings
        generations = len(self.world.ledger.shards)
        zombies = 3 * settings.failover_time + 2 * (settings.window + settings.window_margin)
        unread = sum(len(truth.places) - truth.done_before() for truth in self.world.ledger.shards.values())
        retries = timedelta(seconds=2) if settings.gives_up else timedelta(0)  # a share, for records that always fail
        if settings.gives_up:
            given_up = max(settings.maximum_retry_attempts, 0) // settings.handler_attempts
            retries += given_up * self.tick_interval * MICROSECOND / 5
        reading = unread * (settings.poll_interval + retries)
        walking = 2 * self.world.weather.calm_from * MICROSECOND / self.world.shard_time.shortest
        reading += walking * settings.poll_interval
        return (zombies + reading) // MICROSECOND + (6 + 2 * generations) * self.tick_interval

    def _is_drained(self) -> bool:
        return not self._left()

    def _left(self) -> list[str]:
        left = []
        for shard_id, truth in self.world.ledger.shards.items():
            if not self._may_go_on(shard_id):
                continue
            row = self.world.table.get(shard_id)
            if not truth.is_all_done:
                left.append(f"{shard_id[-4:]} has unhandled records")
            elif isinstance(row, Lease) and not row.is_ended:
                if truth.is_closed:
                    left.append(f"{shard_id[-4:]} is not ended")
                elif (
                    truth.places
                    and truth.covered_by(row.checkpoint) < len(truth.places)
                    and truth.is_required(len(truth.places) - 1)
                ):
                    left.append(f"{shard_id[-4:]} has unwritten progress")
            elif row is None and not truth.is_closed:
                left.append(f"{shard_id[-4:]} has no lease")
        return left

    def _complain(self, problem: str) -> None:
        self.world.note("end", f"VIOLATION: {problem}")
        self.world.violation = self.world.violation or problem

    def result(self) -> Result:
        world = self.world
        history = tuple(f"{at / SECOND:10.3f}  {who:24}  {what}" for at, who, what in world.history)
        records = sum(len(truth.places) for truth in world.ledger.shards.values())
        return Result(
            world.seed,
            world.violation,
            history,
            world.scheduler.steps,
            world.ledger.handled,
            records,
            sum(truth.lost for truth in world.ledger.shards.values()),
            self.furthest_behind,
            world.faults,
        )
