"""A shard's sketch from the totals of all records, by key and by second. It is exact, but every record has to be
read.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from heapq import heappush, heapreplace

from msgspec import Struct

from sublet.decisions.load.heavy_keys import COUNTERS, HeavyKey
from sublet.decisions.load.sketch import BUCKETS, RECORD_LOAD, PeakSecond, ShardSketch, bucket_of, worst_seconds
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.shard import HashKeyRange


class KeyTotal(Struct, frozen=True):
    """The total of the user records with one key. `stream_records`: how many of them are the first of their stream
    record. `bytes`: of data and keys. `aggregated`: the part of `bytes` that came in aggregates, as far as the records
    show it.
    """

    partition_key: str | None
    explicit_hash_key: str | None
    bytes: int
    records: int
    stream_records: int
    aggregated: int


class ExactSketching:
    """The exact sketch of one shard in the making. It holds the heaviest keys and 64 sums, however many keys there
    are.
    """

    def __init__(self, shard_id: str, hash_key_range: HashKeyRange) -> None:
        self._shard_id, self._range = shard_id, hash_key_range
        self._heaviest: list[tuple[int, int, HeavyKey]] = []
        self._missed = 0
        self._buckets = [0] * BUCKETS
        self._records = self._bytes = self._load = self._aggregated = 0
        self._explicit = self._elsewhere = self._keyless = 0
        self._peaks: tuple[PeakSecond, ...] = ()

    def add(self, total: KeyTotal) -> None:
        load = total.bytes + RECORD_LOAD * total.stream_records
        self._records += total.records
        self._bytes += total.bytes
        self._load += load
        self._aggregated += total.aggregated
        if total.partition_key is None:
            self._keyless += load
            return
        hashed = hash_key(total.partition_key, None)
        place = hash_key(total.partition_key, total.explicit_hash_key)
        bucket = bucket_of(place, self._range)
        if total.explicit_hash_key is not None:
            self._explicit += load
        if bucket is None:
            self._elsewhere += load
        else:
            self._buckets[bucket] += load
        self._keep(HeavyKey(hashed, place, load, 0, total.bytes, total.records, total.partition_key))

    def add_second(self, second: PeakSecond) -> None:
        self._peaks = worst_seconds((*self._peaks, second))

    def _keep(self, key: HeavyKey) -> None:
        entry = (key.load, self._records, key)
        if len(self._heaviest) < COUNTERS:
            heappush(self._heaviest, entry)
        else:
            out = heapreplace(self._heaviest, entry) if key.load > self._heaviest[0][0] else entry
            self._missed = max(self._missed, out[0])

    def sketch(self, since: datetime, until: datetime) -> ShardSketch:
        return ShardSketch(
            self._shard_id,
            since,
            until,
            self._range,
            self._records,
            self._bytes,
            self._load,
            missed=self._missed,
            keys=_sorted(key for _, _, key in self._heaviest),
            buckets=tuple(self._buckets),
            aggregated=self._aggregated,
            explicit=self._explicit,
            elsewhere=self._elsewhere,
            keyless=self._keyless,
            peaks=self._peaks,
        )


def _sorted(keys: Iterable[HeavyKey]) -> tuple[HeavyKey, ...]:
    return tuple(sorted(keys, key=lambda key: (-key.load, key.key_hash)))
