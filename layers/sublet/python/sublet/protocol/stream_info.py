"""A stream and an account's streams, as Kinesis describes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from sublet.protocol.records import RECORD_MAX, NewRecord
from sublet.protocol.stream_identity import StreamIdentity


class StreamMode(StrEnum):
    """Kinesis' StreamMode."""

    PROVISIONED = "PROVISIONED"
    """A fixed number of shards, until it is changed."""
    ON_DEMAND = "ON_DEMAND"
    """Kinesis splits and merges by itself."""


class RecordDistribution(StrEnum):
    """Kinesis' RecordDistributionStrategy: what decides which shard a record goes to. It may be changed on an on-demand
    stream at any time, with immediate effect (UpdateStreamRecordDistributionStrategy).
    """

    AUTO = "AUTO"
    """Kinesis decides, whatever the partition key, which a record need not have."""
    USER_PARTITION_KEY = "USER_PARTITION_KEY"
    """The record's partition key or explicit hash key decides."""


class StreamDescription(Struct, frozen=True):
    """What consumers need to know from DescribeStreamSummary.

    at            when Kinesis answered, by its own clock, which arrival times use too
    retention     how long records are kept
    distribution  None: not known, since the reply does not say
    """

    identity: StreamIdentity
    at: datetime
    retention: timedelta
    distribution: RecordDistribution | None


_NEVER = datetime.min.replace(tzinfo=UTC)


class Placement(Struct, frozen=True):
    """What is known about how a stream's records are placed.

    last          the last description; None: there is none, or the role may not ask for it
    auto_seen_at  until when Kinesis may have placed records: when a description last said AUTO, or when the first one
                  after it said something else; the latest of all the application's processes, by Kinesis' clock
    """

    last: StreamDescription | None = None
    auto_seen_at: datetime | None = None

    def with_description(self, found: StreamDescription) -> Placement:
        """Adds a description. Between one with AUTO and the next one, Kinesis may have placed records."""
        may_be_auto = found.distribution is RecordDistribution.AUTO or self._may_have_been_auto
        return Placement(found, _newest(self.auto_seen_at, found.at if may_be_auto else None))

    def with_auto_seen(self, at: datetime | None) -> Placement:
        return Placement(self.last, _newest(self.auto_seen_at, at))

    def merged(self, other: Placement) -> Placement:
        """Merges what two processes know."""
        older, newer = (self, other) if _at(self.last) <= _at(other.last) else (other, self)
        known = older.with_auto_seen(newer.auto_seen_at)
        return known if newer.last is None or newer.last == older.last else known.with_description(newer.last)

    @property
    def is_auto(self) -> bool:
        """Whether the last description said AUTO."""
        return self.last is not None and self.last.distribution is RecordDistribution.AUTO

    @property
    def _may_have_been_auto(self) -> bool:
        """Whether the stream may have been AUTO after the last description: it said AUTO, or it did not say and an
        earlier one said AUTO.
        """
        return self.is_auto or (
            self.auto_seen_at is not None and self.last is not None and self.last.distribution is None
        )


NOT_DESCRIBED = Placement()
"""Nothing is known, and nothing is dropped."""

MAX_RECORD_KIB = 1024
"""Kinesis' default for a stream (UpdateMaxRecordSize changes it, up to 10,240)."""

ACTIVE = "ACTIVE"
"""Kinesis' StreamStatus of a stream that may be changed."""


class StreamInfo(Struct, frozen=True):
    """`open_shards` accept records; closed ones may still hold some. `key`: the KMS key that encrypts its records.
    `max_record_kib`: Kinesis' MaxRecordSizeInKiB, of a record's data and partition key together.
    """

    name: str
    identity: StreamIdentity
    status: str
    mode: StreamMode
    open_shards: int
    retention: timedelta
    key: str | None = None
    max_record_kib: int = MAX_RECORD_KIB


def why_too_large(record: NewRecord, stream: StreamInfo) -> str | None:
    """Why the stream refuses this record for its size, though another stream might accept it; None if it is not too
    large.
    """
    if record.size <= stream.max_record_kib * 1024:
        return None
    return (
        f"stream {stream.name} takes no record of {record.size:,} bytes: its MaxRecordSizeInKiB is "
        f"{stream.max_record_kib:,}, of data and partition key together; raise it (UpdateMaxRecordSize), up to "
        f"{RECORD_MAX // 1024:,}"
    )


class AccountInfo(Struct, frozen=True):
    """The usage and limits of the account's streams in this region: shards of provisioned streams, and on-demand
    streams.
    """

    open_shards: int
    shard_limit: int
    on_demand_streams: int
    on_demand_stream_limit: int


class PutRecord(Struct, frozen=True):
    """Where a record was put."""

    shard_id: str
    sequence_number: str


def _at(description: StreamDescription | None) -> datetime:
    return _NEVER if description is None else description.at


def _newest(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)
