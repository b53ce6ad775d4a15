"""The least that Python can do with boto3: a thread per shard polls without pause, and turns aggregates into tuples.

It has no leases, checkpoints, heartbeats, pace, hash-range filter or memory bound: the comparison shows what those
cost.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import boto3
from botocore.config import Config
from sublet.protocol.kpl_format import DIGEST_SIZE, MAGIC
from sublet.protocol.kpl_messages import parse_aggregated_record

from benchmarks.consumers.tally import POLL_LIMIT, Order, Tally


def main(order: Order) -> None:
    client = boto3.client("kinesis", config=Config(retries={"mode": "standard"}))
    tally = Tally(order.expected)
    shards = client.list_shards(StreamName=order.stream)["Shards"]
    readers = [threading.Thread(target=_read, args=(client, order.stream, shard["ShardId"], tally)) for shard in shards]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def _read(client: Any, stream: str, shard_id: str, tally: Tally) -> None:
    iterator = client.get_shard_iterator(StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    while iterator:
        page = client.get_records(ShardIterator=iterator, Limit=POLL_LIMIT)
        for record in page["Records"]:
            tally.add(len(user_records(record)))
        iterator = page["NextShardIterator"] if page["Records"] else None


def user_records(record: dict[str, Any]) -> list[tuple[object, ...]]:
    data = record["Data"]
    if not data.startswith(MAGIC):
        return [(data, record["PartitionKey"], None, 0, record)]
    payload = data[len(MAGIC) : -DIGEST_SIZE]
    if hashlib.md5(payload, usedforsecurity=False).digest() != data[-DIGEST_SIZE:]:
        return [(data, record["PartitionKey"], None, 0, record)]
    message = parse_aggregated_record(payload)
    keys = [key.decode() for key in message.partition_key_table]
    return [(r.data, keys[r.partition_key_index], None, n, record) for n, r in enumerate(message.records)]


if __name__ == "__main__":
    main(Order.from_command_line())
