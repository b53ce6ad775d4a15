"""Splits the records of a shard into lanes that may be handled in parallel: records of different partition keys."""

from __future__ import annotations

from collections.abc import Sequence

from sublet.protocol.finished_ahead import lane_of
from sublet.protocol.records import UserRecord


def lanes_of(records: Sequence[UserRecord], count: int) -> list[list[int]]:
    """At most `count` lanes of indexes into `records`, each in order. All records of a partition key share a lane."""
    lanes: list[list[int]] = [[] for _ in range(count)]
    for place, record in enumerate(records):
        lanes[lane_of(record.order_key, count)].append(place)
    return [lane for lane in lanes if lane]
