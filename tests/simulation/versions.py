"""Worlds of rollouts and rollbacks under load: workers and managers of this version, of 0.2 and of 0.1 on one table,
with a KCL fleet in half of the worlds, and an operator who puts checkpoints back to earlier positions.

What one version leaves in a row another may make false without knowing it. So wherever the engine believes a row, the
belief is compared with the truth.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sublet.decisions.session.crash_caution import CrashCaution
from sublet.errors import BatchItemsFailed
from sublet.handler import Batch
from sublet.ports import Applied, LeaseTable, Refused
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_attributes import number, text
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.testing.simulation.balance import Neighbours
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.handlers import HandlerFailed, SimHandler
from sublet.testing.simulation.older_versions import OlderTable, draw_rollouts
from sublet.testing.simulation.ports import SimLeaseTable
from sublet.testing.simulation.producer_and_operator import Operator
from sublet.testing.simulation.run import CALM_FROM, Result, play
from sublet.testing.simulation.scheduler import SECOND, Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

from tests.simulation.simulation import draw_java


@dataclass(slots=True)
class Known:
    """The truth about a lease: how often owners have died at its checkpoint, and which attempts were noted."""

    crashes: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class TruthfulTable:
    """Between an engine and its table: checks that what the engine reads from a row is true."""

    real: LeaseTable
    world: World
    truth: defaultdict[str, Known]

    def scan(self) -> LeaseScan:
        return self.real.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.real.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        known = self.truth[write.lease_key]
        if attributes.CRASHES in write.sets:  # before the write, since the answer may get lost
            died = 1 if write.kind is WriteKind.ACQUIRE else CrashCaution.ALONE  # or hangs, which counts as two
            known.crashes[str(self.world.watch.checkpoints[write.lease_key])] += died
        if attributes.ATTEMPTS in write.sets:
            count, _, rest = str(write.sets[attributes.ATTEMPTS]["S"]).partition("@")
            of = rest.partition("..")[0]
            known.attempts[of] = max(int(count), known.attempts[of])
        result = self.real.apply(write)
        if isinstance(result, Applied):
            self._check(result.lease, known)
        return result

    def _check(self, lease: Lease, known: Known) -> None:
        where = str(lease.checkpoint)
        if lease.crashes > known.crashes[where]:
            crashed = f"{lease.lease_key} has crashed {lease.crashes} times, it is believed"
            self.world.fail(f"{crashed}; {known.crashes[where]} at this checkpoint")
        if lease.attempts > known.attempts[where]:
            tried = f"{lease.lease_key} was tried {lease.attempts} times, it is believed"
            self.world.fail(f"{tried}; {known.attempts[where]} at this checkpoint")


def _world_of(table: LeaseTable) -> World:
    table = table.real if isinstance(table, OlderTable) else table
    assert isinstance(table, SimLeaseTable)
    return table._world


@dataclass(slots=True)
class LanesHandler:
    """It takes time and fails often, with item failures or as a whole. Which records may be called in parallel is
    checked elsewhere (`side_by_side`); here, that each is handled.
    """

    world: World
    process: Process

    def handle(self, batch: Batch) -> None:
        world, shard_id = self.world, batch.shard_id
        world.scheduler.check_alive()
        fails_at = (
            world.chance.randrange(len(batch.records)) if world.has_faults and world.chance.random() < FAILS else None
        )
        if world.has_faults and world.chance.random() < DIES:
            world.note(self.process.name, "dies in its handler")
            world.scheduler.kill(self.process)
            world.scheduler.check_alive()
        for place, record in enumerate(batch.records):
            world.scheduler.sleep(int(world.chance.uniform(0, 0.2) * SECOND))
            if place == fails_at:
                if place and world.chance.random() < 0.5:
                    batch.checkpoint(batch.records[place - 1])
                    raise BatchItemsFailed("no luck")
                raise HandlerFailed("no luck")
            world.ledger.finish_kept(shard_id, record)

    def lease_acquired(
        self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None
    ) -> None: ...

    def lease_releasing(self, shard_id: str) -> None: ...

    def lease_lost(self, shard_id: str) -> None: ...

    def shard_ended(self, shard_id: str) -> None:
        if not self.world.ledger.shards[shard_id].is_all_done:
            self.world.fail(f"shard_ended of {shard_id} with unhandled records")


FAILS, DIES = 0.3, 0.1
"""Probabilities per call, while there are faults."""


@dataclass(slots=True)
class PuttingBack:
    """An operator who moves a checkpoint to an earlier position, where a row's stale attributes look current."""

    world: World
    hand: Operator
    stood: dict[str, list[Checkpoint]] = field(default_factory=dict)

    def start(self) -> None:
        self.world.at(0, "operator, going back", self._work)

    def _work(self) -> None:
        world = self.world
        while world.scheduler.now_us < CALM_FROM:
            world.scheduler.sleep(int(world.chance.uniform(0.5, 5) * SECOND))
            for key, checkpoint in world.watch.checkpoints.items():
                places = self.stood.setdefault(key, [])
                if checkpoint.is_sequence_number and checkpoint not in places:
                    places.append(checkpoint)
            for key in sorted(self.stood):
                if named := self._still_named(key):
                    self._put_back(key, [named])
            if world.chance.random() < PUTS_BACK and self.stood:
                key = world.chance.choice(sorted(self.stood))
                self._put_back(key, self.stood[key])

    def _still_named(self, key: str) -> Checkpoint | None:
        """Where the row was when attempts were noted, by an owner that has not removed them: the worst case."""
        row = self.world.table.row(key) or {}
        number, _, sub = (
            row.get(attributes.ATTEMPTS, {}).get("S", "").partition("@")[2].partition("..")[0].partition(":")
        )
        is_stale = number.isdecimal() and number != row[attributes.CHECKPOINT]["S"]
        return Checkpoint(number, int(sub or 0)) if is_stale else None

    def _put_back(self, key: str, places: Sequence[Checkpoint]) -> None:
        world = self.world
        lease = world.table.get(key)
        if not (isinstance(lease, Lease) and places and self.hand._may_move(lease)):
            return
        if lease.lease_owner is not None:
            return  # a worker that read the row there, before a late checkpoint, would see no move: an unsolvable case
        to = world.chance.choice(places)
        if to >= lease.checkpoint or not lease.checkpoint.is_sequence_number:
            return
        moved = {
            attributes.CHECKPOINT: text(to.sequence_number),
            attributes.SUB_SEQUENCE_NUMBER: number(to.sub_sequence_number),
        }
        row = {name: value for name, value in world.table.rows()[key].items() if name != attributes.START_AT}
        world.put_row(row | moved, f"puts the checkpoint of {key[-4:]} back to {to}")
        world.moved_by_hand[key] = lease.lease_counter
        world.moved(key, lease.checkpoint, to)


PUTS_BACK = 0.05


@dataclass(frozen=True, slots=True)
class Versions:
    """The deployments and rollbacks beside the fleet, including its own versions."""

    seed: int
    java: Neighbours | None

    @property
    def version(self) -> int:
        """Of KCL; without a fleet, a version that does not share leases out."""
        return 3 if self.java is None else self.java.version

    def start(self, world: World) -> None:
        chance = Random(f"{self.seed} versions")
        world.rollouts = draw_rollouts(chance, CALM_FROM)
        world.note("versions", str(world.rollouts))
        PuttingBack(world, Operator(world, world.weather.calm_from)).start()
        if self.java is not None:
            self.java.start(world)


BY_HAND = frozenset(
    {Fault.ROW_DELETED, Fault.ROW_GONE_BAD, Fault.CHECKPOINT_MOVED, Fault.OTHER_STREAM, Fault.DESTROYED}
)
"""The operator of these worlds does only one thing, and often."""


def roll(seed: int, *, is_recorded: bool = False, lanes: bool | None = None, idle: bool = False) -> Result:
    """Run this seed's world to its end, or to the first broken invariant. `lanes`: handle a shard's records in
    parallel; the default is every other world.
    """
    truth, is_wide = defaultdict[str, Known](Known), seed % 2 == 0 if lanes is None else lanes
    wiring = Wiring(
        handler=LanesHandler if is_wide else SimHandler,
        table=lambda table: TruthfulTable(table, _world_of(table), truth),
    )
    settings: dict[str, Any] = (
        {"parallelization_factor": Random(seed).choice((2, 3, 10)), "handler_attempts": 2} if is_wide else {}
    )
    return play(
        seed,
        is_recorded=is_recorded,
        wiring=wiring,
        neighbours=lambda chance, given: Versions(seed, draw_java(chance, given)),
        without=BY_HAND,
        idle=idle,
        **settings,
    )
