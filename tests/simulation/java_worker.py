"""A worker of the Java KCL, 2.x or 3.x: renews, consumes, ends shards and cleans up by Java's rules.

How it acquires leases is in `java_taker` (2.x) and `java_leader` (3.x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sublet.decisions.session.read_position import not_yet_handled, read_position
from sublet.errors import SubletError
from sublet.ports import Applied, PollRefusal, Refused
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.checkpoint import SHARD_END, TRIM_HORIZON, Checkpoint, Sentinel
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import LeaseWrite, create
from sublet.protocol.records import Page, UserRecord
from sublet.protocol.shard import ChildShard
from sublet.testing.simulation.ledger import OrderBroken
from sublet.testing.simulation.ports import SimLeaseTable, SimStream
from sublet.testing.simulation.scheduler import MICROSECOND, SECOND, Process, SimSlots
from sublet.testing.simulation.world import World

from tests.simulation import java_writes

_UNSTARTED = (Sentinel.TRIM_HORIZON, Sentinel.AT_TIMESTAMP)


@dataclass(slots=True, eq=False)
class JavaLease:
    """A lease in the worker's memory. `lock` keeps renewals and checkpoints apart, as in Java."""

    row: Lease
    lock: SimSlots
    is_lost: bool = False


@dataclass(slots=True)
class JavaWorker:
    world: World
    process: Process
    version: int
    table: SimLeaseTable = field(init=False)
    stream: SimStream = field(init=False)
    held: dict[str, JavaLease] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = SimLeaseTable(self.world, self.process)
        self.stream = SimStream(self.world, self.process)

    @property
    def worker_id(self) -> str:
        return self.process.name

    @property
    def failover(self) -> int:
        return self.world.settings.failover_time // MICROSECOND

    def start(self) -> None:
        self.every(self.failover // 3, self._renew_all)
        self.every(60 * SECOND, self._clean_up)

    def every(self, interval: int, work: Callable[[], None]) -> None:
        """Repeat it for ever, even while the service is unreachable."""

        def loop() -> None:
            while True:
                try:
                    work()
                except SubletError as refused:
                    self.note(f"failed: {refused}")
                self.world.scheduler.sleep(interval)

        self.world.scheduler.spawn(self.process, loop)

    def note(self, what: str) -> None:
        self.world.note(self.worker_id, what)

    def hold(self, row: Lease) -> None:
        """Begin to renew and to consume."""
        lease = JavaLease(row, SimSlots(self.world.scheduler, 1))
        self.held[row.lease_key] = lease
        self.world.scheduler.spawn(self.process, lambda: self._consume(lease))

    # Renewing

    def _renew_all(self) -> None:
        for key in sorted(self.held):
            if key in self.held:
                self._renew(self.held[key])

    def _renew(self, lease: JavaLease) -> None:
        with lease.lock:
            if lease.is_lost:
                return
            for _ in range(2):
                result = self.table.apply(java_writes.renew(lease.row, self.version))
                if isinstance(result, Applied):
                    lease.row = result.lease
                    return
                row = result.row
                if isinstance(row, Lease) and self._is_ours_again(lease.row, row):
                    lease.row = row
                    return
                if not isinstance(row, Lease) or not self._is_asked_to_leave(row):
                    break
                lease.row = row
            self._lose(lease)

    def _is_ours_again(self, known: Lease, row: Lease) -> bool:
        """Whether the renewal was applied and its response lost."""
        return row.lease_owner == self.worker_id and row.lease_counter == known.lease_counter + 1

    def _is_asked_to_leave(self, row: Lease) -> bool:
        return self.version == 3 and row.checkpoint_owner == self.worker_id != row.lease_owner

    def _lose(self, lease: JavaLease) -> None:
        self.note(f"has lost {lease.row.lease_key[-4:]}")
        lease.is_lost = True
        if self.held.get(lease.row.lease_key) is lease:
            del self.held[lease.row.lease_key]

    # Consuming

    def _consume(self, lease: JavaLease) -> None:
        key = lease.row.lease_key
        while not lease.is_lost:
            try:
                row = self.table.get(key)
                if not isinstance(row, Lease) or row.is_ended:
                    return
                if self._waits_for_parents(row):
                    self.world.scheduler.sleep(10 * SECOND)
                    continue
                self._read(lease, row)
                return
            except SubletError as refused:
                self.note(f"failed on {key[-4:]}: {refused}")
                self.world.scheduler.sleep(SECOND)

    def _waits_for_parents(self, row: Lease) -> bool:
        parents = [self.table.get(parent) for parent in sorted(row.parent_shard_ids)]
        return any(isinstance(parent, Lease) and not parent.is_ended for parent in parents)

    def _read(self, lease: JavaLease, row: Lease) -> None:
        """From the stored checkpoint on; a 3.x worker that is asked to hand over drains first.

        It may have stood still since it read the row. If an operator has moved the lease meanwhile, it reads a batch
        from the old position before it hears of that; the next owner reads all from the new one.
        """
        self.world.ledger.begin_session(lease, row.shard_id, row.checkpoint)
        stands = self.world.table.get(row.lease_key)
        if isinstance(stands, Lease) and stands.lease_owner != self.worker_id:
            self.world.ledger.moved_before_it_began(lease, row.shard_id, stands.checkpoint)
        start_at = row.start_at or self.world.settings.start_position.at
        position = read_position(replace(row, start_at=start_at))
        assert position is not None, "an ended lease is not read"
        finished, iterator = row.checkpoint, self.stream.open(row.shard_id, position)
        while not lease.is_lost:
            if lease.row.checkpoint_owner == self.worker_id:
                self._hand_over(lease)
                return
            reply = self.stream.poll(iterator, 100)
            if reply is PollRefusal.ITERATOR_EXPIRED:
                raise SubletError("its iterator has expired")
            if isinstance(reply, PollRefusal):
                self.world.scheduler.sleep(SECOND)
                continue
            page = reply.page
            records = not_yet_handled(deaggregate(page.records, None).user_records, finished)
            if records and not self._handle(lease, records):
                return
            finished = records[-1].checkpoint if records else finished
            if reply.next_iterator is None:
                self._end(lease, page)
                return
            iterator = reply.next_iterator
            self.world.scheduler.sleep(3 * SECOND // 2)

    def _handle(self, lease: JavaLease, records: Sequence[UserRecord]) -> bool:
        world, shard_id = self.world, lease.row.shard_id
        try:
            world.ledger.check_batch(lease, shard_id, records, world.watch.checkpoints.get(shard_id))
        except OrderBroken as broken:
            world.fail(f"{shard_id}: {broken}")
        self.note(f"handles {len(records)} of {shard_id[-4:]}, from {str(records[0].checkpoint)[-12:]}")
        world.step(self.process)
        for record in records:
            world.ledger.finish(lease, shard_id, record)
        return self._checkpoint(lease, records[-1].checkpoint)

    def _checkpoint(self, lease: JavaLease, to: Checkpoint) -> bool:
        with lease.lock:
            return self._update(lease, java_writes.update(lease.row, to))

    def _update(self, lease: JavaLease, write: LeaseWrite) -> bool:
        """Java takes any refusal of an update for a loss, even one by its own repeated update."""
        if lease.is_lost:
            return False
        result = self.table.apply(write)
        if isinstance(result, Refused):
            self._lose(lease)
            return False
        lease.row = result.lease
        return True

    def _hand_over(self, lease: JavaLease) -> None:
        with lease.lock:
            if not lease.is_lost and lease.row.lease_owner is not None:
                self.table.apply(java_writes.assign(lease.row, lease.row.lease_owner))
                self._lose(lease)

    # Ending

    def _end(self, lease: JavaLease, page: Page) -> None:
        """The children's leases, the children's names, SHARD_END; then it renews until the row is cleaned up."""
        while not lease.is_lost and self._is_blocked(page.child_shards):
            if self.world.chance.random() < 1 / 30:
                self._lose(lease)
                return
            self.world.scheduler.sleep(SECOND)
        if lease.is_lost:
            return
        for child in page.child_shards:
            self.table.apply(create(_child(child)))
        with lease.lock:
            self._write_end(lease, frozenset(child.shard_id for child in page.child_shards))

    def _write_end(self, lease: JavaLease, children: frozenset[str]) -> None:
        if not lease.is_lost:
            self.table.apply(java_writes.name_children(lease.row, children))
            self._update(lease, java_writes.update(lease.row, SHARD_END))

    def _is_blocked(self, children: Sequence[ChildShard]) -> bool:
        """Whether exactly one parent of the merge has a lease."""
        if len(children) != 1:
            return False
        parents = [self.table.get(parent) for parent in sorted(children[0].parent_shard_ids)]
        return any(parent is None for parent in parents) and any(parent is not None for parent in parents)

    def _clean_up(self) -> None:
        """Deletes leases that it ended itself once their children are under way and their parents' leases are gone."""
        for key in sorted(self.held):
            row = self.table.get(key)
            if not isinstance(row, Lease) or not row.is_ended or not row.child_shard_ids:
                continue
            children = [self.table.get(child) for child in sorted(row.child_shard_ids)]
            under_way = all(
                isinstance(child, Lease) and child.checkpoint.sequence_number not in _UNSTARTED for child in children
            )
            if under_way and not any(self.table.get(parent) for parent in sorted(row.parent_shard_ids)):
                self.table.apply(java_writes.delete(key))
                self.held.pop(key, None)


def _child(child: ChildShard) -> Lease:
    return Lease(
        child.shard_id,
        TRIM_HORIZON,
        parent_shard_ids=child.parent_shard_ids,
        hash_key_range=child.hash_key_range,
    )
