"""Draws a stream's hash keys as a bar: which shard has which part of them, and how busy it is. Each stream has its own
bar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sublet.decisions.status.shard_status import ShardStatus, worst_first
from sublet.decisions.status.status_rules import Status
from sublet.operate.rules.hot_shards import HotShard
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.protocol.stream_key import StreamKey, stream_key_of

WIDTH, HEIGHT = 1000.0, 100.0
HOT = 2.0
"""If nothing is known of its worst second, a shard is hot when it gets this many times its even part of the bytes."""

NO_VERDICTS: Mapping[str, HotShard] = MappingProxyType({})

LEAST_WIDTH = 0.6
"""The least width of a bar, so that a narrow shard among many can still be seen."""

COLUMNS = 400
"""With more shards than this, each column stands for several."""


class HashKeyBar(NamedTuple):
    """One shard of the bar.

    x, width, height  in WIDTH by HEIGHT
    part              its part of all hash keys
    load              its bytes, as a multiple of an even share for its part; None if not known
    """

    shard: ShardStatus
    x: float
    width: float
    height: float
    part: float
    load: float | None
    verdict: HotShard | None = None
    """The verdict by its sketch or its row; None if neither is known."""

    @property
    def share(self) -> float | None:
        """The part of a shard's limit that it uses; None if not known."""
        return self.verdict.share if self.verdict else None

    @property
    def is_hot(self) -> bool:
        return self.verdict.is_hot if self.verdict else self.load is not None and self.load >= HOT


def hottest_first(bars: Iterable[HashKeyBar]) -> list[HashKeyBar]:
    """Returns the bars, hottest first, without those whose load is not known."""
    known = [bar for bar in bars if bar.load is not None or bar.share is not None]
    return sorted(known, key=lambda bar: (not bar.is_hot, -(bar.share or 0.0), -(bar.load or 0.0)))


def bars_of(shards: Sequence[ShardStatus], verdicts: Mapping[str, HotShard] = NO_VERDICTS) -> tuple[HashKeyBar, ...]:
    """Draws the shards that have not ended and whose rows state their range, in the order of their hash keys. Children
    that wait for a parent are left out, because they would lie over it.
    """
    ranged = sorted(
        (
            (shard.hash_key_range, shard)
            for shard in shards
            if shard.hash_key_range is not None and shard.status is not Status.ENDED and not shard.waits_for
        ),
        key=lambda each: each[0].starting,
    )
    total = sum(shard.kbps for _, shard in ranged if shard.kbps is not None)
    parts = [_part(keys) for keys, _ in ranged]
    loads = [
        None if shard.kbps is None or not total else shard.kbps / total / part
        for part, (_, shard) in zip(parts, ranged, strict=True)
    ]
    most = max((load for load in loads if load is not None), default=HOT)
    scale = HEIGHT / max(HOT, most)
    return tuple(
        HashKeyBar(
            shard,
            WIDTH * keys.starting / (HASH_KEY_MAX + 1),
            max(LEAST_WIDTH, WIDTH * part),
            0.0 if load is None else scale * load,
            part,
            load,
            verdicts.get(shard.shard_id),
        )
        for load, part, (keys, shard) in zip(loads, parts, ranged, strict=True)
    )


@dataclass(frozen=True, slots=True)
class HashKeyColumn:
    """One shard, or several beside each other, with their worst status and the load of the hottest."""

    title: str
    status: Status
    x: float
    width: float
    height: float
    is_hot: bool
    shard_id: str
    """The only shard, or the first that is hot."""


def columns_of(bars: Sequence[HashKeyBar]) -> tuple[HashKeyColumn, ...]:
    """Puts bars into columns. `bars` are in the order of their hash keys."""
    together: dict[int, list[HashKeyBar]] = {}
    for number, bar in enumerate(bars):
        together.setdefault(number if len(bars) <= COLUMNS else int(bar.x * COLUMNS / WIDTH), []).append(bar)
    return tuple(_column(each) for each in together.values())


def _column(bars: Sequence[HashKeyBar]) -> HashKeyColumn:
    first, last = bars[0], bars[-1]
    title = f"{first.shard.shard_id}: {100 * first.part:.2f}% of the hash keys"
    return HashKeyColumn(
        title if first is last else f"{len(bars)} shards from {first.shard.shard_id} on",
        worst_first([bar.shard for bar in bars])[0].status,
        first.x,
        last.x + last.width - first.x,
        max(bar.height for bar in bars),
        any(bar.is_hot for bar in bars),
        next((bar for bar in bars if bar.is_hot), first).shard.shard_id,
    )


class HashKeyMap(NamedTuple):
    """The bars of one stream. `stream`: its name if the application reads several, with its creation if two have that
    name.
    """

    stream: str | None
    bars: Sequence[HashKeyBar]

    @property
    def columns(self) -> Sequence[HashKeyColumn]:
        return columns_of(self.bars)

    @property
    def hot(self) -> int:
        return sum(bar.is_hot for bar in self.bars)

    @property
    def is_known(self) -> bool:
        """True if the load of any of its shards is known."""
        return bool(hottest_first(self.bars))


def maps_of(shards: Sequence[ShardStatus], verdicts: Mapping[str, HotShard] = NO_VERDICTS) -> Sequence[HashKeyMap]:
    """Returns a map for each stream that can be drawn, by name. Each has its own hash keys and even shares."""
    by_stream: dict[StreamKey | None, list[ShardStatus]] = {}
    for shard in shards:
        by_stream.setdefault(stream_key_of(shard.shard_id), []).append(shard)
    drawn = {stream: bars for stream, its in by_stream.items() if (bars := bars_of(its, verdicts))}
    known = sorted((stream for stream in drawn if stream is not None), key=lambda each: (each.stream, each))
    names = Counter(stream.stream for stream in known)
    alone = [HashKeyMap(None, drawn[None])] if None in drawn else []
    return [*alone, *(HashKeyMap(_name(each, names[each.stream] > 1), drawn[each]) for each in known)]


def _name(stream: StreamKey, is_ambiguous: bool) -> str:
    if not is_ambiguous:
        return stream.stream
    created = stream.created_at
    return str(stream) if created is None else f"{stream.stream}, created {created:%Y-%m-%d %H:%M:%S}"


def _part(keys: HashKeyRange) -> float:
    return (keys.ending - keys.starting + 1) / (HASH_KEY_MAX + 1)
