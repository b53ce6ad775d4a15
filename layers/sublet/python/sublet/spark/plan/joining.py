"""Reconciles a query's own offsets with the rows of its leases, to find where it continues. Pure.

Both say how far a shard has been handled: this query's committed offset, and the row, which others advance while they
hold the lease. Both are true, so the later one counts. Records that are handled by either do not come again; the
lease's holder reads the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, MalformedRow
from sublet.spark.plan.committed import checkpoint_of
from sublet.spark.plan.follow import leased_position
from sublet.spark.plan.offsets import Ended, Offset, Position, ReadTo, ShardOffset, StreamOffset
from sublet.spark.plan.planning import ShardRange


def is_further(row: Checkpoint, position: Position) -> bool:
    """True if the row's checkpoint says that something after our position is handled."""
    if isinstance(position, Ended):
        return False
    if row.is_shard_end or not isinstance(position, ReadTo):
        return row.is_shard_end or row.is_sequence_number
    if not row.is_sequence_number:
        return False
    theirs, ours = int(row.sequence_number), int(position.sequence_number)
    sub = position.sub_sequence_number
    return theirs > ours or (theirs == ours and sub is not None and row.sub_sequence_number > sub)


def joining_positions(start: StreamOffset, held: Mapping[str, Lease], now: datetime) -> dict[str, ShardOffset]:
    """The shards whose leases are further than the offset: the offset lacks them, or another owner has continued
    since.
    """
    return {
        shard_id: leased_position(lease, now)
        for shard_id, lease in held.items()
        if shard_id not in start.shards or is_further(lease.checkpoint, start.shards[shard_id].position)
    }


@dataclass(frozen=True, slots=True)
class ResumedBatch:
    """What is left of a logged batch that must be repeated.

    waiting  shards whose part another owner is about to handle, or whose row cannot be read
    rowless  shards without a row
    """

    ranges: tuple[ShardRange, ...]
    waiting: tuple[str, ...]
    rowless: tuple[str, ...]


def resume_ranges(
    ranges: Iterable[ShardRange], end: Offset, held: Mapping[str, Lease], others: Mapping[str, Lease | MalformedRow]
) -> ResumedBatch:
    """The remaining ranges of the batch. Between its first attempt and this one the leases were released, and others
    may have taken them. If we hold a shard again, the part after its row's checkpoint remains. If another owner holds
    it, nothing remains once that owner is past the range. Until then, or until the owner leaves, the batch must wait:
    if it were committed without these records, the query's offset would say that they are handled. A shard without a
    row was handled to its end and cleaned up, if Kinesis knows it still: the lease of one that it does not know is
    deleted also if it was not handled."""
    ends = end.shards
    left: list[ShardRange] = []
    waiting: list[str] = []
    rowless: list[str] = []
    for one in ranges:
        row = held.get(one.shard_id) or others.get(one.shard_id)
        if row is None:
            rowless.append(one.shard_id)
            continue
        if isinstance(row, MalformedRow):
            waiting.append(one.shard_id)
            continue
        if _has_passed(row.checkpoint, ends[one.shard_id].position):
            continue
        if one.shard_id not in held:
            waiting.append(one.shard_id)
        elif not is_further(row.checkpoint, one.begin):
            left.append(one)
        else:
            at = ReadTo(row.checkpoint.sequence_number, None, row.checkpoint.sub_sequence_number)
            left.append(replace(one, begin=at, verify=True, quiet_until=None))
    return ResumedBatch(tuple(left), tuple(waiting), tuple(rowless))


def _has_passed(row: Checkpoint, end: Position) -> bool:
    to = checkpoint_of(end)
    return row.is_shard_end or (to is not None and row.is_sequence_number and row >= to)
