"""A shard as ListShards gives it: its hash key range and its parents.

Kinesis' ending sequence number is kept only as "closed or not": emulators give one below its own start, and nothing here
needs to compare against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

HASH_KEY_MAX = 2**128 - 1
"""Kinesis: hash keys are the 128-bit MD5 of the partition key, as an unsigned big-endian integer."""


class HashKeyRange(NamedTuple):
    """Both ends inclusive, as in Kinesis."""

    starting: int
    ending: int

    def __contains__(self, hash_key: object) -> bool:
        return isinstance(hash_key, int) and self.starting <= hash_key <= self.ending


FULL_RANGE = HashKeyRange(0, HASH_KEY_MAX)


@dataclass(frozen=True, slots=True)
class Shard:
    """`parent_shard_id` is set after a split; both parents after a merge (the adjacent one alone may be set: KCL's graph A).

    A listed parent may already be past retention, that is, not be listed as a shard itself.
    """

    shard_id: str
    hash_key_range: HashKeyRange
    parent_shard_id: str | None = None
    adjacent_parent_shard_id: str | None = None
    starting_sequence_number: str = "0"
    is_open: bool = True

    @property
    def parent_shard_ids(self) -> frozenset[str]:
        return frozenset(p for p in (self.parent_shard_id, self.adjacent_parent_shard_id) if p)


class ChildShard(Struct, frozen=True):
    """One of GetRecords' ChildShards, which come with the last page of a closed shard."""

    shard_id: str
    parent_shard_ids: frozenset[str]
    hash_key_range: HashKeyRange


def creation_order(shard: Shard) -> tuple[int, str]:
    """KCL creates leases in this order, so that a sync that fails halfway leaves a table that the next sync heals."""
    return (int(shard.starting_sequence_number), shard.shard_id)


def children_by_parent(shards: Iterable[Shard]) -> Mapping[str, frozenset[str]]:
    """Shard ids of the listed children of each parent, listed or not."""
    children: dict[str, set[str]] = {}
    for shard in shards:
        for parent in shard.parent_shard_ids:
            children.setdefault(parent, set()).add(shard.shard_id)
    return {parent: frozenset(ids) for parent, ids in children.items()}
