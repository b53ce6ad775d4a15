"""The leases that a keeper holds, and every write to them: many at once, but of one lease one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

from sublet.decisions.shard_end import Blocked, other_parents, plan_shard_end
from sublet.errors import LeaseTableError, StreamError, TransientError
from sublet.ports import Clock, LeaseTable, Log, Stream
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import (
    WriteKind,
    create,
    end,
    hand_over,
    late_checkpoint,
    release,
    set_children,
)
from sublet.settings import Settings
from sublet.spark.plan.holding import Holding, MakeWrite, after_write, listed_children, next_write
from sublet.spark.plan.offsets import Ended, Position, ShardOffset

ATTEMPTS = 3
"""Of one write that is refused by a write of our own, or by a request to leave: each refusal says what to write instead."""


@dataclass(slots=True)
class HeldLeases:
    """By lease key, each as our last write left it. One thread calls this; `pool` has the threads that write."""

    table: LeaseTable
    stream: Stream
    clock: Clock
    log: Log
    settings: Settings
    pool: Executor
    _held: dict[str, Holding] = field(default_factory=dict)

    def __contains__(self, key: object) -> bool:
        return key in self._held

    @property
    def keys(self) -> list[str]:
        return sorted(self._held)

    @property
    def readable(self) -> Mapping[str, Lease]:
        """Those of which more may be read: not the ones that we are asked to hand over."""
        return {key: holding.lease for key, holding in self._held.items() if not holding.is_leaving}

    @property
    def is_heartbeat_due(self) -> bool:
        oldest = min((holding.written_at for holding in self._held.values()), default=None)
        return oldest is not None and self.clock.now() - oldest >= self.settings.heartbeat_interval

    def add(self, holding: Holding) -> None:
        self._held[holding.lease.lease_key] = holding

    def write(self, key: str, make: MakeWrite) -> bool:
        """Write what `make` makes of the lease as it stands; whether the row now says at least that. False: it is lost, or the
        table cannot be reached, and the next write finds out."""
        for _ in range(ATTEMPTS):
            holding = self._held.get(key)
            if holding is None:
                return False
            write, sent_at = make(holding.lease), self.clock.now()
            try:
                after = after_write(holding, write, self.table.apply(write), sent_at)
            except LeaseTableError as problem:
                self._failed(holding, problem)
                return False
            self._set(key, after.holding)
            if after.is_done:
                return True
            if after.holding is None:
                self.log.warning("lease lost", lease_key=key, write=write.kind)
            elif after.holding.is_leaving and write.kind is WriteKind.RELEASE:
                make = hand_over
        return False

    def _set(self, key: str, holding: Holding | None) -> None:
        if holding is not None:
            self._held[key] = holding
        else:
            self._held.pop(key, None)

    def _failed(self, holding: Holding, problem: LeaseTableError) -> None:
        """Out of reach for a while is no loss; for longer than failover_time it may be another's by now."""
        key, age = holding.lease.lease_key, self.clock.now() - holding.written_at
        self.log.warning("lease table refused a write", lease_key=key, problem=str(problem))
        if not isinstance(problem, TransientError) or age > self.settings.failover_time:
            self._set(key, None)

    def write_due(self, committed: Mapping[str, ShardOffset], in_doubt: bool) -> None:
        """Checkpoints of what is committed, and heartbeats. Ends are for `end_those`."""
        now = self.clock.now()
        due = {
            key: make
            for key, holding in self._held.items()
            if (make := next_write(holding, _position(committed, key), in_doubt, now, self.settings))
        }
        list(self.pool.map(lambda key: self.write(key, due[key]), due))

    def write_late(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        """For leases that are lost: who took one may look at its row again before it begins, or refuse to go back."""
        for key in checkpoints.keys() - self._held.keys():
            try:
                self.table.apply(late_checkpoint(key, checkpoints[key]))
            except LeaseTableError as problem:
                self.log.warning("late checkpoint failed", lease_key=key, problem=str(problem))

    def end_those(self, committed: Mapping[str, ShardOffset]) -> bool:
        """End the shards that are read to their end; whether any is ended. One that cannot be yet stays held."""
        ending = [key for key in self.keys if isinstance(_position(committed, key), Ended)]
        return sum(self._end(key) for key in ending) > 0

    def _end(self, key: str) -> bool:
        try:
            return self._try_to_end(key)
        except (LeaseTableError, StreamError) as problem:
            self.log.warning("shard end failed; tried again", lease_key=key, problem=str(problem))
            return False

    def _try_to_end(self, key: str) -> bool:
        """The children's leases, the children's names, SHARD_END: KCL's order, so that a crash in between mends itself."""
        listed = {shard.shard_id: shard for shard in self.stream.list_shards()}
        children = listed_children(listed[key], listed) if key in listed else None
        if children is None:
            return False
        lease = self._held[key].lease
        others = sorted(other_parents(lease, children))
        missing = [p for p in others if self.table.get(p) is None and self.stream.has_shard(p)]
        plan = plan_shard_end(lease, children, missing)
        if isinstance(plan, Blocked):
            parents = sorted(plan.missing_parents)
            self.log.warning("shard end waits for a merge's other parent", lease_key=key, parents=parents)
            return False
        for child in plan.create:
            self.table.apply(create(child))
        named = self.write(key, partial(set_children, child_shard_ids=plan.child_shard_ids))
        return named and self.write(key, end)

    def leave(self, committed: Mapping[str, ShardOffset]) -> None:
        """One attempt to write what is outstanding of each lease, and then to give it back."""
        self.end_those(committed)
        list(self.pool.map(lambda key: self._leave(key, committed.get(key)), self.keys))

    def give_up(self, keys: Iterable[str]) -> None:
        """Release as they stand."""
        for key in keys:
            self.write(key, release)

    def _leave(self, key: str, committed: ShardOffset | None) -> None:
        if committed is not None and isinstance(committed.position, Ended):
            return
        position = None if committed is None else committed.position
        make = next_write(self._held[key], position, False, self.clock.now(), self.settings)
        if make is None or self.write(key, make):
            self.write(key, partial(release, caught_up_at=committed.caught_up_at if committed else None))


def _position(committed: Mapping[str, ShardOffset], key: str) -> Position | None:
    return committed[key].position if key in committed else None
