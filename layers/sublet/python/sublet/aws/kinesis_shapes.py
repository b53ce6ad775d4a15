"""Kinesis' JSON as our values. Records come in their millions: this is the hot path of a lease worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

from sublet.aws.raw_json import RAW
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import ChildShard, HashKeyRange, Shard

_data_of = attrgetter("data")


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
    records = tuple(
        StreamRecord(
            item["SequenceNumber"],
            item["Data"],
            item["PartitionKey"],
            item["ApproximateArrivalTimestamp"].astimezone(UTC),
        )
        for item in response["Records"]
    )
    return RecordsReply(
        records,
        response.get("NextShardIterator"),
        response.get("MillisBehindLatest"),
        response.get("ChildShards"),
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
