"""Serves a Kinesis too fast to matter: `python -m benchmarks.replay_server PORT`. GetRecords and SubscribeToShard get
bodies made beforehand.

Streams of 4 shards, each made on first use: `idle`; `plain`, 100,000 records of 1 KB; `aggregated`, 1.6 million user
records of 100 B in 4,000 KPL aggregates of 50 KB; and the other way round `plain-small`, 400,000 of 100 B, and
`aggregated-large`, 200,000 of 1 KB in as many aggregates. Pages are limited as in the service: to the requested
number, 10 MB and 10,000 records. Every user record has a key of its own that hashes into its shard, or KCL's rule
would rightly drop the aggregates. No other limit is enforced: the consumer is measured. Iterators start at the trim
horizon, at a record or at the tip.

Any consumer that is asked for is registered and active. A subscription gets its shard's records as fast as it reads
them, in events of at most 1 MiB, then an empty event every five seconds. Only HTTP/1.1 is spoken.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate, cycle, islice
from random import Random
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Protocol

from sublet.protocol.aggregation import aggregate
from sublet.protocol.event_stream import message
from sublet.protocol.hash_keys import hash_key
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange

HOST = "127.0.0.1"
SHARDS = 4
IDLE, PLAIN, AGGREGATED = "idle", "plain", "aggregated"
PLAIN_SMALL, AGGREGATED_LARGE = "plain-small", "aggregated-large"

PLAIN_RECORDS = 100_000
PLAIN_BYTES = 1024
AGGREGATES = 4_000
USER_RECORDS_EACH = 400
USER_RECORD_BYTES = 100
SMALL_RECORDS = 400_000
LARGE_EACH = 50
USER_RECORDS = {
    PLAIN: PLAIN_RECORDS,
    AGGREGATED: AGGREGATES * USER_RECORDS_EACH,
    PLAIN_SMALL: SMALL_RECORDS,
    AGGREGATED_LARGE: AGGREGATES * LARGE_EACH,
}
STREAM_RECORDS = {PLAIN: PLAIN_RECORDS, AGGREGATED: AGGREGATES}

PAGE_BYTES = 10_000_000
PAGE_RECORDS = 10_000

EVENT_BYTES = 2**20
EVERY = 5.0
LASTS = 300.0
"""Seconds from one empty event to the next, and of a subscription."""
HEADERS = {":message-type": "event", ":content-type": "application/json"}

DISTINCT_AGGREGATES = 20
"""Per shard, repeated to make up the rest: too many for any cache, but made within a second."""

ARRIVED = 1_770_000_000.123
FIRST_SEQUENCE_NUMBER = 49_600_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000_000

Record = tuple[str, bytes]
"""Partition key and data."""


def shard_range(number: int) -> HashKeyRange:
    width = (HASH_KEY_MAX + 1) // SHARDS
    return HashKeyRange(number * width, (number + 1) * width - 1)


def keys_of(shard: int, random: Random) -> Iterator[str]:
    """Different partition keys that hash into the shard."""
    inside = shard_range(shard)
    while True:
        key = f"{random.getrandbits(64):016x}"
        if hash_key(key, None) in inside:
            yield key


def plain_records(shard: int, records: int = PLAIN_RECORDS, size: int = PLAIN_BYTES) -> Iterator[Record]:
    random = Random(shard)
    for key in islice(keys_of(shard, random), records // SHARDS):
        yield key, random.randbytes(size)


def aggregates(shard: int, each: int = USER_RECORDS_EACH, size: int = USER_RECORD_BYTES) -> Iterator[Record]:
    random = Random(shard)
    keys = keys_of(shard, random)

    def one() -> Record:
        own = list(islice(keys, each))
        return own[0], aggregate([(key, None, random.randbytes(size)) for key in own])

    return islice(cycle([one() for _ in range(DISTINCT_AGGREGATES)]), AGGREGATES // SHARDS)


class Shard(NamedTuple):
    """`records`: the JSON of each. `ends`: the data bytes of the first 0, 1, 2 ... of them."""

    records: Sequence[bytes]
    ends: Sequence[int]

    def page(self, stream: str, shard: int, at: int, limit: int) -> bytes:
        """A GetRecords body of the records from `at` on."""
        fits = bisect_right(self.ends, self.ends[at] + PAGE_BYTES) - 1
        end = min(max(fits, at + 1), at + limit, len(self.records))
        behind = 0 if end == len(self.records) else 1_000
        head = f'{{"NextShardIterator":"{iterator(stream, shard, end)}","MillisBehindLatest":{behind},"Records":['
        return b"".join((head.encode(), b",".join(self.records[at:end]), b"]}"))


def made(records: Iterator[Record]) -> Shard:
    """Adds sequence numbers."""
    texts, sizes = [], []
    for number, (key, data) in enumerate(records):
        record = {
            "SequenceNumber": str(FIRST_SEQUENCE_NUMBER + number),
            "ApproximateArrivalTimestamp": ARRIVED,
            "Data": b64encode(data).decode(),
            "PartitionKey": key,
        }
        texts.append(json.dumps(record, separators=(",", ":")).encode())
        sizes.append(len(data))
    return Shard(texts, list(accumulate(sizes, initial=0)))


def iterator(stream: str, shard: int, at: int) -> str:
    """Makes an iterator at a record, as long as a real one."""
    return f"{stream}/{shard}/{at}/".ljust(200, "x")


def shards() -> list[dict[str, object]]:
    return [
        {
            "ShardId": f"shardId-{number:012}",
            "HashKeyRange": {
                "StartingHashKey": str(shard_range(number).starting),
                "EndingHashKey": str(shard_range(number).ending),
            },
            "SequenceNumberRange": {"StartingSequenceNumber": str(FIRST_SEQUENCE_NUMBER)},
        }
        for number in range(SHARDS)
    ]


def events(shard: Shard, at: int) -> Iterator[bytes]:
    """Yields encoded events, from this record on."""
    while at < len(shard.records):
        end = at + 1
        while end < len(shard.records) and shard.ends[end + 1] - shard.ends[at] <= EVENT_BYTES:
            end += 1
        yield event(b",".join(shard.records[at:end]), end - 1, behind=0 if end == len(shard.records) else 1_000)
        at = end


def event(records: bytes, last: int, *, behind: int) -> bytes:
    """Encodes an event with the continuation after the `last` record."""
    number = FIRST_SEQUENCE_NUMBER + last
    tail = f'],"ContinuationSequenceNumber":"{number}","MillisBehindLatest":{behind}}}'
    payload = b"".join((b'{"Records":[', records, tail.encode()))
    return message({**HEADERS, ":event-type": "SubscribeToShardEvent"}, payload)


def position(request: dict[str, Any]) -> int:
    """The first record to send."""
    start = request["StartingPosition"]
    if "SequenceNumber" not in start:
        return 0
    at = int(start["SequenceNumber"]) - FIRST_SEQUENCE_NUMBER
    return at + 1 if start["Type"] == "AFTER_SEQUENCE_NUMBER" else at


class Refused(Exception):
    """A request that this server does not serve, or not now."""

    def __init__(self, why: str, error: str = "InvalidArgumentException") -> None:
        super().__init__(why)
        self.error = error


class Replay:
    """The streams and the operations on them."""

    def __init__(self) -> None:
        self._sources: dict[str, Callable[[int], Iterator[Record]]] = {
            IDLE: lambda _: iter(()),
            PLAIN: plain_records,
            AGGREGATED: aggregates,
            PLAIN_SMALL: lambda shard: plain_records(shard, SMALL_RECORDS, USER_RECORD_BYTES),
            AGGREGATED_LARGE: lambda shard: aggregates(shard, LARGE_EACH, PLAIN_BYTES),
        }
        self._made: dict[str, list[Shard]] = {}
        self._making = Lock()

    def shards_of(self, name: str) -> list[Shard]:
        """Returns a stream's shards. A stream is made when it is first asked for."""
        with self._making:
            if name not in self._made:
                source = self._sources[name]
                self._made[name] = [made(source(shard)) for shard in range(SHARDS)]
            return self._made[name]

    def reply(self, operation: str, request: dict[str, Any]) -> bytes:
        if operation == "GetRecords":
            return self._records(request)
        if operation in ("DescribeStreamConsumer", "RegisterStreamConsumer"):
            return _consumer(request)
        name = request.get("StreamName") or request.get("StreamARN", "").rpartition("/")[2]
        if name not in self._sources:
            raise Refused(f"there is no stream {name!r}, only {', '.join(self._sources)}")
        self.shards_of(name)
        match operation:
            case "ListShards":
                reply: dict[str, object] = {"Shards": shards()}
            case "GetShardIterator":
                reply = {"ShardIterator": self._iterator(name, request)}
            case "DescribeStream":
                reply = {"StreamDescription": description(name) | {"Shards": shards(), "HasMoreShards": False}}
            case "DescribeStreamSummary":
                reply = {"StreamDescriptionSummary": description(name) | {"OpenShardCount": SHARDS}}
            case _:
                raise Refused(f"{operation} is not served")
        return json.dumps(reply).encode()

    def _records(self, request: dict[str, Any]) -> bytes:
        stream, shard, at, _ = request["ShardIterator"].split("/")
        limit = min(request.get("Limit", PAGE_RECORDS), PAGE_RECORDS)
        return self.shards_of(stream)[int(shard)].page(stream, int(shard), int(at), limit)

    def _iterator(self, name: str, request: dict[str, Any]) -> str:
        shard = int(request["ShardId"].rpartition("-")[2])
        match request["ShardIteratorType"]:
            case "TRIM_HORIZON" | "AT_TIMESTAMP":
                return iterator(name, shard, 0)
            case "LATEST":
                return iterator(name, shard, len(self.shards_of(name)[shard].records))
            case "AT_SEQUENCE_NUMBER":
                return iterator(name, shard, int(request["StartingSequenceNumber"]) - FIRST_SEQUENCE_NUMBER)
            case other:
                raise Refused(f"iterators of type {other} are not served")


def description(name: str) -> dict[str, object]:
    return {
        "StreamName": name,
        "StreamARN": f"arn:aws:kinesis:us-east-1:000000000000:stream/{name}",
        "StreamStatus": "ACTIVE",
        "StreamModeDetails": {"StreamMode": "PROVISIONED"},
        "RetentionPeriodHours": 24,
        "StreamCreationTimestamp": ARRIVED,
        "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
        "EncryptionType": "NONE",
    }


def _consumer(request: dict[str, Any]) -> bytes:
    arn = request.get("ConsumerARN") or f"{request['StreamARN']}/consumer/{request['ConsumerName']}:1"
    found = {
        "ConsumerARN": arn,
        "ConsumerName": arn.rpartition("/")[2].partition(":")[0],
        "ConsumerStatus": "ACTIVE",
        "ConsumerCreationTimestamp": ARRIVED,
        "StreamARN": arn.partition("/consumer/")[0],
    }
    return json.dumps({"ConsumerDescription": found, "Consumer": found}).encode()


class Replies(Protocol):
    """The replies of a server for Kinesis' protocol."""

    def reply(self, operation: str, request: dict[str, Any]) -> bytes:
        """The body. Raises Refused."""


class Requests(BaseHTTPRequestHandler):
    """Kinesis' JSON protocol over HTTP/1.1; a GET is the health check."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    replay: ClassVar[Replies]

    def do_GET(self) -> None:
        self._send(200, b"{}")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        operation = self.headers["x-amz-target"].rpartition(".")[2]
        try:
            self._send(200, self.replay.reply(operation, request))
        except Refused as refused:
            error = {"__type": refused.error, "message": str(refused)}
            self._send(400, json.dumps(error).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/x-amz-json-1.1")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Logs refusals only."""
        if args and str(args[1]) != "200":
            sys.stderr.write(f"{format % args}\n")


class ReplayRequests(Requests):
    """The same, and SubscribeToShard."""

    streams = Replay()
    replay = streams

    def do_POST(self) -> None:
        if self.headers["x-amz-target"].endswith(".SubscribeToShard"):
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._push(request)
        else:
            super().do_POST()

    def _push(self, request: dict[str, Any]) -> None:
        stream = request["ConsumerARN"].partition("/consumer/")[0].rpartition("/")[2]
        shard = self.streams.shards_of(stream)[int(request["ShardId"].rpartition("-")[2])]
        self.send_response(200)
        self.send_header("content-type", "application/vnd.amazon.eventstream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._chunk(message({**HEADERS, ":event-type": "initial-response"}, b"{}"))
        for each in events(shard, position(request)):
            self._chunk(each)
        until = time.monotonic() + LASTS
        while time.monotonic() < until:
            time.sleep(EVERY)
            self._chunk(event(b"", len(shard.records) - 1, behind=0))
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def main(port: int) -> None:
    ThreadingHTTPServer((HOST, port), ReplayRequests).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
