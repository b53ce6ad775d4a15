"""The least that polls many quiet shards with boto3: a few threads, and a heap with the order of polls. Runs until it
is killed.

It has no leases, heartbeats, checkpoints or buffer. Each shard is polled once in two seconds, which is
`idle_poll_interval`, and up to a tenth later, as sublet polls it.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.consumers.tally import POLL_LIMIT, Order

THREADS = 16
EACH = 2.0
SPREAD = 0.1

Turns = list[tuple[float, str]]
"""When each next poll is due, and with which iterator."""


def main(order: Order) -> None:
    client = boto3.client("kinesis", config=Config(retries={"mode": "standard"}, max_pool_connections=THREADS))
    now = time.monotonic()
    turns: Turns = []
    for shard in client.list_shards(StreamName=order.stream)["Shards"]:
        reply = client.get_shard_iterator(StreamName=order.stream, ShardId=shard["ShardId"], ShardIteratorType="LATEST")
        turns.append((now + random.uniform(0, EACH), reply["ShardIterator"]))
    heapq.heapify(turns)
    changed = threading.Lock()
    for _ in range(THREADS):
        threading.Thread(target=_poll, args=(client, turns, changed)).start()


def _poll(client: Any, turns: Turns, lock: threading.Lock) -> None:
    while True:
        with lock:
            due, iterator = heapq.heappop(turns)
        time.sleep(max(0.0, due - time.monotonic()))
        polled_at = time.monotonic()
        page = client.get_records(ShardIterator=iterator, Limit=POLL_LIMIT)
        again = polled_at + EACH * (1 + random.uniform(0, SPREAD))
        with lock:
            heapq.heappush(turns, (again, page["NextShardIterator"]))


if __name__ == "__main__":
    main(Order.from_command_line())
