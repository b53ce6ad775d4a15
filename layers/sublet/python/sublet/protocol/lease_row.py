"""A lease as a row of KCL's table (`lease_attributes`), both ways.

Attributes unknown to us are kept in `Lease.other`, so that reading and writing a row loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from sublet.errors import MalformedCheckpoint
from sublet.protocol import lease_attributes as attributes
from sublet.protocol.checkpoint import Checkpoint, Sentinel
from sublet.protocol.finished_ahead import FinishedAhead, read_ahead_text
from sublet.protocol.handler_failure import read_failure_text
from sublet.protocol.lag_history import read_lag_history
from sublet.protocol.lag_report import read_lag_text
from sublet.protocol.lease import AttemptedRecords, AttributeValue, Lease, MalformedRow, Position, QuietUntil
from sublet.protocol.lease_attributes import (
    attempts_after,
    crashes_at,
    failing_with,
    finished_beyond,
    lag_reported,
    moment,
    number,
    of_stream,
    quiet_until,
    seen_before,
    shard_ids,
    starting_at,
    text,
    throughput,
    unanswered,
)
from sublet.protocol.row_values import (
    EPOCH,
    MILLISECOND,
    UnreadableAttribute,
    count_in,
    fraction_in,
    moment_in,
    number_in,
    required,
    text_in,
    texts_in,
)
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.protocol.stream_key import beside, is_of_several, own_id

_NOTHING_ELSE: Mapping[str, AttributeValue] = MappingProxyType({})
_SHARD_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ATTEMPTS = re.compile(r"(\d{1,9})@([^.]+)(?:\.\.([1-9]\d{0,128}|0)(?::(\d{1,18}))?(?:/(\d{1,9}))?)?")
_UNANSWERED = re.compile(r"(\d{1,14})@(\d{1,18})")
_QUIET = re.compile(r"(\d{1,14})@([^:/]{1,129})(?::(\d{1,18}))?(?:/(\d{1,14}))?")


def is_lease_row(item: Mapping[str, AttributeValue]) -> bool:
    """KCL 3.5 keeps other entities in the lease table; a row without the attribute is a lease (KCL 2.x, 3.0)."""
    entity = item.get(attributes.ENTITY_TYPE)
    return entity is None or entity.get("S") == attributes.LEASE_ENTITY


def decode_row(item: Mapping[str, AttributeValue]) -> Lease | MalformedRow | None:
    """The lease in a row; MalformedRow for one that KCL could not have written.

    None for a row that is not a lease: of another entityType, and without a checkpoint.
    """
    is_lease = is_lease_row(item)
    if not is_lease and attributes.CHECKPOINT not in item:
        return None
    try:
        if is_lease:
            return _decode(item)
        problem = (
            f"attribute {attributes.ENTITY_TYPE} is {dict(item[attributes.ENTITY_TYPE])!r:.80}, but it has a checkpoint"
        )
    except (UnreadableAttribute, MalformedCheckpoint) as unreadable:
        problem = str(unreadable)
    return MalformedRow(str(item.get(attributes.LEASE_KEY, {}).get("S", "")), problem)


def _decode(item: Mapping[str, AttributeValue]) -> Lease:
    stored = text_in(item, attributes.CHECKPOINT)
    sub = number_in(item, attributes.SUB_SEQUENCE_NUMBER) or 0
    start_at = moment_in(item, attributes.START_AT)
    if start_at is None and stored == Sentinel.AT_TIMESTAMP and sub > 0:
        start_at = moment_in(item, attributes.SUB_SEQUENCE_NUMBER)  # kcl-rust keeps the time here
    pending = text_in(item, attributes.PENDING_CHECKPOINT)
    lease_key = _lease_key(required(text_in(item, attributes.LEASE_KEY), attributes.LEASE_KEY))
    checkpoint = Checkpoint.parse(required(stored, attributes.CHECKPOINT), sub)
    attempts, tried = _attempts(item, checkpoint) if attributes.ATTEMPTS in item else (0, None)
    ahead, ahead_counter = _ahead(item, checkpoint, start_at) if attributes.AHEAD in item else (None, None)
    known = attributes.OF_SEVERAL_STREAMS if is_of_several(lease_key) else attributes.OF_ONE_STREAM
    return Lease(
        lease_key=lease_key,
        checkpoint=checkpoint,
        lease_counter=required(number_in(item, attributes.LEASE_COUNTER), attributes.LEASE_COUNTER),
        lease_owner=text_in(item, attributes.LEASE_OWNER) or None,
        owner_switches_since_checkpoint=count_in(item, attributes.OWNER_SWITCHES),
        parent_shard_ids=_named(texts_in(item, attributes.PARENTS), lease_key),
        child_shard_ids=_named(texts_in(item, attributes.CHILDREN), lease_key),
        hash_key_range=_hash_key_range(item),
        start_at=start_at,
        caught_up_at=moment_in(item, attributes.CAUGHT_UP_AT),
        quiet=_quiet(item) if attributes.QUIET in item else None,
        lag_report=read_lag_text(item[attributes.LAG].get("S", ""), checkpoint) if attributes.LAG in item else None,
        lag_history=read_lag_history(item[attributes.SEEN].get("S", "")) if attributes.SEEN in item else (),
        unanswered_since=_unanswered_since(item) if attributes.UNANSWERED in item else None,
        failing=read_failure_text(item[attributes.FAILING].get("S", ""), checkpoint)
        if attributes.FAILING in item
        else None,
        holder=text_in(item, attributes.HOLDER) or None,
        holder_counter=number_in(item, attributes.HOLDER_COUNTER),
        crashes=_crashes(item, checkpoint) if attributes.CRASHES in item else 0,
        attempts=attempts,
        tried=tried,
        noted_ahead=ahead,
        noted_ahead_counter=ahead_counter,
        checkpoint_owner=text_in(item, attributes.CHECKPOINT_OWNER) or None,
        pending_checkpoint=Checkpoint.parse(pending, number_in(item, attributes.PENDING_SUB_SEQUENCE_NUMBER) or 0)
        if pending
        else None,
        pending_checkpoint_state=item[attributes.PENDING_STATE].get("B") if attributes.PENDING_STATE in item else None,
        throughput_kbps=fraction_in(item, attributes.THROUGHPUT),
        other=_NOTHING_ELSE
        if item.keys() <= known
        else MappingProxyType({name: value for name, value in item.items() if name not in known}),
    )


def encode_row(lease: Lease) -> dict[str, AttributeValue]:
    """The row of a lease; absent values become absent attributes, never empty strings or NULLs (KCL)."""
    row: dict[str, AttributeValue] = {
        **lease.other,
        attributes.LEASE_KEY: text(lease.lease_key),
        **of_stream(lease.lease_key),
        attributes.LEASE_COUNTER: number(lease.lease_counter),
        attributes.OWNER_SWITCHES: number(lease.owner_switches_since_checkpoint),
        attributes.CHECKPOINT: text(lease.checkpoint.sequence_number),
        attributes.SUB_SEQUENCE_NUMBER: number(lease.checkpoint.sub_sequence_number),
    }
    optional = {
        attributes.LEASE_OWNER: lease.lease_owner and text(lease.lease_owner),
        attributes.PARENTS: lease.parent_shard_ids and shard_ids(lease.parent_shard_ids),
        attributes.CHILDREN: lease.child_shard_ids and shard_ids(lease.child_shard_ids),
        attributes.STARTING_HASH_KEY: lease.hash_key_range and text(str(lease.hash_key_range.starting)),
        attributes.ENDING_HASH_KEY: lease.hash_key_range and text(str(lease.hash_key_range.ending)),
        attributes.PENDING_CHECKPOINT: lease.pending_checkpoint and text(lease.pending_checkpoint.sequence_number),
        attributes.PENDING_SUB_SEQUENCE_NUMBER: lease.pending_checkpoint
        and number(lease.pending_checkpoint.sub_sequence_number),
        attributes.PENDING_STATE: None
        if lease.pending_checkpoint_state is None
        else {"B": lease.pending_checkpoint_state},
        attributes.THROUGHPUT: None if lease.throughput_kbps is None else throughput(lease.throughput_kbps),
        attributes.CHECKPOINT_OWNER: lease.checkpoint_owner and text(lease.checkpoint_owner),
        attributes.CAUGHT_UP_AT: lease.caught_up_at and moment(lease.caught_up_at),
        attributes.QUIET: lease.quiet and quiet_until(lease.quiet),
        attributes.LAG: lease.lag_report and lag_reported(lease.lag_report, lease.checkpoint),
        attributes.SEEN: lease.lag_history and seen_before(lease.lag_history),
        attributes.FAILING: lease.failing and failing_with(lease.failing, lease.checkpoint),
        attributes.UNANSWERED: lease.unanswered_since and unanswered(lease.unanswered_since, lease.lease_counter),
        attributes.HOLDER: lease.holder and text(lease.holder),
        attributes.HOLDER_COUNTER: None if lease.holder_counter is None else number(lease.holder_counter),
        **crashes_at(lease.checkpoint, lease.crashes),
        attributes.ATTEMPTS: (lease.attempts or lease.tried or lease.noted_ahead)
        and attempts_after(lease.checkpoint, lease.attempts, lease.tried),
        attributes.AHEAD: lease.noted_ahead
        and finished_beyond(lease.noted_ahead, lease.noted_ahead_counter or 0, lease.position),
    }
    started = starting_at(lease.checkpoint, lease.start_at) if lease.start_at else {}
    return row | {name: value for name, value in optional.items() if value} | started


def _lease_key(text: str) -> str:
    shard_id = own_id(text) if is_of_several(text) else text
    if not _SHARD_ID.fullmatch(shard_id):
        raise UnreadableAttribute(f"lease key {text!r:.200} names no shard")
    return text


def _named(shard_ids: frozenset[str], lease_key: str) -> frozenset[str]:
    """Parents or children by their names in the application."""
    return frozenset(beside(shard_id, lease_key) for shard_id in shard_ids) if shard_ids else shard_ids


def _ahead(
    item: Mapping[str, AttributeValue], checkpoint: Checkpoint, start_at: datetime | None
) -> tuple[FinishedAhead | None, int | None]:
    at = Position.of(checkpoint, start_at)
    found = read_ahead_text(text_in(item, attributes.AHEAD) or "", *at) if _attempts_of(item, checkpoint) else None
    return found or (None, None)


def _unanswered_since(item: Mapping[str, AttributeValue]) -> datetime | None:
    """None if another write has followed, or if the text is not as we write it: it only informs."""
    known = _UNANSWERED.fullmatch(item[attributes.UNANSWERED].get("S", ""))
    if known is None or int(known[2]) != number_in(item, attributes.LEASE_COUNTER):
        return None
    return EPOCH + int(known[1]) * MILLISECOND


def _crashes(item: Mapping[str, AttributeValue], checkpoint: Checkpoint) -> int:
    """0 if another worker's progress may have voided the count."""
    count, at = count_in(item, attributes.CRASHES), text_in(item, attributes.CRASHED_AT)
    return count if at == checkpoint.tail else 0


def _attempts_of(item: Mapping[str, AttributeValue], checkpoint: Checkpoint) -> re.Match[str] | None:
    """Returns None if there are no attempts, or if they belong to another checkpoint."""
    known = _ATTEMPTS.fullmatch(text_in(item, attributes.ATTEMPTS) or "")
    return known if known is not None and known[2] == str(checkpoint) else None


def _attempts(item: Mapping[str, AttributeValue], checkpoint: Checkpoint) -> tuple[int, AttemptedRecords | None]:
    known = _attempts_of(item, checkpoint)
    if known is None:
        return 0, None
    up_to = known[3] and Checkpoint(known[3], int(known[4] or 0))
    return int(known[1]), AttemptedRecords(up_to, int(known[5] or 1)) if up_to else None


def _quiet(item: Mapping[str, AttributeValue]) -> QuietUntil | None:
    """Returns None also for a value that we did not write: a shard is then read from its checkpoint, which is never
    wrong.
    """
    known = _QUIET.fullmatch(item[attributes.QUIET].get("S", ""))
    if known is None:
        return None
    try:
        checkpoint = Checkpoint.parse(known[2], int(known[3] or 0))
        start_at = None if known[4] is None else EPOCH + int(known[4]) * MILLISECOND
        return QuietUntil(EPOCH + int(known[1]) * MILLISECOND, Position(checkpoint, start_at))
    except MalformedCheckpoint:
        return None


def _hash_key_range(item: Mapping[str, AttributeValue]) -> HashKeyRange | None:
    starting, ending = text_in(item, attributes.STARTING_HASH_KEY), text_in(item, attributes.ENDING_HASH_KEY)
    return None if starting is None or ending is None else _range_of(starting, ending)


@lru_cache(maxsize=1024)  # a shard's never changes, and each write reads the row again
def _range_of(starting: str, ending: str) -> HashKeyRange:
    are_decimal = starting.isdecimal() and ending.isdecimal() and max(len(starting), len(ending)) <= 39
    if not (are_decimal and int(starting) <= int(ending) <= HASH_KEY_MAX):
        raise UnreadableAttribute(
            f"hash key range {starting!r:.50} to {ending!r:.50} is not a pair of decimal 128-bit hash keys in order"
        )
    return HashKeyRange(int(starting), int(ending))
