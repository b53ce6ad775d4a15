"""Rows and offsets with everything that this version writes, as JSON: prints them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement, RecordDistribution, StreamDescription
from sublet.protocol.stream_key import StreamKey
from sublet.spark.plan.offsets import Ended, Offset, ReadTo, ShardOffset, Unread
from sublet.spark.plan.offsets_of_several import AnyOffset, OffsetOfSeveral, any_offset_to_json

from tests.rolling.rows import rows

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
ORDERS = StreamIdentity("arn:aws:kinesis:us-east-1:123456789012:stream/orders", NOON)
PLACED = Placement(StreamDescription(ORDERS, NOON, timedelta(days=1), RecordDistribution.AUTO), NOON)
SHARDS = {
    "shardId-000000000000": ShardOffset(Ended()),
    "shardId-000000000001": ShardOffset(ReadTo("4" * 56, NOON), None, NOON, NOON),
    "shardId-000000000002": ShardOffset(ReadTo("4" * 56, NOON, 3, 7), Unread()),
    "shardId-000000000003": ShardOffset(Unread(NOON), Unread(NOON)),
    "shardId-000000000004": ShardOffset(Unread()),
}


def main() -> None:
    one = Offset("orders", ORDERS, SHARDS, None, PLACED)
    key = StreamKey.of(ORDERS)
    named = {f"{key}:{shard}": value for shard, value in SHARDS.items()}
    offsets: dict[str, AnyOffset] = {
        "one": one,
        "hold": Offset("orders", ORDERS, SHARDS, "orders-audit", PLACED),
        "initial": Offset("orders", ORDERS),
        "several": OffsetOfSeveral({key: Offset("orders", ORDERS, named, None, PLACED)}),
        "several, initial": OffsetOfSeveral(),
    }
    said = {name: any_offset_to_json(offset) for name, offset in offsets.items()}
    print(json.dumps({"rows": rows(), "offsets": said}))


if __name__ == "__main__":
    main()
