"""Worlds of records handled in parallel in which other writers change the rows: an operator who moves checkpoints,
there and back too, Java workers, and workers of the previous version.

Whatever they leave of the finished-ahead note: rewound records are handled again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from sublet.protocol import lease_attributes as attributes
from sublet.protocol.lease import Lease
from sublet.protocol.lease_attributes import number
from sublet.protocol.lease_row import decode_row
from sublet.settings import Settings
from sublet.testing.simulation.producer_and_operator import Operator
from sublet.testing.simulation.run import Result
from sublet.testing.simulation.scheduler import SECOND
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

from tests.simulation.giving_up import BY_HAND
from tests.simulation.side_by_side import give_up_side_by_side
from tests.simulation.simulation import JavaNeighbours, draw_java

ROWS_LOST = BY_HAND - {Fault.CHECKPOINT_MOVED}


@dataclass(slots=True)
class OtherHands:
    """Besides the world's own operator: one who prefers rows with a finished-ahead note. `java`: with or without Java
    workers.
    """

    java: JavaNeighbours | None
    operator: Operator = field(init=False)

    @property
    def version(self) -> int:
        return 0 if self.java is None else self.java.version

    def start(self, world: World) -> None:
        self.operator = Operator(world, world.weather.calm_from)
        world.at(0, "operator", lambda: self._work(world))
        if self.java is not None:
            self.java.start(world)

    def _work(self, world: World) -> None:
        while world.has_faults:
            world.scheduler.sleep(int(world.chance.uniform(0.5, 8) * SECOND))
            rows = [decode_row(row) for _, row in sorted(world.table.rows().items())]
            noted = [row for row in rows if isinstance(row, Lease) and row.noted_ahead is not None]
            lease = next((row for row in noted if row.lease_owner is None), noted[0] if noted else None)
            if lease is None or world.chance.random() < 0.5 or not self.operator._may_move(lease):
                continue
            if lease.lease_owner is None and world.chance.random() < 0.5:
                self._there_and_back(world, lease)
            elif world.chance.random() < 0.7:
                self.operator._move(lease)

    def _there_and_back(self, world: World, lease: Lease) -> None:
        """Rewound to its beginning, and consumed again by another client, which returns it at the very same
        position.
        """
        key, row = lease.lease_key, world.table.rows()[lease.lease_key]
        moved = {**row, attributes.LEASE_COUNTER: number(lease.lease_counter + 3)}
        world.put_row(moved, f"rewinds {key[-4:]}, and has another client consume it up to {lease.checkpoint}")
        truth = world.ledger.shards[key]
        covered = truth.covered_by(lease.checkpoint)
        world.ledger.rewound(key, to=0)
        truth.finished |= set(range(covered))
        world.moved_by_hand[key] = lease.lease_counter + 3
        world.write_audit.moved(key)


def draw_other_hands(chance: Random, settings: Settings) -> OtherHands:
    return OtherHands(draw_java(chance, settings))


def give_up_beside_other_hands(
    seed: int,
    *,
    is_recorded: bool = False,
    without: frozenset[Fault] = ROWS_LOST,
    neighbours: Callable[[Random, Settings], OtherHands] = draw_other_hands,
) -> Result:
    """Run this seed's world to its end, or to the first broken invariant. `without`: faults that it does not have. In
    most of them a lease is given up at each failing record: then it has no owner, and its row holds a finished-ahead
    note.
    """
    given_up = {} if seed % 4 == 0 else {"maximum_retry_attempts": 1, "handler_attempts": 1}
    return give_up_side_by_side(seed, is_recorded=is_recorded, without=without, neighbours=neighbours, **given_up)
