"""Where to read a shard from, given its lease, and what to skip of what was handled before.

KCL opens a numeric checkpoint AT_SEQUENCE_NUMBER and drops what is not after (sequence number, sub-sequence number), so that
the rest of a half-handled aggregate is not lost. We do the same, and only then: a checkpoint is the whole truth.
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
"""At most, between the worker that wrote a moment down and the one that reads it."""

LONGEST_RETENTION = timedelta(days=365)
"""Nor is anything older ever there: a moment so long ago is any shard's beginning."""


class IteratorType(StrEnum):
    """Kinesis' ShardIteratorType."""

    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_TIMESTAMP = "AT_TIMESTAMP"
    AT_SEQUENCE_NUMBER = "AT_SEQUENCE_NUMBER"
    AFTER_SEQUENCE_NUMBER = "AFTER_SEQUENCE_NUMBER"


class ReadPosition(Struct, frozen=True):
    """The arguments of GetShardIterator. `sequence_number` goes with the last two types, `at` (UTC-aware) with AT_TIMESTAMP.

    A `sequence_number` beside `at`: one that the shard must have given, as for the other types. A moment alone fits any stream.
    """

    type: IteratorType
    sequence_number: str | None = None
    at: datetime | None = None


class Pin(Struct, frozen=True):
    """The lease starts at a moment that its row does not name yet: store `at` first, then open AT_TIMESTAMP from there.

    Without this a window that ends before the first record, and the next one opening LATEST again, lose what arrived in
    between (not in KCL: its workers never leave).
    """

    at: datetime


def needs_pin(
    lease: Lease,
    parents: Collection[Lease | MalformedRow | None],
    start_position: StartPosition,
    service_time: datetime,
) -> Pin | None:
    """The pin to store before the first open, or None. `parents`: the rows of the lease's parents, None for one without.

    A LATEST lease is pinned at `service_time`, a moment by the service's clock (our own may be ahead of it, and would lose what
    arrives meanwhile); when a parent has a lease, at its shard's beginning, since what follows on a shard
    that is consumed is consumed whole. An AT_TIMESTAMP lease by a Java worker has its moment in Java's configuration alone:
    it is pinned at our own start position's moment, and left to `read_position` when we have none.
    """
    if lease.start_at is not None:
        return None
    if lease.checkpoint == LATEST:
        return Pin(
            service_time if all(parent is None for parent in parents) else service_time - LONGEST_RETENTION
        )
    if lease.checkpoint == AT_TIMESTAMP and start_position.at is not None:
        return Pin(start_position.at)
    return None


def read_position(lease: Lease) -> ReadPosition | None:
    """Where to open the lease's shard. None: nothing to open, since it has ended.

    An AT_TIMESTAMP or LATEST lease without a moment opens at TRIM_HORIZON: too much is better than a gap.
    """
    match lease.checkpoint.sentinel:
        case Sentinel.SHARD_END:
            return None
        case None:
            return ReadPosition(
                IteratorType.AT_SEQUENCE_NUMBER, sequence_number=lease.checkpoint.sequence_number
            )
        case Sentinel.AT_TIMESTAMP | Sentinel.LATEST if lease.start_at is not None:
            return ReadPosition(IteratorType.AT_TIMESTAMP, at=lease.start_at)
        case _:
            return ReadPosition(IteratorType.TRIM_HORIZON)


def after(sequence_number: str) -> ReadPosition:
    """Where to go on when an iterator has expired and this was the last stream record fetched."""
    return ReadPosition(IteratorType.AFTER_SEQUENCE_NUMBER, sequence_number=sequence_number)


def may_have_lost(lease: Lease, first: StreamRecord | None, now: datetime) -> bool:
    """Whether records after the checkpoint may have been trimmed unread. `first`: the first stream record read; None where there
    was none up to the tip, or to the shard's end.

    Opened AT_SEQUENCE_NUMBER, Kinesis gives the checkpointed record again; if it does not, that one has been trimmed. Opened at a
    moment since which alone there may be any, it need not give it: then the record is to be asked for.
    Only on a shard in which nothing was left to be read less than the shortest retention ago is nothing lost in any case.
    """
    if not lease.checkpoint.is_sequence_number:
        return False
    if first is not None and int(first.sequence_number) <= int(lease.checkpoint.sequence_number):
        return False
    known = max((at for at in (lease.caught_up_at, lease.quiet_until) if at is not None), default=None)
    return known is None or now - known >= SHORTEST_RETENTION - CLOCKS_DIFFER_BY


def shows_what_follows(page: Page) -> bool:
    """Whether what comes next in the shard is in it, or that nothing does. An empty page far behind the tip says neither."""
    return bool(page.records) or page.is_shard_end or page.millis_behind_latest == 0


class Kept(Struct, frozen=True):
    """What a reader knows of retention, whose length it is not told.

    last        the last stream record that it was given
    unread_since   nothing is unread that arrived before
    asked_at    when the record that was read last was found to be there
    """

    last: str | None = None
    unread_since: datetime | None = None
    asked_at: datetime | None = None

    def in_doubt(self, polled_at: datetime) -> str | None:
        """The record to ask for before the page of this poll is believed to follow it: what was unread may have become older
        than what is kept for certain. A page that was held for a day, or a reader that is as slow as retention; a replay of a
        week asks once a minute, and what retention takes within that minute is told with what it takes later.
        """
        if (
            self.unread_since is None
            or polled_at - self.unread_since <= SHORTEST_RETENTION - CLOCKS_DIFFER_BY
        ):
            return None
        is_believed = self.asked_at is not None and polled_at - self.asked_at < ASKED_EVERY
        return None if is_believed else self.last

    def with_proof(self, polled_at: datetime) -> Kept:
        """The record in doubt is there, so nothing is missing yet. Retention may be late: what is younger may go before long."""
        return replace(self, asked_at=polled_at)


NOTHING_READ = Kept()


def after_page(kept: Kept, page: Page, polled_at: datetime) -> Kept:
    """With a page that `shows_what_follows`, polled at this moment; by the service's clock where it tells."""
    last = page.records[-1].sequence_number if page.records else kept.last
    at = page.answered_at or polled_at
    return Kept(last, at - page.millis_behind_latest * MILLISECOND, kept.asked_at)


def not_yet_handled(records: list[UserRecord], checkpoint: Checkpoint) -> list[UserRecord]:
    """Drop the records at or before the checkpoint, which AT_SEQUENCE_NUMBER brings again. Records are in order."""
    if not checkpoint.is_sequence_number:
        return records
    handled = int(checkpoint.sequence_number)
    for index, record in enumerate(records):
        sequence_number = int(record.sequence_number)
        if sequence_number > handled or (
            sequence_number == handled and record.sub_sequence_number > checkpoint.sub_sequence_number
        ):
            return records[index:]
    return []
