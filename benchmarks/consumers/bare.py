"""The least that Python can do with boto3. `READS`: `polls`, `polls_quiet` or `is_pushed_to`.

It has no leases, checkpoints, heartbeats, pace, hash-range filter or memory bound: the comparison shows what those
cost.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import random
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer
from sublet.protocol.kpl_format import DIGEST_SIZE, MAGIC
from sublet.protocol.kpl_messages import parse_aggregated_record

from benchmarks.consumers.tally import POLL_LIMIT, Order, Tally, told

THREADS = 16
EACH = 2.0
SPREAD = 0.1

Turns = list[tuple[float, str]]
"""When each next poll is due, and with which iterator."""


def polls(order: Order) -> None:
    """A thread per shard polls without pause, and turns aggregates into tuples."""
    client = boto3.client("kinesis", config=Config(retries={"mode": "standard"}))
    tally = Tally(order.expected)
    shards = client.list_shards(StreamName=order.stream)["Shards"]
    readers = [
        threading.Thread(target=_poll_shard, args=(client, order.stream, shard["ShardId"], tally)) for shard in shards
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def _poll_shard(client: Any, stream: str, shard_id: str, tally: Tally) -> None:
    iterator = client.get_shard_iterator(StreamName=stream, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    while iterator:
        page = client.get_records(ShardIterator=iterator, Limit=POLL_LIMIT)
        for record in page["Records"]:
            tally.add(len(_user_records(record)))
        iterator = page["NextShardIterator"] if page["Records"] else None


def _user_records(record: dict[str, Any]) -> list[tuple[object, ...]]:
    data = record["Data"]
    if not data.startswith(MAGIC):
        return [(data, record["PartitionKey"], None, 0, record)]
    payload = data[len(MAGIC) : -DIGEST_SIZE]
    if hashlib.md5(payload, usedforsecurity=False).digest() != data[-DIGEST_SIZE:]:
        return [(data, record["PartitionKey"], None, 0, record)]
    message = parse_aggregated_record(payload)
    keys = [key.decode() for key in message.partition_key_table]
    return [(r.data, keys[r.partition_key_index], None, n, record) for n, r in enumerate(message.records)]


def polls_quiet(order: Order) -> None:
    """The least for many quiet shards, until it is killed: a few threads, and a heap with the order of polls.

    Each shard is polled once in two seconds, which is `idle_poll_interval`, and up to a tenth later, as sublet polls
    it.
    """
    client = boto3.client("kinesis", config=Config(retries={"mode": "standard"}, max_pool_connections=THREADS))
    now = time.monotonic()
    turns: Turns = []
    for shard in client.list_shards(StreamName=order.stream)["Shards"]:
        reply = client.get_shard_iterator(StreamName=order.stream, ShardId=shard["ShardId"], ShardIteratorType="LATEST")
        turns.append((now + random.uniform(0, EACH), reply["ShardIterator"]))
    heapq.heapify(turns)
    changed = threading.Lock()
    for _ in range(THREADS):
        threading.Thread(target=_poll_in_turns, args=(client, turns, changed)).start()


def _poll_in_turns(client: Any, turns: Turns, lock: threading.Lock) -> None:
    while True:
        with lock:
            due, iterator = heapq.heappop(turns)
        time.sleep(max(0.0, due - time.monotonic()))
        polled_at = time.monotonic()
        page = client.get_records(ShardIterator=iterator, Limit=POLL_LIMIT)
        again = polled_at + EACH * (1 + random.uniform(0, SPREAD))
        with lock:
            heapq.heappush(turns, (again, page["NextShardIterator"]))


def is_pushed_to(order: Order) -> None:
    """SubscribeToShard: botocore's call, the bytes from its socket, and the event's JSON."""
    tell = told(order, data_of=bytes)
    kinesis: Any = boto3.client("kinesis", config=Config(read_timeout=300))
    arn = kinesis.describe_stream_summary(StreamName=order.stream)["StreamDescriptionSummary"]["StreamARN"]
    consumer = kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="bare")["Consumer"]["ConsumerARN"]
    while kinesis.describe_stream_consumer(ConsumerARN=consumer)["ConsumerDescription"]["ConsumerStatus"] != "ACTIVE":
        time.sleep(0.1)
    readers = [
        threading.Thread(target=_read_pushes, args=(kinesis, consumer, shard["ShardId"], tell))
        for shard in kinesis.list_shards(StreamName=order.stream)["Shards"]
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def _read_pushes(kinesis: Any, consumer_arn: str, shard_id: str, tell: Callable[[Sequence[bytes]], None]) -> None:
    position = {"Type": "TRIM_HORIZON"}
    while True:
        reply = kinesis.subscribe_to_shard(ConsumerARN=consumer_arn, ShardId=shard_id, StartingPosition=position)
        buffer, body = EventStreamBuffer(), vars(reply["EventStream"])["_raw_stream"]
        while data := body.read1(65536):
            buffer.add_data(data)
            message: Any
            for message in buffer:
                if message.headers[":event-type"] == "initial-response":
                    continue
                event = json.loads(message.payload)
                tell([b64decode(record["Data"]) for record in event["Records"]])
                position = {
                    "Type": "AFTER_SEQUENCE_NUMBER",
                    "SequenceNumber": event["ContinuationSequenceNumber"],
                }


if __name__ == "__main__":
    ways = {each.__name__: each for each in (polls, polls_quiet, is_pushed_to)}
    ways[os.environ.get("READS", "polls")](Order.from_command_line())
