"""One seed, from the first record to the last check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any, Protocol

from sublet.memory import MemoryLeaseTable, MemorySightingStore, MemoryStream
from sublet.memory.clock import BEGINNING
from sublet.protocol.lease import Lease
from sublet.settings import Balance, Mode, Settings, StartKind, StartPosition
from sublet.testing.simulation.fleet import Fleet, Wiring
from sublet.testing.simulation.outside import Data, Operator, Producer, put_number
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Scheduler
from sublet.testing.simulation.weather import Fault, draw_weather
from sublet.testing.simulation.world import World

CALM_FROM = 480 * SECOND
"""Eight minutes of faults: sixteen failover times, several windows, a dozen ticks or more."""


ASKING_TICKS = 20 * SECOND
"""What is announced lapses in a minute: whoever asks has to look twice before."""

MANY_SHARDS = 64
"""In a few worlds, which take as long as a dozen others."""

PLAIN = Wiring()


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    violation: str | None
    history: tuple[str, ...]
    steps: int
    handled: int
    records: int
    faults: dict[str, int]


class Neighbours(Protocol):
    """A foreign fleet on the same lease table."""

    @property
    def version(self) -> int:
        """Of KCL: how its leases are balanced."""

    def start(self, world: World) -> None: ...


def play(
    seed: int,
    *,
    is_recorded: bool = False,
    wiring: Wiring = PLAIN,
    neighbours: Callable[[Random, Settings], Neighbours | None] = lambda *_: None,
    without: frozenset[Fault] = frozenset(),
    data: Data = put_number,
    **settings: Any,
) -> Result:
    """Run the seed's world to its end, or to the first broken invariant. `settings` take the place of drawn ones."""
    run = _Run(seed, is_recorded, wiring, neighbours, without, data, settings)
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
        given: dict[str, Any],
    ) -> None:
        chance = Random(seed)
        scheduler = Scheduler(chance)
        settings = replace(draw_settings(chance), **given)
        self.neighbours = neighbours(chance, settings)
        self.world = World(
            seed,
            chance,
            scheduler,
            draw_weather(chance, CALM_FROM, without | self._without(settings)),
            settings,
            MemoryLeaseTable(),
            MemoryStream(
                MANY_SHARDS if chance.random() < 0.01 else chance.randint(1, 4),
                clock=scheduler,
                throttled=chance.random() < 0.5,
                short_numbers=chance.random() < 0.3,
            ),
            MemorySightingStore(),
            max_skew=timedelta(seconds=chance.choice((0, 1, 3))),
            is_recorded=is_recorded,
        )
        if not wiring.has_rules:
            self.world.watch.rules = None
        self.tick_interval = chance.choice((20, 30, 60)) * SECOND
        self.world.asks = seed % 2 == 0 and self.tick_interval == ASKING_TICKS
        self.stays_to_see_balance = chance.random() < 0.3
        """Takes as long as all the rest of a world."""
        self.fleet = Fleet(self.world, self.tick_interval, wiring)
        self.producer = Producer(
            self.world,
            until=int(CALM_FROM * chance.uniform(0.5, 1.1)),
            pause=int(chance.choice((1.5, 5, 20)) * SECOND),
            reshards=chance.choice((0, 1, 2, 4, 6)),
            data=data,
        )

    def _without(self, settings: Settings) -> frozenset[Fault]:
        """What nobody promises to survive: LATEST forgets with its row where it was, and Java stops at a bad row."""
        is_latest = settings.start_position.kind is StartKind.LATEST
        without = {Fault.ROW_DELETED} if is_latest else set()
        return frozenset(without | ({Fault.ROW_GONE_BAD} if self.neighbours else set()))

    def play(self) -> None:
        world, chance = self.world, self.world.chance
        self.producer.prepare(chance.choice((0, 5, 30)), chance.choice((0, 0, 1, 3)))
        self.producer.start()
        Operator(world, CALM_FROM).start()
        self.fleet.start()
        if self.neighbours is not None:
            self.neighbours.start(world)
        world.scheduler.run_until(CALM_FROM)
        world.note("weather", "calm from now on")
        self._run_calm()

    def _run_calm(self) -> None:
        """Bounded time to drain, then a while in which nothing may move."""
        scheduler = self.world.scheduler
        patience, ticks = self._patience(), self.world.ticks
        bound = CALM_FROM + patience
        while scheduler.now_us < bound and not scheduler.is_stopped and not self._is_drained():
            scheduler.run_until(scheduler.now_us + self.tick_interval)
        if not scheduler.is_stopped and not self._is_drained():
            self._complain(f"not drained {patience / SECOND:.0f} s after the faults stopped: {self._left()}")
        self._check_calm(self.world.ticks - ticks, scheduler.now_us - CALM_FROM)
        if scheduler.is_stopped or self.world.violation is not None:
            return
        if self.world.settings.mode is Mode.CONTINUOUS and self.stays_to_see_balance:
            self._check_balance()

    def _check_calm(self, ticks: int, lasted: int) -> None:
        """Prompts come at the ends of shards and of executions; more means that workers and ticks chase each other."""
        windows = lasted // (self.world.settings.window // MICROSECOND) + 2
        most = 2 * (lasted // self.tick_interval + windows * len(self.world.ledger.shards)) + 40
        if ticks > most and self.world.violation is None:
            self._complain(f"{ticks} ticks in {lasted / SECOND:.0f} s of calm, where {most} are plenty")

    def _check_balance(self) -> None:
        """Continuous: time to balance, at the pace of stealing; then all are held, evenly, and stay where they are.

        Beside Java they do not quite stay. An execution that ends gives its leases back, and the next one has them a
        second later; a KCL 2.x worker that scans just then finds us gone, and its fair share larger. So a mixed fleet
        must be balanced at some moment of the while, and alone we must be at its end.
        """
        world, settings = self.world, self.world.settings
        execution = settings.windows_per_execution * settings.window // MICROSECOND
        round_ = max(self.tick_interval, 2 * settings.failover_time // MICROSECOND)
        world.scheduler.run_until(world.scheduler.now_us + execution + (len(self._in_play()) + 4) * round_)
        settled = world.scheduler.now_us
        world.note("end", "has had time to balance")
        unbalanced = self._unbalanced()
        while (
            world.scheduler.now_us < settled + execution + 4 * self.tick_interval
            and not world.scheduler.is_stopped
        ):
            world.scheduler.run_until(world.scheduler.now_us + 10 * SECOND)
            unbalanced = self._unbalanced() if self.neighbours is None else unbalanced and self._unbalanced()
        if unbalanced and self._shares_fairly():
            self._complain(f"not balanced: {unbalanced}")
        moves = [
            move for key in self._in_play() for at, move in world.watch.tenancies[key].moves if at > settled
        ]
        if moves and self.neighbours is None:
            self._complain(f"still moving: {moves[:3]}")

    def _in_play(self) -> list[str]:
        return [lease.lease_key for lease in self.world.table.scan().leases if not lease.is_ended]

    def _shares_fairly(self) -> bool:
        """KCL 3.x's leader balances by other measures; without fair share or stealing nobody promises anything."""
        if self.neighbours is None:
            return self.world.settings.fair_share
        return self.world.settings.fair_share and self.neighbours.version == 2 and self.world.settings.steals

    def _unbalanced(self) -> str | None:
        """Who has how many, if all leases are not held, or not evenly: a spread of more than one.

        Our own worker ids are one pool, and level out from execution to execution: counted as if they had.
        Java counts ended leases until they are cleaned up, which takes a record in each child: such a table is let off.
        """
        world, own = self.world, self.world.settings.own_worker_ids
        rows = world.table.scan().leases
        if any(lease.is_ended and lease.lease_owner for lease in rows):
            return None
        keys = [lease.lease_key for lease in rows if not lease.is_ended]
        owners = Counter(owner for key in keys if (owner := world.watch.tenancies[key].owner_id) is not None)
        ours = sum(owners[worker_id] for worker_id in own)
        live = [process.name for process in world.java.values() if not process.is_dead]
        loads = [owners[worker_id] for worker_id in live] + [ours // len(own), -(-ours // len(own))]
        if ours + sum(owners[worker_id] for worker_id in live) == len(keys) and max(loads) - min(loads) <= 1:
            return None
        return f"{dict(owners)} of {len(keys)} leases; live: {live}"

    def _patience(self) -> int:
        """Failover, then a tick or two for each generation that still has to be gone through, and a window in between."""
        settings = self.world.settings
        generations = len(self.world.ledger.shards)
        zombies = 3 * settings.failover_time + 2 * (settings.window + settings.window_margin)
        unread = sum(len(truth.places) - truth.done_before() for truth in self.world.ledger.shards.values())
        retries = (
            timedelta(seconds=2) if settings.gives_up else timedelta(0)
        )  # of those that nobody can do, a share
        reading = unread * (settings.poll_interval + retries)
        return (zombies + reading) // MICROSECOND + (6 + 2 * generations) * self.tick_interval

    def _is_drained(self) -> bool:
        return not self._left()

    def _left(self) -> list[str]:
        left = []
        for shard_id, truth in self.world.ledger.shards.items():
            row = self.world.table.get(shard_id)
            if not truth.is_all_done:
                left.append(f"{shard_id[-4:]} has unhandled records")
            elif isinstance(row, Lease) and not row.is_ended:
                if truth.is_closed:
                    left.append(f"{shard_id[-4:]} is not ended")
                elif (
                    truth.places
                    and truth.covered_by(row.checkpoint) < len(truth.places)
                    and truth.is_required(-1)
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
            world.faults,
        )


def draw_settings(chance: Random) -> Settings:
    """Small windows and a short failover: as much as possible is to happen at once."""
    kind = chance.choice((StartKind.TRIM_HORIZON,) * 4 + (StartKind.LATEST, StartKind.AT_TIMESTAMP))
    at = BEGINNING + timedelta(seconds=chance.randint(0, 60)) if kind is StartKind.AT_TIMESTAMP else None
    return Settings(
        application="simulated",
        stream="memory",
        mode=chance.choice((Mode.CATCH_UP, Mode.CONTINUOUS)),
        start_position=StartPosition(kind, at),
        failover_time=timedelta(seconds=30),
        heartbeat_interval=timedelta(seconds=10),
        worker_count=chance.choice((1, 1, 2, 3)),
        leases_per_worker=chance.choice((1, 2, 3, 10)),
        max_leases_to_steal_at_one_time=chance.choice((0, 1, 2)),
        fair_share=chance.random() < 0.8,
        window=timedelta(seconds=chance.choice((40, 80, 160))),
        window_margin=timedelta(seconds=10),
        windows_per_execution=chance.choice((1, 2, 4)),
        linger=timedelta(seconds=chance.choice((0, 2, 5))),
        poll_interval=timedelta(seconds=chance.choice((0.2, 1))),
        idle_poll_interval=timedelta(seconds=chance.choice((2, 5))),
        poll_limit=chance.choice((2, 5, 20, 1000)),
        batch_size=chance.choice((1, 2, 5, 1000)),
        checkpoint_interval=timedelta(seconds=chance.choice((0, 1, 10))),
        handover_wait=timedelta(seconds=chance.choice((0, 5))),
        handler_attempts=chance.choice((1, 2, 4)),
        handler_backoff=timedelta(seconds=1),
        handler_concurrency=chance.choice((1, 1, 3)),
        handler_timeout=chance.choice((None, None, timedelta(seconds=15), timedelta(seconds=45))),
        balance=chance.choice(tuple(Balance)),
    )
