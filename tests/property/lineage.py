"""Draws a stream's shards after any history of splits and merges, for properties that must hold for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from sublet.protocol.shard import FULL_RANGE, HashKeyRange, Shard


class Lineage:
    """A stream that reshards as Kinesis does: parents close, and their children cover exactly their hash keys."""

    def __init__(self, first: int = 1) -> None:
        self.shards: dict[str, Shard] = {}
        size = (FULL_RANGE.ending + 1) // first
        for n in range(first):
            last = FULL_RANGE.ending if n == first - 1 else size * (n + 1) - 1
            self._add(HashKeyRange(size * n, last))

    @property
    def open_shards(self) -> list[Shard]:
        return sorted(
            (shard for shard in self.shards.values() if shard.is_open), key=lambda shard: shard.hash_key_range
        )

    def reshard(self, choice: int) -> None:
        """Any number is a reshard of some open shard: even ones split it, odd ones merge it with its neighbour."""
        candidates = self.open_shards
        index = choice // 2 % len(candidates)
        if choice % 2 and index + 1 < len(candidates):
            self.merge(candidates[index], candidates[index + 1])
        else:
            self.split(candidates[index])

    def split(self, shard: Shard) -> None:
        self._close(shard)
        starting, ending = shard.hash_key_range
        middle = (starting + ending) // 2
        self._add(HashKeyRange(starting, middle), shard.shard_id)
        self._add(HashKeyRange(middle + 1, ending), shard.shard_id)

    def merge(self, left: Shard, right: Shard) -> None:
        self._close(left)
        self._close(right)
        both = HashKeyRange(left.hash_key_range.starting, right.hash_key_range.ending)
        self._add(both, left.shard_id, right.shard_id)

    def listing(self, trimmed: int = 0) -> list[Shard]:
        """All shards but the oldest `trimmed` closed ones, which are past retention."""
        gone = [shard.shard_id for shard in self.shards.values() if not shard.is_open][:trimmed]
        return [shard for shard in self.shards.values() if shard.shard_id not in gone]

    def children_of(self, shard_id: str) -> list[Shard]:
        return [shard for shard in self.shards.values() if shard_id in shard.parent_shard_ids]

    def _close(self, shard: Shard) -> None:
        self.shards[shard.shard_id] = replace(shard, is_open=False)

    def _add(self, hash_keys: HashKeyRange, parent: str | None = None, adjacent: str | None = None) -> None:
        number = len(self.shards)
        shard_id = f"shardId-{number:012}"
        self.shards[shard_id] = Shard(shard_id, hash_keys, parent, adjacent, str(number))


def lineage_of(first: int, reshards: Sequence[int]) -> Lineage:
    lineage = Lineage(first)
    for choice in reshards:
        lineage.reshard(choice)
    return lineage


lineages = st.builds(lineage_of, st.integers(1, 4), st.lists(st.integers(0, 40), max_size=8))
