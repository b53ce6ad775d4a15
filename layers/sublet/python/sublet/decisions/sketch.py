"""A shard's sketch: who brings its load, where in its hash key range, and the worst second of each minute.

Load counts what a shard's quota counts. A shard takes 1 MiB and 1,000 records a second (Kinesis Developer Guide, quotas and
limits), so a stream record weighs as many bytes as one of those thousand may have, and its own bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from math import sqrt

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.heavy_keys import HeavyKey, merged_keys
from sublet.protocol.shard import FULL_RANGE, SHARD_BYTES, SHARD_RECORDS, HashKeyRange

BUCKETS = 64
"""Of equal width, over the shard's hash key range."""

RECORD_LOAD = -(-SHARD_BYTES // SHARD_RECORDS)
"""Of a stream record, beside its bytes."""

MINUTES_MAX = 30
"""How many minutes' worst seconds a sketch has."""

SURELY = 3.1
"""Standard errors below a sampled share: it is less in one case of a thousand."""

MINUTE = timedelta(minutes=1)


class Peak(Struct, frozen=True):
    """The worst second of a minute, by arrival time: what producers wrote, however fast it is read. `bytes`: data and keys."""

    at: datetime
    records: int
    bytes: int

    @property
    def share(self) -> float:
        """Of what a shard can take in a second. Kinesis allows short bursts above 1."""
        return max(self.bytes / SHARD_BYTES, self.records / SHARD_RECORDS)


class ShardSketch(Struct, frozen=True):
    """All figures but `peaks` are of user records, and in load unless they say otherwise.

    since, until  between which moments it was made
    squares       the sum of the squares of each sampled record's load, which says how far a share may be off
    is_sampled    False: every record was counted, and the lower bounds of shares are certain
    missed, keys  see `heavy_keys`
    buckets       by where records are placed
    explicit      with a known explicit hash key: only aggregates show one
    elsewhere     with a partition key that hashes outside the shard's range: something else placed it here
    keyless       without a partition key
    dropped       aggregates outside the shard's range, which KCL's rule drops: their records are in no other figure
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
    peaks: tuple[Peak, ...] = ()

    @property
    def worst(self) -> Peak | None:
        return max(self.peaks, key=lambda peak: peak.share, default=None)

    @property
    def heat(self) -> float:
        """The worst second's share of what a shard can take."""
        return 0.0 if self.worst is None else self.worst.share

    def at_least(self, load: int) -> float:
        """The share that this much of the load has, as a lower bound: certain if every record was counted."""
        share = self._share(load)
        return max(0.0, share - self._margin(share))

    def at_most(self, load: int) -> float:
        share = min(1.0, self._share(load))
        return min(1.0, share + self._margin(share))

    def _share(self, load: int) -> float:
        return load / self.load if self.load else 0.0

    def _margin(self, share: float) -> float:
        """By the number of records of equal load that would say as much as the sampled ones."""
        if not self.is_sampled or not self.squares:
            return 0.0
        return SURELY * sqrt(max(share * (1 - share), 0.0) * self.squares) / self.load


def bucket_of(place: int, hash_key_range: HashKeyRange) -> int | None:
    """None outside the range."""
    starting, ending = hash_key_range
    if not starting <= place <= ending:
        return None
    return (place - starting) * BUCKETS // (ending - starting + 1)


def merged(mine: ShardSketch, other: ShardSketch) -> ShardSketch:
    """One sketch of what two say of the same shard; neither may have counted a record of the other."""
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


def worst_seconds(seconds: Iterable[Peak]) -> tuple[Peak, ...]:
    """The worst of each minute, in order of time; the latest MINUTES_MAX minutes."""
    worst: dict[datetime, Peak] = {}
    for second in seconds:
        minute = second.at.replace(second=0, microsecond=0)
        if minute not in worst or worst[minute].share < second.share:
            worst[minute] = second
    return tuple(worst[minute] for minute in sorted(worst)[-MINUTES_MAX:])


def hottest(sketches: Sequence[ShardSketch]) -> Sequence[ShardSketch]:
    return sorted(sketches, key=lambda sketch: (-sketch.heat, sketch.shard_id))
