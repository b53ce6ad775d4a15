"""A lease as a row of KCL's table: every attribute that KCL 2.x and 3.x write, and our own, both ways.

Types and names are KCL's (its DynamoDBLeaseSerializer). Ours start with `sublet`; Java ignores attributes that it does
not know. Attributes unknown to us are kept in `Lease.other`, so that reading and writing a row loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from sublet.errors import MalformedCheckpoint
from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint, Sentinel
from sublet.protocol.finished_ahead import FinishedAhead, ahead_text, read_ahead_text
from sublet.protocol.handler_failure import HandlerFailure, failure_text, read_failure_text
from sublet.protocol.lag_history import LagSeen, lag_history_text, read_lag_history
from sublet.protocol.lag_report import LagReport, lag_text, read_lag_text
from sublet.protocol.lease import (
    AttributeValue,
    Lease,
    MalformedRow,
    Position,
    Quiet,
    Tried,
)
from sublet.protocol.row_values import (
    EPOCH,
    MILLISECOND,
    Unreadable,
    count_in,
    fraction_in,
    moment_in,
    number_in,
    required,
    text_in,
    texts_in,
)
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.protocol.stream_key import beside, is_of_several, own_id, stream_key_of

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
STREAM_NAME = "streamName"
"""`account:stream:creation epoch`, only in an application of several streams. KCL has kept an old name for the attribute."""

SHARD_ID = "shardId"
"""The shard's own id, only in an application of several streams. Parents and children have their own ids in every row."""

START_AT = "subletStartAt"
CAUGHT_UP_AT = "subletCaughtUpAt"
HOLDER = "subletHolder"
CRASHES = "subletCrashes"
CRASHED_AT = "subletCrashedAt"
"""The last characters of the checkpoint that CRASHES belong to; no two checkpoints of a shard share them. Java, an
operator and version 0.1 move the checkpoint and leave both attributes, which voids them. A count without this
attribute, as version 0.2 writes it, is void too: it is not known whether there was progress since.
"""

HOLDER_COUNTER = "subletCounter"
ATTEMPTS = "subletAttempts"
"""`<attempts>@<checkpoint>..<last record>`: attempts at exactly the records after that checkpoint, up to that record;
followed by `/<lanes>` if the shard's records were handled in parallel. With 0 attempts: how far a failing batch has been
narrowed down. An owner that does not know the attribute, such as Java's, leaves it in place when it checkpoints.
"""

QUIET = "subletQuietUntil"
"""`<time>@<checkpoint>`: no record after that checkpoint arrived before that time; followed by `/<time>` for a
checkpoint that begins at a time. Java, an operator or version 0.2 move the checkpoint and leave the attribute, which
voids it, since it names another checkpoint. Times are in epoch milliseconds.
"""

AHEAD = "subletAhead"
"""What is finished beyond the checkpoint (`finished_ahead`). It counts only beside ATTEMPTS of the same checkpoint, if
need be with 0 attempts. An earlier version removes ATTEMPTS with each checkpoint, even with a late one, which leaves
the counter as it is.
"""

LAG = "subletLag"
"""A LagReport. Java, an operator or version 0.2 may move the checkpoint and leave the report, which then names another
checkpoint and is void.
"""

SEEN = "subletSeen"
"""The last reports (`lag_history`). They stay true when the position is moved, and so show that it was moved back."""

FAILING = "subletFailing"
"""A HandlerFailure. Java, an operator or version 0.2 may move the checkpoint and leave the failure, which then names another
checkpoint and is void.
"""

TROUBLES = (CRASHES, CRASHED_AT, ATTEMPTS, AHEAD, FAILING)
"""The columns that progress clears."""

ROW_BYTES_MAX = 1000
"""Writing an item of more than 1 KB costs twice as much."""

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
        QUIET,
        LAG,
        SEEN,
        HOLDER,
        HOLDER_COUNTER,
        *TROUBLES,
    }
)
_NOTHING_ELSE: Mapping[str, AttributeValue] = MappingProxyType({})
_SHARD_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ATTEMPTS = re.compile(r"(\d{1,9})@([^.]+)(?:\.\.([1-9]\d{0,128}|0)(?::(\d{1,18}))?(?:/(\d{1,9}))?)?")
_QUIET = re.compile(r"(\d{1,14})@([^:/]{1,129})(?::(\d{1,18}))?(?:/(\d{1,14}))?")


def text(value: str) -> AttributeValue:
    return {"S": value}


def number(value: int) -> AttributeValue:
    return {"N": str(value)}


def texts(values: frozenset[str]) -> AttributeValue:
    """A string set. DynamoDB refuses empty ones: leave the attribute out instead."""
    return {"SS": sorted(values)}


def shard_ids(names: frozenset[str]) -> AttributeValue:
    """Parents or children, by their own ids."""
    return texts(frozenset(map(own_id, names)))


def of_stream(lease_key: str) -> Mapping[str, AttributeValue]:
    """The attributes that KCL adds to each write of a lease in an application of several streams; empty in one of one
    stream.
    """
    stream = stream_key_of(lease_key)
    return {} if stream is None else {STREAM_NAME: text(str(stream)), SHARD_ID: text(own_id(lease_key))}


def throughput(kbps: float) -> AttributeValue:
    """The number with as many digits as KCL writes."""
    return {"N": f"{kbps:.6f}"}


def attempts_after(checkpoint: Checkpoint, attempts: int, tried: Tried | None) -> AttributeValue:
    of = "" if tried is None else f"..{tried.up_to}" + (f"/{tried.lanes}" if tried.lanes > 1 else "")
    return text(f"{attempts}@{checkpoint}{of}")


def crashes_at(checkpoint: Checkpoint, crashes: int) -> dict[str, AttributeValue]:
    return {CRASHES: number(crashes), CRASHED_AT: text(checkpoint.tail)} if crashes else {}


def finished_beyond(ahead: FinishedAhead, counter: int, position: Position) -> AttributeValue:
    return text(ahead_text(ahead, counter, *position))


def bytes_of(row: Mapping[str, AttributeValue]) -> int:
    """The size of names and values; numbers count for more than in DynamoDB."""
    return sum(len(name.encode()) + _value_bytes(value) for name, value in row.items())


def _value_bytes(value: AttributeValue) -> int:
    """The value's size in bytes, for the types that a lease has; any other value counts as its text."""
    (kind, content), *_ = value.items()
    if kind == "SS":
        return sum(len(each.encode()) for each in content)
    return len(content) if kind == "B" else len(str(content).encode())


def quiet_until(quiet: Quiet) -> AttributeValue:
    checkpoint, start_at = quiet.after
    began = "" if start_at is None else f"/{_millis(start_at)}"
    return text(f"{_millis(quiet.until)}@{checkpoint}{began}")


def lag_reported(report: LagReport, checkpoint: Checkpoint) -> AttributeValue:
    return text(lag_text(report, checkpoint))


def seen_before(history: Sequence[LagSeen]) -> AttributeValue:
    """The attribute's text; there must be at least one report."""
    return text(lag_history_text(history))


def failing_with(failure: HandlerFailure, checkpoint: Checkpoint) -> AttributeValue:
    return text(failure_text(failure, checkpoint))


def moment(value: datetime) -> AttributeValue:
    """A time in epoch milliseconds, like every one that KCL writes."""
    return number(_millis(value))


def _millis(value: datetime) -> int:
    return (value - EPOCH) // MILLISECOND


def whole_milliseconds(value: datetime) -> datetime:
    """Cuts a moment to a row's precision."""
    return value - (value - EPOCH) % MILLISECOND


def starting_at(checkpoint: Checkpoint, at: datetime) -> dict[str, AttributeValue]:
    """The attributes of a start time: ours, and with AT_TIMESTAMP also kcl-rust's, which reads no other."""
    for_kcl_rust = {SUB_SEQUENCE_NUMBER: moment(at)} if checkpoint == AT_TIMESTAMP else {}
    return {START_AT: moment(at), **for_kcl_rust}


def is_lease_row(item: Mapping[str, AttributeValue]) -> bool:
    """KCL 3.5 keeps other entities in the lease table; a row without the attribute is a lease (KCL 2.x, 3.0)."""
    entity = item.get(ENTITY_TYPE)
    return entity is None or entity.get("S") == LEASE_ENTITY


def decode_row(item: Mapping[str, AttributeValue]) -> Lease | MalformedRow | None:
    """The lease in a row; MalformedRow for one that KCL could not have written.

    None for a row that is not a lease: of another entityType, and without a checkpoint.
    """
    is_lease = is_lease_row(item)
    if not is_lease and CHECKPOINT not in item:
        return None
    try:
        if is_lease:
            return _decode(item)
        problem = f"attribute {ENTITY_TYPE} is {dict(item[ENTITY_TYPE])!r:.80}, but it has a checkpoint"
    except (Unreadable, MalformedCheckpoint) as unreadable:
        problem = str(unreadable)
    return MalformedRow(str(item.get(LEASE_KEY, {}).get("S", "")), problem)


def _decode(item: Mapping[str, AttributeValue]) -> Lease:
    stored = text_in(item, CHECKPOINT)
    sub = number_in(item, SUB_SEQUENCE_NUMBER) or 0
    start_at = moment_in(item, START_AT)
    if start_at is None and stored == Sentinel.AT_TIMESTAMP and sub > 0:
        start_at = moment_in(item, SUB_SEQUENCE_NUMBER)  # kcl-rust keeps the time here
    pending = text_in(item, PENDING_CHECKPOINT)
    lease_key = _lease_key(required(text_in(item, LEASE_KEY), LEASE_KEY))
    checkpoint = Checkpoint.parse(required(stored, CHECKPOINT), sub)
    attempts, tried = _attempts(item, checkpoint) if ATTEMPTS in item else (0, None)
    ahead, ahead_counter = _ahead(item, checkpoint, start_at) if AHEAD in item else (None, None)
    known = _KNOWN | {STREAM_NAME, SHARD_ID} if is_of_several(lease_key) else _KNOWN
    return Lease(
        lease_key=lease_key,
        checkpoint=checkpoint,
        lease_counter=required(number_in(item, LEASE_COUNTER), LEASE_COUNTER),
        lease_owner=text_in(item, LEASE_OWNER) or None,
        owner_switches_since_checkpoint=count_in(item, OWNER_SWITCHES),
        parent_shard_ids=_named(texts_in(item, PARENTS), lease_key),
        child_shard_ids=_named(texts_in(item, CHILDREN), lease_key),
        hash_key_range=_hash_key_range(item),
        start_at=start_at,
        caught_up_at=moment_in(item, CAUGHT_UP_AT),
        quiet=_quiet(item) if QUIET in item else None,
        lag_report=read_lag_text(item[LAG].get("S", ""), checkpoint) if LAG in item else None,
        lag_history=read_lag_history(item[SEEN].get("S", "")) if SEEN in item else (),
        failing=read_failure_text(item[FAILING].get("S", ""), checkpoint) if FAILING in item else None,
        holder=text_in(item, HOLDER) or None,
        holder_counter=number_in(item, HOLDER_COUNTER),
        crashes=_crashes(item, checkpoint) if CRASHES in item else 0,
        attempts=attempts,
        tried=tried,
        noted_ahead=ahead,
        noted_ahead_counter=ahead_counter,
        checkpoint_owner=text_in(item, CHECKPOINT_OWNER) or None,
        pending_checkpoint=Checkpoint.parse(pending, number_in(item, PENDING_SUB_SEQUENCE_NUMBER) or 0)
        if pending
        else None,
        pending_checkpoint_state=item[PENDING_STATE].get("B") if PENDING_STATE in item else None,
        throughput_kbps=fraction_in(item, THROUGHPUT),
        other=_NOTHING_ELSE
        if item.keys() <= known
        else MappingProxyType({name: value for name, value in item.items() if name not in known}),
    )


def encode_row(lease: Lease) -> dict[str, AttributeValue]:
    """The row of a lease; absent values become absent attributes, never empty strings or NULLs (KCL)."""
    row: dict[str, AttributeValue] = {
        **lease.other,
        LEASE_KEY: text(lease.lease_key),
        **of_stream(lease.lease_key),
        LEASE_COUNTER: number(lease.lease_counter),
        OWNER_SWITCHES: number(lease.owner_switches_since_checkpoint),
        CHECKPOINT: text(lease.checkpoint.sequence_number),
        SUB_SEQUENCE_NUMBER: number(lease.checkpoint.sub_sequence_number),
    }
    optional = {
        LEASE_OWNER: lease.lease_owner and text(lease.lease_owner),
        PARENTS: lease.parent_shard_ids and shard_ids(lease.parent_shard_ids),
        CHILDREN: lease.child_shard_ids and shard_ids(lease.child_shard_ids),
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
        QUIET: lease.quiet and quiet_until(lease.quiet),
        LAG: lease.lag_report and lag_reported(lease.lag_report, lease.checkpoint),
        SEEN: lease.lag_history and seen_before(lease.lag_history),
        FAILING: lease.failing and failing_with(lease.failing, lease.checkpoint),
        HOLDER: lease.holder and text(lease.holder),
        HOLDER_COUNTER: None if lease.holder_counter is None else number(lease.holder_counter),
        **crashes_at(lease.checkpoint, lease.crashes),
        ATTEMPTS: (lease.attempts or lease.tried or lease.noted_ahead)
        and attempts_after(lease.checkpoint, lease.attempts, lease.tried),
        AHEAD: lease.noted_ahead
        and finished_beyond(lease.noted_ahead, lease.noted_ahead_counter or 0, lease.position),
    }
    started = starting_at(lease.checkpoint, lease.start_at) if lease.start_at else {}
    return row | {name: value for name, value in optional.items() if value} | started


def _lease_key(text: str) -> str:
    shard_id = own_id(text) if is_of_several(text) else text
    if not _SHARD_ID.fullmatch(shard_id):
        raise Unreadable(f"lease key {text!r:.200} names no shard")
    return text


def _named(shard_ids: frozenset[str], lease_key: str) -> frozenset[str]:
    """Parents or children by their names in the application."""
    return frozenset(beside(shard_id, lease_key) for shard_id in shard_ids) if shard_ids else shard_ids


def _ahead(
    item: Mapping[str, AttributeValue], checkpoint: Checkpoint, start_at: datetime | None
) -> tuple[FinishedAhead | None, int | None]:
    at = Position.of(checkpoint, start_at)
    found = read_ahead_text(text_in(item, AHEAD) or "", *at) if _attempts_of(item, checkpoint) else None
    return found or (None, None)


def _crashes(item: Mapping[str, AttributeValue], checkpoint: Checkpoint) -> int:
    """0 if another worker's progress may have voided the count."""
    count, at = count_in(item, CRASHES), text_in(item, CRASHED_AT)
    return count if at == checkpoint.tail else 0


def _attempts_of(item: Mapping[str, AttributeValue], checkpoint: Checkpoint) -> re.Match[str] | None:
    """Returns None if there are no attempts, or if they belong to another checkpoint."""
    known = _ATTEMPTS.fullmatch(text_in(item, ATTEMPTS) or "")
    return known if known is not None and known[2] == str(checkpoint) else None


def _attempts(item: Mapping[str, AttributeValue], checkpoint: Checkpoint) -> tuple[int, Tried | None]:
    known = _attempts_of(item, checkpoint)
    if known is None:
        return 0, None
    up_to = known[3] and Checkpoint(known[3], int(known[4] or 0))
    return int(known[1]), Tried(up_to, int(known[5] or 1)) if up_to else None


def _quiet(item: Mapping[str, AttributeValue]) -> Quiet | None:
    """Returns None also for a value that we did not write: a shard is then read from its checkpoint, which is never wrong."""
    known = _QUIET.fullmatch(item[QUIET].get("S", ""))
    if known is None:
        return None
    try:
        checkpoint = Checkpoint.parse(known[2], int(known[3] or 0))
        start_at = None if known[4] is None else EPOCH + int(known[4]) * MILLISECOND
        return Quiet(EPOCH + int(known[1]) * MILLISECOND, Position(checkpoint, start_at))
    except MalformedCheckpoint:
        return None


def _hash_key_range(item: Mapping[str, AttributeValue]) -> HashKeyRange | None:
    starting, ending = text_in(item, STARTING_HASH_KEY), text_in(item, ENDING_HASH_KEY)
    return None if starting is None or ending is None else _range_of(starting, ending)


@lru_cache(maxsize=1024)  # a shard's never changes, and each write reads the row again
def _range_of(starting: str, ending: str) -> HashKeyRange:
    are_decimal = starting.isdecimal() and ending.isdecimal() and max(len(starting), len(ending)) <= 39
    if not (are_decimal and int(starting) <= int(ending) <= HASH_KEY_MAX):
        raise Unreadable(
            f"hash key range {starting!r:.50} to {ending!r:.50} is not a pair of decimal 128-bit hash keys in order"
        )
    return HashKeyRange(int(starting), int(ending))
