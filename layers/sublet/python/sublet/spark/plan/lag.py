"""Computes the lag of a lease's checkpoint from a query's last look into the shard. Pure.

The driver looks when it plans a batch. The checkpoint is where that batch begins until Spark has committed it, and
where it ends from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.decisions.session.lag import LEAST, NOTHING
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.spark.plan.committed import checkpoint_of
from sublet.spark.plan.gaps import unread_since
from sublet.spark.plan.offsets import Ended, Position, ReadTo, ShardOffset
from sublet.spark.plan.planning import ShardPeek

NEAR_TIP = timedelta(seconds=1)
"""A batch of a busy shard ends about this far before the tip, and the next one takes the rest: nothing waits there."""


class ShardLook(NamedTuple):
    """What a look at `at` found from `begin` on."""

    at: datetime
    begin: ShardOffset
    found: ShardPeek


class LagThen(NamedTuple):
    """See LagReport. `arrived_at`: when the checkpointed record arrived; None if that is not known."""

    at: datetime
    lag: timedelta | None
    arrived_at: datetime | None


def looks_of(
    shards: Mapping[str, ShardOffset], found: Mapping[str, ShardPeek], at: datetime
) -> Mapping[str, ShardLook]:
    return {shard_id: ShardLook(at, shards[shard_id], peek) for shard_id, peek in found.items()}


def lag_then(
    checkpoint: Checkpoint, look: ShardLook, now: datetime, nothing_at: datetime | None = None
) -> LagThen | None:
    """Returns None if the look says nothing about this checkpoint, as when another worker has moved it. `nothing_at`:
    when nothing waited at the look's beginning, by the look before it; None if something did, or if that is not known.
    """
    begin, end = look.begin.position, look.found.end
    if is_end_of(look, checkpoint) and isinstance(end, ReadTo):
        return LagThen(*_beyond(look, now), end.arrived)
    if not _is_at(checkpoint, begin):
        return None
    arrived = begin.arrived if isinstance(begin, ReadTo) else None
    if end is None:
        return LagThen(look.at, NOTHING if look.found.caught_up else None, arrived)
    since = _first_since(look, nothing_at)
    return LagThen(now, None if since is None else max(now - since, LEAST), arrived)


def is_end_of(look: ShardLook, checkpoint: Checkpoint) -> bool:
    """True if the batch planned at that look is handled, and nothing after it."""
    end = look.found.end
    return isinstance(end, ReadTo) and checkpoint_of(end) == checkpoint


def _beyond(look: ShardLook, now: datetime) -> tuple[datetime, timedelta]:
    """Returns a moment, and how long the first record beyond the batch had waited then."""
    behind = NOTHING if look.found.caught_up else look.found.lag
    if behind <= NEAR_TIP:
        return look.at - behind, NOTHING
    return now, now - (look.at - behind)


def nothing_waited_at(before: ShardLook, begin: Position) -> datetime | None:
    """Returns when nothing waited at this position, by an earlier look. None if something waited, or if the look says
    nothing of it.
    """
    then = lag_then(checkpoint_of(begin) or TRIM_HORIZON, before, before.at)
    return then.at if then is not None and then.lag == NOTHING else None


def _first_since(look: ShardLook, nothing_at: datetime | None) -> datetime | None:
    """Returns when the batch's first record arrived, or shortly before that. If only the last record's arrival is
    known, returns that.
    """
    known = (unread_since(look.begin), look.begin.quiet_until, nothing_at)
    end = look.found.end
    last = end.arrived if isinstance(end, ReadTo) else None
    return max((at for at in known if at is not None), default=last)


def _is_at(checkpoint: Checkpoint, position: Position) -> bool:
    """True if both are the same position. A sentinel equals every position at which nothing has been read, since a row
    has only one start position.
    """
    if checkpoint.is_sequence_number:
        return checkpoint_of(position) == checkpoint
    return not isinstance(position, (ReadTo, Ended))
