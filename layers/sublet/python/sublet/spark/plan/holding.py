"""A lease that this query holds, and the next write to it. Pure: what is committed and the time in, a write out.

Everything up to a committed batch's end is handled, so its checkpoint may be written; and nothing else ever is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from sublet.decisions.refusal import Verdict, judge_refusal
from sublet.ports import Applied, Refused
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, checkpoint, hand_over, heartbeat
from sublet.protocol.shard import ChildShard, HashKeyRange, Shard
from sublet.settings import Settings
from sublet.spark.plan.offsets import Ended, Position, ReadTo, ShardOffset

MakeWrite = Callable[[Lease], LeaseWrite]

_LEAVING = frozenset({WriteKind.RELEASE, WriteKind.END, WriteKind.HAND_OVER})
"""After these we hold it no longer."""


@dataclass(frozen=True, slots=True)
class Holding:
    """`lease`: as our last write left its row; `written_at`: when we sent that. `is_leaving`: a KCL 3.x leader has asked for
    it; it is ours to checkpoint until the batch under way is committed, and then to hand over."""

    lease: Lease
    written_at: datetime
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class After:
    """What a write came to. `holding` None: no longer held. `is_done`: the row says at least what was to be written."""

    holding: Holding | None
    is_done: bool


def checkpoint_of(position: Position) -> Checkpoint | None:
    """The checkpoint that says: everything up to the position is handled. None: nothing is, or an end, which is more than a
    checkpoint. An aggregate read whole is named by its last user record, or KCL would give the others again."""
    if not isinstance(position, ReadTo):
        return None
    sub = position.sub_sequence_number
    return Checkpoint(position.sequence_number, position.last_sub_sequence_number if sub is None else sub)


def next_write(
    holding: Holding, committed: Position | None, in_doubt: bool, now: datetime, settings: Settings
) -> MakeWrite | None:
    """The write that the lease needs now; None: none. A checkpoint is a heartbeat too.

    committed   how far committed batches have read the shard; in_doubt: a batch is under way, or may have been committed
    """
    to = None if committed is None else checkpoint_of(committed)
    if to is not None and to > holding.lease.checkpoint:
        return partial(checkpoint, to=to)
    if holding.is_leaving and not in_doubt and not isinstance(committed, Ended):
        return hand_over
    return heartbeat if now - holding.written_at >= settings.heartbeat_interval else None


def after_write(holding: Holding, write: LeaseWrite, result: Applied | Refused, sent_at: datetime) -> After:
    """What the reply means, by the rules of every sublet worker (decisions.refusal)."""
    if isinstance(result, Applied):
        return _done(holding, write, result.lease, sent_at)
    row = result.row
    verdict = judge_refusal(holding.lease, write, row)
    if verdict is Verdict.LOST or not isinstance(row, Lease):
        return After(None, is_done=False)
    match verdict:
        case Verdict.DONE_BEFORE:
            return _done(holding, write, row, sent_at)
        case Verdict.DRAIN:
            return After(replace(holding, lease=row, is_leaving=True), is_done=False)
        case _:
            return After(replace(holding, lease=row), is_done=verdict is Verdict.FURTHER_ON)


def _done(holding: Holding, write: LeaseWrite, row: Lease, sent_at: datetime) -> After:
    if write.kind in _LEAVING:
        return After(None, is_done=True)
    return After(replace(holding, lease=row, written_at=sent_at), is_done=True)


def read_on(before: Mapping[str, ShardOffset], after: Mapping[str, ShardOffset]) -> dict[str, Checkpoint]:
    """The checkpoints of a batch, for the shards that it read some of."""
    return {
        shard_id: to
        for shard_id, shard in after.items()
        if (shard_id not in before or before[shard_id].position != shard.position)
        and (to := checkpoint_of(shard.position)) is not None
    }


def listed_children(parent: Shard, listed: Mapping[str, Shard]) -> tuple[ChildShard, ...] | None:
    """A closed shard's children; None while the listing does not show all of them, whose hash keys hold all of its own."""
    children = sorted(
        (shard for shard in listed.values() if parent.shard_id in shard.parent_shard_ids),
        key=lambda shard: shard.hash_key_range,
    )
    return (
        tuple(ChildShard(s.shard_id, s.parent_shard_ids, s.hash_key_range) for s in children)
        if _covers([s.hash_key_range for s in children], parent.hash_key_range)
        else None
    )


def _covers(ranges: list[HashKeyRange], whole: HashKeyRange) -> bool:
    next_key = whole.starting
    for low, high in ranges:
        if low <= next_key:
            next_key = max(next_key, high + 1)
    return next_key > whole.ending
