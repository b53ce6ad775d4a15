"""Every write to the lease table, as a value: the row, the condition, and the changes.

The rules are KCL's (its DynamoDBLeaseRefresher). Three fences protect the row: the counter, which only ever rises by
one; the owner, since a KCL 3.x handoff changes nothing else; and the holder, since many holders share a worker id. A
write made for an old state of the row is refused and changes nothing. `apply_to` gives the row after a write as
DynamoDB would, so that memory and DynamoDB run the same value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.conditions import AllOf, Row, all_of, holds
from sublet.protocol.lease import AttemptedRecords, AttributeValue, Lease, LeaseFence, Position, QuietUntil
from sublet.protocol.lease_attributes import (
    attempts_after,
    moment,
    number,
    quiet_until,
    text,
    whole_milliseconds,
)
from sublet.protocol.lease_row import encode_row
from sublet.protocol.write_clauses import (
    EXISTS,
    NO_SUCH_LEASE,
    NOT_DRAINING,
    NOT_ENDED,
    SEEK_LEAP,
    counter_stands,
    drained_by,
    further_on,
    not_sought,
    owner_stands,
    position_stands,
    still_held,
)

ONE = 1
_ZERO = number(0)


class WriteKind(StrEnum):
    CREATE = "create"
    ACQUIRE = "acquire"
    HEARTBEAT = "heartbeat"
    PIN = "pin"
    CHECKPOINT = "checkpoint"
    PREPARE = "prepare"
    LATE_CHECKPOINT = "late_checkpoint"
    SET_CHILDREN = "set_children"
    END = "end"
    RELEASE = "release"
    HAND_OVER = "hand_over"
    DELETE = "delete"
    SEEK = "seek"


@dataclass(frozen=True, slots=True)
class LeaseWrite:
    """One conditional write. CREATE puts `sets` as a whole row, DELETE removes the row, all others update it.

    moves_to  the row's position after the write, for a held lease; None: unchanged
    """

    kind: WriteKind
    lease_key: str
    condition: AllOf
    sets: Mapping[str, AttributeValue] = field(default_factory=dict)
    adds: Mapping[str, int] = field(default_factory=dict)
    removes: tuple[str, ...] = ()
    moves_to: Position | None = None

    @property
    def all_sets(self) -> Mapping[str, AttributeValue]:
        """The write's attributes, with those that KCL adds each time in an application of several streams."""
        return {**self.sets, **attributes.of_stream(self.lease_key)}

    def noting(self, sets: Mapping[str, AttributeValue], removes: tuple[str, ...]) -> LeaseWrite:
        """The same write with other changes. Each heartbeat calls this, so it avoids the slower
        `dataclasses.replace`.
        """
        return LeaseWrite(self.kind, self.lease_key, self.condition, sets, self.adds, removes, self.moves_to)


def apply_to(write: LeaseWrite, row: Row | None) -> dict[str, AttributeValue] | None:
    """The row after the write (empty after a delete), or None if it is refused.

    DynamoDB refuses a write whose condition does not hold, and one that adds to an attribute that is not a number.
    """
    if not holds(write.condition, row) or any("N" not in (row or {}).get(name, _ZERO) for name in write.adds):
        return None
    if write.kind is WriteKind.DELETE:
        return {}
    after: dict[str, AttributeValue] = {**(row or {}), **write.all_sets}
    for name, amount in write.adds.items():
        after[name] = number(int(after.get(name, _ZERO)["N"]) + amount)
    for name in write.removes:
        after.pop(name, None)
    return after


def create(lease: Lease) -> LeaseWrite:
    """The first worker to create a lease wins. Losing does no harm, since all workers create the same lease."""
    return LeaseWrite(WriteKind.CREATE, lease.lease_key, all_of(NO_SUCH_LEASE), sets=encode_row(lease))


def acquire(seen: LeaseFence, worker_id: str, holder: str, *, crashed: Lease | None = None) -> LeaseWrite:
    """Take a lease that is free, expired or to be stolen, if its counter (KCL's takeLease) and its owner are still as
    seen. `crashed`: the lease as left by an owner that is known or assumed to be gone without releasing it.
    """
    switches = {attributes.OWNER_SWITCHES: ONE} if seen.lease_owner not in (None, worker_id) else {}
    crashes = {} if crashed is None else attributes.crashes_at(crashed.checkpoint, crashed.crashes + ONE)
    return LeaseWrite(
        WriteKind.ACQUIRE,
        seen.lease_key,
        all_of(counter_stands(seen), owner_stands(seen), NOT_ENDED),
        sets={
            attributes.LEASE_OWNER: text(worker_id),
            attributes.HOLDER: text(holder),
            **crashes,
            **_counted(seen),
        },
        adds={attributes.LEASE_COUNTER: ONE, **switches},
        removes=(attributes.CHECKPOINT_OWNER,),
    )


def heartbeat(
    lease: Lease,
    attempts: int = 0,
    tried: AttemptedRecords | None = None,
    caught_up_at: datetime | None = None,
    quiet: QuietUntil | None = None,
) -> LeaseWrite:
    """Show that the owner is alive (KCL's renewLease).

    attempts      failed attempts at the next records, up to `tried`
    tried         without attempts: the records to call first
    caught_up_at  the shard held nothing more at that time, so its owners' crashes are forgotten
    quiet         until when nothing follows; noted if the lease is at that position
    """
    noted = {attributes.ATTEMPTS: attempts_after(lease.checkpoint, attempts, tried)} if attempts or tried else {}
    noted |= _of_the_tip(lease, caught_up_at, quiet)
    return LeaseWrite(
        WriteKind.HEARTBEAT,
        lease.lease_key,
        still_held(lease),
        sets={**noted, **_counted(lease)},
        adds={attributes.LEASE_COUNTER: ONE},
        removes=_CRASHES if caught_up_at else (),
    )


def pin(lease: Lease, at: datetime) -> LeaseWrite:
    """Store the time at which a LATEST lease is first opened, before it is opened. A heartbeat too."""
    return LeaseWrite(
        WriteKind.PIN,
        lease.lease_key,
        all_of(*still_held(lease).conditions, position_stands(lease)),
        sets={**attributes.starting_at(lease.checkpoint, at), **_counted(lease)},
        adds={attributes.LEASE_COUNTER: ONE},
        removes=(attributes.QUIET, attributes.LAG),
        moves_to=Position(lease.checkpoint, whole_milliseconds(at)),
    )


def checkpoint(lease: Lease, to: Checkpoint, caught_up_at: datetime | None = None) -> LeaseWrite:
    """Everything up to `to` is handled (KCL's updateLease, with its monotonic guard in the table as well). A heartbeat
    too. `caught_up_at`: the shard held nothing after `to` at that time.
    """
    return LeaseWrite(
        WriteKind.CHECKPOINT,
        lease.lease_key,
        all_of(*still_held(lease).conditions, position_stands(lease), further_on(to)),
        sets={**_position(to), **_of_the_tip(lease, caught_up_at, None), **_counted(lease)},
        adds={attributes.LEASE_COUNTER: ONE},
        removes=CLEARED_BY_CHECKPOINT,
        moves_to=Position(to),
    )


def prepare(lease: Lease, to: Checkpoint, state: bytes) -> LeaseWrite:
    """Everything up to `to` is about to be handled, and `state` is the application's own progress (KCL's
    prepareCheckpoint). The next checkpoint, wherever it is, removes both. A heartbeat too.
    """
    kept = {attributes.PENDING_STATE: {"B": state}} if state else {}
    return LeaseWrite(
        WriteKind.PREPARE,
        lease.lease_key,
        still_held(lease),
        sets={
            attributes.PENDING_CHECKPOINT: text(to.sequence_number),
            attributes.PENDING_SUB_SEQUENCE_NUMBER: number(to.sub_sequence_number),
            **kept,
            **_counted(lease),
        },
        adds={attributes.LEASE_COUNTER: ONE},
        removes=() if state else (attributes.PENDING_STATE,),
    )


def late_checkpoint(lease: Lease, to: Checkpoint) -> LeaseWrite:
    """A worker that has lost the lease writes what its handler had finished by then, so that the next owner need not
    repeat it.

    Guarded only by the position, which must be as the loser last knew it, and by the leap that a seek makes the counter
    take: a seek may go to that very position. It leaves the counter untouched, so that the new owner's fence holds. A
    Java owner's next checkpoint overwrites it, so in a mixed fleet it saves repeated work but promises nothing.
    """
    return LeaseWrite(
        WriteKind.LATE_CHECKPOINT,
        lease.lease_key,
        all_of(EXISTS, NOT_ENDED, not_sought(lease), position_stands(lease), further_on(to)),
        sets=_position(to),
        removes=CLEARED_BY_CHECKPOINT,
    )


def set_children(lease: Lease, child_shard_ids: frozenset[str]) -> LeaseWrite:
    """Stores the children's ids before the end: cleanup uses them once the service has forgotten the children (KCL's
    updateLeaseWithMetaInfo).
    """
    return LeaseWrite(
        WriteKind.SET_CHILDREN,
        lease.lease_key,
        still_held(lease),
        sets={
            **({attributes.CHILDREN: attributes.shard_ids(child_shard_ids)} if child_shard_ids else {}),
            **_counted(lease),
        },
        adds={attributes.LEASE_COUNTER: ONE},
    )


def end(lease: Lease) -> LeaseWrite:
    """SHARD_END, without an owner: the last write of a lease's life. Its children's leases exist by now.

    KCL keeps the owner. We leave at once, and an owner that never heartbeats again would look like a dead worker.
    """
    return LeaseWrite(
        WriteKind.END,
        lease.lease_key,
        all_of(*still_held(lease).conditions, position_stands(lease), NOT_ENDED),
        sets=_position(SHARD_END),
        adds={attributes.LEASE_COUNTER: ONE},
        removes=(*CLEARED_BY_CHECKPOINT, attributes.CAUGHT_UP_AT, *_OWNERSHIP),
        moves_to=Position(SHARD_END),
    )


def release(
    lease: Lease, caught_up_at: datetime | None = None, crashes: int = 0, quiet: QuietUntil | None = None
) -> LeaseWrite:
    """Give up the lease (KCL's evictLease). `caught_up_at`, `quiet`: as in `heartbeat`. `crashes`: how many to count
    for a hung handler call, in which case records are left.
    """
    counted = attributes.crashes_at(lease.checkpoint, lease.crashes + crashes) if crashes else {}
    return LeaseWrite(
        WriteKind.RELEASE,
        lease.lease_key,
        still_held(lease),
        sets={**_of_the_tip(lease, caught_up_at, quiet), **counted},
        adds={attributes.LEASE_COUNTER: ONE},
        removes=(*_OWNERSHIP, *(_CRASHES if caught_up_at and not crashes else ())),
    )


def hand_over(lease: Lease) -> LeaseWrite:
    """End a KCL 3.x graceful handoff: we are `checkpointOwner`, have drained, and let `leaseOwner` begin (KCL's
    assignLease).
    """
    return LeaseWrite(
        WriteKind.HAND_OVER,
        lease.lease_key,
        all_of(EXISTS, owner_stands(lease), drained_by(lease.checkpoint_owner)),
        adds={attributes.LEASE_COUNTER: ONE, attributes.OWNER_SWITCHES: ONE},
        removes=(attributes.CHECKPOINT_OWNER, *_HOLDING),
    )


def seek(lease: Lease, to: Position) -> LeaseWrite:
    """An operator moves the position, forward or back. The owner, alive or not, is evicted (KCL's evictLease) in the
    same write, so its next renewal fails; otherwise its next checkpoint would overwrite the position. Whatever was true
    only of the old position is removed. The counter leaps, so that the owner cannot checkpoint late what it has in
    hand.

    The write is refused if anything has changed since the row was read, and during a KCL 3.x handoff.
    """
    start = {} if to.start_at is None else attributes.starting_at(to.checkpoint, to.start_at)
    return LeaseWrite(
        WriteKind.SEEK,
        lease.lease_key,
        all_of(EXISTS, counter_stands(lease), owner_stands(lease), position_stands(lease), NOT_DRAINING),
        sets={**_position(to.checkpoint), **start},
        adds={attributes.LEASE_COUNTER: SEEK_LEAP},
        removes=tuple(
            name for name in (*CLEARED_BY_CHECKPOINT, attributes.CAUGHT_UP_AT, *_OWNERSHIP) if name not in start
        ),
        moves_to=to,
    )


def delete(lease: Lease) -> LeaseWrite:
    """Deletes the lease only as it was seen: one that changed since the scan is not the one that the cleanup rule
    judged.
    """
    return LeaseWrite(WriteKind.DELETE, lease.lease_key, all_of(counter_stands(lease), owner_stands(lease)))


def _of_the_tip(lease: Lease, caught_up_at: datetime | None, quiet: QuietUntil | None) -> dict[str, AttributeValue]:
    """The attributes that say when the shard was at its tip, or how far it has been walked."""
    caught_up = {} if caught_up_at is None else {attributes.CAUGHT_UP_AT: moment(caught_up_at)}
    is_of_this = quiet is not None and quiet.after == lease.position
    return caught_up | ({attributes.QUIET: quiet_until(quiet)} if quiet is not None and is_of_this else {})


_CRASHES = (attributes.CRASHES, attributes.CRASHED_AT)
_HOLDING = (attributes.HOLDER, attributes.HOLDER_COUNTER)
CLEARED_BY_CHECKPOINT = (
    *attributes.PENDING,
    attributes.START_AT,
    attributes.QUIET,
    attributes.LAG,
    *attributes.TROUBLES,
)
"""What progress removes."""

_OWNERSHIP = (attributes.LEASE_OWNER, attributes.CHECKPOINT_OWNER, *_HOLDING)


def _counted(lease: Lease | LeaseFence) -> dict[str, AttributeValue]:
    """The new counter, which tells the holder's own write from other workers' later writes."""
    return {attributes.HOLDER_COUNTER: number(lease.lease_counter + ONE)}


def _position(to: Checkpoint) -> dict[str, AttributeValue]:
    return {
        attributes.CHECKPOINT: text(to.sequence_number),
        attributes.SUB_SEQUENCE_NUMBER: number(to.sub_sequence_number),
        attributes.OWNER_SWITCHES: number(0),
    }
