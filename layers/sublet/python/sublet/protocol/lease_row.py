"""A lease as a row of KCL's table: every attribute that KCL 2.x and 3.x write, and our own, read and written.

KCL's types and names: its DynamoDBLeaseSerializer. Ours start with `sublet`; Java ignores attributes that it does not know.
Attributes unknown to us are kept in `Lease.other`, so that reading and writing a row loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeVar

from sublet.errors import MalformedCheckpoint
from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint, Sentinel
from sublet.protocol.lease import AttributeValue, Lease, MalformedRow, Tried, shard_id_of
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange

T = TypeVar("T")

LEASE_KEY = "leaseKey"
LEASE_OWNER = "leaseOwner"
LEASE_COUNTER = "leaseCounter"
OWNER_SWITCHES = "ownerSwitchesSinceCheckpoint"
CHECKPOINT = "checkpoint"
SUB_SEQUENCE_NUMBER = "checkpointSubSequenceNumber"
PARENTS = "parentShardId"
CHILDREN = "childShardIds"
STARTING_HASH_KEY = "startingHashKey"
ENDING_HASH_KEY = "endingHashKey"
PENDING_CHECKPOINT = "pendingCheckpoint"
PENDING_SUB_SEQUENCE_NUMBER = "pendingCheckpointSubSequenceNumber"
PENDING_STATE = "pendingCheckpointState"
THROUGHPUT = "throughputKBps"
CHECKPOINT_OWNER = "checkpointOwner"
ENTITY_TYPE = "entityType"
START_AT = "subletStartAt"
CAUGHT_UP_AT = "subletCaughtUpAt"
HOLDER = "subletHolder"
CRASHES = "subletCrashes"
HOLDER_COUNTER = "subletCounter"
ATTEMPTS = "subletAttempts"
"""`<attempts>@<checkpoint>..<last record>`: they are of what follows that checkpoint, up to that record, and of nothing else;
`/<lanes>` behind it if the shard's records were handled side by side. An owner that knows nothing of the attribute, as Java's,
leaves it when it checkpoints.
"""

TROUBLES = (CRASHES, ATTEMPTS)
"""What progress makes forgotten."""

PENDING = (PENDING_CHECKPOINT, PENDING_SUB_SEQUENCE_NUMBER, PENDING_STATE)
LEASE_ENTITY = "LEASE"

_KNOWN = frozenset(
    {
        LEASE_KEY,
        LEASE_OWNER,
        LEASE_COUNTER,
        OWNER_SWITCHES,
        CHECKPOINT,
        SUB_SEQUENCE_NUMBER,
        PARENTS,
        CHILDREN,
    }
    | {
        STARTING_HASH_KEY,
        ENDING_HASH_KEY,
        *PENDING,
        THROUGHPUT,
        CHECKPOINT_OWNER,
        START_AT,
        CAUGHT_UP_AT,
        HOLDER,
        HOLDER_COUNTER,
        CRASHES,
        ATTEMPTS,
    }
)
_SHARD_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_MULTI_STREAM_KEY = re.compile(r"\d{12}:[A-Za-z0-9_.-]{1,128}:\d{1,18}:[A-Za-z0-9_.-]{1,128}")
_ATTEMPTS = re.compile(r"(\d{1,9})@([^.]+)(?:\.\.([1-9]\d{0,128}|0)(?::(\d{1,18}))?(?:/(\d{1,9}))?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class _Unreadable(Exception):
    """Internal: an attribute is not what KCL writes. Becomes a MalformedRow."""


def text(value: str) -> AttributeValue:
    return {"S": value}


def number(value: int) -> AttributeValue:
    return {"N": str(value)}


def texts(values: frozenset[str]) -> AttributeValue:
    """A string set. DynamoDB refuses empty ones: leave the attribute out instead."""
    return {"SS": sorted(values)}


def throughput(kbps: float) -> AttributeValue:
    """To as many digits as KCL writes."""
    return {"N": f"{kbps:.6f}"}


def attempts_after(checkpoint: Checkpoint, attempts: int, tried: Tried | None) -> AttributeValue:
    of = "" if tried is None else f"..{tried.up_to}" + (f"/{tried.lanes}" if tried.lanes > 1 else "")
    return text(f"{attempts}@{checkpoint}{of}")


def moment(value: datetime) -> AttributeValue:
    """Epoch milliseconds, as every moment that KCL writes."""
    return number((value - _EPOCH) // _MILLISECOND)


def whole_milliseconds(value: datetime) -> datetime:
    """As a row keeps it."""
    return value - (value - _EPOCH) % _MILLISECOND


def starting_at(checkpoint: Checkpoint, at: datetime) -> dict[str, AttributeValue]:
    """The attributes of a moment to start at: ours, and beside AT_TIMESTAMP kcl-rust's too, which reads no other."""
    for_kcl_rust = {SUB_SEQUENCE_NUMBER: moment(at)} if checkpoint == AT_TIMESTAMP else {}
    return {START_AT: moment(at), **for_kcl_rust}


def is_lease_row(item: Mapping[str, AttributeValue]) -> bool:
    """KCL 3.5 keeps other entities in the lease table; without the attribute a row is a lease (KCL 2.x, 3.0)."""
    return item.get(ENTITY_TYPE, text(LEASE_ENTITY)).get("S") == LEASE_ENTITY


def is_multi_stream(item: Mapping[str, AttributeValue]) -> bool:
    """Whether it is a lease of a multi-stream KCL: its key names account, stream and the stream's creation before the shard."""
    return (
        is_lease_row(item) and _MULTI_STREAM_KEY.fullmatch(item.get(LEASE_KEY, {}).get("S", "")) is not None
    )


def decode_row(item: Mapping[str, AttributeValue]) -> Lease | MalformedRow | None:
    """The lease in a row; MalformedRow for one that KCL could not have written.

    None for a row that is none of this application's leases: one of another entityType, which has no checkpoint, or of a
    multi-stream KCL. Taken for garbage the latter would be deleted, and with it another stream's checkpoint.
    """
    if is_multi_stream(item) or not (is_lease_row(item) or CHECKPOINT in item):
        return None
    try:
        return _decode(item)
    except (_Unreadable, MalformedCheckpoint) as problem:
        return MalformedRow(str(item.get(LEASE_KEY, {}).get("S", "")), str(problem))


def _decode(item: Mapping[str, AttributeValue]) -> Lease:
    if not is_lease_row(item):
        raise _Unreadable(
            f"attribute {ENTITY_TYPE} is {dict(item[ENTITY_TYPE])!r:.80}, but it has a checkpoint"
        )
    stored = _text(item, CHECKPOINT)
    sub = _number(item, SUB_SEQUENCE_NUMBER) or 0
    start_at = _moment(item, START_AT)
    if start_at is None and stored == Sentinel.AT_TIMESTAMP and sub > 0:
        start_at = _moment(item, SUB_SEQUENCE_NUMBER)  # kcl-rust's way of keeping it
    pending = _text(item, PENDING_CHECKPOINT)
    lease_key = _lease_key(_required(_text(item, LEASE_KEY), LEASE_KEY))
    checkpoint = Checkpoint.parse(_required(stored, CHECKPOINT), sub)
    attempts, tried = _attempts(item, checkpoint)
    return Lease(
        lease_key=lease_key,
        checkpoint=checkpoint,
        lease_counter=_required(_number(item, LEASE_COUNTER), LEASE_COUNTER),
        lease_owner=_text(item, LEASE_OWNER) or None,
        owner_switches_since_checkpoint=_count(item, OWNER_SWITCHES),
        parent_shard_ids=_texts(item, PARENTS),
        child_shard_ids=_texts(item, CHILDREN),
        hash_key_range=_hash_key_range(item),
        start_at=start_at,
        caught_up_at=_moment(item, CAUGHT_UP_AT),
        holder=_text(item, HOLDER) or None,
        holder_counter=_number(item, HOLDER_COUNTER),
        crashes=_count(item, CRASHES),
        attempts=attempts,
        tried=tried,
        checkpoint_owner=_text(item, CHECKPOINT_OWNER) or None,
        pending_checkpoint=Checkpoint.parse(pending, _number(item, PENDING_SUB_SEQUENCE_NUMBER) or 0)
        if pending
        else None,
        pending_checkpoint_state=item[PENDING_STATE].get("B") if PENDING_STATE in item else None,
        throughput_kbps=_fraction(item, THROUGHPUT),
        other=MappingProxyType({name: value for name, value in item.items() if name not in _KNOWN}),
    )


def encode_row(lease: Lease) -> dict[str, AttributeValue]:
    """The row of a lease; absent values become absent attributes, never empty strings or NULLs (KCL)."""
    row: dict[str, AttributeValue] = {
        **lease.other,
        LEASE_KEY: text(lease.lease_key),
        LEASE_COUNTER: number(lease.lease_counter),
        OWNER_SWITCHES: number(lease.owner_switches_since_checkpoint),
        CHECKPOINT: text(lease.checkpoint.sequence_number),
        SUB_SEQUENCE_NUMBER: number(lease.checkpoint.sub_sequence_number),
    }
    optional = {
        LEASE_OWNER: lease.lease_owner and text(lease.lease_owner),
        PARENTS: lease.parent_shard_ids and texts(lease.parent_shard_ids),
        CHILDREN: lease.child_shard_ids and texts(lease.child_shard_ids),
        STARTING_HASH_KEY: lease.hash_key_range and text(str(lease.hash_key_range.starting)),
        ENDING_HASH_KEY: lease.hash_key_range and text(str(lease.hash_key_range.ending)),
        PENDING_CHECKPOINT: lease.pending_checkpoint and text(lease.pending_checkpoint.sequence_number),
        PENDING_SUB_SEQUENCE_NUMBER: lease.pending_checkpoint
        and number(lease.pending_checkpoint.sub_sequence_number),
        PENDING_STATE: None
        if lease.pending_checkpoint_state is None
        else {"B": lease.pending_checkpoint_state},
        THROUGHPUT: None if lease.throughput_kbps is None else throughput(lease.throughput_kbps),
        CHECKPOINT_OWNER: lease.checkpoint_owner and text(lease.checkpoint_owner),
        CAUGHT_UP_AT: lease.caught_up_at and moment(lease.caught_up_at),
        HOLDER: lease.holder and text(lease.holder),
        HOLDER_COUNTER: None if lease.holder_counter is None else number(lease.holder_counter),
        CRASHES: lease.crashes and number(lease.crashes),
        ATTEMPTS: lease.attempts and attempts_after(lease.checkpoint, lease.attempts, lease.tried),
    }
    started = starting_at(lease.checkpoint, lease.start_at) if lease.start_at else {}
    return row | {name: value for name, value in optional.items() if value} | started


def _lease_key(text: str) -> str:
    if not _SHARD_ID.fullmatch(shard_id_of(text)):
        raise _Unreadable(f"lease key {text!r:.200} names no shard")
    return text


def _required(value: T | None, name: str) -> T:
    if value is None:
        raise _Unreadable(f"attribute {name} is missing")
    return value


def _typed(item: Mapping[str, AttributeValue], name: str, kind: str) -> Any:
    """The attribute's value; None when it is missing or of DynamoDB's NULL type (some clients write that for nobody)."""
    if name not in item or "NULL" in item[name]:
        return None
    if kind not in item[name]:
        raise _Unreadable(f"attribute {name} is {dict(item[name])!r:.80}, expected DynamoDB type {kind}")
    return item[name][kind]


def _text(item: Mapping[str, AttributeValue], name: str) -> str | None:
    value: str | None = _typed(item, name, "S")
    return value


def _texts(item: Mapping[str, AttributeValue], name: str) -> frozenset[str]:
    return frozenset(_typed(item, name, "SS") or ())


def _number(item: Mapping[str, AttributeValue], name: str) -> int | None:
    value = _typed(item, name, "N")
    try:
        return None if value is None else int(value)
    except ValueError:
        raise _Unreadable(f"attribute {name} is {value!r:.80}, expected a whole number") from None


def _count(item: Mapping[str, AttributeValue], name: str) -> int:
    """0 when it is missing. DynamoDB adds to no NULL: a lease with one could not be acquired."""
    value = _number(item, name) if name in item else 0
    if value is None or value < 0:
        raise _Unreadable(f"attribute {name} is {dict(item[name])!r:.80}, expected a count")
    return value


def _attempts(item: Mapping[str, AttributeValue], checkpoint: Checkpoint) -> tuple[int, Tried | None]:
    known = _ATTEMPTS.fullmatch(_text(item, ATTEMPTS) or "")
    if known is None or known[2] != str(checkpoint):
        return 0, None
    up_to = known[3] and Checkpoint(known[3], int(known[4] or 0))
    return int(known[1]), Tried(up_to, int(known[5] or 1)) if up_to else None


def _fraction(item: Mapping[str, AttributeValue], name: str) -> float | None:
    value = _typed(item, name, "N")
    try:
        return None if value is None else float(value)
    except ValueError:
        raise _Unreadable(f"attribute {name} is {value!r:.80}, expected a number") from None


def _moment(item: Mapping[str, AttributeValue], name: str) -> datetime | None:
    value = _number(item, name)
    try:
        return None if value is None else _EPOCH + value * _MILLISECOND
    except OverflowError:
        raise _Unreadable(f"attribute {name} is {value}, expected epoch milliseconds") from None


def _hash_key_range(item: Mapping[str, AttributeValue]) -> HashKeyRange | None:
    starting, ending = _text(item, STARTING_HASH_KEY), _text(item, ENDING_HASH_KEY)
    if starting is None or ending is None:
        return None
    are_decimal = starting.isdecimal() and ending.isdecimal() and max(len(starting), len(ending)) <= 39
    if not (are_decimal and int(starting) <= int(ending) <= HASH_KEY_MAX):
        raise _Unreadable(
            f"hash key range {starting!r:.50} to {ending!r:.50} is no pair of decimal hash keys, of 128 bits and in order"
        )
    return HashKeyRange(int(starting), int(ending))
