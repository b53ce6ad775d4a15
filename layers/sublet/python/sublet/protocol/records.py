"""Records: as fetched from a shard (stream records) and as handled (user records).

A worker makes millions of them. So they are msgspec structs: made, compared and freed in C, and, since nothing in them
can refer back to them (`gc=False`), no work for the garbage collector, which walks tuples again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import Struct

from sublet.errors import PayloadUnreadable
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.shard import HASH_KEY_MAX, ChildShard

RECORD_MAX = 10 * 2**20
KEY_MAX = 256
"""Kinesis' limits: bytes of a record's data and partition key (if the stream allows that much); characters of a
partition key.
"""

NO_ARRIVAL_TIME = datetime(1, 1, 1, tzinfo=UTC)
"""The arrival time of a record whose reply has none."""


class StreamRecord(Struct, frozen=True, gc=False, rename="pascal"):
    """One record of GetRecords, whose JSON names the fields SequenceNumber, Data and so on: a plain user record, or a
    KPL aggregate of many.
    """

    sequence_number: str
    data: bytes
    partition_key: str | None = None
    """None if it was put without one, which is possible on a stream that distributes records itself
    (`RecordDistribution.AUTO`).
    """
    approximate_arrival_timestamp: datetime = NO_ARRIVAL_TIME
    """Millisecond precision, UTC-aware. Kinesis does not promise that it rises with the sequence number.
    NO_ARRIVAL_TIME only in a reply that is not processed yet: the service omits what it does not know, and the reply's
    own date then replaces it.
    """


class UserRecord(Struct, frozen=True, gc=False):
    """One record as its producer put it. Aggregated ones share their stream record's sequence number and arrival time.

    `partition_key`: None for a record that was put without one. Such a record has no order relative to others.
    """

    data: bytes
    partition_key: str | None
    sub_sequence_number: int
    """The 0-based position in the aggregate; 0 for a plain record."""
    stream_record: StreamRecord
    explicit_hash_key: str | None = None
    """Decimal, if the producer gave one and the record came in an aggregate (Kinesis does not return it for plain
    records).
    """

    @property
    def sequence_number(self) -> str:
        """The sequence number of its stream record, in decimal digits."""
        return self.stream_record.sequence_number

    @property
    def order_key(self) -> str:
        """Records that share it are handled in order: the partition key, or a value of its own for a record without
        one.
        """
        return self.sequence_number if self.partition_key is None else self.partition_key

    @property
    def approximate_arrival_timestamp(self) -> datetime:
        """When Kinesis received its stream record, in UTC."""
        return self.stream_record.approximate_arrival_timestamp

    @property
    def is_aggregated(self) -> bool:
        """Whether it came in a KPL aggregate: a plain record shares its data with its stream record."""
        return self.data is not self.stream_record.data

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that marks this record and all before it as handled."""
        return Checkpoint(self.stream_record.sequence_number, self.sub_sequence_number)

    def decoded(self) -> Any:
        """The data's value by the consumer's setting `payload_format`, or else as JSON, after gzip, zlib or zstd around
        it. Each call decodes again.

        Raises PayloadUnreadable, which names the record; with a registry's format SchemaRegistryError too. If it leaves
        the handler, the failure policy decides, as for any exception.
        """
        from sublet.payloads.decoding import json_decoder  # noqa: PLC0415 - only for handlers that call this

        return self._decoded(json_decoder())

    def _decoded(self, decode: Callable[[bytes], Any]) -> Any:
        try:
            return decode(self.data)
        except PayloadUnreadable as why:
            raise PayloadUnreadable(f"record {self.checkpoint}: {why}") from why.__cause__


class DecodableRecord(UserRecord, frozen=True, gc=False):
    """A user record of a consumer with the setting `payload_format`."""

    decode: Callable[[bytes], Any] | None = None

    def decoded(self) -> Any:
        """See UserRecord."""
        return super().decoded() if self.decode is None else self._decoded(self.decode)


def decodable(records: Iterable[UserRecord], decode: Callable[[bytes], Any]) -> list[UserRecord]:
    """The same records, which decode themselves by `decode`."""
    return [
        DecodableRecord(
            each.data,
            each.partition_key,
            each.sub_sequence_number,
            each.stream_record,
            each.explicit_hash_key,
            decode,
        )
        for each in records
    ]


def as_put(records: Iterable[UserRecord]) -> list[UserRecord]:
    """The stream records of these user records, one each, with all their data: KPL aggregates as they were put.

    Each has the position of its last user record, so that a checkpoint means the same in both forms. A checkpoint
    inside an aggregate leaves the aggregate to be handled.
    """
    last = {id(record.stream_record): record for record in records}
    return [
        UserRecord(of.stream_record.data, of.stream_record.partition_key, of.sub_sequence_number, of.stream_record)
        for of in last.values()
    ]


class NewRecord(NamedTuple):
    """A stream record to put. `explicit_hash_key`: decimal; without it the partition key's MD5 places the record.
    Without a partition key Kinesis places it, on a stream that distributes records itself.
    """

    data: bytes
    partition_key: str | None
    explicit_hash_key: str | None = None

    @property
    def size(self) -> int:
        """In bytes, as Kinesis counts it: data and partition key."""
        return len(self.data) + len((self.partition_key or "").encode())


class PutRefused(NamedTuple):
    """A record that was not accepted, as far as is known. `code` and `reason` are the service's. `passes`: a retry may
    succeed.
    """

    code: str
    reason: str
    passes: bool


def why_not_put(
    data: object, partition_key: object, explicit_hash_key: object, *, may_be_keyless: bool = False
) -> str | None:
    """Why Kinesis would never accept the record, in Kinesis' own names; None if it may, as far as the record alone
    shows.

    `may_be_keyless`: the stream may distribute records itself, and then accepts them without a partition key.
    """
    if not isinstance(data, bytes):
        return f"data is {'null' if data is None else f'of type {type(data).__name__}'}; bytes"
    if len(data) > RECORD_MAX:
        return f"data is {len(data)} bytes; at most {RECORD_MAX} bytes"
    key: bytes | None = b""
    if partition_key is not None or not may_be_keyless:
        key = _encoded_key(partition_key)
    if key is None:
        return f"partitionKey is {partition_key!r:.300}; 1 to {KEY_MAX} characters that UTF-8 can encode"
    if explicit_hash_key is not None and not _is_hash_key(explicit_hash_key):
        return (
            f"explicitHashKey is {explicit_hash_key!r:.300}; a decimal number below 2**128 without leading zeros, "
            "or null"
        )
    if len(data) + len(key) > RECORD_MAX:
        return f"data and partitionKey are {len(data) + len(key)} bytes; at most {RECORD_MAX} bytes"
    return None


def _encoded_key(key: object) -> bytes | None:
    if not isinstance(key, str) or not 1 <= len(key) <= KEY_MAX:
        return None
    try:
        return key.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as `errors="surrogateescape"` leaves them
        return None


def _is_hash_key(text: object) -> bool:
    r"""Whether the text matches the service's own pattern: 0|([1-9]\d{0,38})."""
    is_number = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 40
    return is_number and str(int(str(text))) == text and int(str(text)) <= HASH_KEY_MAX


class Page(NamedTuple):
    """Records of one shard, from one poll (GetRecords) or one event of a push (SubscribeToShard)."""

    records: tuple[StreamRecord, ...]
    data_bytes: int
    """The size of all the records' data. The page's maker knows it, and computing it afterwards for ten thousand
    records costs more than handling them as plain records.
    """
    millis_behind_latest: int
    is_shard_end: bool = False
    """True if the shard is closed and this is its last page. `child_shards` names its children."""
    child_shards: tuple[ChildShard, ...] = ()
    answered_at: datetime | None = None
    """When the service answered, by its own clock, cut to whole seconds. None if the service did not send it."""


class GetRecordsReply(NamedTuple):
    """A reply to GetRecords. `next_iterator`: None at the shard's end, as in Kinesis."""

    page: Page
    next_iterator: str | None
