"""Kinesis' JSON as our values. Records come in their millions: this is the hot path of a lease worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from botocore.utils import parse_timestamp
from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from sublet.aws.raw_json import RAW
from sublet.errors import StreamError
from sublet.protocol.records import NOT_TOLD, StreamRecord
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
    """A GetRecords response."""

    records: tuple[StreamRecord, ...]
    next_shard_iterator: str | None = None
    millis_behind_latest: int | None = None
    child_shards: tuple[dict[str, Any], ...] | None = None

    @property
    def data_bytes(self) -> int:
        return sum(map(len, map(_data_of, self.records)))


decode_records_reply = Decoder(RecordsReply, strict=False).decode
"""From JSON. Not strict: a moment comes as a number, of seconds."""


def records_reply(response: Mapping[str, Any]) -> RecordsReply:
    """Decoded already, or parsed by botocore, whose moments are in local time."""
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
    """Raises StreamError for one that makes no sense, by its number: of thousands in a page it is the one to be looked at."""
    arrived = item.get("ApproximateArrivalTimestamp")
    try:
        return StreamRecord(
            item["SequenceNumber"],
            item["Data"],
            item.get("PartitionKey"),
            NOT_TOLD if arrived is None else arrived.astimezone(UTC),
        )
    except (KeyError, AttributeError, ValueError, OverflowError) as problem:
        number = item.get("SequenceNumber", "without a sequence number")
        raise StreamError(f"record {number} cannot be read: {type(problem).__name__} {problem}") from problem


def with_arrivals(
    records: tuple[StreamRecord, ...], replied_at: Callable[[], datetime]
) -> tuple[StreamRecord, ...]:
    """An arrival that is not told was not later than the reply."""
    if NOT_TOLD not in map(_arrival_of, records):
        return records
    at = replied_at()
    return tuple(
        replace(each, approximate_arrival_timestamp=at)
        if each.approximate_arrival_timestamp == NOT_TOLD
        else each
        for each in records
    )


def stream_info(response: Mapping[str, Any]) -> StreamInfo:
    """DescribeStreamSummary's reply, for whoever asks about a stream."""
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
    """What the reply tells: a null tells nothing, which botocore leaves out."""
    told = response.get(RAW, response)["StreamDescriptionSummary"]
    return {name: value for name, value in told.items() if value is not None}


def _identity(summary: Mapping[str, Any]) -> StreamIdentity:
    created_at = parse_timestamp(summary["StreamCreationTimestamp"]).astimezone(UTC)
    return StreamIdentity(summary["StreamARN"], created_at)


def described(response: Mapping[str, Any], at: datetime) -> StreamDescription:
    """DescribeStreamSummary's reply, decoded already: older botocore leaves out what it does not know, such as the distribution.
    A provisioned stream distributes nothing itself; what an on-demand one does is not known unless the reply says so.
    """
    summary = _summary(response)
    mode = summary.get("StreamModeDetails", {}).get("StreamMode")
    told = summary.get("RecordDistributionStrategy")
    if mode == StreamMode.PROVISIONED:
        told = RecordDistribution.USER_PARTITION_KEY
    return StreamDescription(
        _identity(summary),
        at,
        timedelta(hours=summary.get("RetentionPeriodHours", RETENTION_HOURS_MAX)),
        RecordDistribution(told) if told in list(RecordDistribution) else None,
    )


def shard_of(item: Mapping[str, Any]) -> Shard:
    """One of ListShards' Shards. Closed is having an ending sequence number, whatever it says."""
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
    """GetRecords' ChildShards; none at all if one names no parents, which KCL does not believe either."""
    children = tuple(
        ChildShard(item["ShardId"], frozenset(item.get("ParentShards") or ()), _hash_key_range(item))
        for item in items or ()
    )
    return children if all(child.parent_shard_ids for child in children) else ()


def child_of(shard: Shard) -> ChildShard:
    """A listed shard as the child that it is."""
    return ChildShard(shard.shard_id, shard.parent_shard_ids, shard.hash_key_range)


def _hash_key_range(item: Mapping[str, Any]) -> HashKeyRange:
    keys = item["HashKeyRange"]
    return HashKeyRange(int(keys["StartingHashKey"]), int(keys["EndingHashKey"]))
