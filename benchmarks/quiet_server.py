"""A Kinesis stream of many quiet shards, as cheap as Python can serve it: `python -m benchmarks.quiet_server PORT
SHARDS`.

One thread, no limits enforced. A put record goes to the shard that its key hashes into. `GET /counts` returns the
calls of each operation since the last request; `GET /forget` deletes all records.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from bisect import bisect_right
from collections import Counter
from email.utils import formatdate
from typing import Any, Final, Protocol

from sublet.protocol.hash_keys import hash_key
from sublet.protocol.shard import HASH_KEY_MAX

HOST = "127.0.0.1"
STREAM = "quiet"
CREATED_AT = 1_770_000_000.123
FIRST_SEQUENCE_NUMBER = 49_600_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000
ITERATOR_CHARACTERS = 200
DESCRIPTION: Final = {
    "StreamName": STREAM,
    "StreamARN": f"arn:aws:kinesis:us-east-1:000000000000:stream/{STREAM}",
    "StreamStatus": "ACTIVE",
    "StreamModeDetails": {"StreamMode": "PROVISIONED"},
    "RetentionPeriodHours": 24,
    "StreamCreationTimestamp": CREATED_AT,
    "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
    "EncryptionType": "NONE",
}


class QuietStream:
    """The operations. Each shard's records are kept as their JSON."""

    def __init__(self, shards: int) -> None:
        self.counts: Counter[str] = Counter()
        self._starts = [number * (HASH_KEY_MAX + 1) // shards for number in range(shards)]
        self._records: list[list[str]] = [[] for _ in range(shards)]
        self._put = 0

    def forget(self) -> None:
        """Deletes all records, for the next consumer."""
        for records in self._records:
            records.clear()

    def reply(self, operation: str, body: bytes) -> bytes:
        self.counts[operation] += 1
        request: dict[str, Any] = json.loads(body or b"{}")
        match operation:
            case "GetRecords":
                return self._page(request["ShardIterator"]).encode()
            case "PutRecord":
                reply = self._keep(request)
            case "GetShardIterator":
                shard = int(request["ShardId"].rpartition("-")[2])
                at = self._position(self._records[shard], request)
                reply = {"ShardIterator": _iterator(shard, at)}
            case "ListShards":
                reply = {"Shards": self._shards()}
            case "DescribeStreamSummary":
                reply = {"StreamDescriptionSummary": {**DESCRIPTION, "OpenShardCount": len(self._starts)}}
            case _:
                raise LookupError(f"{operation} is not served")
        return json.dumps(reply).encode()

    def _page(self, iterator: str) -> str:
        shard, at, _ = iterator.split("/")
        records = self._records[int(shard)]
        following = _iterator(int(shard), len(records))
        found = ",".join(records[int(at) :])
        return f'{{"NextShardIterator":"{following}","MillisBehindLatest":0,"Records":[{found}]}}'

    def _keep(self, request: dict[str, Any]) -> dict[str, Any]:
        shard = bisect_right(self._starts, hash_key(request["PartitionKey"], None)) - 1
        number = str(FIRST_SEQUENCE_NUMBER + self._put)
        self._put += 1
        told = {key: request[key] for key in ("Data", "PartitionKey")}
        record = {"SequenceNumber": number, "ApproximateArrivalTimestamp": time.time(), **told}
        self._records[shard].append(json.dumps(record))
        return {"SequenceNumber": number, "ShardId": _shard_id(shard)}

    @staticmethod
    def _position(records: list[str], request: dict[str, Any]) -> int:
        match request["ShardIteratorType"]:
            case "LATEST":
                return len(records)
            case "TRIM_HORIZON" | "AT_TIMESTAMP":
                return 0
        number = int(request["StartingSequenceNumber"])
        after = request["ShardIteratorType"] == "AFTER_SEQUENCE_NUMBER"
        numbers = [int(json.loads(record)["SequenceNumber"]) for record in records]
        return sum(each < number or (after and each == number) for each in numbers)

    def _shards(self) -> list[dict[str, Any]]:
        ends = [*(start - 1 for start in self._starts[1:]), HASH_KEY_MAX]
        return [
            {
                "ShardId": _shard_id(number),
                "HashKeyRange": {"StartingHashKey": str(start), "EndingHashKey": str(end)},
                "SequenceNumberRange": {"StartingSequenceNumber": str(FIRST_SEQUENCE_NUMBER)},
            }
            for number, (start, end) in enumerate(zip(self._starts, ends, strict=True))
        ]


def _shard_id(number: int) -> str:
    return f"shardId-{number:012}"


def _iterator(shard: int, at: int) -> str:
    """Makes an iterator as long as a real one."""
    return f"{shard}/{at}/".ljust(ITERATOR_CHARACTERS, "x")


class Served(Protocol):
    """What a Connection needs of a stream."""

    counts: Counter[str]

    def forget(self) -> None: ...

    def reply(self, operation: str, body: bytes) -> bytes: ...


class Connection(asyncio.Protocol):
    """HTTP/1.1 with one request at a time, with a Content-Length."""

    def __init__(self, stream: Served) -> None:
        self._stream = stream
        self._read = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, found, rest = self._read.partition(b"\r\n\r\n")
        if not found:
            return
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(headers.get(b"content-length", b"0"))
        if len(rest) < length:
            return
        self._read = rest[length:]
        if head.startswith(b"GET /forget"):
            self._stream.forget()
        if head.startswith(b"GET"):
            self._answer(self._counts() if head.startswith(b"GET /counts") else b"{}")
        else:
            operation = _operation(head)
            self._answer(self._stream.reply(operation, rest[:length]))

    def _counts(self) -> bytes:
        counts = json.dumps(self._stream.counts).encode()
        self._stream.counts.clear()
        return counts

    def _answer(self, body: bytes) -> None:
        assert self._transport is not None
        head = (
            "HTTP/1.1 200 OK\r\nx-amzn-requestid: 00000000-0000-0000-0000-000000000000\r\n"
            "content-type: application/x-amz-json-1.1\r\n"
            f"date: {formatdate(usegmt=True)}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)


def _operation(head: bytes) -> str:
    """`X-Amz-Target: Kinesis_20131202.GetRecords`; the header's name may be in any case."""
    at = head.lower().index(b"x-amz-target:")
    return head[at:].split(b"\r\n", 1)[0].rpartition(b".")[2].decode().strip()


async def main(port: int, shards: int) -> None:
    stream = QuietStream(shards)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(stream), HOST, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
