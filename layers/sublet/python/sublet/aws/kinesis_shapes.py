"""Kinesis' JSON as our values. Records come in their millions: this is the hot path of a lease worker."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sublet.aws.raw_json import RAW
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import ChildShard, HashKeyRange, Shard

_from_timestamp = datetime.fromtimestamp


def stream_records(response: Mapping[str, Any]) -> tuple[StreamRecord, ...]:
    """The records of a GetRecords response, raw or parsed by botocore (whose moments are in local time)."""
    if RAW in response:
        return tuple(
            [
                StreamRecord(
                    record["SequenceNumber"],
                    a2b_base64(record["Data"]),
                    record["PartitionKey"],
                    _from_timestamp(record["ApproximateArrivalTimestamp"], UTC),
                )
                for record in response[RAW]["Records"]
            ]
        )
    return tuple(
        StreamRecord(
            record["SequenceNumber"],
            record["Data"],
            record["PartitionKey"],
            record["ApproximateArrivalTimestamp"].astimezone(UTC),
        )
        for record in response["Records"]
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
