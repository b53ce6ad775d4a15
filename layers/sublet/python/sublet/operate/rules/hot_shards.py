"""Why a shard is hot, and what helps: a verdict for each shard, with its price and the change that carries it out.

A split helps only if it divides the load. Records of one partition key have one hash key, so a dominant key stays in
one child, whatever the split; so do records whose producer places them all at one hash key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from sublet.decisions.load.heavy_keys import HeavyKey
from sublet.decisions.load.resharding import Merge, Reshard, Split
from sublet.decisions.load.shard_load import HOT_ON_AVERAGE, read_shares
from sublet.decisions.load.sketch import PeakSecond, ShardSketch
from sublet.decisions.status.shard_status import ShardStatus
from sublet.operate.rules.prices import HOURS, SHARD_HOUR
from sublet.operate.rules.split_point import SplitPoint, split_point
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import RecordDistribution, StreamMode

HOT = 0.8
"""A shard is hot if its worst second takes at least this share of its quota. A row without a sketch shows only an
average: HOT_ON_AVERAGE.
"""

DOMINATES = 0.5
"""A key with at least this share of its shard's load: the larger half of every split has as much."""
TOO_UNEVEN = 0.8
"""A split whose larger half keeps more than this share changes little."""

COLD = 0.25
"""Two neighbours that need no more than this share of one shard's quota together can be one shard."""

ENOUGH = 50
"""Fewer sampled records of equal load say nothing about shares."""

SHOWN_KEYS = 5
SHARD_MONTH = SHARD_HOUR * HOURS


class HeatVerdict(StrEnum):
    ONE_KEY = "one key"
    """A partition key dominates: no split helps."""
    FEW_KEYS = "few keys"
    """No key dominates, and still no split divides the load."""
    SPLIT = "split"
    EXPLICIT_HASH_KEYS = "explicit hash keys"
    """Producers place most records here, whatever their partition keys."""
    AGGREGATES = "aggregates"
    """Producers aggregate without regard to their records' own shards."""
    MERGE = "merge"
    ON_DEMAND = "on demand"
    """Kinesis splits by itself, and takes no command."""
    AUTO = "auto"
    """Kinesis places the records: a hot shard is not due to a key."""
    UNKNOWN = "unknown"
    """It is hot, and no sketch says why."""
    NOT_MEASURED = "not measured"
    """Nothing says how fast it is read, so it may be hot."""
    FINE = "fine"


_NOT_HOT = frozenset({HeatVerdict.FINE, HeatVerdict.MERGE, HeatVerdict.NOT_MEASURED})


class KeyShare(Struct, frozen=True):
    """A key's share of its shard's load. `name`: None if names are not stored; `key_hash` is the MD5 of the partition
    key.
    """

    key_hash: int
    name: str | None
    at_least: float
    at_most: float


class HotShard(Struct, frozen=True):
    """A shard with its verdict.

    share      of its quota: in its worst second by the sketch, or on average by its row; None if neither says
    peak       the worst second; None without a sketch
    keys       the heaviest first
    split      the best split of its load; None without a sketch
    change     what carries the verdict out; None if a command to Kinesis does not
    per_month  what that adds to the month's bill, in US$
    """

    shard_id: str
    verdict: HeatVerdict
    because: str
    then: str = ""
    share: float | None = None
    peak: PeakSecond | None = None
    keys: tuple[KeyShare, ...] = ()
    split: SplitPoint | None = None
    change: Reshard | None = None
    per_month: float = 0.0
    is_sampled: bool = False

    @property
    def is_hot(self) -> bool:
        return self.verdict not in _NOT_HOT


class StreamLook(Struct, frozen=True):
    """`standing`: how the shards with leases stand. `sketches`: by shard id. `distribution`: None if it is not
    known.
    """

    mode: StreamMode
    distribution: RecordDistribution | None
    shards: tuple[Shard, ...]
    standing: tuple[ShardStatus, ...]
    sketches: Mapping[str, ShardSketch]


def hot_shards(look: StreamLook) -> tuple[HotShard, ...]:
    """The verdict of every open shard, the hottest first."""
    shares = read_shares(look.standing)
    open_shards = [shard for shard in look.shards if shard.is_open]
    judged = {
        shard.shard_id: _judged(shard, look, shares.get(shard.shard_id), look.sketches.get(shard.shard_id))
        for shard in open_shards
    }
    if look.mode is StreamMode.PROVISIONED and look.distribution is not RecordDistribution.AUTO:
        for merge in _merges(open_shards, judged):
            judged[merge.shard_id] = merge
    return tuple(sorted(judged.values(), key=_worst_first))


def _worst_first(judged: HotShard) -> tuple[bool, float, str]:
    return (not judged.is_hot, -(judged.share or 0), judged.shard_id)


def _judged(shard: Shard, look: StreamLook, share: float | None, sketch: ShardSketch | None) -> HotShard:
    if sketch is None or sketch.worst is None:
        return _without_sketch(shard, look, share)
    known = HotShard(
        shard.shard_id,
        HeatVerdict.FINE,
        "its worst second is within what a shard can take",
        share=sketch.heat,
        peak=sketch.worst,
        keys=key_shares(sketch),
        split=split_point(sketch),
        is_sampled=sketch.is_sampled,
    )
    return known if sketch.heat < HOT else _why(known, look, sketch)


def _without_sketch(shard: Shard, look: StreamLook, share: float | None) -> HotShard:
    if share is None:
        return HotShard(shard.shard_id, HeatVerdict.NOT_MEASURED, "no row says how fast it is read")
    known = HotShard(shard.shard_id, HeatVerdict.FINE, "few bytes a second are read from it", share=share)
    if share < HOT_ON_AVERAGE:
        return known
    return _placed_by_kinesis(known, look) or replace(
        known,
        verdict=HeatVerdict.UNKNOWN,
        because="its row says only how fast it is read, not by which keys",
        then="Let a sublet worker read it for some minutes, or use `sublet hot --exact`.",
    )


def _why(known: HotShard, look: StreamLook, sketch: ShardSketch) -> HotShard:
    """The first reason that applies. Reasons that make a split useless come before the split."""
    if look.distribution is not RecordDistribution.AUTO and _says_enough(sketch):
        because_of_keys = _dominated(known) or _misplaced(known, sketch)
        if because_of_keys is not None:
            return because_of_keys
    by_itself = _placed_by_kinesis(known, look)
    if by_itself is not None:
        return by_itself
    if not _says_enough(sketch):
        because = "too few of its records were counted"
        return replace(known, verdict=HeatVerdict.UNKNOWN, because=because, then="Look again in some minutes.")
    return _divided(known)


def _says_enough(sketch: ShardSketch) -> bool:
    return not sketch.is_sampled or sketch.load**2 >= ENOUGH * sketch.squares


def _dominated(known: HotShard) -> HotShard | None:
    top = known.keys[0] if known.keys else None
    if top is None or top.at_least < DOMINATES:
        return None
    return replace(
        known,
        verdict=HeatVerdict.ONE_KEY,
        because=f"one partition key brings at least {top.at_least:.0%} of the load, and no split divides a key",
        then="Give the key's records several keys (salt it), or, where order is not needed, let Kinesis place them: an "
        "on-demand stream with record distribution AUTO.",
    )


def _misplaced(known: HotShard, sketch: ShardSketch) -> HotShard | None:
    """The verdict if most records are here although their own partition keys would place them elsewhere."""
    strays = sketch.dropped / max(1, sketch.dropped + sketch.records)
    aggregated_elsewhere = min(sketch.elsewhere, sketch.aggregated)
    if strays >= DOMINATES or sketch.at_least(aggregated_elsewhere) >= DOMINATES:
        return replace(
            known,
            verdict=HeatVerdict.AGGREGATES,
            because="most records come in aggregates made for this shard, though their keys belong to other shards",
            then="Refresh the producer's shard map, and aggregate by the shard of each record's key. A split helps "
            "nothing: the "
            "KCL drops such aggregates, and so does the default hash_range_filter.",
        )
    clusters = known.split is None or known.split.larger > TOO_UNEVEN
    is_explicit = clusters and sketch.at_least(sketch.explicit) >= DOMINATES
    if is_explicit or sketch.at_least(sketch.elsewhere) >= DOMINATES:
        return replace(
            known,
            verdict=HeatVerdict.EXPLICIT_HASH_KEYS,
            because="producers place most records here by explicit hash keys, not by their partition keys",
            then="Leave ExplicitHashKey out, or spread it over the shard's range. Until then one half of a split has "
            "it all.",
        )
    return None


def _placed_by_kinesis(known: HotShard, look: StreamLook) -> HotShard | None:
    if look.distribution is RecordDistribution.AUTO:
        return replace(
            known,
            verdict=HeatVerdict.AUTO,
            because="Kinesis places the records of this stream, whatever their keys",
            then="Nothing: Kinesis spreads them over its shards, and adds shards when they are not enough.",
        )
    if look.mode is StreamMode.ON_DEMAND:
        return replace(
            known,
            verdict=HeatVerdict.ON_DEMAND,
            because="the stream is on demand: Kinesis splits hot shards by itself",
            then="Nothing, unless one key needs more than a shard takes: it never gets more than 1 MiB and 1,000 "
            "records a "
            "second.",
        )
    return None


def _divided(known: HotShard) -> HotShard:
    split = known.split
    if split is None or split.larger > TOO_UNEVEN:
        larger = "" if split is None else f": the best one leaves {split.larger:.0%} in one half"
        return replace(
            known,
            verdict=HeatVerdict.FEW_KEYS,
            because=f"a few keys bring the load, and no split divides it{larger}",
            then="Give the heaviest keys' records several keys (salt them).",
        )
    return replace(
        known,
        verdict=HeatVerdict.SPLIT,
        because=f"many keys bring the load: the halves of a split get {split.below:.0%} and {split.above:.0%}",
        then="Split it there. The leases of both halves begin when this shard has been read to its end.",
        change=Split(known.shard_id, split.at),
        per_month=SHARD_MONTH,
    )


def _merges(shards: Iterable[Shard], judged: Mapping[str, HotShard]) -> Iterable[HotShard]:
    """Pairs neighbours that one shard could serve, from the lowest hash key up. A shard is in one pair at most."""
    taken: set[str] = set()
    for lower, upper in pairwise(sorted(shards, key=lambda shard: shard.hash_key_range)):
        pair = judged[lower.shard_id], judged[upper.shard_id]
        together = sum(each.share if each.share is not None else COLD + 1 for each in pair)
        meets = lower.hash_key_range.ending + 1 == upper.hash_key_range.starting
        if not meets or together > COLD or taken & {lower.shard_id, upper.shard_id}:
            continue
        taken |= {lower.shard_id, upper.shard_id}
        yield replace(
            pair[0],
            verdict=HeatVerdict.MERGE,
            because=f"with {upper.shard_id} it needs {together:.0%} of one shard",
            then="Merge them, unless the load is about to grow.",
            change=Merge(lower.shard_id, upper.shard_id),
            per_month=-SHARD_MONTH,
        )


def key_shares(sketch: ShardSketch, most: int = SHOWN_KEYS) -> tuple[KeyShare, ...]:
    return tuple(_share(sketch, key) for key in sketch.keys[:most])


def _share(sketch: ShardSketch, key: HeavyKey) -> KeyShare:
    return KeyShare(key.key_hash, key.name, sketch.at_least(key.load), sketch.at_most(key.load + key.error))
