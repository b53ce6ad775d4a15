"""A shard's sketch as it is stored: compressed JSON of some kilobytes, whatever the load."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from sublet.decisions.load.heavy_keys import HeavyKey, fewer
from sublet.decisions.load.sketch import BUCKETS, PeakSecond, ShardSketch
from sublet.protocol.shard import HashKeyRange

VERSION = 1
STORED_KEYS, NAMED_KEYS = 64, 10
"""How many of the 256 keys are stored, and how many of these keep their names, each of up to 1 KiB."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DAMAGED = (zlib.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_SUMS = (
    "records",
    "bytes",
    "load",
    "squares",
    "missed",
    "aggregated",
    "explicit",
    "elsewhere",
    "keyless",
    "dropped",
)


def encode_sketch(sketch: ShardSketch, *, with_names: bool) -> bytes:
    """Encodes a sketch. Without names a key is known by its MD5 alone, by which Kinesis places it."""
    keys, missed = fewer(sketch.keys, sketch.missed, STORED_KEYS)
    stored = replace(sketch, missed=missed)
    named = NAMED_KEYS if with_names else 0
    written = {
        "version": VERSION,
        "shard": sketch.shard_id,
        "from": _millis(sketch.since),
        "to": _millis(sketch.until),
        "range": [f"{end:x}" for end in sketch.hash_key_range],
        "sampled": sketch.is_sampled,
        "sums": [getattr(stored, name) for name in _SUMS],
        "keys": [_written(key, has_name=place < named) for place, key in enumerate(keys)],
        "buckets": sketch.buckets,
        "peaks": [[_millis(peak.at) // 1000, peak.records, peak.bytes] for peak in sketch.peaks],
    }
    return zlib.compress(json.dumps(written, separators=(",", ":")).encode())


def decode_sketch(data: bytes) -> ShardSketch | None:
    """None if it is damaged, or of a later version: a sketch is no more than a hint, and the next one replaces it."""
    try:
        read = json.loads(zlib.decompress(data))
        if read["version"] != VERSION:
            return None
        return _read(read)
    except _DAMAGED:
        return None


def _read(read: dict[str, Any]) -> ShardSketch:
    starting, ending = (int(end, 16) for end in read["range"])
    buckets = tuple(int(load) for load in read["buckets"])
    if len(buckets) != BUCKETS:
        raise ValueError(f"{len(buckets)} buckets")
    sums: dict[str, Any] = dict(zip(_SUMS, read["sums"], strict=True))
    return ShardSketch(
        str(read["shard"]),
        _moment(read["from"]),
        _moment(read["to"]),
        HashKeyRange(starting, ending),
        is_sampled=bool(read["sampled"]),
        keys=tuple(_key(key) for key in read["keys"]),
        buckets=buckets,
        peaks=tuple(PeakSecond(_moment(at * 1000), records, size) for at, records, size in read["peaks"]),
        **sums,
    )


def _written(key: HeavyKey, *, has_name: bool) -> Sequence[object]:
    place = "" if key.place == key.key_hash else f"{key.place:x}"
    figures = [f"{key.key_hash:x}", place, key.load, key.error, key.bytes, key.records]
    return [*figures, key.name] if has_name and key.name is not None else figures


def _key(stored: Sequence[Any]) -> HeavyKey:
    hashed, place, load, error, size, records, *name = stored
    key_hash = int(hashed, 16)
    return HeavyKey(
        key_hash, int(place, 16) if place else key_hash, int(load), int(error), int(size), int(records), *name
    )


def _millis(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _moment(millis: int) -> datetime:
    return _EPOCH + int(millis) * _MILLISECOND
