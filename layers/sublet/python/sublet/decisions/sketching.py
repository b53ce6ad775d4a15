"""Makes a shard's sketch of the records that a worker handles, for so little CPU that benchmarks do not show it.

If a page has many records, only some are counted, at random distances, and each stands for the records since the one before.
With fixed distances, a producer that takes its keys in turns would have one key counted alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sublet.decisions.heavy_keys import Counter, HeavyKeys
from sublet.decisions.sketch import BUCKETS, RECORD_LOAD, Peak, ShardSketch, bucket_of, worst_seconds
from sublet.decisions.time_and_chance import Chance
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.records import Page, StreamRecord, UserRecord
from sublet.protocol.shard import FULL_RANGE, HashKeyRange

SAMPLES = 8
"""About how many records of a page are counted, while a sketch has few. A page that has fewer records is counted in full."""

ENOUGH = 512
"""So many counted records say what a sketch has to say. From then on it is fewer of each page, at last one: a worker at the tip
of a full shard gets 1,500 pages for a sketch.
"""

DRAWN = 256
"""Random numbers are drawn so many at a time, because the machine's own source is slow."""

SECONDS_MAX = 300
"""When so many seconds are held, only the worst of each minute is kept."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Sketching:
    """The sketch of one shard in the making. Not thread-safe."""

    def __init__(
        self, shard_id: str, hash_key_range: HashKeyRange | None, chance: Chance, now: datetime
    ) -> None:
        self._shard_id, self._since = shard_id, now
        self._range = hash_key_range or FULL_RANGE
        self._chance = chance
        self._keys = HeavyKeys()
        self._buckets = [0] * BUCKETS
        self._seconds: dict[int, list[int]] = {}
        self._peaks: tuple[Peak, ...] = ()
        self._stride = self._weight = 1
        """Of how many records one is counted, and how many the next one stands for."""
        self._skip = self._in_page = self._counted_in_page = self._pages = 0
        self._records = self._bytes = self._load = self._squares = 0
        self._aggregated = self._explicit = self._elsewhere = self._keyless = self.dropped = 0
        self._is_sampled = False
        self._drawn: list[int] = []

    def turn(self, page: Page) -> None:
        """A page with records begins. Its user records follow with `see`."""
        count = max(self._in_page, len(page.records))
        self._pages += 1
        samples = min(SAMPLES, ENOUGH // self._pages) or 1
        self._stride = count // samples if count > SAMPLES else 1
        self._in_page = self._counted_in_page = 0
        if page.records:
            self._note_seconds(page.records, page.data_bytes)

    def see(self, records: Sequence[UserRecord]) -> None:
        count, at = len(records), self._skip
        self._in_page += count
        while at < count:
            self._count(records[at], self._weight)
            at += self._distance()
        self._skip = at - count

    @property
    def heat(self) -> float:
        """The same as the finished sketch's, without making it."""
        return max((peak.share for peak in self._worst()), default=0.0)

    def sketch(self, now: datetime) -> ShardSketch:
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
        """How far it is to the next record to count: the stride on average, which doubles once a page has had its samples."""
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

    def _count(self, record: UserRecord, weight: int) -> None:
        key, data = record.partition_key, record.data
        is_plain = data is record.stream_record.data
        size = (len(data) + len(key or "")) * weight
        load = size + RECORD_LOAD * weight if is_plain else size
        self._records += weight
        self._bytes += size
        self._load += load
        self._squares += load * load
        if not is_plain:
            self._aggregated += load
        if key is None:
            self._keyless += load
            return
        counter = self._keys.known(key) or self._enter(key, record.explicit_hash_key)
        counter.load += load
        counter.bytes += size
        counter.records += weight
        bucket = counter.bucket
        if record.explicit_hash_key is not None:
            self._explicit += load
            bucket = bucket_of(int(record.explicit_hash_key), self._range)
        if bucket is None:
            self._elsewhere += load
        else:
            self._buckets[bucket] += load

    def _enter(self, key: str, explicit_hash_key: str | None) -> Counter:
        key_hash = hash_key(key, None)
        place = key_hash if explicit_hash_key is None else int(explicit_hash_key)
        return self._keys.enter(key, key_hash, place, bucket_of(place, self._range))

    def _note_seconds(self, records: Sequence[StreamRecord], data_bytes: int) -> None:
        """Samples the page: each sampled record stands for the same number of records, and all samples for the page's bytes."""
        first, last = _second(records[0]), _second(records[-1])
        if first == last:
            keys = len(records[0].partition_key or "") * len(records)
            self._add(first, len(records), data_bytes + keys)
        else:
            sampled = records[:: -(-len(records) // SAMPLES)]
            each = len(records) / len(sampled)
            scale = data_bytes / max(1, sum(len(record.data) for record in sampled))
            for record in sampled:
                size = len(record.data) * scale + len(record.partition_key or "") * each
                self._add(_second(record), each, size)
        if len(self._seconds) > SECONDS_MAX:
            self._peaks = self._worst()
            self._seconds.clear()

    def _add(self, second: int, records: float, size: float) -> None:
        found = self._seconds.get(second)
        if found is None:
            self._seconds[second] = [round(records), round(size)]
        else:
            found[0] += round(records)
            found[1] += round(size)

    def _worst(self) -> tuple[Peak, ...]:
        seconds = (Peak(_EPOCH + timedelta(seconds=at), *found) for at, found in self._seconds.items())
        return worst_seconds((*self._peaks, *seconds))


def _second(record: StreamRecord) -> int:
    return int(record.approximate_arrival_timestamp.timestamp())
