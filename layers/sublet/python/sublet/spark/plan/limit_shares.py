"""Divides the limit of a batch among a query's streams and shards. Pure.

Each shard first has an even part. What idle shards leave of theirs goes to those that have more, in proportion to what
waits there, so that one busy shard among idle ones fills the batch, and no busy one keeps a small one waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sublet.protocol.stream_key import StreamKey
from sublet.spark.plan.offsets import Ended, Offset, StreamOffset

WORTH_A_ROUND = 20
"""A rest is given out if it is at least this part of the limit: each round may cost a call for each shard."""


class Admitted(NamedTuple):
    """How much of a limit a shard's part of the batch takes, and about how much more waits in the shard."""

    used: int
    waiting: int


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


def shared_rest(limit: int, found: Mapping[str, Admitted]) -> dict[str, int]:
    """Divides what the shards leave of a limit among those in which more waits. Returns how much more each of these may
    take; nothing if the rest is too small to matter.
    """
    rest = limit - sum(each.used for each in found.values())
    waiting = {name: each.waiting for name, each in found.items() if each.waiting > 0}
    if rest * WORTH_A_ROUND < limit or not waiting:
        return {}
    total, given, before = sum(waiting.values()), 0, 0
    shares = {}
    for name, waits in sorted(waiting.items()):
        before += waits
        shares[name] = rest * before // total - given  # no remainder is lost to rounding
        given += shares[name]
    return {name: share for name, share in shares.items() if share}
