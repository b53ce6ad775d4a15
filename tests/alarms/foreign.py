"""Owners without metrics: a KCL worker on the same lease table, or a process of ours whose output is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease

from tests.alarms.fleet import Fleet
from tests.doubles.engine_world import SHARD

HEARTBEATS_APART = timedelta(seconds=20)


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ForeignOwner:
    """Takes a lease and keeps it until another takes it. `is_ours`: it writes like a worker of ours whose handler
    hangs."""

    fleet: Fleet
    hangs: Callable[[], bool] = never
    is_ours: bool = False
    shard_id: str = SHARD

    def start(self) -> None:
        self._write(self.fleet.world.table.lease(self.shard_id))
        self.fleet.world.tasks.spawn(self._go_on)

    def _go_on(self) -> None:
        world = self.fleet.world
        while (lease := world.table.lease(self.shard_id)).lease_owner == self._worker_id:
            self._write(lease if self.hangs() else replace(lease, checkpoint=self._handled(lease)))
            world.tasks.sleep(HEARTBEATS_APART)

    @property
    def _worker_id(self) -> str:
        return "orders-process" if self.is_ours else "10.0.0.1:java"

    def _write(self, lease: Lease) -> None:
        """A heartbeat. KCL leaves unknown attributes alone."""
        written = replace(lease, lease_owner=self._worker_id, lease_counter=lease.lease_counter + 1)
        if self.is_ours:
            written = replace(written, holder="item/1", holder_counter=written.lease_counter)
        self.fleet.world.put_lease(written)

    def _handled(self, lease: Lease) -> Checkpoint:
        """Handles all available records at once."""
        newest = next(log for log in self.fleet.world.shards.logs if log.shard_id == self.shard_id).newest
        standing = self.fleet.standing.get(self.shard_id)
        if standing is not None and standing.waiting:
            standing.waiting.clear()
            standing.moved_at = self.fleet.minute()
        return lease.checkpoint if newest is None else Checkpoint(newest.sequence_number)
