"""A shard's sketch: which keys load it, where in its hash key range, and the worst second of each minute.

Load measures what a shard's quota limits: 1 MiB and 1,000 records a second (Kinesis Developer Guide, quotas and
limits). So the load of a stream record is its own bytes plus a thousandth of a MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.load.heavy_keys import HeavyKey, merged_keys
from sublet.protocol.shard import FULL_RANGE, SHARD_BYTES, SHARD_RECORDS, HashKeyRange

BUCKETS = 64
"""How many buckets of equal width the shard's hash key range has."""

RECORD_LOAD = -(-SHARD_BYTES // SHARD_RECORDS)
"""What each stream record adds to the load, beside its bytes."""

MINUTES_MAX = 30
"""How many minutes' worst seconds a sketch has."""

SURELY = 3.1
"""How many standard errors a sampled share's lower bound is below it: the true share is lower in one case of a
thousand.
"""

MINUTE = timedelta(minutes=1)


class PeakSecond(Struct, frozen=True):
    """The worst second of a minute, by arrival time: what producers wrote, however fast it is read. `bytes`: data and
    keys.
    """

    at: datetime
    records: int
    bytes: int

    @property
    def share(self) -> float:
        """The share of what a shard takes in a second. Kinesis allows short bursts above 1."""
        return max(self.bytes / SHARD_BYTES, self.records / SHARD_RECORDS)


class ShardSketch(Struct, frozen=True):
    """Figures are loads of user records, unless stated otherwise.

    since, until  between which moments the records were handled
    squares       the sum of the squares of each sampled record's load, from which the error of a share follows
    is_sampled    False: every record was counted, and the lower bounds of shares are certain
    missed, keys  see `heavy_keys`
    buckets       the load by hash key
    explicit      the load of records with a known explicit hash key; only aggregates show one
    elsewhere     the load of records whose partition key hashes outside the shard's range: their producer placed them
                  here
    keyless       the load of records without a partition key
    dropped       the number of aggregates outside the shard's range, which KCL's rule drops; no other figure includes
                  them
    """

    shard_id: str
    since: datetime
    until: datetime
    hash_key_range: HashKeyRange = FULL_RANGE
    records: int = 0
    bytes: int = 0
    load: int = 0
    squares: float = 0
    is_sampled: bool = False
    missed: int = 0
    keys: tuple[HeavyKey, ...] = ()
    buckets: tuple[int, ...] = (0,) * BUCKETS
    aggregated: int = 0
    explicit: int = 0
    elsewhere: int = 0
    keyless: int = 0
    dropped: int = 0
    peaks: tuple[PeakSecond, ...] = ()

    @property
    def worst(self) -> PeakSecond | None:
        return max(self.peaks, key=lambda peak: peak.share, default=None)

    @property
    def heat(self) -> float:
        """The worst second's share of what a shard can take."""
        return 0.0 if self.worst is None else self.worst.share

    def at_least(self, load: int) -> float:
        """A lower bound of this load's share of all load. It is certain if every record was counted."""
        share = self._share(load)
        return max(0.0, share - self._margin(share))

    def at_most(self, load: int) -> float:
        share = min(1.0, self._share(load))
        return min(1.0, share + self._margin(share))

    def _share(self, load: int) -> float:
        return load / self.load if self.load else 0.0

    def _margin(self, share: float) -> float:
        """How far the share may be off. Records of different load count like fewer records of equal load (Kish's
        effective sample size).
        """
        if not self.is_sampled or not self.squares:
            return 0.0
        return SURELY * sqrt(max(share * (1 - share), 0.0) * self.squares) / self.load


def bucket_of(place: int, hash_key_range: HashKeyRange) -> int | None:
    """The bucket of a hash key; None outside the range."""
    starting, ending = hash_key_range
    if not starting <= place <= ending:
        return None
    return (place - starting) * BUCKETS // (ending - starting + 1)


def merged(mine: ShardSketch, other: ShardSketch) -> ShardSketch:
    """Merges two sketches of the same shard, which must not have counted the same records."""
    keys, missed = merged_keys(mine.keys, mine.missed, other.keys, other.missed)
    return replace(
        mine,
        since=min(mine.since, other.since),
        until=max(mine.until, other.until),
        records=mine.records + other.records,
        bytes=mine.bytes + other.bytes,
        load=mine.load + other.load,
        squares=mine.squares + other.squares,
        is_sampled=mine.is_sampled or other.is_sampled,
        missed=missed,
        keys=keys,
        buckets=tuple(sum(pair) for pair in zip(mine.buckets, other.buckets, strict=True)),
        aggregated=mine.aggregated + other.aggregated,
        explicit=mine.explicit + other.explicit,
        elsewhere=mine.elsewhere + other.elsewhere,
        keyless=mine.keyless + other.keyless,
        dropped=mine.dropped + other.dropped,
        peaks=worst_seconds(chain(mine.peaks, other.peaks)),
    )


def worst_seconds(seconds: Iterable[PeakSecond]) -> tuple[PeakSecond, ...]:
    """The worst of each minute, in order of time; the latest MINUTES_MAX minutes."""
    worst: dict[datetime, PeakSecond] = {}
    for second in seconds:
        minute = second.at.replace(second=0, microsecond=0)
        if minute not in worst or worst[minute].share < second.share:
            worst[minute] = second
    return tuple(worst[minute] for minute in sorted(worst)[-MINUTES_MAX:])


def hottest(sketches: Sequence[ShardSketch]) -> Sequence[ShardSketch]:
    return sorted(sketches, key=lambda sketch: (-sketch.heat, sketch.shard_id))
