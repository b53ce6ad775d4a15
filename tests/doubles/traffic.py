"""Makes records of one shard, second by second, and the sketch that a worker makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from random import Random

from sublet.decisions.load.sketch import ShardSketch
from sublet.decisions.load.sketching import Sketching
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.records import Page, StreamRecord, UserRecord
from sublet.protocol.shard import FULL_RANGE, HashKeyRange

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)


@dataclass(frozen=True)
class Traffic:
    """So many user records a second with this key. `keys`: of so many keys in turns, all inside the shard's range."""

    key: str | None
    records: int
    size: int
    keys: int = 1
    explicit: int | None = None
    is_aggregated: bool = False


def keys_inside(prefix: str, hash_key_range: HashKeyRange, many: int) -> list[str]:
    found = (f"{prefix}-{n}" for n in count())
    return list(islice((key for key in found if hash_key(key, None) in hash_key_range), many))


def user_records(traffic: Traffic, at: datetime, hash_key_range: HashKeyRange = FULL_RANGE) -> list[UserRecord]:
    """Of one second. A sequence number is not needed."""
    keys: Sequence[str | None] = [traffic.key]
    if traffic.keys > 1:
        keys = keys_inside(str(traffic.key), hash_key_range, traffic.keys)
    explicit = None if traffic.explicit is None else str(traffic.explicit)
    data = bytes(traffic.size)
    stream_data = b"whole" if traffic.is_aggregated else data
    return [
        UserRecord(data, key, 0, StreamRecord("1", stream_data, key, at), explicit)
        for key in (keys[n % len(keys)] for n in range(traffic.records))
    ]


def pages(
    traffic: Sequence[Traffic], seconds: int, hash_key_range: HashKeyRange = FULL_RANGE
) -> Iterator[tuple[Page, list[UserRecord]]]:
    """One a second. Aggregates come as one stream record a second."""
    for second in range(seconds):
        at = NOW + timedelta(seconds=second)
        made = [record for each in traffic for record in user_records(each, at, hash_key_range)]
        plain = [record.stream_record for record in made if not record.is_aggregated]
        inside = sum(len(record.data) for record in made if record.is_aggregated)
        stream_records = (*plain, *([StreamRecord("1", bytes(inside), "a", at)] if inside else ()))
        yield Page(stream_records, sum(len(record.data) for record in stream_records), 0), made


def sketch_of(
    shard_id: str,
    traffic: Sequence[Traffic],
    seconds: int = 60,
    hash_key_range: HashKeyRange = FULL_RANGE,
    dropped: int = 0,
) -> ShardSketch:
    made = Sketching(shard_id, hash_key_range, Random(1), NOW)
    for page, records in pages(traffic, seconds, hash_key_range):
        made.turn(page)
        made.see(records)
    made.dropped += dropped
    return made.sketch(NOW + timedelta(seconds=seconds))
