"""The leases that a keeper holds, and every write to them: many at once, but one at a time for each lease."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from sublet.decisions.session.held_lease import MAY_WRITE, Tenure
from sublet.decisions.session.shard_end import BlockedByParents
from sublet.decisions.time_and_chance import Instant
from sublet.engine.lease.held import HeldLease, MakeWrite
from sublet.engine.lease.steps import end_shard, plan_end
from sublet.errors import CallFailed
from sublet.ports import Ports
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import late_checkpoint, release
from sublet.protocol.shard import ChildShard, Shard
from sublet.protocol.stream_key import stream_key_of
from sublet.reading.several_streams import ports_of_stream
from sublet.settings import Settings
from sublet.spark.keeper.lease_lag import LeaseLag
from sublet.spark.plan.committed import listed_children, next_write, quiet_of
from sublet.spark.plan.lag import ShardLook
from sublet.spark.plan.offsets import Ended, Position, ShardOffset

PORTION = 64
"""How many leases are taken, or shards ended, many at once, between two looks at which heartbeats are due."""

T = TypeVar("T")


@dataclass(slots=True)
class HeldLeases:
    """The held leases, by lease key. Only one thread may use this object; the writes run on `pool`."""

    ports: Ports
    settings: Settings
    pool: Executor
    _held: dict[str, HeldLease] = field(default_factory=dict)
    _lags: dict[str, LeaseLag] = field(default_factory=dict)
    _left: dict[str, Lease] = field(default_factory=dict)
    """Leases that are no longer held, as they were last known."""

    def __contains__(self, key: object) -> bool:
        return key in self._held

    @property
    def keys(self) -> list[str]:
        return sorted(self._held)

    @property
    def readable(self) -> Mapping[str, Lease]:
        """Leases whose shards may be read further, without those that we should hand over."""
        return {key: held.lease for key, held in self._held.items() if held.tenure is Tenure.HELD}

    @property
    def is_heartbeat_due(self) -> bool:
        return any(held.is_heartbeat_due(self.settings.heartbeat_interval) for held in self._held.values())

    def add(self, lease: Lease, since: Instant) -> HeldLease:
        failover_time, stop = self.settings.failover_time, self.ports.tasks.signal()
        held = self._held[lease.lease_key] = HeldLease(lease, since, self.ports, failover_time, stop)
        lag = self._lags[lease.lease_key] = LeaseLag(lease, self.ports.clock)
        held.notes.lag_at = lag.report
        self._left.pop(lease.lease_key, None)
        return held

    def note_looks(self, found: Mapping[str, ShardLook]) -> None:
        """Takes looks by shard id. From now on heartbeats, checkpoints and releases report the shards' lag by them."""
        for key in found.keys() & self._held.keys():
            self._lags[key].has_looked(found[key])

    def write(self, key: str, make: MakeWrite) -> bool:
        """Makes a write. True if the row is now at least as far as the write. False if the lease is lost or the table
        cannot be reached; the next write finds out which."""
        return self._act(key, lambda held: held.write(make))

    def write_due(self, committed: Mapping[str, ShardOffset], in_doubt: bool) -> None:
        """Writes checkpoints of what is committed, and heartbeats. `end_those` writes shard ends."""
        due = {key: make for key in self.keys if (make := self._next(key, committed, in_doubt))}
        list(self.pool.map(lambda key: self.write(key, due[key]), due))

    def write_late(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Writes checkpoints of lost leases. The new owner may read the row again before it begins, or refuse to go
        back.
        """
        for key in checkpoints.keys() & self._left.keys():
            lost, to = self._left.pop(key), checkpoints[key]
            if to <= lost.checkpoint:
                continue
            try:
                self.ports.table.apply(late_checkpoint(lost, to))
            except CallFailed as problem:
                self.ports.log.warning("late checkpoint failed", lease_key=key, problem=str(problem))

    def end_those(self, committed: Mapping[str, ShardOffset], meanwhile: Callable[[], object] = lambda: None) -> bool:
        """Ends the shards that are read to their end; True if any was ended. One that cannot be ended yet stays
        held. Calls `meanwhile` every few shards: a reshard ends hundreds at once, and the other leases need their
        heartbeats.
        """
        ending = [key for key in self.keys if isinstance(_position(committed, key), Ended)]
        if not ending:
            return False
        children, has_ended = listed_children(ending, self._listed(ending)), False
        while ending:
            left = []
            for some in in_portions(ending):
                done = self.pool.map(lambda key: self._act(key, partial(self._end, children)), some)
                left += [key for key, is_done in zip(some, done, strict=True) if not is_done]
                meanwhile()
            if len(left) == len(ending):
                break
            has_ended, ending = True, left  # a child that waited for its parent can end now
        return has_ended

    def checkpoint_and_release(self, committed: Mapping[str, ShardOffset], keys: Collection[str]) -> None:
        """Tries once to write the outstanding checkpoint of each of these leases, and then to release it."""
        self.end_those(committed)
        held = [key for key in self.keys if key in keys]
        list(self.pool.map(lambda key: self._checkpoint_and_release(key, committed), held))

    def release_as_they_stand(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.write(key, release)

    def _act(self, key: str, step: Callable[[HeldLease], bool]) -> bool:
        """Drops a lease that the step has released or lost."""
        held = self._held.get(key)
        if held is None:
            return False
        moves, before = held.moves, held.lease.checkpoint
        is_done = step(held)
        if held.moves != moves and held.lease.checkpoint < before:
            self.ports.log.warning(
                "the checkpoint was moved back; a query continues from its own offsets",
                lease_key=key,
                checkpoint=str(held.lease.checkpoint),
                before=str(before),
            )
        if held.tenure not in MAY_WRITE:
            self._left[key] = held.lease
            self._held.pop(key, None)
            self._lags.pop(key, None)
        return is_done

    def _next(self, key: str, committed: Mapping[str, ShardOffset], in_doubt: bool) -> MakeWrite | None:
        held = self._held[key]
        return next_write(
            held.lease,
            held.tenure,
            _position(committed, key),
            in_doubt=in_doubt,
            is_heartbeat_due=held.is_heartbeat_due(self.settings.heartbeat_interval),
        )

    def _listed(self, keys: Iterable[str]) -> Mapping[str, Shard]:
        """The shards of these shards' streams, by lease key. A stream that cannot be listed is left out."""
        listed: dict[str, Shard] = {}
        for key in {stream_key_of(key): key for key in keys}.values():
            try:
                shards = ports_of_stream(self.ports, key).stream.list_shards()
            except CallFailed as problem:
                self.ports.log.warning("shard end failed; will try again", lease_key=key, problem=str(problem))
            else:
                listed.update((shard.shard_id, shard) for shard in shards)
        return listed

    def _end(self, children: Mapping[str, Sequence[ChildShard]], held: HeldLease) -> bool:
        """Ends a shard as the rest of the library does, except that its children come from the listing."""
        key = held.lease.lease_key
        if key not in children:
            return False
        try:
            plan = plan_end(held.lease, children[key], self.ports)
            return not isinstance(plan, BlockedByParents) and end_shard(held, plan, self.ports)
        except CallFailed as problem:
            self.ports.log.warning("shard end failed; will try again", lease_key=key, problem=str(problem))
            return False

    def _checkpoint_and_release(self, key: str, committed: Mapping[str, ShardOffset]) -> None:
        if isinstance(_position(committed, key), Ended):
            return
        make = self._next(key, committed, in_doubt=False)
        if make is None or self.write(key, make):
            shard = committed.get(key)
            caught_up_at = None if shard is None else shard.caught_up_at
            self.write(key, lambda lease: release(lease, caught_up_at, quiet=quiet_of(lease, shard)))


def in_portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + PORTION] for at in range(0, len(items), PORTION))


def _position(committed: Mapping[str, ShardOffset], key: str) -> Position | None:
    return committed[key].position if key in committed else None
