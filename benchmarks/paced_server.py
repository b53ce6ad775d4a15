"""Serves streams of many shards, each at the pace of Kinesis: `python -m benchmarks.paced_server PORT`.

A stream is named `<kind>-<shards>-<records>`: so many shards with so many records of 1 KB each, all of which have
arrived (`backlog`); or so many shards that get a record of 100 B every 100 ms (`busy`) or none (`idle`). Every shard
has the same records.

A shard gives 2 MB and five pages a second: after a page of 10 MB, it refuses for five seconds. Pages are limited as in
the service. `POST /` with the target `Counts` returns how many pages and refusals there were since the last time.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from functools import cache
from http.server import ThreadingHTTPServer
from random import Random
from threading import Lock
from time import monotonic, time
from typing import Any

from sublet.protocol.shard import HASH_KEY_MAX

from benchmarks.replay_server import (
    ARRIVED,
    FIRST_SEQUENCE_NUMBER,
    HOST,
    PAGE_BYTES,
    PAGE_RECORDS,
    Record,
    Refused,
    Requests,
    Shard,
    description,
    iterator,
    made,
)

BACKLOG, BUSY, IDLE = "backlog", "busy", "idle"
RECORD_BYTES = 1024
SMALL = b64encode(bytes(100)).decode()
EVERY = 0.1
"""Seconds from one record of a busy shard to the next."""

BYTES_PER_SECOND = 2 * 2**20
CALLS_PER_SECOND = 5


def records(count: int) -> Iterator[Record]:
    random = Random(count)
    for _ in range(count):
        yield f"{random.getrandbits(64):016x}", random.randbytes(RECORD_BYTES)


@cache
def backlog(count: int) -> Shard:
    return made(records(count))


def busy_page(stream: str, shard: int, at: int, limit: int) -> bytes:
    """The records that have arrived by now, since `ARRIVED`."""
    arrived = int((time() - ARRIVED) / EVERY) + 1
    end = min(at + limit, arrived)
    found = [
        {
            "SequenceNumber": str(FIRST_SEQUENCE_NUMBER + number),
            "ApproximateArrivalTimestamp": ARRIVED + number * EVERY,
            "Data": SMALL,
            "PartitionKey": "k",
        }
        for number in range(at, end)
    ]
    behind = 0 if end >= arrived else round(1000 * EVERY * (arrived - end))
    reply = {
        "NextShardIterator": iterator(stream, shard, max(at, end)),
        "MillisBehindLatest": behind,
        "Records": found,
    }
    return json.dumps(reply).encode()


class PacedShards:
    """The streams and the operations on them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._next: dict[tuple[str, int], float] = {}
        """When a shard gives again."""
        self._counts: Counter[str] = Counter()

    def reply(self, operation: str, request: dict[str, Any]) -> bytes:
        match operation:
            case "GetRecords":
                return self._page(request)
            case "Counts":
                counts, self._counts = self._counts, Counter()
                return json.dumps(counts).encode()
        name = request.get("StreamName") or request["NextToken"].partition("/")[0]
        count = _shards(name)
        match operation:
            case "ListShards":
                at = int(request.get("NextToken", "/0").partition("/")[2])
                reply: dict[str, object] = {"Shards": [_shard(n, count) for n in range(at, min(at + 1000, count))]}
                reply |= {"NextToken": f"{name}/{at + 1000}"} if at + 1000 < count else {}
            case "GetShardIterator":
                reply = {"ShardIterator": _iterator(name, request)}
            case "DescribeStreamSummary":
                reply = {"StreamDescriptionSummary": description(name) | {"OpenShardCount": count}}
            case _:
                raise Refused(f"{operation} is not served")
        return json.dumps(reply).encode()

    def _page(self, request: dict[str, Any]) -> bytes:
        stream, number, at, _ = request["ShardIterator"].split("/")
        shard = int(number)
        kind, _, count = stream.split("-")
        self._admit(stream, shard)
        limit = min(request.get("Limit", PAGE_RECORDS), PAGE_RECORDS)
        if kind == BUSY:
            return busy_page(stream, shard, int(at), limit)
        all_of_it = backlog(int(count))
        page = all_of_it.page(stream, shard, int(at), limit)
        sent = min(limit * RECORD_BYTES, PAGE_BYTES, (len(all_of_it.records) - int(at)) * RECORD_BYTES)
        with self._lock:
            self._next[stream, shard] = monotonic() + sent / BYTES_PER_SECOND
            self._counts["bytes"] += sent
        return page

    def _admit(self, stream: str, shard: int) -> None:
        now = monotonic()
        with self._lock:
            self._counts["polls"] += 1
            if self._next.get((stream, shard), now) > now:
                self._counts["refused"] += 1
                raise Refused("slow down", "ProvisionedThroughputExceededException")


def _shards(name: str) -> int:
    return int(name.split("-")[1])


def _shard(number: int, count: int) -> dict[str, object]:
    width = (HASH_KEY_MAX + 1) // count
    last = HASH_KEY_MAX if number == count - 1 else (number + 1) * width - 1
    return {
        "ShardId": f"shardId-{number:012}",
        "HashKeyRange": {"StartingHashKey": str(number * width), "EndingHashKey": str(last)},
        "SequenceNumberRange": {"StartingSequenceNumber": str(FIRST_SEQUENCE_NUMBER)},
    }


def _iterator(name: str, request: dict[str, Any]) -> str:
    kind, _, count = name.split("-")
    shard = int(request["ShardId"].rpartition("-")[2])
    end = int((time() - ARRIVED) / EVERY) + 1 if kind == BUSY else int(count)
    match request["ShardIteratorType"]:
        case "TRIM_HORIZON":
            at = 0
        case "AT_TIMESTAMP" if kind == BUSY:
            at = max(0, int((request["Timestamp"] - ARRIVED) / EVERY) + 1)
        case "AT_TIMESTAMP":
            at = 0 if request["Timestamp"] <= ARRIVED else end
        case "LATEST":
            at = end
        case "AT_SEQUENCE_NUMBER":
            at = int(request["StartingSequenceNumber"]) - FIRST_SEQUENCE_NUMBER
        case _:
            at = int(request["StartingSequenceNumber"]) - FIRST_SEQUENCE_NUMBER + 1
    return iterator(name, shard, at)


class PacedRequests(Requests):
    replay = PacedShards()


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 256
    ThreadingHTTPServer((HOST, int(sys.argv[1])), PacedRequests).serve_forever()
