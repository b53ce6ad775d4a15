"""Which records of a shard may be handled side by side: those of different partition keys."""

from __future__ import annotations

from collections.abc import Sequence

from sublet.protocol.finished_ahead import lane_of
from sublet.protocol.records import UserRecord


def lanes_of(records: Sequence[UserRecord], count: int) -> list[list[int]]:
    """At most `count` lanes of records by their places, each in order; a partition key is in one of them."""
    lanes: list[list[int]] = [[] for _ in range(count)]
    for place, record in enumerate(records):
        lanes[lane_of(record.order_key, count)].append(place)
    return [lane for lane in lanes if lane]
