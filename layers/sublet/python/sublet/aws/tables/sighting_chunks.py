"""The compressed JSON columns in the items of a sightings table."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sublet.decisions.manager.dispatching import DispatchedWorker
from sublet.decisions.manager.liveness import Sighting
from sublet.decisions.manager.unread_shards import UnreadShard
from sublet.protocol.lease import LeaseFence

CHUNK_BYTES_MAX = 300_000
"""DynamoDB's limit for an item is 400 KB, names included."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
_COLUMNS = ("lease_keys", "counters", "owners", "seen_at")
_OF_DISPATCHED = ("worker_ids", "steals")
_UNHEARD, _MOVED = "unheard", "moved"
"""The names of two columns, left out if empty: lease keys, and times by lease key."""
_DAMAGED = (zlib.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def encode_chunks(items: Sequence[tuple[str, Sighting]]) -> Iterable[bytes]:
    """Encodes as few chunks as the item limit allows: parts are halved until each fits."""
    unheard = [lease_key for lease_key, sighting in items if sighting.is_unheard]
    moved = {lease_key: millis(sighting.moved_at) for lease_key, sighting in items if sighting.moved_at}
    chunk = _compressed(
        [lease_key for lease_key, _ in items],
        [sighting.lease_counter for _, sighting in items],
        [sighting.lease_owner for _, sighting in items],
        [millis(sighting.seen_at) for _, sighting in items],
        **({_UNHEARD: unheard} if unheard else {}),
        **({_MOVED: moved} if moved else {}),
    )
    if len(chunk) <= CHUNK_BYTES_MAX or len(items) == 1:
        return [chunk] if items else []
    half = len(items) // 2
    return [*encode_chunks(items[:half]), *encode_chunks(items[half:])]


def decode_chunk(chunk: bytes) -> Sequence[tuple[str, Sighting]]:
    """Returns nothing for an item that is damaged or not ours: lost sightings only delay an expiry."""
    try:
        named = _named(chunk)
        unheard = frozenset(named.get(_UNHEARD, ()))
        moved = {str(key): moment(at) for key, at in named.get(_MOVED, {}).items()}
        return [_sighting(unheard, moved, *row) for row in _rows(named, len(_COLUMNS))]
    except _DAMAGED:
        return []


def encode_dispatched(dispatched: Sequence[tuple[str, DispatchedWorker]]) -> bytes:
    """A single item, because it is written on a condition. Entries that would make it too large are dropped."""
    chunk = _compressed(
        [lease_key for lease_key, _ in dispatched],
        [sent.seen.lease_counter for _, sent in dispatched],
        [sent.seen.lease_owner for _, sent in dispatched],
        [millis(sent.at) for _, sent in dispatched],
        [sent.worker_id for _, sent in dispatched],
        [sent.is_steal for _, sent in dispatched],
    )
    return chunk if len(chunk) <= CHUNK_BYTES_MAX else encode_dispatched(dispatched[: len(dispatched) // 2])


def decode_dispatched(chunk: bytes) -> Mapping[str, DispatchedWorker]:
    """Returns nothing for a damaged item: a lease is then dispatched twice, but acquired once."""
    try:
        return {
            key: DispatchedWorker(LeaseFence(key, owner, counter), worker_id, is_steal, moment(at))
            for key, counter, owner, at, worker_id, is_steal in _rows(
                _named(chunk), len(_COLUMNS) + len(_OF_DISPATCHED)
            )
        }
    except _DAMAGED:
        return {}


def encode_unread(unread: Mapping[str, UnreadShard]) -> bytes:
    """A single item. Entries that would make it too large are dropped, first those of shards without known waiting
    records."""
    rows = [
        (key, known.checkpoint, _millis(known.since), _millis(known.quiet_until), *_ownership(known))
        for key, known in sorted(unread.items(), key=lambda item: (item[1].since is None, item[0]))
    ]
    while True:
        chunk = zlib.compress(json.dumps(rows, separators=(",", ":")).encode())
        if len(chunk) <= CHUNK_BYTES_MAX:
            return chunk
        rows = rows[: len(rows) // 2]


def _ownership(known: UnreadShard) -> tuple[str, int | None] | tuple[()]:
    return () if known.owner is None else (known.owner, _millis(known.owned_since))


def _millis(at: datetime | None) -> int | None:
    return None if at is None else millis(at)


def decode_unread(chunk: bytes) -> Mapping[str, UnreadShard]:
    """Returns nothing for a damaged item: an alarm then comes one tick later."""
    try:
        rows = json.loads(zlib.decompress(chunk))
        return {str(key): _unread(*row) for key, *row in rows}
    except _DAMAGED:
        return {}


def _unread(
    checkpoint: str,
    since: int | None,
    quiet_until: int | None = None,
    owner: str | None = None,
    owned_since: int | None = None,
) -> UnreadShard:
    """Version 0.2 wrote only the first two fields, and takes an entry with more for damaged."""
    return UnreadShard(
        str(checkpoint),
        None if since is None else moment(since),
        None if quiet_until is None else moment(quiet_until),
        owner,
        None if owned_since is None else moment(owned_since),
    )


def millis(at: datetime) -> int:
    return (at - _EPOCH) // MILLISECOND


def moment(at: int) -> datetime:
    return _EPOCH + at * MILLISECOND


def _compressed(*columns: list[Any], **more: object) -> bytes:
    named = {**dict(zip(_COLUMNS + _OF_DISPATCHED, columns, strict=False)), **more}
    return zlib.compress(json.dumps(named, separators=(",", ":")).encode())


def _named(chunk: bytes) -> Mapping[str, Any]:
    named: Mapping[str, Any] = json.loads(zlib.decompress(chunk))
    return named


def _rows(named: Mapping[str, Any], columns: int) -> Iterable[tuple[Any, ...]]:
    return zip(*(named[name] for name in (_COLUMNS + _OF_DISPATCHED)[:columns]), strict=True)


def _sighting(
    unheard: frozenset[str],
    moved: Mapping[str, datetime],
    key: object,
    counter: object,
    owner: object,
    seen_at: object,
) -> tuple[str, Sighting]:
    """Raises TypeError for values that cannot be compared: sightings are compared to find the newest, and an error
    there would stop every tick."""
    if not (isinstance(key, str) and isinstance(counter, int) and isinstance(seen_at, int)):
        raise TypeError("no lease key, counter and moment")
    if not isinstance(owner, str | None):
        raise TypeError("no worker id")
    return key, Sighting(counter, owner, moment(seen_at), key in unheard, moved.get(key))
