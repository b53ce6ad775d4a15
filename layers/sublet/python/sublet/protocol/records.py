"""Records: as fetched from a shard (stream records) and as a handler sees them (user records).

A worker makes millions of them. So they are msgspec's structs: made, compared and freed in C, and, since nothing in them can
refer back to them (`gc=False`), no work for the garbage collector, which walks tuples again and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.shard import HASH_KEY_MAX, ChildShard

DATA_MAX = 10 * 2**20
KEY_MAX = 256
"""Kinesis' limits: bytes of a record (where the stream allows so much), characters of a partition key."""


class StreamRecord(Struct, frozen=True, gc=False, rename="pascal"):
    """One record of GetRecords, in whose JSON its fields are SequenceNumber, Data and so on: a plain user record, or a KPL
    aggregate of many."""

    sequence_number: str
    data: bytes
    partition_key: str
    approximate_arrival_timestamp: datetime
    """Millisecond precision, UTC-aware. Kinesis does not promise that it rises with the sequence number."""


class UserRecord(Struct, frozen=True, gc=False):
    """One record as its producer put it. Aggregated ones share their stream record's sequence number and arrival time."""

    data: bytes
    partition_key: str
    sub_sequence_number: int
    """The 0-based position in the aggregate; 0 for a plain record."""
    stream_record: StreamRecord
    explicit_hash_key: str | None = None
    """Decimal, when the producer named one and the record came in an aggregate (Kinesis does not return it for plain records)."""

    @property
    def sequence_number(self) -> str:
        return self.stream_record.sequence_number

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        return self.stream_record.approximate_arrival_timestamp

    @property
    def is_aggregated(self) -> bool:
        """Whether it came in a KPL aggregate: a plain record's data are its stream record's own."""
        return self.data is not self.stream_record.data

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that says: this record, and all before it, are handled."""
        return Checkpoint(self.stream_record.sequence_number, self.sub_sequence_number)


def as_put(records: Iterable[UserRecord]) -> list[UserRecord]:
    """The stream records that they are of, one for each, with its whole data: KPL aggregates as they were put.

    Each stands at the place of its last user record, so that a checkpoint means the same whichever way it was handled: one within
    an aggregate leaves the aggregate to be handled, and one of a whole aggregate is that of its last user record.
    """
    last = {id(record.stream_record): record for record in records}
    return [
        UserRecord(
            of.stream_record.data, of.stream_record.partition_key, of.sub_sequence_number, of.stream_record
        )
        for of in last.values()
    ]


class NewRecord(NamedTuple):
    """A stream record to put. `explicit_hash_key`: decimal; without it the partition key's MD5 places the record."""

    data: bytes
    partition_key: str
    explicit_hash_key: str | None = None


def why_not_put(data: object, partition_key: object, explicit_hash_key: object) -> str | None:
    """What Kinesis would refuse for ever, by its own names; None: it may be put, as far as the record alone tells."""
    if not isinstance(data, bytes):
        return f"data is {'null' if data is None else f'a {type(data).__name__}'}; bytes"
    if len(data) > DATA_MAX:
        return f"data is {len(data)} bytes; at most {DATA_MAX} bytes"
    if not isinstance(partition_key, str) or not 1 <= len(partition_key) <= KEY_MAX:
        return f"partitionKey is {partition_key!r:.300}; 1 to {KEY_MAX} characters"
    if explicit_hash_key is not None and not _is_hash_key(explicit_hash_key):
        return f"explicitHashKey is {explicit_hash_key!r:.300}; a decimal number below 2**128, or null"
    return None


def _is_hash_key(text: object) -> bool:
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal()
    return is_number and len(str(text)) < 40 and int(str(text)) <= HASH_KEY_MAX


class Page(NamedTuple):
    """Records of one shard, as one poll (GetRecords) or one event of a push (SubscribeToShard) brings them."""

    records: tuple[StreamRecord, ...]
    data_bytes: int
    """Of all the records' data: whoever makes the page has them at hand, and a look at each of ten thousand records afterwards
    costs more than to handle them plain."""
    millis_behind_latest: int
    is_shard_end: bool = False
    """Nothing will follow: the shard is closed and this was the last of it. `child_shards` names its children."""
    child_shards: tuple[ChildShard, ...] = ()


class Polled(NamedTuple):
    """A reply to GetRecords. `next_iterator`: None at the shard's end, as Kinesis has it."""

    page: Page
    next_iterator: str | None
