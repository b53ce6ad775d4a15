"""Records: as fetched from a shard (stream records) and as a handler sees them (user records).

Both are tuples because a worker makes millions of them: a tuple is the cheapest immutable value that Python has.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.shard import ChildShard


class StreamRecord(NamedTuple):
    """One record of GetRecords: a plain user record, or a KPL aggregate of many."""

    sequence_number: str
    data: bytes
    partition_key: str
    approximate_arrival_timestamp: datetime
    """Millisecond precision, UTC-aware. Kinesis does not promise that it rises with the sequence number."""


class UserRecord(NamedTuple):
    """One record as its producer put it. Aggregated ones share their stream record's sequence number and arrival time."""

    data: bytes
    partition_key: str
    explicit_hash_key: str | None
    """Decimal, when the producer named one and the record came in an aggregate (Kinesis does not return it for plain records)."""
    sub_sequence_number: int
    """The 0-based position in the aggregate; 0 for a plain record."""
    stream_record: StreamRecord

    @property
    def sequence_number(self) -> str:
        return self.stream_record.sequence_number

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        return self.stream_record.approximate_arrival_timestamp

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that says: this record, and all before it, are handled."""
        return Checkpoint(self.stream_record.sequence_number, self.sub_sequence_number)


class _Row(tuple[Any, ...]):
    """A tuple that is made by tuple's own constructor."""

    __slots__ = ()


class RowUserRecord(_Row, UserRecord):
    """A UserRecord made of one row, the tuple of its fields, at two thirds of the cost: deaggregation makes millions.

    To whoever reads, prints or pickles one it is a UserRecord. It is made wholly in C because of its first base:
    a class inherits its constructor from there, and NamedTuple's is a function of Python.
    """

    __slots__ = ()
    __new__ = tuple.__new__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(UserRecord(*self))

    def __reduce__(self) -> tuple[type[UserRecord], tuple[object, ...]]:
        return UserRecord, tuple(self)


class NewRecord(NamedTuple):
    """A stream record to put. `explicit_hash_key`: decimal; without it the partition key's MD5 places the record."""

    data: bytes
    partition_key: str
    explicit_hash_key: str | None = None


class Page(NamedTuple):
    """What one poll (GetRecords) gave."""

    records: tuple[StreamRecord, ...]
    data_bytes: int
    """Of all the records' data: whoever makes the page has them at hand, and a look at each of ten thousand records afterwards
    costs more than to handle them plain."""
    next_iterator: str | None
    """None at the end of a closed shard: `child_shards` then names its children."""
    millis_behind_latest: int
    child_shards: tuple[ChildShard, ...] = ()
