"""The user records that wait to be put into one shard, and which of them the next PutRecords takes.

Order: with `ordered`, an outbox has either one aggregate in flight or plain records of different partition keys, and
nothing else until Kinesis has answered; refused ones return to its front. So no record overtakes an earlier one of its
key. One aggregate for each round trip is more than a shard's 1 MiB a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from sublet.decisions.load.write_limit import WriteLimit
from sublet.protocol.aggregation import KPL_MAX_BYTES, aggregate
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.kpl_format import OVERHEAD
from sublet.protocol.records import NewRecord, PutRefused

RECORDS_PER_CALL = 500
BYTES_PER_CALL = 10 * 2**20
"""Kinesis' limits for one PutRecords, keys included."""

PLAIN_FULL = 256 * 2**10
"""If an outbox has this many bytes of plain records, they do not wait for more."""

SCANNED_MAX = 2 * RECORDS_PER_CALL
"""How far an outbox is searched for plain records of other partition keys."""

KEY_SIZE_MAX = 4 * 256 + 4
"""The most bytes that a partition key adds to an aggregate: 256 characters of UTF-8, a tag and a length."""

EXPLICIT_KEY_SIZE_MAX = 39 + 3
"""The most bytes that an explicit hash key adds to an aggregate's table: 39 digits, a tag and a length."""


HELD_WITH = 500
"""About how many bytes of memory a waiting record takes beside its own: the future that the program has, the key's
hash, and the places where it is remembered. Measured with records of 10 bytes. A future that somebody waits for takes a
kilobyte more.
"""


class SendReason(StrEnum):
    """Why a call is sent now, the most pressing reason first."""

    RETRY = "retry"
    """Some of its records were refused before, and have waited."""
    FLUSH = "flush"
    """The program has called flush."""
    DUE = "due"
    """Its records have waited for `record_max_buffered_time`."""
    FULL = "full"
    """It is full."""


@dataclass(frozen=True, slots=True)
class ProducerRules:
    """How a producer puts records. The names are the KPL's where it has the setting too.

    ordered             keep the order of each partition key
    rate_limit          share of a shard's write limit to use, such as 1.0; None: no limit
    patience            how long Kinesis may refuse a record, or all of a shard's, until it is given up
    max_connections     calls in flight at once
    max_buffered_bytes  the most memory for records that are not known to be in the stream
    """

    aggregation_enabled: bool = True
    aggregation_max_size: int = KPL_MAX_BYTES
    record_max_buffered_time: timedelta = timedelta(milliseconds=100)
    ordered: bool = True
    rate_limit: float | None = 1.0
    patience: timedelta = timedelta(seconds=30)
    max_connections: int = 8
    max_buffered_bytes: int = 64 * 2**20


class QueuedRecord(Struct):
    """A user record that is not known to be in the stream.

    hash_key    None: it has no partition key, and Kinesis places it
    size        the most bytes that it adds to an aggregate, without its partition key
    key_size    the bytes of its partition key, and of what an aggregate's table adds to it
    arrived_at  by the steady clock, when it was put, or shortly before
    epoch       how many flushes were begun before it was put
    ticket      the caller's own: what it needs to report the outcome
    tried_at    when it was first sent
    trace       the trace context in which it was put; None without a tracer
    """

    data: bytes
    partition_key: str | None
    explicit_hash_key: str | None
    hash_key: int | None
    size: int
    key_size: int
    arrived_at: datetime
    epoch: int
    ticket: object
    tried_at: datetime | None = None
    trace: object = None

    @classmethod
    def of(
        cls,
        data: bytes,
        partition_key: str | None,
        explicit_hash_key: str | None,
        *,
        arrived_at: datetime,
        epoch: int,
        ticket: object,
    ) -> QueuedRecord:
        """Makes the value for a record that passes `why_not_put`."""
        hashed, key_size = None, 0
        if partition_key is not None:
            hashed, key_size = hash_key(partition_key, explicit_hash_key), len(partition_key.encode()) + 4
        size = _aggregated_size(data, explicit_hash_key)
        return cls(data, partition_key, explicit_hash_key, hashed, size, key_size, arrived_at, epoch, ticket)

    @property
    def whole_size(self) -> int:
        return self.size + self.key_size

    @property
    def held_size(self) -> int:
        """The memory that it takes, roughly."""
        return self.size + self.key_size + HELD_WITH


def _aggregated_size(data: bytes, explicit_hash_key: str | None) -> int:
    length = len(data)
    own = 9 if length < 100 else 11 if length < 16_000 else 14
    return length + own + (0 if explicit_hash_key is None else 4 + EXPLICIT_KEY_SIZE_MAX)


@dataclass(slots=True)
class OutboxEntry:
    """One stream record in flight: an aggregate, or a plain record. `size`: no less than Kinesis counts.

    `waiting_for_it`: the outboxes whose order forbids them to send until it is settled. `is_outdated`: `predicted` is
    by an earlier listing.
    """

    predicted: str
    user_records: list[QueuedRecord]
    size: int
    waiting_for_it: tuple[Outbox, ...] = ()
    is_outdated: bool = False

    @property
    def is_aggregate(self) -> bool:
        return len(self.user_records) > 1

    def stream_record(self) -> NewRecord:
        """What is put. An aggregate has the keys of its first user record, so that it lands in that record's shard."""
        first = self.user_records[0]
        if not self.is_aggregate:
            return NewRecord(first.data, first.partition_key, first.explicit_hash_key)
        rows = [(str(r.partition_key), r.explicit_hash_key, r.data) for r in self.user_records]
        return NewRecord(aggregate(rows), first.partition_key, first.explicit_hash_key)


@dataclass(slots=True)
class CallRoom:
    """What a call has room for. A call without a record has room for one of any size."""

    records: int = RECORDS_PER_CALL
    size: int = BYTES_PER_CALL

    def is_for(self, size: int) -> bool:
        return self.records > 0 and (size <= self.size or self.records == RECORDS_PER_CALL)

    def take(self, size: int) -> None:
        self.records -= 1
        self.size -= size


class Outbox:
    """The outbox of one shard. Changed in place. `shard_id` is empty where Kinesis places the records.

    refused        how often in a row Kinesis has refused records of this outbox; `refusal` is its last such answer
    failing_since  since when Kinesis has only refused its records; None: it has accepted some since the last refusal,
                   or has refused none
    not_before     when to try again
    suspects       how many of the first waiting records come from an aggregate that was refused for good because of one
                   of them, and have not been sent since; `at_most` is how many of them go into one aggregate
    """

    __slots__ = (
        "aggregates",
        "at_most",
        "failing_since",
        "in_flight",
        "limit",
        "not_before",
        "ordered",
        "refusal",
        "refused",
        "rules",
        "shard_id",
        "size",
        "suspects",
        "waiting",
    )

    def __init__(self, shard_id: str, rules: ProducerRules, now: datetime, *, is_auto: bool = False) -> None:
        """`is_auto`: Kinesis places the records whatever their keys, so there is no order to keep."""
        self.shard_id = shard_id
        self.rules = rules
        self.limit = WriteLimit(rules.rate_limit, now) if shard_id and rules.rate_limit is not None else None
        self.aggregates = rules.aggregation_enabled and bool(shard_id)
        self.ordered = rules.ordered and not is_auto
        self.waiting: deque[QueuedRecord] = deque()
        self.size = 0
        self.in_flight = 0
        self.refused = 0
        self.refusal: PutRefused | None = None
        self.failing_since: datetime | None = None
        self.not_before: datetime | None = None
        self.suspects = 0
        self.at_most = 0

    def add(self, record: QueuedRecord) -> None:
        self.waiting.append(record)
        self.size += record.size

    def add_first(self, records: list[QueuedRecord]) -> None:
        """Put these records back at the front, in their order."""
        self.waiting.extendleft(reversed(records))
        self.size += sum(record.size for record in records)

    def suspect(self, count: int, at_most: int) -> None:
        """Send the first `count` waiting records in aggregates of at most so many."""
        self.suspects, self.at_most = self.suspects + count, max(at_most, 1)

    def clear(self) -> list[QueuedRecord]:
        """Take out all waiting records."""
        taken = list(self.waiting)
        self.waiting.clear()
        self.size = self.suspects = 0
        return taken

    @property
    def is_full(self) -> bool:
        if self.aggregates:
            return self.size >= self.rules.aggregation_max_size
        return self.size >= PLAIN_FULL or len(self.waiting) >= RECORDS_PER_CALL

    @property
    def is_held(self) -> bool:
        """Whether there is nothing to send, or the order of keys forbids sending now."""
        return not self.waiting or (self.ordered and self.in_flight > 0)

    def may_send_at(self, now: datetime) -> datetime:
        """The earliest time that the shard's write limit and the last refusal allow. Do not ask a held outbox."""
        at = now if self.limit is None else now + self.limit.wait(now)
        return at if self.not_before is None else max(at, self.not_before)

    def wants_to_send_at(self, now: datetime, flushed_at: datetime | None) -> datetime:
        if self.why(now, flushed_at) is not None:
            return now
        return self.waiting[0].arrived_at + self.rules.record_max_buffered_time

    def why(self, now: datetime, flushed_at: datetime | None) -> SendReason | None:
        """Why to send now; None if it can wait for more records."""
        first = self.waiting[0].arrived_at
        if self.refused or self.suspects:
            return SendReason.RETRY
        if flushed_at is not None and first <= flushed_at:
            return SendReason.FLUSH
        if first + self.rules.record_max_buffered_time <= now:
            return SendReason.DUE
        return SendReason.FULL if self.is_full else None

    def take(self, now: datetime, room: CallRoom, *, only_full: bool) -> Iterator[OutboxEntry]:
        """Take out what may be sent now, as far as the call has room. `only_full`: leave aggregates that can wait for
        more records.
        """
        if self.ordered and not self.aggregates:
            yield from self._of_different_keys(now, room)
            return
        while self.waiting and room.is_for(self._most) and self._may_spend(now):
            if only_full and self.aggregates and not self.is_full:
                return
            yield self._entry(*self._packed() if self.aggregates else self._alone(), now, room)
            if self.ordered:
                return

    @property
    def _most(self) -> int:
        """An upper bound of the next entry's size."""
        first = self.waiting[0].whole_size
        return max(first, self.rules.aggregation_max_size + KEY_SIZE_MAX) if self.aggregates else first

    def _may_spend(self, now: datetime) -> bool:
        return self.limit is None or not self.limit.wait(now)

    def _entry(self, records: list[QueuedRecord], size: int, now: datetime, room: CallRoom) -> OutboxEntry:
        if self.limit is not None:
            self.limit.spend(1, size, now)
        room.take(size)
        for record in records:
            if record.tried_at is None:
                record.tried_at = now
        self.in_flight += 1
        return OutboxEntry(self.shard_id, records, size, (self,))

    def _take_first(self) -> QueuedRecord:
        record = self.waiting.popleft()
        self.size -= record.size
        return record

    def _alone(self) -> tuple[list[QueuedRecord], int]:
        """The next record, and its size."""
        record = self._take_first()
        return [record], record.whole_size

    def _packed(self) -> tuple[list[QueuedRecord], int]:
        """The next aggregate's user records, and an upper bound of its bytes."""
        waiting, most = self.waiting, self.rules.aggregation_max_size
        left = min(self.at_most, self.suspects) if self.suspects else len(waiting)
        keys: set[str | None] = set()
        taken: list[QueuedRecord] = []
        size, records_size = OVERHEAD, 0
        while waiting and len(taken) < left:
            record = waiting[0]
            key = record.partition_key
            added = record.size if key in keys else record.size + record.key_size
            if taken and size + added > most:
                break
            keys.add(key)
            taken.append(waiting.popleft())
            size += added
            records_size += record.size
        self.size -= records_size
        self.suspects -= min(self.suspects, len(taken))
        return taken, size + taken[0].key_size

    def _of_different_keys(self, now: datetime, room: CallRoom) -> Iterator[OutboxEntry]:
        """The first waiting record of each partition key, among the first SCANNED_MAX."""
        keys: set[str] = set()
        left: list[QueuedRecord] = []
        for _ in range(min(len(self.waiting), SCANNED_MAX)):
            if not room.is_for(self.waiting[0].whole_size) or not self._may_spend(now):
                break
            record = self._take_first()
            if record.partition_key in keys:
                left.append(record)
                continue
            if record.partition_key is not None:
                keys.add(record.partition_key)
            yield self._entry([record], record.whole_size, now, room)
        self.add_first(left)
