"""Which leases to delete: KCL's rule (LeaseCleanupManager), applied to the rows of one scan.

A shard that has ended keeps its row until its children are under way: the row shows that the children follow it, and
where they start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum

from msgspec import Struct

from sublet.decisions.manager.hash_range_audit import gaps
from sublet.protocol.checkpoint import LATEST, Sentinel
from sublet.protocol.lease import Lease
from sublet.protocol.shard import Shard, children_by_parent


class DeleteReason(StrEnum):
    COMPLETED = "completed"
    """Its shard has ended, all its children are under way, and its parents' leases are gone."""
    GARBAGE = "garbage"
    """Its shard is not listed. Only a candidate: ask the stream for that shard before deleting."""


class LeaseDeletion(Struct, frozen=True):
    lease: Lease
    why: DeleteReason


_NOT_UNDER_WAY = frozenset({Sentinel.TRIM_HORIZON.value, Sentinel.AT_TIMESTAMP.value})
"""KCL's test is for these two alone, since a parent's end creates no child at LATEST."""


def plan_lease_cleanup(
    leases: Sequence[Lease], shards: Sequence[Shard], malformed: Collection[str] = ()
) -> tuple[LeaseDeletion, ...]:
    """The leases to delete, in the order of `leases`.

    A chain of completed leases goes one generation per tick, oldest first: each waits until its parent's row is gone.
    `shards` is the full listing. If it is empty, or its open shards leave hash keys uncovered, it does not prove that a
    shard is gone, and nothing is garbage. `malformed` are the shard ids of unreadable rows: they exist, and are not
    under way.
    """
    by_shard = {lease.shard_id: lease for lease in leases}
    standing = by_shard.keys() | frozenset(malformed)
    children = children_by_parent(shards)
    listed = {shard.shard_id for shard in shards}
    whole = not gaps(shard.hash_key_range for shard in shards if shard.is_open)
    deletions: list[LeaseDeletion] = []
    for lease in leases:
        if _is_completed(lease, by_shard, standing, children):
            deletions.append(LeaseDeletion(lease, DeleteReason.COMPLETED))
        elif whole and lease.shard_id not in listed:
            deletions.append(LeaseDeletion(lease, DeleteReason.GARBAGE))
    return tuple(deletions)


def _is_completed(
    lease: Lease,
    by_shard: Mapping[str, Lease],
    standing: AbstractSet[str],
    children: Mapping[str, frozenset[str]],
) -> bool:
    """KCL uses the children that the shard's end wrote to the row, or else those that the service lists.

    Without any known child the row stays: an ended shard always has children, so they have not been seen yet. Unlike in
    KCL, the row also stays while the other parent of a merge is unfinished. Otherwise `shard_sync` could create one of
    the two again for the sake of the other, then the other for the sake of the one, without end.
    """
    if not lease.is_ended or not standing.isdisjoint(lease.parent_shard_ids):
        return False
    of_lease = lease.child_shard_ids or children.get(lease.shard_id, frozenset())
    if not of_lease or not all(_is_under_way(by_shard.get(child)) for child in of_lease):
        return False
    merged = {parent for child in of_lease for parent in by_shard[child].parent_shard_ids}
    return all(by_shard[parent].is_ended for parent in merged & by_shard.keys())


def _is_under_way(child: Lease | None) -> bool:
    """A child at LATEST that was never opened still needs its parent's row (`needs_pin`), unlike in KCL."""
    if child is None or (child.checkpoint == LATEST and child.start_at is None):
        return False
    return child.checkpoint.sequence_number not in _NOT_UNDER_WAY
