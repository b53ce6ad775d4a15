"""A fleet in sequence: a worker without leases takes every free lease, handles a part of its shard, and gives it
back.
"""

from __future__ import annotations

from random import Random

from sublet.decisions.session.read_position import needs_pin, not_yet_handled, read_position
from sublet.decisions.session.shard_end import EndShard, may_begin, plan_shard_end
from sublet.ports import Applied, Clock, PollRefusal
from sublet.protocol.aggregation import deaggregate
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.lease_writes import (
    LeaseWrite,
    acquire,
    checkpoint,
    create,
    end,
    pin,
    release,
    set_children,
)
from sublet.protocol.records import Page
from sublet.settings import StartKind, StartPosition
from sublet.testing.memory import MemoryLeaseTable, MemoryStream


class SimFleet:
    """`handled`: every user record, as often as it was handled."""

    def __init__(self, stream: MemoryStream, table: MemoryLeaseTable, clock: Clock, chance: Random) -> None:
        self.handled: list[bytes] = []
        self._stream, self._table, self._clock, self._chance = stream, table, clock, chance

    def turn(self, most: int | None = None) -> int:
        """Of each free shard handle at most this many user records (None: all). Returns their total."""
        before = len(self.handled)
        for lease in self._table.scan().leases:
            parents = [self._table.get(parent) for parent in lease.parent_shard_ids]
            if lease.lease_owner is None and may_begin(lease, parents):
                acquired = self._write(acquire(lease.fence, "fleet", f"fleet-{self._chance.random()}"))
                self._consume(acquired, parents, most)
        return len(self.handled) - before

    def _consume(self, lease: Lease, parents: list[Lease | MalformedRow | None], most: int | None) -> None:
        pinned = needs_pin(lease, parents, StartPosition(StartKind.TRIM_HORIZON), self._clock.now())
        if pinned is not None:
            lease = self._write(pin(lease, pinned.at))
        position = read_position(lease)
        assert position is not None
        iterator: str | None = self._stream.open(lease.shard_id, position)
        while iterator is not None:
            reply = self._stream.poll(iterator, 10)
            assert not isinstance(reply, PollRefusal)
            page = reply.page
            for record in not_yet_handled(deaggregate(page.records, None).user_records, lease.checkpoint):
                if most == 0:
                    self._write(release(lease))
                    return
                self.handled.append(record.data)
                lease = self._write(checkpoint(lease, record.checkpoint))
                most = None if most is None else most - 1
            iterator = reply.next_iterator
            if iterator is None:
                self._end(lease, page)
            elif not page.records:
                self._write(release(lease))
                return

    def _end(self, lease: Lease, page: Page) -> None:
        others = {p for child in page.child_shards for p in child.parent_shard_ids} - {lease.shard_id}
        missing = [p for p in others if self._table.get(p) is None and self._stream.has_shard(p)]
        plan = plan_shard_end(lease, page.child_shards, missing)
        if isinstance(plan, EndShard):
            for child in plan.create:
                self._table.apply(create(child))
            self._write(end(self._write(set_children(lease, plan.child_shard_ids))))
        else:
            self._write(release(lease))

    def _write(self, write: LeaseWrite) -> Lease:
        result = self._table.apply(write)
        assert isinstance(result, Applied), write
        return result.lease
