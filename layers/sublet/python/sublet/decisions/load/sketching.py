"""Makes a shard's sketch from the records that a worker handles. It takes so little CPU that benchmarks do not show it.

If a page has many records, only some are counted, at random distances, and each stands for the records since the one
before. With fixed distances, only one key of a producer that takes its keys in turns might be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from sublet.decisions.load.heavy_keys import HeavyKeys, KeyCounter
from sublet.decisions.load.sketch import BUCKETS, RECORD_LOAD, PeakSecond, ShardSketch, bucket_of, worst_seconds
from sublet.decisions.time_and_chance import Chance
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.records import NO_ARRIVAL_TIME, Page, StreamRecord, UserRecord
from sublet.protocol.shard import FULL_RANGE, HashKeyRange

SAMPLES = 8
"""About how many records of a page are counted while a sketch has few. A page with fewer records is counted in full."""

ENOUGH = 512
"""This many counted records are enough for a sketch. After that fewer and fewer records of each page are counted, in
the end one: a worker at the tip of a full shard gets 1,500 pages for a sketch.
"""

WAITING_MAX = 64
"""How many sampled records are counted together. One at a time takes three times as long, because by the next page the
code and the counters are no longer in the CPU's caches.
"""

DRAWN = 256
"""How many random numbers are drawn at a time, because the machine's own source is slow."""

SECONDS_MAX = 300
"""When this many seconds are held, only the worst of each minute is kept."""

_Sample = tuple[str | None, str | None, int, bool, int]
"""A record to count: its partition key and explicit hash key, the bytes of its data, whether it is aggregated, and how
many records it stands for.
"""


class _SecondLoad(Struct):
    """What arrived in one second, from `starts` up to and including `ends`. An estimate if a page covered several
    seconds.
    """

    starts: datetime
    ends: datetime
    records: float = 0
    bytes: float = 0

    def has(self, arrived: datetime) -> bool:
        return self.starts <= arrived <= self.ends

    def add(self, records: float, size: float) -> None:
        self.records += records
        self.bytes += size


class Sketching:
    """The sketch of one shard in the making. Not thread-safe."""

    def __init__(self, shard_id: str, hash_key_range: HashKeyRange | None, chance: Chance, now: datetime) -> None:
        self._shard_id, self._since = shard_id, now
        self._range = hash_key_range or FULL_RANGE
        self._chance = chance
        self._waiting: list[_Sample] = []
        self._keys = HeavyKeys()
        self._buckets = [0] * BUCKETS
        self._latest = _SecondLoad(NO_ARRIVAL_TIME, NO_ARRIVAL_TIME)
        self._seconds: dict[datetime, _SecondLoad] = {}
        self._peaks: tuple[PeakSecond, ...] = ()
        self._stride = self._weight = 1
        """One record in `_stride` is counted. `_weight`: how many records the next one that is counted stands for."""
        self._skip = self._in_page = self._counted_in_page = self._pages = 0
        self._records = self._bytes = self._load = self._squares = 0
        self._aggregated = self._explicit = self._elsewhere = self._keyless = self.dropped = 0
        self._is_sampled = False
        self._drawn: list[int] = []

    def turn(self, page: Page) -> None:
        """Begin a page with records. Its user records follow by `see`."""
        records, latest = page.records, self._latest
        count = max(self._in_page, len(records))
        self._pages += 1
        samples = min(SAMPLES, ENOUGH // self._pages) or 1
        self._stride = count // samples if count > SAMPLES else 1
        self._in_page = self._counted_in_page = 0
        if records:
            if latest.has(records[-1].approximate_arrival_timestamp):  # and so has the whole page
                latest.add(len(records), page.data_bytes + len(records[0].partition_key or "") * len(records))
            else:
                self._note_seconds(records, page.data_bytes)

    def see(self, records: Sequence[UserRecord]) -> None:
        count, at = len(records), self._skip
        self._in_page += count
        while at < count:
            record = records[at]
            self._waiting.append(
                (
                    record.partition_key,
                    record.explicit_hash_key,
                    len(record.data),
                    record.data is not record.stream_record.data,
                    self._weight,
                )
            )
            at += self._distance()
        self._skip = at - count
        if len(self._waiting) >= WAITING_MAX:
            self._count_waiting()

    @property
    def heat(self) -> float:
        """The heat that the finished sketch would have, without making it."""
        return max((peak.share for peak in self._worst()), default=0.0)

    def sketch(self, now: datetime) -> ShardSketch:
        self._count_waiting()
        keys, missed = self._keys.finished()
        return ShardSketch(
            shard_id=self._shard_id,
            since=self._since,
            until=now,
            hash_key_range=self._range,
            records=self._records,
            bytes=self._bytes,
            load=self._load,
            squares=float(self._squares),
            is_sampled=self._is_sampled,
            missed=missed,
            keys=keys,
            buckets=tuple(self._buckets),
            aggregated=self._aggregated,
            explicit=self._explicit,
            elsewhere=self._elsewhere,
            keyless=self._keyless,
            dropped=self.dropped,
            peaks=self._worst(),
        )

    def _distance(self) -> int:
        """How many records until the next one to count: on average the stride, which doubles once a page has had its
        samples.
        """
        self._counted_in_page += 1
        if self._counted_in_page % SAMPLES == 0:
            self._stride *= 2
        self._weight = stride = self._stride
        if stride == 1:
            return 1
        self._is_sampled = True
        if not self._drawn:
            bits = self._chance.getrandbits(32 * DRAWN).to_bytes(4 * DRAWN, "big")
            self._drawn = memoryview(bits).cast("I").tolist()
        return 1 + (self._drawn.pop() * (2 * stride - 1) >> 32)

    def _count_waiting(self) -> None:
        for sample in self._waiting:
            self._count(*sample)
        self._waiting.clear()

    def _count(
        self,
        key: str | None,
        explicit_hash_key: str | None,
        data_bytes: int,
        is_aggregated: bool,
        weight: int,
    ) -> None:
        size = (data_bytes + len(key or "")) * weight
        load = size if is_aggregated else size + RECORD_LOAD * weight
        self._records += weight
        self._bytes += size
        self._load += load
        self._squares += load * load
        if is_aggregated:
            self._aggregated += load
        if key is None:
            self._keyless += load
            return
        counter = self._keys.known(key) or self._enter(key, explicit_hash_key)
        counter.load += load
        counter.bytes += size
        counter.records += weight
        bucket = counter.bucket
        if explicit_hash_key is not None:
            self._explicit += load
            bucket = bucket_of(int(explicit_hash_key), self._range)
        if bucket is None:
            self._elsewhere += load
        else:
            self._buckets[bucket] += load

    def _enter(self, key: str, explicit_hash_key: str | None) -> KeyCounter:
        key_hash = hash_key(key, None)
        place = key_hash if explicit_hash_key is None else int(explicit_hash_key)
        return self._keys.enter(key, key_hash, place, bucket_of(place, self._range))

    def _note_seconds(self, records: Sequence[StreamRecord], data_bytes: int) -> None:
        """If a page covers several seconds, samples its records. Each sample stands for equally many, and its bytes are
        scaled up.
        """
        second = self._second_of(records[0].approximate_arrival_timestamp)
        if second.has(records[-1].approximate_arrival_timestamp):
            second.add(len(records), data_bytes + len(records[0].partition_key or "") * len(records))
        else:
            sampled = records[:: -(-len(records) // SAMPLES)]
            each = len(records) / len(sampled)
            scale = data_bytes / max(1, sum(len(record.data) for record in sampled))
            for record in sampled:
                size = len(record.data) * scale + len(record.partition_key or "") * each
                self._second_of(record.approximate_arrival_timestamp).add(each, size)
        if len(self._seconds) > SECONDS_MAX:
            self._peaks = self._worst()
            self._seconds = {self._latest.starts: self._latest}

    def _second_of(self, arrived: datetime) -> _SecondLoad:
        if not self._latest.has(arrived):
            starts, ends = arrived.replace(microsecond=0), arrived.replace(microsecond=999_999)
            self._latest = self._seconds.setdefault(starts, _SecondLoad(starts, ends))
        return self._latest

    def _worst(self) -> tuple[PeakSecond, ...]:
        seconds = (PeakSecond(each.starts, round(each.records), round(each.bytes)) for each in self._seconds.values())
        return worst_seconds((*self._peaks, *seconds))
