"""Worlds in which one shard's records are never handled: its handler raises, hangs, or ends the process. The neighbours
must stay near their tips all the same.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random

from sublet.handler import Batch
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.handlers import HandlerFailed, SimHandler
from sublet.testing.simulation.run import Result, play
from sublet.testing.simulation.scheduler import SECOND, Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World

from tests.simulation.giving_up import BY_HAND

WAYS = ("raises", "hangs", "exits")


def beside_a_bad_one(seed: int, way: str, wiring: Wiring | None = None, *, is_recorded: bool = False) -> Result:
    """Run this seed's world to its end, or to the first broken invariant."""
    chance = Random(seed)
    return play(
        seed,
        is_recorded=is_recorded,
        wiring=wiring or Wiring(handler=lambda world, process: BadShardHandler(world, process, way)),
        without=BY_HAND | {Fault.HANDLER_HANGS},
        days_off=0,
        a_bad_shard=True,
        handler_timeout=chance.choice((timedelta(seconds=15), timedelta(seconds=25))),
    )


class BadShardHandler:
    """The simulation's own handler, except for one shard."""

    def __init__(self, world: World, process: Process, way: str) -> None:
        self._world = world
        self._process = process
        self._way = way
        self._real = SimHandler(world, process)

    def handle(self, batch: Batch) -> None:
        if batch.shard_id != self._world.bad_shard:
            self._real.handle(batch)
            return
        scheduler = self._world.scheduler
        scheduler.check_alive()
        self._world.step(self._process)
        if self._way == "hangs":
            scheduler.sleep(10**6 * SECOND)
        if self._way == "exits":
            self._world.note(self._process.name, "exits, of the bad shard")
            scheduler.kill(self._process)
            scheduler.check_alive()
        raise HandlerFailed("bad")

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        self._real.lease_acquired(shard_id, checkpoint, pending)

    def lease_releasing(self, shard_id: str) -> None:
        if shard_id != self._world.bad_shard:
            self._real.lease_releasing(shard_id)

    def lease_lost(self, shard_id: str) -> None:
        self._real.lease_lost(shard_id)

    def shard_ended(self, shard_id: str) -> None:
        self._real.shard_ended(shard_id)
