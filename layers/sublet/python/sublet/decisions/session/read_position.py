"""Where to read a shard from, given its lease, and which records to skip as handled before.

KCL opens a numeric checkpoint AT_SEQUENCE_NUMBER and drops what is not after (sequence number, sub-sequence number), so
that the rest of a half-handled aggregate is not lost. We do exactly the same: nothing but the checkpoint decides.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, Checkpoint, Sentinel
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.records import Page, StreamRecord, UserRecord
from sublet.settings import StartPosition

SHORTEST_RETENTION = timedelta(hours=24)
"""Kinesis: retention is 24 hours to 365 days, so nothing younger is ever trimmed."""

MILLISECOND = timedelta(milliseconds=1)

ASKED_EVERY = timedelta(minutes=1)

CLOCKS_DIFFER_BY = timedelta(hours=1)
"""The most by which two clocks differ: that of the worker that wrote a time, and that of the worker that reads it."""

LONGEST_RETENTION = timedelta(days=365)
"""Nothing older is ever kept, so a time this long ago is the beginning of any shard."""


class IteratorType(StrEnum):
    """Kinesis' ShardIteratorType."""

    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"
    AT_SEQUENCE_NUMBER = "AT_SEQUENCE_NUMBER"
    AFTER_SEQUENCE_NUMBER = "AFTER_SEQUENCE_NUMBER"


class ReadPosition(Struct, frozen=True):
    """The arguments of GetShardIterator. `sequence_number` belongs to the last two types, `at` (UTC-aware) to
    AT_TIMESTAMP.

    A `sequence_number` beside `at` is one that this shard must have assigned, as for the other types. A time alone fits
    any stream.
    """

    type: IteratorType
    sequence_number: str | None = None
    at: datetime | None = None


class PinnedStart(Struct, frozen=True):
    """The lease starts at a moment that its row does not hold yet: store `at` first, then open AT_TIMESTAMP from there.

    Without the pin, records are lost if a window ends before the first record and the next one opens LATEST again (not
    in KCL, whose workers never leave).
    """

    at: datetime


def needs_pin(
    lease: Lease,
    parents: Collection[Lease | MalformedRow | None],
    start_position: StartPosition,
    service_time: datetime,
) -> PinnedStart | None:
    """The pin to store before the shard is first opened, or None. `parents`: the rows of the lease's parents, None for
    a parent without a row.

    A LATEST lease is pinned at `service_time`, by the service's clock (our own may be ahead, and would skip what
    arrives meanwhile). If a parent has a lease, it is pinned at its shard's beginning, since the children of a consumed
    shard are consumed whole. An AT_TIMESTAMP lease by a Java worker has its time only in Java's configuration: it is
    pinned at our own start position's time, and left to `read_position` if we have none.
    """
    if lease.start_at is not None:
        return None
    if lease.checkpoint == LATEST:
        return PinnedStart(
            service_time if all(parent is None for parent in parents) else service_time - LONGEST_RETENTION
        )
    if lease.checkpoint == AT_TIMESTAMP and start_position.at is not None:
        return PinnedStart(start_position.at)
    return None


def is_unopened(lease: Lease) -> bool:
    """Whether the lease is at LATEST and no worker of ours has pinned it. Only the KCL that may read it knows how far
    it is; older records in the stream do not count as waiting.
    """
    return lease.checkpoint == LATEST and lease.start_at is None


def read_position(lease: Lease) -> ReadPosition | None:
    """Where to open the lease's shard. None: it has ended.

    An AT_TIMESTAMP or LATEST lease without a stored time opens at TRIM_HORIZON: too much is better than a gap.
    """
    match lease.checkpoint.sentinel:
        case Sentinel.SHARD_END:
            return None
        case None:
            return ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number=lease.checkpoint.sequence_number)
        case Sentinel.AT_TIMESTAMP | Sentinel.LATEST if lease.start_at is not None:
            return ReadPosition(IteratorType.AT_TIMESTAMP, at=lease.start_at)
        case _:
            return ReadPosition(IteratorType.TRIM_HORIZON)


def after(sequence_number: str) -> ReadPosition:
    """Where to go on when an iterator has expired and this was the last stream record fetched."""
    return ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, sequence_number=sequence_number)


def may_have_lost(lease: Lease, first: StreamRecord | None, now: datetime) -> bool:
    """Whether records after the checkpoint may have been trimmed unread. `first`: the first stream record read; None if
    there was none up to the tip or the shard's end.

    Opened AT_SEQUENCE_NUMBER, Kinesis returns the checkpointed record again; if it does not, that record has been
    trimmed. Opened at a time before which nothing new arrived, it need not return it: then ask for the record itself.

    Nothing can be lost if the shard was read to its tip less than the shortest retention ago.
    """
    if not lease.checkpoint.is_sequence_number:
        return False
    if first is not None and int(first.sequence_number) <= int(lease.checkpoint.sequence_number):
        return False
    known = max((at for at in (lease.caught_up_at, lease.quiet_until) if at is not None), default=None)
    return known is None or now - known >= SHORTEST_RETENTION - CLOCKS_DIFFER_BY


def shows_what_follows(page: Page) -> bool:
    """Whether the page shows what comes next in the shard, or that nothing does. An empty page far behind the tip shows
    neither.
    """
    return bool(page.records) or page.is_shard_end or page.millis_behind_latest == 0


class RetentionEvidence(Struct, frozen=True):
    """What a reader knows about retention, whose length it does not know.

    last          sequence number of the last stream record it has read
    unread_since  all records that arrived before this have been read
    asked_at      when its last record was last found to be still there
    """

    last: str | None = None
    unread_since: datetime | None = None
    asked_at: datetime | None = None

    def in_doubt(self, polled_at: datetime) -> str | None:
        """The record to ask for, before we trust that this poll's page follows it; None if there is no need to ask.

        Unread records may have passed the shortest retention: a page was held for a day, or the reader is as slow as
        retention. A replay of a week asks once a minute. What is trimmed within that minute is reported with what is
        trimmed later.
        """
        if self.unread_since is None or polled_at - self.unread_since <= SHORTEST_RETENTION - CLOCKS_DIFFER_BY:
            return None
        is_believed = self.asked_at is not None and polled_at - self.asked_at < ASKED_EVERY
        return None if is_believed else self.last

    def with_proof(self, polled_at: datetime) -> RetentionEvidence:
        """The record in doubt is still there, so nothing is missing yet. Trimming may be late, and younger records may
        go soon.
        """
        return replace(self, asked_at=polled_at)


NOTHING_READ = RetentionEvidence()


def after_page(kept: RetentionEvidence, page: Page, polled_at: datetime) -> RetentionEvidence:
    """Returns what is known after a page that `shows_what_follows`, polled at this time; by the service's clock if the
    page has its time.
    """
    last = page.records[-1].sequence_number if page.records else kept.last
    at = page.answered_at or polled_at
    return RetentionEvidence(last, at - page.millis_behind_latest * MILLISECOND, kept.asked_at)


def not_yet_handled(records: list[UserRecord], checkpoint: Checkpoint) -> list[UserRecord]:
    """Drop the records at or before the checkpoint, which AT_SEQUENCE_NUMBER returns again. Records are in order."""
    if not checkpoint.is_sequence_number:
        return records
    handled = int(checkpoint.sequence_number)
    for index, record in enumerate(records):
        sequence_number = int(record.sequence_number)
        if sequence_number > handled or (
            sequence_number == handled and record.sub_sequence_number > checkpoint.sub_sequence_number
        ):
            return records[index:] if index else records
    return []
