"""Measures a subscription to a shard on AWS where the documents leave it open: how soon an event comes on a quiet
shard, what the last event of a closed shard contains, and whether botocore, which speaks only HTTP/1.1, can read it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

QUIET_EVENTS = 3


def observed(kinesis: Any, consumer_arn: str, closed: str, quiet: str) -> Mapping[str, str]:
    """Facts for the report, by one subscription to a closed shard and one to a shard that gets no records."""
    found: dict[str, str] = {}
    end = _last_event(kinesis, consumer_arn, closed)
    found["the closed shard's last event"] = (
        f"{len(end['Records'])} records, {len(end.get('ChildShards', ()))} child shards, "
        f"{'a' if end.get('ContinuationSequenceNumber') else 'no'} continuation"
    )
    subscribed = kinesis.subscribe_to_shard(
        ConsumerARN=consumer_arn, ShardId=quiet, StartingPosition={"Type": "LATEST"}
    )
    began, events = time.monotonic(), iter(subscribed["EventStream"])
    numbers = [(time.monotonic() - began, event["ContinuationSequenceNumber"]) for event in _some(events)]
    subscribed["EventStream"].close()
    found["a quiet shard's events came after"] = ", ".join(f"{at:.1f} s" for at, _ in numbers)
    found["its continuation moved"] = f"{len({number for _, number in numbers}) - 1} times"
    encoding = subscribed["ResponseMetadata"]["HTTPHeaders"].get("transfer-encoding", "none")
    found["transfer encoding over HTTP/1.1"] = encoding
    return found


def _last_event(kinesis: Any, consumer_arn: str, shard: str) -> Mapping[str, Any]:
    subscribed = kinesis.subscribe_to_shard(
        ConsumerARN=consumer_arn, ShardId=shard, StartingPosition={"Type": "TRIM_HORIZON"}
    )
    *_, last = (each["SubscribeToShardEvent"] for each in subscribed["EventStream"])
    subscribed["EventStream"].close()
    return dict(last)


def _some(events: Iterator[Any]) -> Iterator[Mapping[str, Any]]:
    for _ in range(QUIET_EVENTS):
        yield next(events)["SubscribeToShardEvent"]
