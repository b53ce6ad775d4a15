"""Plays the operator: a split and a merge at fixed places in the flow of events, so that events are always on their
way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sublet.protocol.shard import Shard

from demo.producer import Event
from demo.story import Story
from demo.view import short

SPLIT_AFTER = 0.35
MERGE_AFTER = 0.6
"""When to reshard, as fractions of the events that have left their source."""

ACTIVE_WITHIN = 30.0
"""Seconds. The service takes about thirty, kinesis-local a tenth of a second."""


class Operator:
    """Splits the second open shard (by hash key) and merges the last two."""

    def __init__(self, kinesis: Any, stream: str, list_shards: Callable[[], tuple[Shard, ...]], story: Story) -> None:
        self._kinesis, self._stream, self._list_shards, self._story = kinesis, stream, list_shards, story

    def split(self) -> None:
        shard = self._open()[1]
        middle = (shard.hash_key_range.starting + shard.hash_key_range.ending + 1) // 2
        self._kinesis.split_shard(StreamName=self._stream, ShardToSplit=shard.shard_id, NewStartingHashKey=str(middle))
        self._told(f"shard {short(shard.shard_id)} is split", {shard.shard_id})

    def merge(self) -> None:
        first, second = (shard.shard_id for shard in self._open()[-2:])
        self._kinesis.merge_shards(StreamName=self._stream, ShardToMerge=first, AdjacentShardToMerge=second)
        self._told(f"shards {short(first)} and {short(second)} are merged", {first, second})

    def _open(self) -> list[Shard]:
        return sorted((s for s in self._list_shards() if s.is_open), key=lambda s: s.hash_key_range.starting)

    def _told(self, what: str, parents: set[str]) -> None:
        deadline = time.monotonic() + ACTIVE_WITHIN
        while not (children := [s.shard_id for s in self._list_shards() if s.parent_shard_ids & parents]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}, but {ACTIVE_WITHIN:.0f} s later no child is listed")
            time.sleep(0.05)
        self._story.tell(f"{what} into {' and '.join(map(short, children))}, while events flow")


def interrupted(events: Iterator[Event], actions: Mapping[int, Callable[[], object]]) -> Iterator[Event]:
    """Yields the events. Calls the action under n once n events have left."""
    for count, event in enumerate(events):
        if count in actions:
            actions[count]()
        yield event
