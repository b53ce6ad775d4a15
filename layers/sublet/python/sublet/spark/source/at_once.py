"""Makes a plan's calls side by side: one for each of many shards."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

CALLS_AT_ONCE = 32

Answer = TypeVar("Answer")


def at_once(call: Callable[[str], Answer], shard_ids: Collection[str]) -> dict[str, Answer]:
    """The answer for each shard, in the order given. Raises what the first of the calls that failed raised."""
    with ThreadPoolExecutor(min(CALLS_AT_ONCE, len(shard_ids) or 1)) as pool:
        return dict(zip(shard_ids, pool.map(call, shard_ids), strict=True))
