"""Starts a query that follows an application at the current checkpoints of its lease table. Pure.

The previous consumer of the stream (a Lambda fleet, a process or a KCL fleet) must have stopped, because what it
handles after this look is read here too. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sublet.decisions.manager.hash_range_audit import holes
from sublet.decisions.manager.shard_sync import plan_shard_sync
from sublet.decisions.session.read_position import LONGEST_RETENTION, needs_pin
from sublet.errors import MalformedCheckpoint, StreamUnavailable
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import Shard
from sublet.settings import StartPosition
from sublet.spark.plan.offsets import Ended, ReadTo, ShardOffset, Unread
from sublet.spark.plan.planning import descendants


def followed_positions(
    scan: LeaseScan, listed: Sequence[Shard], start: StartPosition, now: datetime
) -> dict[str, ShardOffset]:
    """The first offset's shards: a position for each unfinished lease, and for each shard that no lease leads to, by
    KCL's rule. Shards that were handled to their end, or lie before all that, are ended.

    Shards that wait for a parent are left out: they start at their first record once it has ended here. Raises
    MalformedCheckpoint for a row that cannot be followed.
    """
    if scan.malformed:
        row = scan.malformed[0]
        raise MalformedCheckpoint(f"lease {row.lease_key} cannot be followed: {row.problem}; repair the row first")
    plan = plan_shard_sync(scan.leases, (), listed, start)
    leases = {lease.lease_key: lease for lease in (*(new.lease for new in plan.create), *scan.leases)}
    if left_out := holes(leases.values(), listed):
        raise StreamUnavailable(f"the listing of shards leaves out hash keys {left_out}; list again")
    unfinished = {shard_id for shard_id, lease in leases.items() if not lease.is_ended}
    waiting = descendants(unfinished, listed)
    shards = {s.shard_id: ShardOffset(Ended()) for s in listed if s.shard_id not in unfinished | waiting}
    for shard_id in sorted(unfinished):
        if shard_id not in waiting or leases[shard_id].checkpoint.is_sequence_number:
            shards[shard_id] = leased_position(_started(leases[shard_id], leases, start, now), now)
    return shards


def _started(lease: Lease, leases: Mapping[str, Lease], start: StartPosition, now: datetime) -> Lease:
    """Returns the lease with the pin that its first owner would set."""
    parents = [leases.get(parent) for parent in lease.parent_shard_ids]
    needed = needs_pin(lease, parents, start, now)
    return replace(lease, start_at=needed.at) if needed else lease


def leased_position(lease: Lease, now: datetime) -> ShardOffset:
    """Where a batch that starts from this lease continues. The lease has its pin, if it needs one."""
    checkpoint = lease.checkpoint
    if checkpoint.is_shard_end:
        return ShardOffset(Ended())
    if checkpoint.is_sequence_number:
        # A proof that nothing follows the checkpoint also proves that its stream record was read whole.
        number, sub, is_whole = checkpoint.sequence_number, checkpoint.sub_sequence_number, lease.quiet_until
        at = ReadTo(number, None, None, sub) if is_whole else ReadTo(number, None, sub)
        return ShardOffset(at, at, lease.caught_up_at, lease.quiet_until)
    moment = lease.start_at
    if moment is not None and now - moment >= LONGEST_RETENTION:
        moment = None  # the shard's beginning, so that a span is counted from its first record and not from 1970
    return ShardOffset(Unread(moment), began=Unread(moment), quiet_until=lease.quiet_until)
