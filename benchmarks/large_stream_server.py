"""Serves streams of many shards and their lease tables, with real page sizes: `python -m benchmarks.large_stream_server
PORT`.

DynamoDB: a Scan's page ends at 1 MB of items, as DynamoDB counts them, and costs half a read unit per 4 KB. Kinesis:
ListShards returns 1,000 shards a page. Step Functions: StartExecution takes 256 KiB. A stream and a table are named
`<kind>-<shards>`: `held` (each lease has an owner, whose counter has moved at each Scan), `free`, `quiet` (free, and
read to the tip when the server began) and `empty` (no lease yet). No shard has a record to come.
Every request is counted; `GET /counts` returns the counts and resets them. Request rates are not limited.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_attributes import LEASE_KEY
from sublet.protocol.lease_row import encode_row
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange
from sublet.system.clock import SystemClock

HOST = "127.0.0.1"
HELD, FREE, QUIET, EMPTY = "held", "free", "quiet", "empty"
ITERATOR = "x" * 200
"""An iterator as long as a real one."""
SIGHTINGS = "-sightings"
"""A sightings table is named after the lease table, as in Settings."""

SCAN_BYTES = 2**20
READ_UNIT_BYTES = 4096
SHARDS_PER_PAGE = 1_000
EXECUTION_BYTES_MAX = 256 * 1024
FIRST_SEQUENCE_NUMBER = 49_600_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000

BEGAN_AT = SystemClock().now()
READ = {
    "GetShardIterator": json.dumps({"ShardIterator": ITERATOR}).encode(),
    "GetRecords": json.dumps({"NextShardIterator": ITERATOR, "MillisBehindLatest": 0, "Records": []}).encode(),
}

Item = dict[str, AttributeValue]


def shard_id(number: int) -> str:
    return f"shardId-{number:012}"


def hash_key_range(number: int, count: int) -> HashKeyRange:
    bounds = [n * (HASH_KEY_MAX + 1) // count for n in (number, number + 1)]
    return HashKeyRange(bounds[0], bounds[1] - 1)


def lease(kind: str, number: int, count: int, counter: int) -> Lease:
    """A lease that has been read for a while."""
    return Lease(
        lease_key=shard_id(number),
        checkpoint=Checkpoint(str(FIRST_SEQUENCE_NUMBER + number), 3) if number % 10 else TRIM_HORIZON,
        lease_counter=counter,
        lease_owner=f"{kind}-{count}-lambda-0" if kind == HELD else None,
        hash_key_range=hash_key_range(number, count),
        caught_up_at=BEGAN_AT if kind == QUIET else None,
        holder="0123456789abcdef/8c0a4b3e-7d0e-4a57-9a57-3a1f0d5c6b7e" if kind == HELD else None,
    )


def size(value: Any) -> int:
    """An item's or value's size as DynamoDB counts it: names and texts by their bytes, a number by half its digits."""
    if isinstance(value, dict) and len(value) == 1 and "N" in value:
        return 2 + len(value["N"]) // 2
    if isinstance(value, dict):
        return sum(len(name) + size(inner) for name, inner in value.items() if name not in ("S", "SS", "B")) + sum(
            len(value[kind]) for kind in ("S", "B") if kind in value
        )
    return len(value)


@cache
def scan_pages(kind: str, count: int, counter: int) -> list[tuple[bytes, float]]:
    """The reply of each page, and its read units."""
    pages: list[tuple[list[Item], int]] = [([], 0)]
    for number in range(count if kind != EMPTY else 0):
        item = encode_row(lease(kind, number, count, counter))
        if pages[-1][1] + size(item) > SCAN_BYTES:
            pages.append(([], 0))
        items, total = pages[-1]
        items.append(item)
        pages[-1] = (items, total + size(item))
    return [
        (_scan_reply(items, at if at + 1 < len(pages) else None), -(-total // READ_UNIT_BYTES) / 2)
        for at, (items, total) in enumerate(pages)
    ]


def _scan_reply(items: list[Item], at: int | None) -> bytes:
    more = {} if at is None else {"LastEvaluatedKey": {LEASE_KEY: {"S": str(at + 1)}}}
    return json.dumps({"Items": items, "Count": len(items), **more}, separators=(",", ":")).encode()


@cache
def list_shards_page(count: int, first: int) -> bytes:
    shards = [
        {
            "ShardId": shard_id(number),
            "HashKeyRange": {
                "StartingHashKey": str(hash_key_range(number, count).starting),
                "EndingHashKey": str(hash_key_range(number, count).ending),
            },
            "SequenceNumberRange": {"StartingSequenceNumber": str(FIRST_SEQUENCE_NUMBER + number)},
        }
        for number in range(first, min(first + SHARDS_PER_PAGE, count))
    ]
    following = first + SHARDS_PER_PAGE
    more = {"NextToken": f"{count}/{following}"} if following < count else {}
    return json.dumps({"Shards": shards, **more}, separators=(",", ":")).encode()


class LargeStreams:
    """The operations of a tick. `counts`: calls by operation, and `read units` and `write units`."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = defaultdict(float)
        self._scans = 0
        self._sightings: dict[str, dict[str, Item]] = {}

    def reply(self, operation: str, request: dict[str, Any]) -> bytes:
        self.counts[operation] += 1
        match operation:
            case "Scan":
                is_sightings = request["TableName"].endswith(SIGHTINGS)
                return self._scan_sightings(request["TableName"]) if is_sightings else self._scan(request)
            case "ListShards":
                token = request.get("NextToken") or f"{_count(request['StreamName'])}/0"
                count, first = map(int, token.split("/"))
                return list_shards_page(count, first)
            case "DescribeStreamSummary":
                return _description(request["StreamName"])
            case "GetShardIterator" | "GetRecords":
                return READ[operation]
            case "PutItem":
                return self._put(request["TableName"], request["Item"])
            case "StartExecution":
                assert len(request["input"]) <= EXECUTION_BYTES_MAX, "an execution's input is too large"
                return b'{"executionArn": "arn:aws:states:::execution", "startDate": 1770000000}'
        raise LookupError(f"{operation} is not served")

    def _scan(self, request: dict[str, Any]) -> bytes:
        kind, count = request["TableName"].partition("-")[0], _count(request["TableName"])
        page = int(request.get("ExclusiveStartKey", {}).get(LEASE_KEY, {}).get("S", 0))
        self._scans += page == 0
        body, units = scan_pages(kind, count, 100 + self._scans % 2)[page]
        self.counts["read units"] += units
        return body

    def _scan_sightings(self, table: str) -> bytes:
        """Consistent: a whole unit per 4 KB."""
        items = list(self._sightings.get(table, {}).values())
        self.counts["read units"] += -(-sum(map(size, items)) // READ_UNIT_BYTES)
        return json.dumps({"Items": items, "Count": len(items)}).encode()

    def _put(self, table: str, item: Item) -> bytes:
        self.counts["write units"] += -(-size(item) // 1024)
        if table.endswith(SIGHTINGS):
            self._sightings.setdefault(table, {})[item["chunk"]["S"]] = item
        return b"{}"


def _description(name: str) -> bytes:
    identity = {"StreamARN": f"arn:aws:kinesis:::stream/{name}", "StreamCreationTimestamp": 1.7e9}
    return json.dumps({"StreamDescriptionSummary": identity}).encode()


def _count(name: str) -> int:
    return int(name.rpartition("-")[2])


class Requests(BaseHTTPRequestHandler):
    """AWS' JSON protocol over HTTP/1.1."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    streams = LargeStreams()

    def do_GET(self) -> None:
        counts: dict[str, Any] = {}
        if self.path == "/counts":
            counts = dict(self.streams.counts)
            self.streams.counts.clear()
        self._send(json.dumps(counts).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._send(self.streams.reply(self.headers["X-Amz-Target"].rpartition(".")[2], json.loads(body)))

    def _send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Logs nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer((HOST, int(sys.argv[1])), Requests).serve_forever()
