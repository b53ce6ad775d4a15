"""Divides the limit of a batch among a query's streams. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sublet.protocol.stream_key import StreamKey
from sublet.spark.plan.offsets import Ended, Offset, StreamOffset


def unread_shards(
    start: Offset, streams: Iterable[StreamKey | None], is_ours: Callable[[str], bool]
) -> dict[StreamKey | None, int]:
    """Counts the shards of each stream that are ours and not read to their end: at least 1, also for a stream of which
    nothing is known yet.
    """

    def unread(part: StreamOffset) -> int:
        return sum(is_ours(name) and not isinstance(shard.position, Ended) for name, shard in part.shards.items())

    return {key: max(1, unread(start.streams[key])) if key in start.streams else 1 for key in streams}


def parts(total: int | None, weights: Mapping[StreamKey | None, int]) -> dict[StreamKey | None, int | None]:
    """Divides a limit in proportion to the weights; each part is at least 1. None: no limit."""
    whole = max(1, sum(weights.values()))
    return {key: None if total is None else max(1, total * weight // whole) for key, weight in weights.items()}
