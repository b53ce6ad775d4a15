"""The producer's decisions: which events go into which stream record, and which are sent again after a reshard.

Like the KPL, it predicts every event's shard from ListShards and puts only events of one shard into an aggregate. The
reply to a put says where the record really went. If the prediction was wrong, because the stream was resharded
meanwhile, every KCL consumer drops an aggregate with a hash key outside that shard's range, so its events are sent
again.

Unlike the KPL, it also keeps the order of each partition key through all this. A lane holds the events of one
predicted shard, in order. Each lane has only one record in flight (or several plain ones, of different partition
keys). Events to be sent again go back to the front of their lane, and lanes are divided and joined in order with the
shards.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from sublet.protocol.aggregation import KPL_MAX_BYTES, aggregate
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.shard import HashKeyRange, Shard

AGGREGATED_PER_PLAIN = 9
"""A tenth of the events are put as plain records."""

RECORDS_PER_REQUEST = 500
"""Kinesis' limit for one PutRecords."""

LANE_FILL = 600
"""Events that each lane should have waiting, so that an aggregate is full: it holds about 350 flights."""

OVERHEAD_PER_EVENT = 14
"""The most bytes that protobuf adds to an event's data in an aggregate (tags, lengths, index)."""


class Event(NamedTuple):
    partition_key: str
    hash_key: int
    data: bytes

    @classmethod
    def of(cls, partition_key: str, data: bytes) -> Event:
        return cls(partition_key, hash_key(partition_key, None), data)


class Entry(NamedTuple):
    """One stream record to put: an aggregate, or a plain event."""

    predicted: str
    """The predicted shard's id."""
    events: Sequence[Event]
    is_aggregate: bool

    @property
    def partition_key(self) -> str:
        """As in the KPL: `a` for every aggregate, whose shard depends on its explicit hash key."""
        return "a" if self.is_aggregate else self.events[0].partition_key

    @property
    def explicit_hash_key(self) -> str | None:
        return str(self.events[0].hash_key) if self.is_aggregate else None

    def data(self) -> bytes:
        if not self.is_aggregate:
            return self.events[0].data
        return aggregate([(event.partition_key, None, event.data) for event in self.events])


class ShardMap:
    """The shards as listed at one moment."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._ranges = {shard.shard_id: shard.hash_key_range for shard in shards}
        self._open = sorted((s.hash_key_range.starting, s.shard_id) for s in shards if s.is_open)
        self._starts = [starting for starting, _ in self._open]

    def __contains__(self, shard_id: object) -> bool:
        return shard_id in self._ranges

    def predict(self, hash_key: int) -> str:
        """The open shard that a hash key belongs to."""
        return self._open[bisect_right(self._starts, hash_key) - 1][1]

    def range_of(self, shard_id: str) -> HashKeyRange:
        return self._ranges[shard_id]

    def open_shard_ids(self) -> list[str]:
        return [shard_id for _, shard_id in self._open]


@dataclass(slots=True)
class Lanes:
    """Events in flight, by predicted shard. Fill it, put what `next_request` returns, settle the reply; repeat."""

    shard_map: ShardMap
    put: Counter[str] = field(default_factory=Counter)
    """Events finally in the stream, by shard."""
    aggregated: int = 0
    plain: int = 0
    sent_again: int = 0
    """Events whose aggregate went to the wrong shard."""
    _lanes: dict[str, deque[Event]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lanes = {shard_id: deque() for shard_id in self.shard_map.open_shard_ids()}

    def fill(self, source: Iterator[Event]) -> None:
        """Take events from `source` until every lane has enough for a full record, or there are no more."""
        while min(map(len, self._lanes.values())) < LANE_FILL:
            taken = list(islice(source, LANE_FILL))
            if not taken:
                return
            for event in taken:
                self._lanes[self.shard_map.predict(event.hash_key)].append(event)

    def next_request(self) -> list[Entry]:
        """Takes entries for one PutRecords out of the lanes; empty if every lane is."""
        take = self._plain if self.plain * AGGREGATED_PER_PLAIN < self.aggregated else self._aggregate
        return [entry for shard_id, lane in self._lanes.items() for entry in take(shard_id, lane)]

    def settle(self, entries: Sequence[Entry], landed: Sequence[str | None], shard_map: ShardMap) -> None:
        """Note where each entry went (None: it was refused). `shard_map` must know every shard in `landed`."""
        for entry, shard_id in zip(entries, landed, strict=True):
            if shard_id is not None and self._is_kept(entry, shard_map.range_of(shard_id)):
                self.put[shard_id] += len(entry.events)
                self.aggregated += len(entry.events) if entry.is_aggregate else 0
                self.plain += 0 if entry.is_aggregate else 1
                continue
            self.sent_again += len(entry.events) if shard_id is not None else 0
            self._lanes[entry.predicted].extendleft(reversed(entry.events))
        self._relane(shard_map)

    def _relane(self, shard_map: ShardMap) -> None:
        """Switch to another shard map. A key's events are all in one lane before and after, so their order stays."""
        lanes: dict[str, deque[Event]] = {shard_id: deque() for shard_id in shard_map.open_shard_ids()}
        if lanes.keys() != self._lanes.keys():
            for lane in self._lanes.values():
                for event in lane:
                    lanes[shard_map.predict(event.hash_key)].append(event)
            self._lanes = lanes
        self.shard_map = shard_map

    @staticmethod
    def _is_kept(entry: Entry, landed_in: HashKeyRange) -> bool:
        """True if a consumer delivers it: plain records always, aggregates by KCL's rule."""
        return not entry.is_aggregate or all(event.hash_key in landed_in for event in entry.events)

    @staticmethod
    def _aggregate(shard_id: str, lane: deque[Event]) -> Iterator[Entry]:
        taken: list[Event] = []
        keys: set[str] = set()
        size = OVERHEAD_PER_EVENT * 2
        while lane:
            event = lane[0]
            new_key = 0 if event.partition_key in keys else len(event.partition_key) + 2
            size += len(event.data) + OVERHEAD_PER_EVENT + new_key
            if size > KPL_MAX_BYTES and taken:
                break
            keys.add(event.partition_key)
            taken.append(lane.popleft())
        if taken:
            yield Entry(shard_id, taken, is_aggregate=True)

    def _plain(self, shard_id: str, lane: deque[Event]) -> Iterator[Entry]:
        """Plain events up to the first repeated key: PutRecords may refuse one record and accept a later one."""
        keys: set[str] = set()
        while (
            lane and len(keys) < RECORDS_PER_REQUEST // len(self._lanes) and lane[0].partition_key not in keys
        ):
            keys.add(lane[0].partition_key)
            yield Entry(shard_id, (lane.popleft(),), is_aggregate=False)
