"""Deliberate bugs between the lease worker and its ports, which show that the invariants catch them.

Each is a mistake that consumers of this table have made or easily make: kcl-rust's reset of the counter, its acquire
fenced by the owner alone, its checkpoint's comparison, children that are created after the end, a LATEST lease that is
not pinned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.ports import Applied, LeaseTable, PollRefusal, Refusal, Refused, ShardReader
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import LATEST
from sublet.protocol.conditions import AllOf, Clause
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow
from sublet.protocol.lease_attributes import number
from sublet.protocol.lease_row import decode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind
from sublet.protocol.records import GetRecordsReply
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import StreamDescription
from sublet.reading.polling import PolledStream, PollingReader
from sublet.settings import StartPosition
from sublet.testing.simulation.fleet import Wiring
from sublet.testing.simulation.ports import SimStream
from sublet.testing.simulation.scheduler import SkewedClock

Rewrite = Callable[[LeaseWrite], LeaseWrite]


Mutation = Wiring
UNCHANGED = Mutation()


@dataclass(frozen=True, slots=True)
class RewritingTable:
    """Changes each write by the function."""

    real: LeaseTable
    rewrite: Rewrite

    def scan(self) -> LeaseScan:
        return self.real.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.real.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        return self.real.apply(self.rewrite(write))


@dataclass(frozen=True, slots=True)
class LateChildrenTable:
    """Creates children's leases after their parent's SHARD_END instead of before it."""

    real: LeaseTable
    waiting: list[LeaseWrite] = field(default_factory=list)

    def scan(self) -> LeaseScan:
        return self.real.scan()

    def get(self, lease_key: str) -> Lease | MalformedRow | None:
        return self.real.get(lease_key)

    def apply(self, write: LeaseWrite) -> Applied | Refused:
        if write.kind is WriteKind.CREATE:
            self.waiting.append(write)
            lease = decode_row(write.sets)
            assert isinstance(lease, Lease), "we create readable rows"
            return Applied(lease)
        result = self.real.apply(write)
        if write.kind is WriteKind.END:
            while self.waiting:
                self.real.apply(self.waiting.pop())
        return result


@dataclass(frozen=True, slots=True)
class LatestStream:
    """Opens a lease at LATEST each time while its row says LATEST."""

    real: PolledStream
    table: LeaseTable

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        return self.real.list_shards(at)

    def describe(self) -> StreamDescription:
        return self.real.describe()

    def has_shard(self, shard_id: str) -> bool:
        return self.real.has_shard(shard_id)

    def service_time(self) -> datetime:
        return self.real.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        lease = self.table.get(shard_id)
        is_latest = isinstance(lease, Lease) and lease.checkpoint == LATEST
        return self.real.open(shard_id, ReadPosition(IteratorType.LATEST) if is_latest else position)

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        return self.real.poll(iterator, limit)


@dataclass(frozen=True, slots=True)
class OwnClockStream:
    """Sets the pages' answer times by the worker's own clock."""

    real: SimStream

    def list_shards(self, at: StartPosition | None = None) -> tuple[Shard, ...]:
        return self.real.list_shards(at)

    def describe(self) -> StreamDescription:
        return self.real.describe()

    def has_shard(self, shard_id: str) -> bool:
        return self.real.has_shard(shard_id)

    def service_time(self) -> datetime:
        return self.real.service_time()

    def reader(self, shard_id: str, position: ReadPosition) -> ShardReader:
        return PollingReader(self, shard_id, position)

    def open(self, shard_id: str, position: ReadPosition) -> str:
        return self.real.open(shard_id, position)

    def poll(self, iterator: str, limit: int) -> GetRecordsReply | Refusal:
        reply = self.real.poll(iterator, limit)
        if isinstance(reply, PollRefusal):
            return reply
        clock = SkewedClock(self.real._world.scheduler, self.real._process)
        return reply._replace(page=reply.page._replace(answered_at=clock.now()))


def _reset_counter(write: LeaseWrite) -> LeaseWrite:
    if write.kind is not WriteKind.ACQUIRE:
        return write
    adds = {name: by for name, by in write.adds.items() if name != attributes.LEASE_COUNTER}
    return replace(write, sets={**write.sets, attributes.LEASE_COUNTER: number(1)}, adds=adds)


def _unpin(write: LeaseWrite) -> LeaseWrite:
    return replace(write, sets={}) if write.kind is WriteKind.PIN else write


def _without(clauses: set[str], *kinds: WriteKind) -> Rewrite:
    """Drops clauses from the conditions of these kinds of writes."""

    def rewrite(write: LeaseWrite) -> LeaseWrite:
        if write.kind not in kinds:
            return write
        kept = [c for c in write.condition.conditions if not (isinstance(c, Clause) and c.name in clauses)]
        assert len(kept) < len(write.condition.conditions), f"a {write.kind} has none of the clauses {clauses}"
        return replace(write, condition=AllOf(tuple(kept)))

    return rewrite


def _simulated(stream: PolledStream) -> SimStream:
    assert isinstance(stream, SimStream)
    return stream


def _rewriting(rewrite: Rewrite) -> Mutation:
    return Mutation(lambda table: RewritingTable(table, rewrite), has_rules=False)


MUTATIONS = {
    "counter reset on acquire": _rewriting(_reset_counter),
    "owner-only fence": _rewriting(_without({"counter_stands"}, WriteKind.ACQUIRE)),
    "checkpoint over any position": _rewriting(
        _without({"position_stands", "further_on"}, WriteKind.CHECKPOINT, WriteKind.LATE_CHECKPOINT)
    ),
    "checkpoint over what an operator has moved": _rewriting(
        _without({"position_stands"}, WriteKind.CHECKPOINT, WriteKind.LATE_CHECKPOINT)
    ),
    "children created after SHARD_END": Mutation(LateChildrenTable),
    "LATEST not pinned": Mutation(lambda table: RewritingTable(table, _unpin), LatestStream),
    "a shard's time by a worker's own clock": Mutation(stream=lambda stream, _: OwnClockStream(_simulated(stream))),
    "heartbeat from a resumed zombie": _rewriting(_without({"counter_stands", "holder_stands"}, WriteKind.HEARTBEAT)),
}
