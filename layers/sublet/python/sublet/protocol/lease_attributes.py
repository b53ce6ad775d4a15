"""The attributes of a lease's row: all that KCL 2.x and 3.x write, and our own, and how each value is written.

Types and names are KCL's (its DynamoDBLeaseSerializer). Ours start with `sublet`; Java ignores attributes that it does
not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sublet.protocol.checkpoint import AT_TIMESTAMP, Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead, ahead_text
from sublet.protocol.handler_failure import HandlerFailure, failure_text
from sublet.protocol.lag_history import LagSeen, lag_history_text
from sublet.protocol.lag_report import LagReport, lag_text
from sublet.protocol.lease import AttemptedRecords, AttributeValue, Position, QuietUntil
from sublet.protocol.row_values import EPOCH, MILLISECOND
from sublet.protocol.stream_key import own_id, stream_key_of

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
"""`account:stream:creation epoch`, only in an application of several streams. KCL has kept an old name for the
attribute.
"""

SHARD_ID = "shardId"
"""The shard's own id, only in an application of several streams. Parents and children have their own ids in every
row.
"""

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
followed by `/<lanes>` if the shard's records were handled in parallel. With 0 attempts: how far a failing batch has
been narrowed down. An owner that does not know the attribute, such as Java's, leaves it in place when it checkpoints.
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
"""A HandlerFailure. Java, an operator or version 0.2 may move the checkpoint and leave the failure, which then names
another checkpoint and is void.
"""

UNANSWERED = "subletUnanswered"
"""`<time>@<counter>`: since when the owner's reads have got no answer, in epoch milliseconds, according to its write
that left this counter. Every other write voids it.
"""

TROUBLES = (CRASHES, CRASHED_AT, ATTEMPTS, AHEAD, FAILING)
"""The attributes that progress clears."""

ROW_BYTES_MAX = 1000
"""Writing an item of more than 1 KB costs twice as much."""

PENDING = (PENDING_CHECKPOINT, PENDING_SUB_SEQUENCE_NUMBER, PENDING_STATE)
LEASE_ENTITY = "LEASE"

OF_ONE_STREAM = frozenset(
    {
        LEASE_KEY,
        LEASE_OWNER,
        LEASE_COUNTER,
        OWNER_SWITCHES,
        CHECKPOINT,
        SUB_SEQUENCE_NUMBER,
        PARENTS,
        CHILDREN,
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
        UNANSWERED,
        HOLDER,
        HOLDER_COUNTER,
        *TROUBLES,
    }
)
"""The attributes of a lease in an application of one stream."""

OF_SEVERAL_STREAMS = OF_ONE_STREAM | {STREAM_NAME, SHARD_ID}


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


def attempts_after(checkpoint: Checkpoint, attempts: int, tried: AttemptedRecords | None) -> AttributeValue:
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


def quiet_until(quiet: QuietUntil) -> AttributeValue:
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


def unanswered(since: datetime, counter: int) -> AttributeValue:
    """`counter`: after the write that notes it."""
    return text(f"{_millis(since)}@{counter}")


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
