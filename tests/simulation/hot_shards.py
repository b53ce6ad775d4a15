"""Worlds with shards so hot that workers store sketches of them, in a table that fails, answers late, or does not
answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sublet.decisions.load.sketch import ShardSketch
from sublet.ports import SketchStore
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import Process
from sublet.testing.simulation.sketches import SimSketchStore
from sublet.testing.simulation.world import World

from tests.simulation.mutations import UNCHANGED, Mutation
from tests.simulation.simulation import DAYS_OFF, draw_java

HEAVY_EVERY, HEAVY_BYTES = 8, 550_000
"""More than half of what a shard takes in a second, so its sketch is worth storing."""


def put_heavy(put: int, sub: int) -> bytes:
    data = f"{put}".encode()
    return data.ljust(HEAVY_BYTES, b".") if put % HEAVY_EVERY == 0 and sub == 0 else data


@dataclass
class Tried:
    """How often workers tried to store a sketch, and how often that failed."""

    stored: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class CountedStore:
    real: SketchStore
    tried: Tried

    def keep(self, sketch: ShardSketch) -> bool:
        try:
            is_kept = self.real.keep(sketch)
        except Exception:
            self.tried.failed += 1
            raise
        self.tried.stored += is_kept
        return is_kept

    def sketches(self) -> tuple[ShardSketch, ...]:
        return self.real.sketches()


def run_hot(
    seed: int, *, is_recorded: bool = False, mutation: Mutation = UNCHANGED, tried: Tried | None = None
) -> Result:
    """Run this seed's world to its end, or to the first broken invariant."""
    counts = tried or Tried()

    def sketches(world: World, process: Process) -> SketchStore:
        return CountedStore(SimSketchStore(world, process), counts)

    return play(
        seed,
        is_recorded=is_recorded,
        wiring=replace(mutation, sketches=sketches),
        neighbours=draw_java,
        days_off=DAYS_OFF,
        data=put_heavy,
    )
