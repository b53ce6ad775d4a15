"""Every write to the lease table, as a value: which row, on what condition, which changes.

The rules are KCL's (its DynamoDBLeaseRefresher), fenced three times: by the counter, which only ever goes up by one and never
back; by the owner, since a KCL 3.x handoff changes the owner alone; and by the holder, since many share a worker id. A write
made for an old state of the row is refused, and nothing is changed. `apply_to` says what DynamoDB makes of a row, so that
memory and DynamoDB run the same value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from sublet.protocol import lease_row as columns
from sublet.protocol.checkpoint import SHARD_END, STARTING_AT_A_MOMENT, STARTING_SENTINELS, Checkpoint
from sublet.protocol.conditions import (
    Absent,
    AllOf,
    AnyOf,
    Clause,
    Condition,
    Equal,
    Exists,
    Less,
    NotEqual,
    Row,
    Size,
    all_of,
    any_of,
    holds,
)
from sublet.protocol.lease import AttributeValue, Lease, LeaseFence, Position, Tried
from sublet.protocol.lease_row import (
    attempts_after,
    encode_row,
    moment,
    number,
    text,
    texts,
    whole_milliseconds,
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


@dataclass(frozen=True, slots=True)
class LeaseWrite:
    """One conditional write. CREATE puts `sets` as a whole row, DELETE removes the row, all others update it.

    moves_to   the position of a held lease's row after it; None: it leaves that as it is
    """

    kind: WriteKind
    lease_key: str
    condition: AllOf
    sets: Mapping[str, AttributeValue] = field(default_factory=dict)
    adds: Mapping[str, int] = field(default_factory=dict)
    removes: tuple[str, ...] = ()
    moves_to: Position | None = None


def apply_to(write: LeaseWrite, row: Row | None) -> dict[str, AttributeValue] | None:
    """The row after the write (empty after a delete), or None when it is refused.

    DynamoDB refuses a write whose condition does not hold, and one that adds to an attribute that is no number.
    """
    if not holds(write.condition, row) or any("N" not in (row or {}).get(name, _ZERO) for name in write.adds):
        return None
    if write.kind is WriteKind.DELETE:
        return {}
    after: dict[str, AttributeValue] = {**(row or {}), **write.sets}
    for name, amount in write.adds.items():
        after[name] = number(int(after.get(name, _ZERO)["N"]) + amount)
    return {name: value for name, value in after.items() if name not in write.removes}


def create(lease: Lease) -> LeaseWrite:
    """The first to create a lease wins; losing is no problem, since all create the same one."""
    return LeaseWrite(WriteKind.CREATE, lease.lease_key, all_of(_NO_SUCH_LEASE), sets=encode_row(lease))


def acquire(seen: LeaseFence, worker_id: str, holder: str, *, after_crash: bool = False) -> LeaseWrite:
    """Take a lease that is free, expired or to be stolen, exactly as it was seen (KCL's takeLease, and its owner too).

    `after_crash`: its owner is known or taken to be gone without having released it.
    """
    switches = {columns.OWNER_SWITCHES: ONE} if seen.lease_owner not in (None, worker_id) else {}
    crashes = {columns.CRASHES: ONE} if after_crash else {}
    return LeaseWrite(
        WriteKind.ACQUIRE,
        seen.lease_key,
        all_of(_counter_stands(seen), _owner_stands(seen), _NOT_ENDED),
        sets={columns.LEASE_OWNER: text(worker_id), columns.HOLDER: text(holder), **_counted(seen)},
        adds={columns.LEASE_COUNTER: ONE, **switches, **crashes},
        removes=(columns.CHECKPOINT_OWNER,),
    )


def heartbeat(
    lease: Lease, attempts: int = 0, tried: Tried | None = None, caught_up_at: datetime | None = None
) -> LeaseWrite:
    """Show that the owner lives (KCL's renewLease). `attempts`: note how often what comes next, so far as `tried` says, has been
    tried in vain. `caught_up_at`: nothing was left in the shard at that moment, and so nothing that its owners die of.
    """
    noted = {columns.ATTEMPTS: attempts_after(lease.checkpoint, attempts, tried)} if attempts else {}
    if caught_up_at is not None:
        noted[columns.CAUGHT_UP_AT] = moment(caught_up_at)
    return LeaseWrite(
        WriteKind.HEARTBEAT,
        lease.lease_key,
        _still_held(lease),
        sets={**noted, **_counted(lease)},
        adds={columns.LEASE_COUNTER: ONE},
        removes=(columns.CRASHES,) if caught_up_at else (),
    )


def pin(lease: Lease, at: datetime) -> LeaseWrite:
    """Store the moment that a LATEST lease was first opened at, before it is opened. A heartbeat too."""
    return LeaseWrite(
        WriteKind.PIN,
        lease.lease_key,
        all_of(*_still_held(lease).conditions, _position_stands(lease)),
        sets={**columns.starting_at(lease.checkpoint, at), **_counted(lease)},
        adds={columns.LEASE_COUNTER: ONE},
        moves_to=Position(lease.checkpoint, whole_milliseconds(at)),
    )


def checkpoint(lease: Lease, to: Checkpoint) -> LeaseWrite:
    """Everything up to `to` is handled (KCL's updateLease, with the monotonic guard in the table as well). A heartbeat too."""
    return LeaseWrite(
        WriteKind.CHECKPOINT,
        lease.lease_key,
        all_of(*_still_held(lease).conditions, _position_stands(lease), _further_on(to)),
        sets={**_position(to), **_counted(lease)},
        adds={columns.LEASE_COUNTER: ONE},
        removes=(*columns.PENDING, columns.START_AT, *columns.TROUBLES),
        moves_to=Position(to),
    )


def prepare(lease: Lease, to: Checkpoint, state: bytes) -> LeaseWrite:
    """Everything up to `to` is about to be handled, and `state` tells the application how far that has come (KCL's
    prepareCheckpoint). The next checkpoint, wherever it is, takes both away. A heartbeat too.
    """
    kept = {columns.PENDING_STATE: {"B": state}} if state else {}
    return LeaseWrite(
        WriteKind.PREPARE,
        lease.lease_key,
        _still_held(lease),
        sets={
            columns.PENDING_CHECKPOINT: text(to.sequence_number),
            columns.PENDING_SUB_SEQUENCE_NUMBER: number(to.sub_sequence_number),
            **kept,
            **_counted(lease),
        },
        adds={columns.LEASE_COUNTER: ONE},
        removes=() if state else (columns.PENDING_STATE,),
    )


def with_throughput(write: LeaseWrite, kib_per_second: float) -> LeaseWrite:
    """The same write, which tells a KCL 3.x leader what the lease brings too."""
    measured = {columns.THROUGHPUT: columns.throughput(kib_per_second)}
    return replace(write, sets={**write.sets, **measured})


def late_checkpoint(lease: Lease, to: Checkpoint) -> LeaseWrite:
    """By one who has lost the lease, for what its handler had already finished: it need not be handled again by the next.

    Guarded by the position alone, which is to be as the loser last knew it. It leaves the counter untouched, so that the new
    owner's fence holds; a Java owner's next checkpoint overwrites it, so in a mixed fleet it saves repeated work but promises
    nothing.
    """
    return LeaseWrite(
        WriteKind.LATE_CHECKPOINT,
        lease.lease_key,
        all_of(_EXISTS, _NOT_ENDED, _position_stands(lease), _further_on(to)),
        sets=_position(to),
        removes=(*columns.PENDING, columns.START_AT, *columns.TROUBLES),
    )


def set_children(lease: Lease, child_shard_ids: frozenset[str]) -> LeaseWrite:
    """Before the end: cleanup goes by the row's children once the service has forgotten them (KCL's updateLeaseWithMetaInfo)."""
    return LeaseWrite(
        WriteKind.SET_CHILDREN,
        lease.lease_key,
        _still_held(lease),
        sets={**({columns.CHILDREN: texts(child_shard_ids)} if child_shard_ids else {}), **_counted(lease)},
        adds={columns.LEASE_COUNTER: ONE},
    )


def end(lease: Lease) -> LeaseWrite:
    """SHARD_END, and nobody's: the last write of a lease's life. Its children's leases exist by now.

    KCL keeps the owner; we leave at once, and an owner who never heartbeats again would look like a dead worker.
    """
    return LeaseWrite(
        WriteKind.END,
        lease.lease_key,
        all_of(*_still_held(lease).conditions, _position_stands(lease), _NOT_ENDED),
        sets=_position(SHARD_END),
        adds={columns.LEASE_COUNTER: ONE},
        removes=(*columns.PENDING, columns.START_AT, columns.CAUGHT_UP_AT, *columns.TROUBLES, *_OWNERSHIP),
        moves_to=Position(SHARD_END),
    )


def release(lease: Lease, caught_up_at: datetime | None = None, crashes: int = 0) -> LeaseWrite:
    """Give the lease back (KCL's evictLease). `caught_up_at`: as of `heartbeat`. `crashes`: what is to be counted as such, of a
    handler call that hangs; then something is left.
    """
    return LeaseWrite(
        WriteKind.RELEASE,
        lease.lease_key,
        _still_held(lease),
        sets={columns.CAUGHT_UP_AT: moment(caught_up_at)} if caught_up_at else {},
        adds={columns.LEASE_COUNTER: ONE, **({columns.CRASHES: crashes} if crashes else {})},
        removes=(*_OWNERSHIP, *([columns.CRASHES] if caught_up_at and not crashes else [])),
    )


def hand_over(lease: Lease) -> LeaseWrite:
    """End a KCL 3.x graceful handoff: we are `checkpointOwner`, have drained, and let `leaseOwner` begin (KCL's assignLease)."""
    return LeaseWrite(
        WriteKind.HAND_OVER,
        lease.lease_key,
        all_of(_EXISTS, _owner_stands(lease), _drained_by(lease.checkpoint_owner)),
        adds={columns.LEASE_COUNTER: ONE, columns.OWNER_SWITCHES: ONE},
        removes=(columns.CHECKPOINT_OWNER, *_HOLDING),
    )


def delete(lease: Lease) -> LeaseWrite:
    """Only as seen: a lease that moved since the scan is not the one that the cleanup rule judged."""
    return LeaseWrite(WriteKind.DELETE, lease.lease_key, all_of(_counter_stands(lease), _owner_stands(lease)))


_HOLDING = (columns.HOLDER, columns.HOLDER_COUNTER)
_OWNERSHIP = (columns.LEASE_OWNER, columns.CHECKPOINT_OWNER, *_HOLDING)

_EXISTS = Clause(
    "exists",
    Exists(columns.LEASE_COUNTER),
    "an update would otherwise create half a row, which stops every KCL; one without a counter is half a row",
)
_NO_SUCH_LEASE = Clause(
    "no_such_lease", Absent(columns.LEASE_KEY), "never overwrite what another created first"
)
_NOT_ENDED = Clause(
    "not_ended",
    NotEqual(columns.CHECKPOINT, text(SHARD_END.sequence_number)),
    "an ended lease stays ended; its children have begun",
)


def _counter_stands(lease: Lease | LeaseFence) -> Clause:
    fence = Equal(columns.LEASE_COUNTER, number(lease.lease_counter))
    return Clause(
        "counter_stands", fence, "whoever wrote since then, a paused owner or a new one, wins (KCL's fence)"
    )


def _owner_stands(lease: Lease | LeaseFence) -> Clause:
    because = "a KCL 3.x handoff names a new owner and leaves the counter alone"
    return Clause("owner_stands", _names(columns.LEASE_OWNER, lease.lease_owner), because)


def _holder_stands(lease: Lease) -> Clause:
    because = "a row that was deleted and created anew counts from 0 again, up to our counter and under our worker id"
    return Clause("holder_stands", _names(columns.HOLDER, lease.holder), because)


def _counted(lease: Lease | LeaseFence) -> dict[str, AttributeValue]:
    """What the counter becomes, which tells the holder's own write from whatever another makes of the row later."""
    return {columns.HOLDER_COUNTER: number(lease.lease_counter + ONE)}


def _names(attribute: str, who: str | None) -> Condition:
    """Nobody is an absent attribute; clients other than KCL write NULL instead, or empty text."""
    if who:
        return Equal(attribute, text(who))
    return any_of(Absent(attribute), *(Equal(attribute, none) for none in ({"NULL": True}, text(""))))


def _still_held(lease: Lease) -> AllOf:
    return all_of(_counter_stands(lease), _owner_stands(lease), _holder_stands(lease))


def _drained_by(checkpoint_owner: str | None) -> Clause:
    condition = Equal(columns.CHECKPOINT_OWNER, text(checkpoint_owner or ""))
    return Clause("drained_by_us", condition, "only the owner that was asked to leave may say that it has")


def _position_stands(lease: Lease) -> Clause:
    """As its owner last read or wrote it, in the attributes that say it: within the record, or since which moment."""
    checkpoint, start_at = lease.position
    within: tuple[Condition, ...] = ()
    if checkpoint.is_sequence_number:
        within = (_is_number_or_none(columns.SUB_SEQUENCE_NUMBER, checkpoint.sub_sequence_number),)
    elif start_at is not None:
        at = moment(start_at)
        by_kcl_rust = all_of(_is_none(columns.START_AT), Equal(columns.SUB_SEQUENCE_NUMBER, at))
        within = (any_of(Equal(columns.START_AT, at), by_kcl_rust),)
    elif checkpoint in STARTING_AT_A_MOMENT:
        within = (_is_none(columns.START_AT),)
    because = (
        "an operator may have moved it, or the owner before us checkpointed late: what stands there counts"
    )
    stands = Equal(columns.CHECKPOINT, text(checkpoint.sequence_number))
    return Clause("position_stands", all_of(stands, *within), because)


def _is_number_or_none(attribute: str, value: int) -> Condition:
    """Zero may be absent, too."""
    stands = Equal(attribute, number(value))
    return stands if value else any_of(stands, _is_none(attribute))


def _is_none(attribute: str) -> AnyOf:
    return any_of(Absent(attribute), Equal(attribute, {"NULL": True}))


def _further_on(to: Checkpoint) -> Clause:
    """The stored checkpoint is before `to`: text compares by digit, so first by length; last within the record.

    A sentinel is before every sequence number; SHARD_END is never compared, `not_ended` keeps it out. Whatever else is no
    number is not ours to mend (KCL could not have written it).
    """
    stored, to_text = columns.CHECKPOINT, text(to.sequence_number)
    sub = columns.SUB_SEQUENCE_NUMBER
    sub_is_less = any_of(_is_none(sub), Less(sub, number(to.sub_sequence_number)))
    before = any_of(
        *(Equal(stored, text(sentinel.value)) for sentinel in STARTING_SENTINELS),
        all_of(Size(stored, "<", len(to.sequence_number)), _is_number(stored)),
        all_of(Size(stored, "=", len(to.sequence_number)), Less(stored, to_text)),
        all_of(Equal(stored, to_text), sub_is_less),
    )
    return Clause(
        "further_on",
        all_of(_NOT_ENDED, before),
        "a checkpoint never goes back, whoever writes it and however late",
    )


def _is_number(attribute: str) -> Less:
    """Its first character is at most a digit: `:` follows 9, and letters follow later."""
    return Less(attribute, text(":"))


def _position(to: Checkpoint) -> dict[str, AttributeValue]:
    return {
        columns.CHECKPOINT: text(to.sequence_number),
        columns.SUB_SEQUENCE_NUMBER: number(to.sub_sequence_number),
        columns.OWNER_SWITCHES: number(0),
    }
