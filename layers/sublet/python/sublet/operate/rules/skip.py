"""Which records a skip passes over: the next unhandled ones of one shard. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sublet.decisions.plurals import counted
from sublet.decisions.unfinished_shards import still_to_read
from sublet.errors import SeekRefused
from sublet.operate.rules.seek import LeaseMove, MoveEffect, SeekPlan
from sublet.protocol.lease import Lease, LeaseScan, Position, lease_key_of, shard_id_of
from sublet.protocol.records import UserRecord
from sublet.protocol.shard import Shard, creation_order

RECORDS_MAX = 1000
BYTES_MAX = 64 * 2**20
"""The most bytes of one skip, because memory holds its records."""


@dataclass(frozen=True, slots=True)
class SkipPlan:
    """
    records  to be given to the failure destination, in order; then the position moves past the last of them
    wanted   how many were asked for: if there are fewer records, the shard holds no more
    """

    shard: Shard
    lease: Lease
    records: tuple[UserRecord, ...]
    wanted: int

    @property
    def what(self) -> str:
        """What is skipped, in words, as logs and snapshots show it."""
        return f"skip past {counted(len(self.records), 'record')} of {self.shard.shard_id}"

    @property
    def move(self) -> SeekPlan:
        then = Position(self.records[-1].checkpoint)
        return SeekPlan((LeaseMove(self.shard, self.lease, self.lease.position, then, MoveEffect.SKIPS),))


def lease_to_skip_in(scan: LeaseScan, shards: Sequence[Shard], shard_id: str) -> tuple[Shard, Lease]:
    """The shard and its lease. Raises SeekRefused if nothing may be skipped, as in a shard whose parents are not
    finished: once it is past its beginning, it would be read before they are.
    """
    shard = next((each for each in shards if each.shard_id == shard_id), None)
    if shard is None:
        raise SeekRefused(f"the stream has no shard {shard_id}")
    key = lease_key_of(shard_id)
    for row in scan.malformed:
        if row.lease_key == key:
            raise SeekRefused(f"the row of lease {key} cannot be read: {row.problem}. Repair it first")
    lease = next((each for each in scan.leases if each.lease_key == key), None)
    if lease is None:
        raise SeekRefused(f"shard {shard_id} has no lease yet: there is nothing to skip")
    if lease.is_ended:
        raise SeekRefused(f"shard {shard_id} is handled to its end: nothing is left to skip")
    if lease.checkpoint_owner is not None:
        raise SeekRefused(
            f"lease {key} is being handed over from {lease.checkpoint_owner} to {lease.lease_owner}: try again in "
            "some seconds"
        )
    unreadable = [shard_id_of(row.lease_key) for row in scan.malformed]
    unread = still_to_read(scan.leases, unreadable, sorted(shards, key=creation_order))
    if waits := sorted(unread & (lease.parent_shard_ids | shard.parent_shard_ids)):
        raise SeekRefused(f"shard {shard_id} has not begun: its records come after those of {', '.join(waits)}")
    return shard, lease


def plan_skip(
    shard: Shard, lease: Lease, upcoming: Iterable[UserRecord], wanted: int, *, as_put: bool = False
) -> SkipPlan:
    """`upcoming`: what follows the lease's position, in order, as the handler gets it; `as_put`: with aggregates whole.
    Records that were finished beyond the checkpoint are left out, since the handler has done them. Raises SeekRefused
    if there is no record, or they are too large.
    """
    chosen: list[UserRecord] = []
    size = 0
    ahead = lease.finished_ahead
    for record in upcoming:
        if ahead is not None and ahead.as_put == as_put and ahead.covers(record):
            continue
        size += len(record.data)
        if chosen and size > BYTES_MAX:
            raise SeekRefused(
                f"{wanted} records are more than {BYTES_MAX // 2**20} MiB: skip {len(chosen)} or fewer at a time"
            )
        chosen.append(record)
        if len(chosen) == wanted:
            break
    if not chosen:
        raise SeekRefused(f"nothing waits in shard {shard.shard_id} after {lease.checkpoint}: nothing to skip")
    return SkipPlan(shard, lease, tuple(chosen), wanted)
