"""Turns a committed offset into checkpoints, and decides the next write to a held lease. Pure.

Everything up to a committed batch's end is handled, so the checkpoint of that end may be written, and no later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from sublet.decisions.session.held_lease import Tenure
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, QuietUntil
from sublet.protocol.lease_attributes import whole_milliseconds
from sublet.protocol.lease_writes import LeaseWrite, checkpoint, hand_over, heartbeat
from sublet.protocol.shard import ChildShard, HashKeyRange, Shard, child_of, children_by_parent
from sublet.spark.plan.offsets import Ended, Position, ReadTo, ShardOffset, Unread


def checkpoint_of(position: Position) -> Checkpoint | None:
    """The checkpoint for everything up to the position. None if nothing is handled, or for a shard end, which needs
    more than a checkpoint. For an aggregate that was read whole it names the last user record; otherwise KCL would
    deliver the others again."""
    if not isinstance(position, ReadTo):
        return None
    sub = position.sub_sequence_number
    return Checkpoint(position.sequence_number, position.last_sub_sequence_number if sub is None else sub)


def next_write(
    lease: Lease, tenure: Tenure, committed: Position | None, *, in_doubt: bool, is_heartbeat_due: bool
) -> Callable[[Lease], LeaseWrite] | None:
    """The write that the lease needs now, or None. A checkpoint also counts as a heartbeat.

    committed   how far committed batches have read the shard
    in_doubt    a batch is running, or may have been committed
    """
    to = None if committed is None else checkpoint_of(committed)
    if to is not None and to > lease.checkpoint:
        return partial(checkpoint, to=to)
    if tenure is Tenure.DRAINING and not in_doubt and not isinstance(committed, Ended):
        return hand_over
    return heartbeat if is_heartbeat_due else None


def quiet_of(lease: Lease, committed: ShardOffset | None) -> QuietUntil | None:
    """Lets the next owner skip walking an idle shard again; None if the offset is at another position."""
    if committed is None or committed.quiet_until is None or not _is_at(lease, committed.position):
        return None
    return QuietUntil(whole_milliseconds(committed.quiet_until), lease.position)


def _is_at(lease: Lease, position: Position) -> bool:
    if lease.checkpoint.is_sequence_number:
        return checkpoint_of(position) == lease.checkpoint
    return position == Unread(lease.start_at)


def read_on(before: Mapping[str, ShardOffset], after: Mapping[str, ShardOffset]) -> dict[str, Checkpoint]:
    """The checkpoints of a batch, for the shards that it read from."""
    return {
        shard_id: to
        for shard_id, shard in after.items()
        if (shard_id not in before or before[shard_id].position != shard.position)
        and (to := checkpoint_of(shard.position)) is not None
    }


def listed_children(parents: Iterable[str], listed: Mapping[str, Shard]) -> dict[str, tuple[ChildShard, ...]]:
    """The children of these closed shards by a listing, since a query's driver may never see a shard's last page.

    Leaves out a shard until the listing shows it with all its children, that is, until their hash keys cover its own.
    """
    children = children_by_parent(listed.values())
    found = {
        parent: sorted((listed[child] for child in children.get(parent, ())), key=lambda shard: shard.hash_key_range)
        for parent in parents
        if parent in listed
    }
    return {
        parent: tuple(map(child_of, shards))
        for parent, shards in found.items()
        if _covers([shard.hash_key_range for shard in shards], listed[parent].hash_key_range)
    }


def _covers(ranges: list[HashKeyRange], whole: HashKeyRange) -> bool:
    next_key = whole.starting
    for low, high in ranges:
        if low <= next_key:
            next_key = max(next_key, high + 1)
    return next_key > whole.ending
