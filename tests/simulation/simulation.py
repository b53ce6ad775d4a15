"""One seed as we test our own engine: half of the worlds have a Java fleet on the same lease table."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from sublet.settings import Settings, StartKind
from sublet.testing.simulation.run import CALM_FROM, Result, play
from sublet.testing.simulation.world import World

from tests.simulation.java_fleet import JavaFleet
from tests.simulation.mutations import UNCHANGED, Mutation

DAYS_OFF = 0.08
"""Of all worlds."""


def simulate(
    seed: int,
    *,
    is_recorded: bool = False,
    mutation: Mutation = UNCHANGED,
    days_off: float = DAYS_OFF,
    idle: bool = False,
) -> Result:
    """Run this seed's world to its end, or to the first broken invariant."""
    return play(seed, is_recorded=is_recorded, wiring=mutation, neighbours=draw_java, days_off=days_off, idle=idle)


@dataclass(frozen=True, slots=True)
class JavaNeighbours:
    """A few workers, some of which are switched off for good half way."""

    version: int

    def start(self, world: World) -> None:
        leaves_at = world.chance.choice((CALM_FROM // 2, 10**15, 10**15))
        JavaFleet(world, self.version, leaves_at).start(world.chance.randint(1, 3))


def draw_java(chance: Random, settings: Settings) -> JavaNeighbours | None:
    """None with LATEST, which KCL's own rules read with gaps."""
    if settings.start_position.kind is StartKind.LATEST:
        return None
    version = chance.choice((None, None, None, 2, 3, 3))
    return None if version is None else JavaNeighbours(version)
