"""Which shards are still to be read, by the leases and the listing together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sublet.decisions.manager.shard_sync import to_create_again
from sublet.protocol.lease import Lease
from sublet.protocol.shard import Shard


def still_to_read(leases: Collection[Lease], unreadable: Collection[str], listed: Sequence[Shard]) -> set[str]:
    """The ids of the shards that are not handled to their end.

    A shard without a lease is one of them if it is open, if a parent is one, because that parent's end creates its
    lease, or if the next shard sync does. Otherwise its lease was cleaned up, or it ended before the application's
    start position.

    unreadable  shard ids of rows that cannot be read: these may be anywhere
    listed      in the order of creation
    """
    unread = {lease.shard_id for lease in leases if not lease.is_ended}.union(unreadable)
    has_row = {lease.shard_id for lease in leases}.union(unreadable)
    again = to_create_again(leases, unreadable, listed)
    for shard in listed:
        if shard.shard_id in has_row:
            continue
        if shard.is_open or shard.shard_id in again or not unread.isdisjoint(shard.parent_shard_ids):
            unread.add(shard.shard_id)
    return unread
