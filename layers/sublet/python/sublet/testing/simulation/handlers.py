"""The simulation's own handler: it reports finished records to the ledger, and is slow or fails at times."""

from __future__ import annotations

import errno
from asyncio import CancelledError

from sublet.handler import Batch
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.testing.simulation.ledger import OrderBroken
from sublet.testing.simulation.scheduler import SECOND, Process
from sublet.testing.simulation.weather import Fault
from sublet.testing.simulation.world import World


class HandlerFailed(Exception):
    """Any exception of a user's code."""


class SimHandler:
    """The Handler port of one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._finished: dict[str, tuple[Batch, int]] = {}
        """The batch of the latest call for each shard, and how many of its records are done."""

    def handle(self, batch: Batch) -> None:
        self._world.scheduler.check_alive()
        with self._world.calling(self._process, batch.shard_id):
            self._handle(batch)

    def _handle(self, batch: Batch) -> None:
        world, records = self._world, batch.records
        try:
            stored = world.watch.checkpoints.get(batch.shard_id)
            world.ledger.check_batch(self._process, batch.shard_id, records, stored)
        except OrderBroken as broken:
            world.fail(f"handler called for {batch.shard_id}: {broken}")
        self._note(f"handles {len(records)} of {batch.shard_id[-4:]}, from {str(records[0].checkpoint)[-12:]}")
        self._finished[batch.shard_id] = batch, 0
        self._pass_time()
        self._misbehave()
        fails = world.strikes(Fault.HANDLER_FAILS)
        if world.chance.random() < 0.2:
            place = world.chance.randrange(len(records))
            self._finish(batch, place + 1)
            batch.checkpoint(records[place])
            world.write_audit.told(self._process, batch.shard_id, records[place])
            if fails:
                self._note("fails after a checkpoint of its own")
                raise HandlerFailed
            self._pass_time()
        elif fails:
            self._note("fails")
            raise HandlerFailed
        self._finish(batch, len(records))
        world.write_audit.told(self._process, batch.shard_id, records[-1])

    def _finish(self, batch: Batch, count: int) -> None:
        """Tell the ledger that this many of the batch's records, from the first, are done."""
        before = self._finished.get(batch.shard_id)
        known = before[1] if before is not None and before[0] is batch else 0
        for record in batch.records[known:count]:
            self._world.ledger.finish(self._process, batch.shard_id, record)
        self._finished[batch.shard_id] = batch, max(known, count)

    def lease_acquired(
        self,
        shard_id: str,
        checkpoint: Checkpoint,  # noqa: ARG002 - the port's
        pending: PendingCheckpoint | None = None,  # noqa: ARG002 - the port's
    ) -> None:
        self._optional("lease_acquired", shard_id)

    def lease_releasing(self, shard_id: str) -> None:
        """Finishes some of the last batch's open records, as a handler that flushes does."""
        self._optional("lease_releasing", shard_id)
        batch, known = self._finished.get(shard_id, (None, 0))
        if batch is not None and known < len(batch.records) and self._world.chance.random() < 0.5:
            place = self._world.chance.randrange(known, len(batch.records))
            self._finish(batch, place + 1)
            batch.checkpoint(batch.records[place])
            self._world.write_audit.told(self._process, shard_id, batch.records[place])
            self._note(f"flushes {shard_id[-4:]} before it is released")

    def lease_lost(self, shard_id: str) -> None:
        self._optional("lease_lost", shard_id)

    def shard_ended(self, shard_id: str) -> None:
        self._optional("shard_ended", shard_id)
        truth = self._world.ledger.shards[shard_id]
        if not truth.is_all_done and not self._world.ledger.is_moving(self._process, shard_id):
            self._world.fail(f"shard_ended of {shard_id} with unhandled records")

    def _optional(self, name: str, shard_id: str) -> None:
        self._world.step(self._process)
        if self._world.strikes(Fault.HANDLER_FAILS):
            self._note(f"{name} of {shard_id[-4:]} fails")
            raise HandlerFailed

    def _pass_time(self) -> None:
        self._world.step(self._process)
        if self._world.strikes(Fault.HANDLER_SLOW):
            self._world.scheduler.sleep(int(self._world.chance.uniform(1, 60) * SECOND))

    def _misbehave(self) -> None:
        """Fails in ways other than an ordinary exception."""
        world = self._world
        if world.strikes(Fault.HANDLER_HANGS):
            self._note("hangs")
            world.scheduler.sleep(int(world.chance.uniform(60, 2000) * SECOND))
        if world.strikes(Fault.HANDLER_EXITS):
            self._note("exits")
            world.scheduler.kill(self._process)
            world.scheduler.check_alive()
        if world.strikes(Fault.HANDLER_CANCELS):
            self._note("is cancelled")
            raise world.chance.choice((CancelledError, SystemExit, KeyboardInterrupt))
        if world.strikes(Fault.HANDLER_LEAKS):
            self._note("has leaked all descriptors")
            raise OSError(errno.EMFILE, "too many open files")

    def _note(self, what: str) -> None:
        self._world.note(self._process.name, what)
