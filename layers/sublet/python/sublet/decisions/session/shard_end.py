"""What to write when the last record of a closed shard has been handled, in KCL's order (its ShutdownTask).

First the children's leases, then the children's names on the parent's row, then SHARD_END. A crash in between leaves an
unfinished parent, and its next owner repeats the steps; there is never an ended parent whose children have no leases.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from sublet.protocol.checkpoint import AT_TIMESTAMP, TRIM_HORIZON
from sublet.protocol.lease import Lease, MalformedRow, lease_key_of
from sublet.protocol.shard import ChildShard


class EndShard(Struct, frozen=True):
    create: tuple[Lease, ...]
    child_shard_ids: frozenset[str]


class BlockedByParents(Struct, frozen=True):
    """A merge's other parent has no lease but still has records: ending now would let the child begin without them
    (KCL).
    """

    missing_parents: frozenset[str]


def other_parents(lease: Lease, children: Sequence[ChildShard]) -> frozenset[str]:
    """The children's parents other than this shard."""
    return frozenset(parent for child in children for parent in child.parent_shard_ids) - {lease.shard_id}


def plan_shard_end(
    lease: Lease, children: Sequence[ChildShard], missing_parents: Collection[str]
) -> EndShard | BlockedByParents:
    """`missing_parents`: those of `other_parents` that have no lease row although the service still lists the shard."""
    if missing_parents:
        return BlockedByParents(frozenset(missing_parents))
    return EndShard(
        create=tuple(_child_lease(lease, child) for child in sorted(children, key=lambda child: child.shard_id)),
        child_shard_ids=frozenset(child.shard_id for child in children),
    )


def _child_lease(parent: Lease, child: ChildShard) -> Lease:
    """Makes the child's lease at TRIM_HORIZON, as KCL does. Only a parent that ended before its AT_TIMESTAMP moment
    passes that moment on.
    """
    waits_for_moment = parent.checkpoint == AT_TIMESTAMP and parent.start_at is not None
    return Lease(
        lease_key=lease_key_of(child.shard_id),
        checkpoint=AT_TIMESTAMP if waits_for_moment else TRIM_HORIZON,
        start_at=parent.start_at if waits_for_moment else None,
        parent_shard_ids=child.parent_shard_ids,
        hash_key_range=child.hash_key_range,
    )


def may_begin(child: Lease, parents: Collection[Lease | MalformedRow | None]) -> bool:
    """A child begins when each of its parents has ended or has no lease (KCL's BlockOnParentShardTask).

    An unreadable parent has not ended. A child with a sequence number as checkpoint has begun.
    """
    if child.is_ended:
        return False
    parents_allow = all(parent is None or (isinstance(parent, Lease) and parent.is_ended) for parent in parents)
    return parents_allow or child.checkpoint.is_sequence_number
