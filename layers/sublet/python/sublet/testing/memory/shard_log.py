"""One shard of a MemoryStream: its records, and the arithmetic of Kinesis' sequence numbers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from datetime import datetime
from itertools import takewhile

from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import ChildShard, HashKeyRange, Shard
from sublet.settings import POLLS_PER_SECOND_MAX

PAGE_BYTES = 10 * 2**20
"""Kinesis: GetRecords returns at most 10 MB, and always at least one record."""

_SEQUENCE_VERSION = 2 << 184  # makes numbers of 56 digits that begin with 49, as the service's do


def sequence_number(shard_number: int, created_at: datetime, position: int, is_short: bool = False) -> int:
    """Rises with the position in the stream, and contains the shard's number, so that another shard's number can be
    refused. Short numbers gain a digit now and then, which Kinesis' own may do too.
    """
    since = 0 if is_short else _SEQUENCE_VERSION | int(created_at.timestamp()) << 148
    return since | position << 80 | shard_number << 4 | 2


class ShardLog:
    """A shard and its records. Positions count from the first record ever put, so trimming does not change them."""

    def __init__(
        self,
        number: int,
        hash_key_range: HashKeyRange,
        created_at: datetime,
        position: int,
        parents: tuple[str, ...] = (),
        short_numbers: bool = False,
    ) -> None:
        self.number = number
        self.shard_id = f"shardId-{number:012}"
        self.hash_key_range = hash_key_range
        self.parents = parents
        self.created_at = created_at
        self.closed_at: datetime | None = None
        self.horizon = created_at
        """Earlier records are trimmed."""
        self.children: tuple[ChildShard, ...] = ()
        self.reads: deque[datetime] = deque(maxlen=POLLS_PER_SECOND_MAX)
        self.readable_at = created_at
        """For throttled streams: the last reads, and when the read limit has recovered from the bytes of the last
        one.
        """
        self._short_numbers = short_numbers
        self._starting_number = sequence_number(number, created_at, position, short_numbers)
        self._last_number = self._starting_number
        self._trimmed = 0
        self._dropped_bytes = 0
        self._records: list[StreamRecord] = []
        self._arrivals: list[datetime] = []
        """Arrival times by the service's own clock, which retention uses."""
        self._numbers: list[int] = []
        self._ends: list[int] = []
        """Cumulative bytes up to and including each record: a page's size is a difference, found by bisection."""
        self._data_ends: list[int] = []
        """The ends of the data alone, without keys."""

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    @property
    def end(self) -> int:
        """The position after the last record."""
        return self._trimmed + len(self._records)

    @property
    def newest(self) -> StreamRecord | None:
        """The last record, if it is not trimmed."""
        return self._records[-1] if self._records else None

    def shard(self) -> Shard:
        parent, adjacent = (*self.parents, None, None)[:2]
        return Shard(self.shard_id, self.hash_key_range, parent, adjacent, str(self._starting_number), self.is_open)

    def child(self) -> ChildShard:
        return ChildShard(self.shard_id, frozenset(self.parents), self.hash_key_range)

    def append(self, partition_key: str | None, data: bytes, arrival: datetime, stamp: datetime, position: int) -> str:
        """`stamp`: its approximate arrival time. Returns the sequence number."""
        number = sequence_number(self.number, self.created_at, position, self._short_numbers)
        self._records.append(StreamRecord(str(number), data, partition_key, stamp))
        self._arrivals.append(arrival)
        self._numbers.append(number)
        self._last_number = number
        self._ends.append(self._bytes_before(len(self._ends)) + len(data) + len((partition_key or "").encode()))
        self._data_ends.append((self._data_ends[-1] if self._data_ends else 0) + len(data))
        return str(number)

    def owns(self, number: int) -> bool:
        """Whether this shard has assigned the sequence number, or may still assign it."""
        is_ours = (number >> 4) & (2**76 - 1) == self.number and number & 15 == 2
        return is_ours and number >= self._starting_number and (number <= self._last_number or self.is_open)

    def continuation(self, position: int, unused: int) -> int:
        """A sequence number before the record at the position, and after all earlier records. If there is no record,
        the number of a position that no record has; in a closed shard, that of the last record.
        """
        index = max(position - self._trimmed, 0)
        if index < len(self._numbers):
            return self._numbers[index] - (1 << 80)
        if self.is_open:
            self._last_number = sequence_number(self.number, self.created_at, unused, self._short_numbers)
        return self._last_number

    def position_at(self, number: int) -> int:
        """The position of the record, or of the oldest one left if it is trimmed."""
        return self._trimmed + bisect_left(self._numbers, number)

    def position_after(self, number: int) -> int:
        return self._trimmed + bisect_right(self._numbers, number)

    def position_at_time(self, moment: datetime) -> int:
        """The position of the first record with this arrival time or a later one."""
        later = (i for i, r in enumerate(self._records) if r.approximate_arrival_timestamp >= moment)
        return self._trimmed + next(later, len(self._records))

    def moment_of(self, number: int) -> datetime:
        """The arrival time of the last record up to this number; the horizon if that is trimmed or never existed."""
        index = bisect_right(self._numbers, number) - 1
        return self.horizon if index < 0 else self._records[index].approximate_arrival_timestamp

    def read(
        self, position: int, limit: int, until: datetime | None = None
    ) -> tuple[tuple[StreamRecord, ...], int, int]:
        """The records from the position on that arrived by `until`, within Kinesis' limits; the bytes of their data;
        and the position after them.
        """
        first = max(position - self._trimmed, 0)
        within_bytes = bisect_right(self._ends, self._bytes_before(first) + PAGE_BYTES)
        last = min(max(within_bytes, first + 1), first + limit)
        records = tuple(self._records[first:last])
        if until is not None and records and records[-1].approximate_arrival_timestamp > until:
            records = tuple(takewhile(lambda record: record.approximate_arrival_timestamp <= until, records))
        last = first + len(records)
        return records, self._data_bytes(first, last), self._trimmed + last

    def bytes_between(self, position: int, end: int) -> int:
        """The bytes of the records from one position up to another, as they count against the read limit."""
        return self._bytes_before(max(end - self._trimmed, 0)) - self._bytes_before(max(position - self._trimmed, 0))

    def arrival_at(self, position: int) -> datetime | None:
        """The arrival time of the record at the position; None after the last one."""
        index = max(position - self._trimmed, 0)
        return self._records[index].approximate_arrival_timestamp if index < len(self._records) else None

    def trim(self, before: datetime) -> None:
        """Drop the records that arrived before the moment, up to the first that did not."""
        kept = bisect_left(self._arrivals, before)
        self.horizon = max(self.horizon, before)
        self._dropped_bytes = self._bytes_before(kept)
        del self._records[:kept], self._numbers[:kept], self._ends[:kept], self._data_ends[:kept]
        del self._arrivals[:kept]
        self._trimmed += kept

    def _data_bytes(self, first: int, last: int) -> int:
        if first == last:
            return 0
        return self._data_ends[last - 1] - self._data_ends[first] + len(self._records[first].data)

    def _bytes_before(self, index: int) -> int:
        return self._ends[index - 1] if index else self._dropped_bytes
