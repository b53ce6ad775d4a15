"""The table in which a world's lease workers store the sketches of hot shards: it fails, answers late, or not at
all.
"""

from __future__ import annotations

from random import Random

from sublet.decisions.load.sketch import ShardSketch
from sublet.errors import LeaseTableAccessDenied, LeaseTableUnavailable
from sublet.testing.simulation.ports import fail_oddly
from sublet.testing.simulation.scheduler import SECOND, Process
from sublet.testing.simulation.world import World

LATE, LOST_ON_THE_WAY, UNANSWERED = 0.3, 0.1, 0.1
"""The probability of each for a write, until the faults stop."""

ANSWERS_WITHIN = 600 * SECOND
"""The time that an unanswered write takes: far longer than a window, so that a session that waits for the answer is
noticed.
"""


class SimSketchStore:
    """The SketchStore port of one process. Its faults cost sketches alone: each promise about records holds beside
    them.
    """

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._chance = Random(f"{world.seed} {process.name}")

    def keep(self, sketch: ShardSketch) -> bool:
        world = self._world
        world.step(self._process)
        world.note(self._process.name, f"stores a sketch of {sketch.shard_id[-4:]}, {sketch.records} records")
        fail_oddly(world, self._process, LeaseTableAccessDenied, "a write of a sketch")
        if self._strikes(LOST_ON_THE_WAY):
            raise LeaseTableUnavailable("could not be reached for a sketch")
        if self._strikes(LATE):
            world.scheduler.sleep(int(self._chance.uniform(1, ANSWERS_WITHIN)))
        is_kept = world.sketches.keep(sketch)
        if self._strikes(UNANSWERED):
            raise LeaseTableUnavailable("no answer to the write of a sketch")
        world.step(self._process)
        return is_kept

    def _strikes(self, rate: float) -> bool:
        return self._world.has_faults and self._chance.random() < rate

    def sketches(self) -> tuple[ShardSketch, ...]:
        self._world.fail("a lease worker reads sketches")
        return ()
