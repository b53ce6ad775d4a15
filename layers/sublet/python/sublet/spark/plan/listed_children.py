"""A closed shard's children according to a listing, since a query's driver may never see the shard's last page. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from sublet.protocol.shard import ChildShard, HashKeyRange, Shard


def listed_children(parent: Shard, listed: Mapping[str, Shard]) -> tuple[ChildShard, ...] | None:
    """None until the listing shows all of them, that is, until their hash keys cover the parent's."""
    children = sorted(
        (shard for shard in listed.values() if parent.shard_id in shard.parent_shard_ids),
        key=lambda shard: shard.hash_key_range,
    )
    return (
        tuple(ChildShard(s.shard_id, s.parent_shard_ids, s.hash_key_range) for s in children)
        if _covers([s.hash_key_range for s in children], parent.hash_key_range)
        else None
    )


def _covers(ranges: list[HashKeyRange], whole: HashKeyRange) -> bool:
    next_key = whole.starting
    for low, high in ranges:
        if low <= next_key:
            next_key = max(next_key, high + 1)
    return next_key > whole.ending
