"""The partition keys that bring most of a shard's load, in bounded memory: a Misra-Gries summary.

It holds the same information as a space-saving summary (Agarwal and others, "Mergeable summaries", PODS 2012).
Misra-Gries summaries can be merged, and a new key costs no search for the smallest counter.

After loads of N in all, with k counters:

    missed     is at most N / (k + 1)
    any key    that is not in the summary has a load of at most `missed`
    a key      in it has a load of at least `load` and at most `load + error`, where `error` is at most `missed`
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

COUNTERS = 256


class HeavyKey(Struct, frozen=True):
    """What was counted since the key entered the summary. Before that, it may have brought at most `error` more.

    key_hash  the MD5 of the partition key, as Kinesis hashes it
    place     the hash key that places its records: `key_hash`, or an explicit hash key
    load      bytes, and as many bytes for each record as a shard can take for one (`sketch.RECORD_LOAD`)
    name      the partition key; None if it is not to be stored
    """

    key_hash: int
    place: int
    load: int
    error: int
    bytes: int
    records: int
    name: str | None = None


class KeyCounter(Struct):
    """A key's figures in the making. `bucket`: where `place` is; None outside the shard's range."""

    key_hash: int
    place: int
    bucket: int | None
    error: int
    load: int = 0
    bytes: int = 0
    records: int = 0


_K = TypeVar("_K", bound=Hashable)
_C = TypeVar("_C", HeavyKey, KeyCounter)


class HeavyKeys:
    """Counts keys. Not thread-safe. It holds at most twice as many counters as `finished` returns."""

    def __init__(self, counters: int = COUNTERS) -> None:
        self._max = counters
        self._counters: dict[str, KeyCounter] = {}
        self.missed = 0
        """The bound on what is missing, as in the module's docstring."""

    def known(self, partition_key: str) -> KeyCounter | None:
        return self._counters.get(partition_key)

    def enter(self, partition_key: str, key_hash: int, place: int, bucket: int | None = None) -> KeyCounter:
        """A counter for a key that is not known. Add its load to it before the next call."""
        if len(self._counters) >= 2 * self._max:
            self._counters, self.missed = _kept(self._counters, self.missed, self._max)
        entered = self._counters[partition_key] = KeyCounter(key_hash, place, bucket, self.missed)
        return entered

    def finished(self) -> tuple[tuple[HeavyKey, ...], int]:
        """Returns the keys, the heaviest first, and `missed`."""
        kept, missed = _kept(self._counters, self.missed, self._max)
        return tuple(sorted((_heavy(key, found) for key, found in kept.items()), key=_heaviest)), missed


def merged_keys(
    mine: Iterable[HeavyKey],
    mine_missed: int,
    other: Iterable[HeavyKey],
    other_missed: int,
    counters: int = COUNTERS,
) -> tuple[tuple[HeavyKey, ...], int]:
    """The summary of both, as if one had counted everything; the guarantees hold for the sum."""
    left, right = ({key.key_hash: key for key in keys} for keys in (mine, other))
    both = {
        key_hash: _sum(key_hash, left.get(key_hash), mine_missed, right.get(key_hash), other_missed)
        for key_hash in left | right
    }
    kept, missed = _kept(both, mine_missed + other_missed, counters)
    return tuple(sorted(kept.values(), key=_heaviest)), missed


def fewer(keys: tuple[HeavyKey, ...], missed: int, counters: int) -> tuple[tuple[HeavyKey, ...], int]:
    """Cuts the summary to at most so many counters, which makes its `missed` larger if it had more."""
    return (keys, missed) if len(keys) <= counters else merged_keys(keys, missed, (), 0, counters)


def _kept(counters: Mapping[_K, _C], missed: int, most: int) -> tuple[dict[_K, _C], int]:
    """Keep the `most` counters of the highest rank. Every rank falls by that of the first counter that is dropped. At
    least one more counter than `most` loses that much, so `missed` stays within its bound.
    """
    if len(counters) <= most:
        return dict(counters), missed
    ranks = {key: each.load - (missed - each.error) for key, each in counters.items()}
    falls_by = sorted(ranks.values(), reverse=True)[most]
    return {key: counters[key] for key, rank in ranks.items() if rank > falls_by}, missed + falls_by


def _heavy(name: str, found: KeyCounter) -> HeavyKey:
    return HeavyKey(found.key_hash, found.place, found.load, found.error, found.bytes, found.records, name)


def _sum(key_hash: int, mine: HeavyKey | None, mine_missed: int, other: HeavyKey | None, other_missed: int) -> HeavyKey:
    found = [each for each in (mine, other) if each is not None]
    return HeavyKey(
        key_hash,
        found[0].place,
        sum(each.load for each in found),
        (mine_missed if mine is None else mine.error) + (other_missed if other is None else other.error),
        sum(each.bytes for each in found),
        sum(each.records for each in found),
        next((each.name for each in found if each.name is not None), None),
    )


def _heaviest(key: HeavyKey) -> tuple[int, int]:
    return (-key.load, key.key_hash)
