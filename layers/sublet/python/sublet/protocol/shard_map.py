"""Says which open shard takes a hash key, from a listing of the stream's shards."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sublet.protocol.shard import HashKeyRange, Shard


@dataclass(frozen=True, slots=True)
class ShardMap:
    """Predicts the shards of a producer's records. The prediction is wrong once the stream has been resharded.

    starts     the first hash key of each open shard, ascending
    shard_ids  the open shards, in the same order
    ranges     of every listed shard, closed ones included; a shard's range never changes
    """

    starts: Sequence[int]
    shard_ids: Sequence[str]
    ranges: Mapping[str, HashKeyRange]

    @classmethod
    def of(cls, shards: Iterable[Shard]) -> ShardMap:
        listed = tuple(shards)
        still_open = sorted((one.hash_key_range.starting, one.shard_id) for one in listed if one.is_open)
        return cls(
            [start for start, _ in still_open],
            [shard_id for _, shard_id in still_open],
            {one.shard_id: one.hash_key_range for one in listed},
        )

    def shard_at(self, hash_key: int) -> str:
        """The open shard that takes the hash key. A listing made during a reshard may have a gap: then the shard below
        the gap.
        """
        return self.shard_ids[max(bisect_right(self.starts, hash_key) - 1, 0)]

    def covers(self, shard_id: str, hash_keys: Iterable[int]) -> bool:
        """Whether all of these hash keys are in the shard's range. False for a shard that is not listed."""
        range_ = self.ranges.get(shard_id)
        return range_ is not None and all(range_.starting <= key <= range_.ending for key in hash_keys)
