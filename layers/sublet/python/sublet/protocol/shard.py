"""A shard as ListShards returns it: its hash key range and its parents.

Kinesis' ending sequence number is kept only as open or closed: emulators return one below the shard's own start, and
nothing here compares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

HASH_KEY_MAX = 2**128 - 1
"""Kinesis: hash keys are the 128-bit MD5 of the partition key, as an unsigned big-endian integer."""


SHARD_BYTES, SHARD_RECORDS = 1024**2, 1_000
"""What a shard takes in a second (Kinesis Developer Guide, quotas and limits). The bytes are those of data and
partition keys.
"""


class HashKeyRange(NamedTuple):
    """Both ends inclusive, as in Kinesis."""

    starting: int
    ending: int

    def __contains__(self, hash_key: object) -> bool:
        return isinstance(hash_key, int) and self.starting <= hash_key <= self.ending


FULL_RANGE = HashKeyRange(0, HASH_KEY_MAX)


@dataclass(frozen=True, slots=True)
class Shard:
    """`parent_shard_id` is set after a split; both parents after a merge (possibly only the adjacent one: KCL's graph
    A). A parent may be past retention, and not be listed as a shard itself.
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
    """An element of GetRecords' ChildShards, which come with the last page of a closed shard."""

    shard_id: str
    parent_shard_ids: frozenset[str]
    hash_key_range: HashKeyRange


def creation_order(shard: Shard) -> tuple[int, str]:
    """KCL creates leases in this order, so that after a sync that failed halfway the next one repairs the table."""
    return (int(shard.starting_sequence_number), shard.shard_id)


def children_by_parent(shards: Iterable[Shard]) -> Mapping[str, frozenset[str]]:
    """The shard ids of each parent's listed children. The parent itself need not be listed."""
    children: dict[str, set[str]] = {}
    for shard in shards:
        for parent in shard.parent_shard_ids:
            children.setdefault(parent, set()).add(shard.shard_id)
    return {parent: frozenset(ids) for parent, ids in children.items()}


def child_of(shard: Shard) -> ChildShard:
    """The listed shard in the form in which the last page of its parent names it."""
    return ChildShard(shard.shard_id, shard.parent_shard_ids, shard.hash_key_range)
