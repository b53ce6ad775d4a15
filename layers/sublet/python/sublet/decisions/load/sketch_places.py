"""Which shards' sketches are stored: those of the ten hottest, each in a place of its own. So the table never has
more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from sublet.decisions.load.sketch import ShardSketch, merged

PLACES = 10

KEYS_BEGIN_WITH = "hot"
"""The keys of the items that hold sketches. A lease worker's role may write these items of the sightings table
alone.
"""

WARM = 0.5
"""A shard whose worst second takes less than this share of its quota needs no explanation, and is not stored."""

FORGOTTEN_AFTER = timedelta(hours=1)

TOGETHER_FOR = timedelta(minutes=30)
"""Sketches of the same shard are merged until they cover this long."""

CLEARLY = 1.1
"""A shard displaces the coolest stored one if it is this many times as hot. Otherwise two similar shards would displace
each other again and again.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SketchPlace(Struct, frozen=True):
    """Place `number` has this shard's sketch."""

    number: int
    shard_id: str
    heat: float
    at: datetime


def placed(
    places: Sequence[SketchPlace], sketch: ShardSketch, now: datetime
) -> tuple[SketchPlace, tuple[SketchPlace, ...]] | None:
    """The sketch's place, and all places including it; None if the shard is too cool for its sketch to be stored."""
    if sketch.heat < WARM:
        return None
    stand = [each for each in places if now - each.at < FORGOTTEN_AFTER]
    number = _number(stand, sketch)
    if number is None:
        return None
    place = SketchPlace(number, sketch.shard_id, round(sketch.heat, 3), now)
    others = (each for each in stand if number != each.number and each.shard_id != sketch.shard_id)
    return place, (*others, place)


def _number(stand: Sequence[SketchPlace], sketch: ShardSketch) -> int | None:
    own = next((each.number for each in stand if each.shard_id == sketch.shard_id), None)
    if own is not None:
        return own
    free = sorted(set(range(PLACES)) - {each.number for each in stand})
    if free:
        return free[0]
    coolest = min(stand, key=lambda each: (each.heat, each.number))
    return coolest.number if sketch.heat > CLEARLY * coolest.heat else None


def together(stored: ShardSketch | None, sketch: ShardSketch) -> ShardSketch:
    """The sketch to store: merged with the stored one, unless that one is of another shard or too old."""
    if stored is None or stored.shard_id != sketch.shard_id or stored.hash_key_range != sketch.hash_key_range:
        return sketch
    return merged(stored, sketch) if sketch.until - stored.since <= TOGETHER_FOR else sketch


def encode_places(places: Sequence[SketchPlace]) -> bytes:
    rows = [[each.number, each.shard_id, each.heat, int(each.at.timestamp())] for each in places]
    return json.dumps(rows).encode()


def decode_places(data: bytes) -> tuple[SketchPlace, ...]:
    """Returns no places if the item is damaged: the next sketches then find new ones."""
    try:
        return tuple(
            SketchPlace(int(number), str(shard_id), float(heat), _EPOCH + timedelta(seconds=int(at)))
            for number, shard_id, heat, at in json.loads(data)
            if 0 <= int(number) < PLACES
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        return ()


def fresh(sketches: Sequence[ShardSketch], now: datetime) -> dict[str, ShardSketch]:
    """The latest sketch of each shard, by shard id, without those that are too old. Two places may hold the same shard
    if an owner wrote late.
    """
    found: dict[str, ShardSketch] = {}
    for sketch in sorted(sketches, key=lambda each: each.until):
        if now - sketch.until < FORGOTTEN_AFTER:
            found[sketch.shard_id] = sketch
    return found
