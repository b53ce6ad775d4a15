"""How the limit of a batch is divided among a query's streams. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sublet.protocol.stream_key import StreamKey
from sublet.spark.plan.offsets import Ended
from sublet.spark.plan.offsets_of_several import OffsetOfSeveral


def unread_shards(start: OffsetOfSeveral, streams: Iterable[StreamKey]) -> dict[StreamKey, int]:
    """How many shards of each stream are not read to their end. One for a stream of which nothing is known yet: within it, its
    part of the limit is divided again.
    """
    return {
        key: 1
        if key not in start.streams
        else max(1, sum(not isinstance(each.position, Ended) for each in start.streams[key].shards.values()))
        for key in streams
    }


def parts(total: int | None, weights: Mapping[StreamKey, int]) -> dict[StreamKey, int | None]:
    """Of a limit, in proportion to the weights; at least 1 each. None: no limit."""
    whole = max(1, sum(weights.values()))
    return {
        key: None if total is None else max(1, total * weight // whole) for key, weight in weights.items()
    }
