"""Worlds with an operator who seeks: back, on and there again, on leases that our fleet and Java workers hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from sublet.protocol.checkpoint import STARTING_SENTINELS, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, Position
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import apply_to, seek
from sublet.settings import Settings
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import SECOND
from sublet.testing.simulation.world import World

from tests.simulation.mutations import UNCHANGED, Mutation
from tests.simulation.simulation import JavaNeighbours, draw_java

BEGINS_WITHIN = 5 * SECOND
CLOCKS_WRONG = 0.5
"""Of the worlds, how many have clocks that are minutes off."""


@dataclass(slots=True)
class Seeker:
    """Beside the world's own operator. `java`: a Java fleet too."""

    java: JavaNeighbours | None
    owners: dict[str, tuple[str | None, int]] = field(default_factory=dict, init=False)
    """By lease key: the last owner that was seen, and since when."""

    @property
    def version(self) -> int:
        return 0 if self.java is None else self.java.version

    def start(self, world: World) -> None:
        set_clocks_wrong(world)
        world.at(0, "operator", lambda: self._work(world))
        if self.java is not None:
            self.java.start(world)

    def _work(self, world: World) -> None:
        while world.has_faults:
            world.scheduler.sleep(int(world.chance.uniform(1, 20) * SECOND))
            rows = [decode_row(row) for _, row in sorted(world.table.rows().items())]
            leases = [row for row in rows if isinstance(row, Lease) and may_seek(world, row)]
            leases = [lease for lease in leases if not self._is_about_to_begin(world, lease)]
            if leases:
                self._seek(world, world.chance.choice(leases))

    def _is_about_to_begin(self, world: World, lease: Lease) -> bool:
        """A Java worker that has just acquired it reads a batch from the old position before it hears that it has lost
        it.
        """
        owner, now = lease.actual_owner, world.scheduler.now_us
        if self.owners.get(lease.lease_key, (None, 0))[0] != owner:
            self.owners[lease.lease_key] = (owner, now)
        return owner in world.java and now - self.owners[lease.lease_key][1] < BEGINS_WITHIN

    def _seek(self, world: World, lease: Lease) -> None:
        key, shard = lease.lease_key, world.ledger.shards[lease.shard_id]
        places = [TRIM_HORIZON, *(Checkpoint(str(number), sub) for number, sub in shard.places)]
        to = world.chance.choice(places)
        after = apply_to(seek(lease, Position(to)), world.table.rows()[key])
        if to == lease.checkpoint or after is None:
            return
        way = "back" if to < lease.checkpoint else "on"
        world.put_row(after, f"seeks {key[-4:]} {way}, to {to}, from {lease.actual_owner or 'nobody'}")
        world.moved(key, lease.checkpoint, to)


def set_clocks_wrong(world: World) -> None:
    """In half of the worlds, the clocks of all processes that begin from now on are minutes off."""
    clocks = Random(f"clocks of {world.seed}")
    if clocks.random() < CLOCKS_WRONG:
        world.clocks = clocks


def may_seek(world: World, lease: Lease) -> bool:
    """Of one lease alone: none that has ended, whose descendants have begun, or whose parents are still being read."""
    shards = world.ledger.shards
    has_begun = any(
        world.watch.checkpoints.get(child, TRIM_HORIZON).sequence_number not in STARTING_SENTINELS
        for child in shards
        if lease.shard_id in world.ledger.ancestors(child)
    )
    waits = not all(shards[parent].is_all_done for parent in shards[lease.shard_id].parents)
    java = world.java.get(lease.lease_owner or "")
    is_about_to_begin = java is not None and (java, lease.lease_key) not in world.ledger.sessions
    return not (lease.is_ended or waits or has_begun or is_about_to_begin or lease.checkpoint_owner is not None)


def draw_seeker(chance: Random, settings: Settings) -> Seeker:
    return Seeker(draw_java(chance, settings))


def seek_in(seed: int, *, is_recorded: bool = False, mutation: Mutation = UNCHANGED) -> Result:
    """Run this seed's world to its end, or to the first broken invariant."""
    return play(seed, is_recorded=is_recorded, wiring=mutation, neighbours=draw_seeker)
