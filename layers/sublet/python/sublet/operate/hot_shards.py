"""Looks at an application's hot shards, and splits and merges what an operator has seen in the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from sublet.account import Account
from sublet.decisions.hot_shards import HotShard, StreamLook, hot_shards
from sublet.decisions.resharding import Reshard
from sublet.decisions.sketch import ShardSketch
from sublet.decisions.sketch_places import fresh
from sublet.errors import StreamError
from sublet.ports import Ports

ACTIVE = "ACTIVE"
BETWEEN_LOOKS, WAITED_AT_MOST = timedelta(seconds=2), timedelta(minutes=5)
"""A stream takes one split or merge at a time, and is UPDATING for about half a minute after each."""


def stored_sketches(ports: Ports) -> Mapping[str, ShardSketch]:
    """By shard id. Raises what LeaseTable raises; an application of KCL's has no table for them."""
    return {} if ports.sketches is None else fresh(ports.sketches.sketches(), ports.clock.now())


def look(
    stream: str, ports: Ports, account: Account, sketches: Mapping[str, ShardSketch]
) -> tuple[HotShard, ...]:
    """Every open shard's verdict, the hottest first."""
    return hot_shards(
        StreamLook(
            account.info(stream).mode,
            ports.stream.describe().distribution,
            tuple(ports.stream.list_shards()),
            tuple(ports.table.scan().leases),
            sketches,
        )
    )


def reshard(stream: str, changes: Sequence[Reshard], account: Account) -> Iterator[Reshard]:
    """Carry the changes out, one after the other; yields each when the stream is active again."""
    for change in changes:
        account.change(stream, change)
        _wait_until_active(stream, account)
        yield change


def _wait_until_active(stream: str, account: Account) -> None:
    pause, since = account.tasks.signal(), account.clock.steady()
    while account.info(stream).status != ACTIVE:
        if account.clock.steady() - since > WAITED_AT_MOST:
            raise StreamError(
                f"stream {stream} is still not ACTIVE after {WAITED_AT_MOST}; look at it, and go on then"
            )
        pause.wait(BETWEEN_LOOKS)
