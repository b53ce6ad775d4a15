"""The tree of shards and their parents, through every reshard that the leases still know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sublet.decisions.status.shard_status import ShardStatus


class ShardBranch(NamedTuple):
    """A shard in the tree.

    is_last      for each of its ancestors but the first, then for itself: whether it is its parent's last child; empty
                 for a root
    also_of      a merged shard's other parent: the shard is in the tree only once
    """

    shard: ShardStatus
    is_last: tuple[bool, ...] = ()
    also_of: str | None = None


def shard_tree(shards: Iterable[ShardStatus]) -> Sequence[ShardBranch]:
    """Returns the branches in the order in which a tree is read. A shard whose parents have no lease is a root."""
    known = {shard.shard_id: shard for shard in sorted(shards, key=lambda shard: shard.shard_id)}
    children: defaultdict[str, list[ShardStatus]] = defaultdict(list)
    roots: list[ShardStatus] = []
    for shard in known.values():
        parents = sorted(shard.parents & known.keys())
        (children[parents[0]] if parents else roots).append(shard)
    tree: dict[str, ShardBranch] = {}
    for root in (*roots, *known.values()):  # all again: rows that name each other as parents have no root
        left = [ShardBranch(root)]
        while left:
            branch = left.pop()
            if branch.shard.shard_id in tree:
                continue
            tree[branch.shard.shard_id] = branch
            left += reversed(list(_below(branch, children[branch.shard.shard_id])))
    return list(tree.values())


def _below(parent: ShardBranch, children: Sequence[ShardStatus]) -> Iterable[ShardBranch]:
    for child in children:
        others = sorted(child.parents - {parent.shard.shard_id})
        yield ShardBranch(child, (*parent.is_last, child is children[-1]), others[0] if others else None)
