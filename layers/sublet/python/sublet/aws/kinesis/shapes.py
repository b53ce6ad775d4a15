"""Turns Kinesis' JSON into our values. Records come by the million: this is the hot path of a lease worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from botocore.utils import parse_timestamp
from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from sublet.aws.kinesis.raw_json import RAW
from sublet.errors import StreamError
from sublet.protocol.records import NO_ARRIVAL_TIME, StreamRecord
from sublet.protocol.shard import ChildShard, HashKeyRange, Shard
from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import (
    MAX_RECORD_KIB,
    RecordDistribution,
    StreamDescription,
    StreamInfo,
    StreamMode,
)

_data_of, _arrival_of = attrgetter("data"), attrgetter("approximate_arrival_timestamp")
RETENTION_HOURS_MAX = 8760


class RecordsReply(Struct, frozen=True, rename="pascal"):
    """A GetRecords reply."""

    records: tuple[StreamRecord, ...]
    next_shard_iterator: str | None = None
    millis_behind_latest: int | None = None
    child_shards: tuple[dict[str, Any], ...] | None = None

    @property
    def data_bytes(self) -> int:
        return data_bytes_of(self.records)


decode_records_reply = Decoder(RecordsReply, strict=False).decode
"""Decodes a reply's JSON. It is not strict, because times are numbers, in seconds."""


class IteratorReply(Struct, frozen=True, rename="pascal"):
    """A GetShardIterator reply."""

    shard_iterator: str


decode_iterator = Decoder(IteratorReply).decode


class PushedReply(Struct, frozen=True, rename="pascal"):
    """A SubscribeToShardEvent. The API requires a continuation, and yet the last event of a shard has none."""

    records: tuple[StreamRecord, ...] = ()
    continuation_sequence_number: str | None = None
    millis_behind_latest: int | None = None
    child_shards: tuple[dict[str, Any], ...] | None = None


decode_pushed_reply = Decoder(PushedReply, strict=False).decode


def data_bytes_of(records: Sequence[StreamRecord]) -> int:
    return sum(map(len, map(_data_of, records)))


def records_reply(response: Mapping[str, Any]) -> RecordsReply:
    """The reply, either already decoded or parsed by botocore, whose times are in local time."""
    if RAW in response:
        reply: RecordsReply = response[RAW]
        return reply
    return RecordsReply(
        tuple(map(_record, response["Records"])),
        response.get("NextShardIterator"),
        response.get("MillisBehindLatest"),
        response.get("ChildShards"),
    )


def _record(item: Mapping[str, Any]) -> StreamRecord:
    """Raises StreamError with the sequence number of a record that cannot be decoded, since a page holds thousands."""
    arrived = item.get("ApproximateArrivalTimestamp")
    try:
        return StreamRecord(
            item["SequenceNumber"],
            item["Data"],
            item.get("PartitionKey"),
            NO_ARRIVAL_TIME if arrived is None else arrived.astimezone(UTC),
        )
    except (KeyError, AttributeError, ValueError, OverflowError) as problem:
        number = item.get("SequenceNumber", "without a sequence number")
        raise StreamError(f"record {number} cannot be read: {type(problem).__name__} {problem}") from problem


def with_arrivals(records: tuple[StreamRecord, ...], replied_at: Callable[[], datetime]) -> tuple[StreamRecord, ...]:
    """Gives records without an arrival time the time of the reply, since they did not arrive later."""
    if NO_ARRIVAL_TIME not in map(_arrival_of, records):
        return records
    at = replied_at()
    return tuple(
        replace(each, approximate_arrival_timestamp=at)
        if each.approximate_arrival_timestamp == NO_ARRIVAL_TIME
        else each
        for each in records
    )


def stream_info(response: Mapping[str, Any]) -> StreamInfo:
    """Turns DescribeStreamSummary's reply into what the user gets."""
    summary = _summary(response)
    return StreamInfo(
        summary["StreamName"],
        _identity(summary),
        summary["StreamStatus"],
        StreamMode(summary.get("StreamModeDetails", {}).get("StreamMode", StreamMode.PROVISIONED)),
        summary["OpenShardCount"],
        timedelta(hours=summary["RetentionPeriodHours"]),
        summary.get("KeyId") if summary.get("EncryptionType") == "KMS" else None,
        summary.get("MaxRecordSizeInKiB", MAX_RECORD_KIB),
    )


def _summary(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the reply that are not null. botocore leaves nulls out."""
    stated = response.get(RAW, response)["StreamDescriptionSummary"]
    return {name: value for name, value in stated.items() if value is not None}


def _identity(summary: Mapping[str, Any]) -> StreamIdentity:
    created_at = parse_timestamp(summary["StreamCreationTimestamp"]).astimezone(UTC)
    return StreamIdentity(summary["StreamARN"], created_at)


def described(response: Mapping[str, Any], at: datetime) -> StreamDescription:
    """Reads DescribeStreamSummary's raw reply: older botocore drops fields that it does not know, such as the
    distribution. A provisioned stream does not distribute records itself; whether an on-demand one does is unknown
    unless the reply says so.
    """
    summary = _summary(response)
    mode = summary.get("StreamModeDetails", {}).get("StreamMode")
    stated = summary.get("RecordDistributionStrategy")
    if mode == StreamMode.PROVISIONED:
        stated = RecordDistribution.USER_PARTITION_KEY
    return StreamDescription(
        _identity(summary),
        at,
        timedelta(hours=summary.get("RetentionPeriodHours", RETENTION_HOURS_MAX)),
        RecordDistribution(stated) if stated in list(RecordDistribution) else None,
    )


def shard_of(item: Mapping[str, Any]) -> Shard:
    """Reads an element of ListShards' Shards. A shard is closed if it has an ending sequence number, whatever the
    number is.
    """
    numbers = item["SequenceNumberRange"]
    return Shard(
        shard_id=item["ShardId"],
        hash_key_range=_hash_key_range(item),
        parent_shard_id=item.get("ParentShardId"),
        adjacent_parent_shard_id=item.get("AdjacentParentShardId"),
        starting_sequence_number=numbers["StartingSequenceNumber"],
        is_open=numbers.get("EndingSequenceNumber") is None,
    )


def child_shards(items: Sequence[Mapping[str, Any]] | None) -> tuple[ChildShard, ...]:
    """GetRecords' ChildShards; empty if one of them names no parents, which KCL does not accept either."""
    children = tuple(
        ChildShard(item["ShardId"], frozenset(item.get("ParentShards") or ()), _hash_key_range(item))
        for item in items or ()
    )
    return children if all(child.parent_shard_ids for child in children) else ()


def _hash_key_range(item: Mapping[str, Any]) -> HashKeyRange:
    keys = item["HashKeyRange"]
    return HashKeyRange(int(keys["StartingHashKey"]), int(keys["EndingHashKey"]))
