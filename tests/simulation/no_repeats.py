"""Finished records are not delivered or set aside again without a reason.

So each record is repeated at most as often as there was a reason: its owner is gone or was robbed, a write of it has
failed, one of its calls was abandoned, or a worker of the previous version, which does not know what is finished ahead,
has had the lease.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sublet.handler import Batch, Handler
from sublet.ports import Applied, FailureDestination, LeaseTable, Refused
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import Checkpoint, PendingCheckpoint
from sublet.protocol.conditions import Row
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.scheduler import Process
from sublet.testing.simulation.world import World

TOLD_AFTER = 3
"""The row says that a record is finished after this many more writes: its lane may have waited for an earlier record
while the heartbeats' thread made the next write.
"""

FAILED = "a write failed"
MOVED = "an operator has moved it"
MOVED_LATE = "a late checkpoint has moved it"


class Finished(NamedTuple):
    """When a record's owner learned that it is finished: after this many excuses, and this many writes by owners."""

    excuses: int
    writes: int


@dataclass(slots=True)
class NoRepeats:
    """One world's state. Each excuse for a lease holds how many writes had recorded finished work: what they recorded
    is not excused. None: all of it may be forgotten.
    """

    world: World | None = None
    excuses: defaultdict[str, list[int | None]] = field(default_factory=lambda: defaultdict(list))
    writes: Counter[str] = field(default_factory=Counter)
    finished: dict[tuple[str, int], Finished] = field(default_factory=dict)
    """By shard and index."""
    unanswered: dict[tuple[str, int], Process] = field(default_factory=dict)
    """Records that a destination may have, while its answer has not reached the process that sets them aside."""
    in_doubt: dict[str, str] = field(default_factory=dict)
    """By lease: why its next owner may not know all that is finished."""
    last_owner: dict[str, Process] = field(default_factory=dict)
    has_written: set[str] = field(default_factory=set)
    """Leases whose last owner has written since its acquire; otherwise the note is void for the next owner."""
    again: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often each record was repeated, each time with an excuse."""

    def watch(self, world: World) -> None:
        if self.world is None:
            self.world = world
            world.watch.observers.append(self.written)
            world.ledger.observers.append(self.done)
            world.ledger.move_observers.append(self.moved)

    def wired(self, wiring: Wiring) -> Wiring:
        """The same wiring, watched."""

        def handler(world: World, process: Process) -> Handler:
            self.watch(world)
            return WatchedHandler(self, process, wiring.handler(world, process))

        return replace(
            wiring,
            table=lambda table: WatchedTable(self, wiring.table(table)),
            handler=handler,
            destination=lambda world, process: WatchedDestination(self, process, wiring.destination(world, process)),
        )

    # Reports

    def handed_out(self, process: Process, shard_id: str, index: int, what: str) -> None:
        finished = self.finished.get((shard_id, index))
        if finished is None or not self._owns(process, shard_id):
            return
        assert self.world is not None
        since = self.excuses[shard_id][finished.excuses :]
        if not any(told is None or finished.writes > told - TOLD_AFTER for told in since):
            why = "the row said that it is finished" if since else "its owner knew that it is finished"
            self.world.fail(f"record {index} of {shard_id} is {what} again, though {why}")
        self.again[shard_id, index] += 1

    def done(self, shard_id: str, index: int) -> None:
        assert self.world is not None
        process = self.world.scheduler.current.process
        if self._owns(process, shard_id) and self.unanswered.get((shard_id, index)) is not process:
            known = Finished(len(self.excuses[shard_id]), self.writes[shard_id])
            self.finished[shard_id, index] = known

    def _owns(self, process: Process, shard_id: str) -> bool:
        """A fenced-off owner goes on until it notices, which does not count."""
        assert self.world is not None
        tenancy = self.world.watch.tenancies.get(shard_id)
        return tenancy is not None and tenancy.owner is process

    def moved(self, key: str) -> None:
        """By an operator. The owner may notice later, and then reads on from there."""
        self.excuses[key].append(None)
        self.in_doubt[key] = MOVED

    def begins(self, process: Process, key: str) -> None:
        """After a move that the owner has noticed, what it finished meanwhile beyond the position is void too."""
        if self._owns(process, key) and self.in_doubt.get(key) in (MOVED, MOVED_LATE):
            self.excuses[key].append(None)

    def written(self, process: Process, write: LeaseWrite, before: Row | None) -> None:
        key = write.lease_key
        if process.is_older or process.is_java:
            self.in_doubt[key] = "another client"
        match write.kind:
            case WriteKind.LATE_CHECKPOINT:  # moves it under its owner, whose knowledge is void
                self.in_doubt[key] = MOVED_LATE
                self.excuses[key].append(None)
            case WriteKind.CREATE:  # a finished shard whose lease is deleted may be read again
                self.excuses[key].append(None)
            case WriteKind.ACQUIRE:
                self._acquired(process, key, before or {})
            case WriteKind.CHECKPOINT | WriteKind.HEARTBEAT:
                self._told(write)

    def _told(self, write: LeaseWrite) -> None:
        assert self.world is not None
        key, is_checkpoint = write.lease_key, write.kind is WriteKind.CHECKPOINT
        self.has_written.add(key)
        if is_checkpoint or self.world.settings.parallelization_factor > 1:
            self.writes[key] += 1
        if is_checkpoint and self.in_doubt.get(key) == FAILED:
            del self.in_doubt[key]

    def _acquired(self, process: Process, key: str, before: Row) -> None:
        assert self.world is not None
        owner = self.last_owner.get(key)
        if owner is not None:
            audited = self.world.write_audit.of.get((owner, key))
            is_hung = audited is not None and audited.is_hung
            has_ended = not owner.is_dead and all(task.is_done for task in owner.tasks)
            is_taken = attributes.LEASE_OWNER in before and not has_ended
            if is_hung or key in self.in_doubt or (is_taken and key not in self.has_written):
                self.excuses[key].append(None)
            elif is_taken:
                self.excuses[key].append(self.writes[key])
        self.in_doubt.pop(key, None)
        self.has_written.discard(key)
        self.last_owner[key] = process

    def failed(self, process: Process, key: str) -> None:
        if self.world is not None and self._owns(process, key):
            self.in_doubt.setdefault(key, FAILED)


@dataclass(frozen=True, slots=True)
class WatchedTable:
    repeats: NoRepeats
    real: LeaseTable

    def scan(self) -> LeaseScan:
        return self.real.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.real.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        try:
            return self.real.apply(write)
        except Exception:
            if (world := self.repeats.world) is not None:
                self.repeats.failed(world.scheduler.current.process, write.lease_key)
            raise


@dataclass(frozen=True, slots=True)
class WatchedHandler:
    repeats: NoRepeats
    process: Process
    real: Handler

    def handle(self, batch: Batch) -> None:
        assert self.repeats.world is not None
        truth = self.repeats.world.ledger.shards[batch.shard_id]
        for record in batch.records:
            self.repeats.handed_out(self.process, batch.shard_id, truth.index_of(record), "handed out")
        self.real.handle(batch)

    def lease_acquired(self, shard_id: str, checkpoint: Checkpoint, pending: PendingCheckpoint | None = None) -> None:
        self.repeats.begins(self.process, shard_id)
        self.real.lease_acquired(shard_id, checkpoint, pending)

    def lease_releasing(self, shard_id: str) -> None:
        self.real.lease_releasing(shard_id)

    def lease_lost(self, shard_id: str) -> None:
        self.real.lease_lost(shard_id)

    def shard_ended(self, shard_id: str) -> None:
        self.real.shard_ended(shard_id)


@dataclass(frozen=True, slots=True)
class WatchedDestination:
    repeats: NoRepeats
    process: Process
    real: FailureDestination

    def put(self, batch: SetAsideBatch) -> None:
        assert self.repeats.world is not None
        truth = self.repeats.world.ledger.shards[batch.shard_id]
        places = [(batch.shard_id, truth.index_of(record)) for record in batch.records]
        for place in places:
            self.repeats.handed_out(self.process, *place, "set aside")
            self.repeats.unanswered[place] = self.process
        try:
            self.real.put(batch)
        finally:
            for place in places:
                self.repeats.unanswered.pop(place, None)
        for place in places:
            self.repeats.done(*place)
