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


def stream_records(response: Mapping[str, Any]) -> tuple[tuple[StreamRecord, ...], int]:
    """A GetRecords response's records, and their data's bytes. Raw, or parsed by botocore, whose moments are in local time."""
    if RAW in response:
        items = response[RAW]["Records"]
        # A page's text takes up to 14 MB: let go of it piece by piece.
        data = [a2b_base64(item.pop("Data")) for item in items]
        moments = [_from_timestamp(item["ApproximateArrivalTimestamp"], UTC) for item in items]
    else:
        items = response["Records"]
        data = [item["Data"] for item in items]
        moments = [item["ApproximateArrivalTimestamp"].astimezone(UTC) for item in items]
    records = [
        StreamRecord(item["SequenceNumber"], one, item["PartitionKey"], moment)
        for item, one, moment in zip(items, data, moments, strict=True)
    ]
    return tuple(records), sum(map(len, data))


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
