"""Says which open shard takes a hash key, from a listing of the stream's shards."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sublet.protocol.sequence_number import birth_of
from sublet.protocol.shard import HashKeyRange, Shard


@dataclass(frozen=True, slots=True)
class ShardMap:
    """Predicts the shards of a producer's records. The prediction is wrong once the stream has been resharded.

    starts     the first hash key of each open shard, ascending
    shard_ids  the open shards, in the same order
    ranges     of every listed shard, closed ones included; a shard's range never changes
    births     when each listed shard was created, in Kinesis' own figures: a stream that was deleted and created again
               has shards with the same ids and other births. Without a shard of which it is not known
    """

    starts: Sequence[int]
    shard_ids: Sequence[str]
    ranges: Mapping[str, HashKeyRange]
    births: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, shards: Iterable[Shard]) -> ShardMap:
        listed = tuple(shards)
        still_open = sorted((one.hash_key_range.starting, one.shard_id) for one in listed if one.is_open)
        return cls(
            [start for start, _ in still_open],
            [shard_id for _, shard_id in still_open],
            {one.shard_id: one.hash_key_range for one in listed},
            {one.shard_id: born for one in listed if (born := birth_of(one.starting_sequence_number)) is not None},
        )

    def shard_at(self, hash_key: int) -> str:
        """The open shard that takes the hash key. A listing made during a reshard may have a gap: then the shard below
        the gap.
        """
        return self.shard_ids[max(bisect_right(self.starts, hash_key) - 1, 0)]

    def birth_order(self, shard_id: str, sequence_number: str) -> int:
        """Compares the shard that a record is in with the listed one of this id: 1 if it was created later, -1 if
        earlier, 0 if they are the same or it is not known. One that is not listed was created earlier if it is older
        than all that are.
        """
        born = birth_of(sequence_number)
        if born is None or not self.births:
            return 0
        listed = self.births.get(shard_id)
        if listed is None:
            return -(shard_id not in self.ranges and born < min(self.births.values()))
        return (born > listed) - (born < listed)

    def is_same_stream_as(self, other: ShardMap) -> bool:
        """Whether the shards that both list are the same ones."""
        return all(
            self.ranges[shard_id] == range_ and self.births.get(shard_id) == other.births.get(shard_id)
            for shard_id, range_ in other.ranges.items()
            if shard_id in self.ranges
        )

    def covers(self, shard_id: str, hash_keys: Iterable[int]) -> bool:
        """Whether all of these hash keys are in the shard's range. False for a shard that is not listed."""
        range_ = self.ranges.get(shard_id)
        return range_ is not None and all(range_.starting <= key <= range_.ending for key in hash_keys)
