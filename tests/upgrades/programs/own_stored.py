"""Rows and offsets with everything that this version writes, as JSON: prints them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import Placement, RecordDistribution, StreamDescription
from sublet.protocol.stream_key import StreamKey
from sublet.spark.plan.offsets import Ended, ReadTo, ShardOffset, Unread

from tests.rolling.rows import rows

Part: Any
try:  # 0.2's names
    from sublet.spark.plan.offsets import Offset as Part
    from sublet.spark.plan.offsets_of_several import OffsetOfSeveral as Offset  # type: ignore[import-not-found]
    from sublet.spark.plan.offsets_of_several import any_offset_to_json as offset_to_json

    def alone(part: Any) -> Any:
        return part

except ImportError:
    from sublet.spark.plan.offsets import Offset, offset_to_json
    from sublet.spark.plan.offsets import StreamOffset as Part

    def alone(part: Any) -> Any:
        return Offset({None: part})


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
    one = Part("orders", ORDERS, SHARDS, None, PLACED)
    key = StreamKey.of(ORDERS)
    named = {f"{key}:{shard}": value for shard, value in SHARDS.items()}
    offsets = {
        "one": alone(one),
        "hold": alone(Part("orders", ORDERS, SHARDS, "orders-audit", PLACED)),
        "initial": alone(Part("orders", ORDERS)),
        "several": Offset({key: Part("orders", ORDERS, named, None, PLACED)}),
        "several, initial": Offset(),
    }
    said = {name: offset_to_json(offset) for name, offset in offsets.items()}
    print(json.dumps({"rows": rows(), "offsets": said}))


if __name__ == "__main__":
    main()
