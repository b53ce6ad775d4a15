"""The replay server with SubscribeToShard: `python -m benchmarks.push_server PORT` sends events that were made
beforehand.

Any consumer that is asked for is registered and active. A subscription gets its shard's records as fast as it reads
them, in events of at most 1 MiB, then an empty event every five seconds. Only HTTP/1.1 is spoken.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

from sublet.protocol.event_stream import message

from benchmarks.replay_server import ARRIVED, FIRST_SEQUENCE_NUMBER, HOST, Replay, Requests, Shard

EVENT_BYTES = 2**20
EVERY = 5.0
LASTS = 300.0
"""Seconds from one empty event to the next, and of a subscription."""

HEADERS = {":message-type": "event", ":content-type": "application/json"}


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


class Consumers:
    """Answers at once the calls of fan-out that are not the replay's."""

    def __init__(self) -> None:
        self.replay = Replay()

    def reply(self, operation: str, request: dict[str, Any]) -> bytes:
        if operation not in ("DescribeStreamConsumer", "RegisterStreamConsumer"):
            return self.replay.reply(operation, request)
        arn = request.get("ConsumerARN") or f"{request['StreamARN']}/consumer/{request['ConsumerName']}:1"
        found = {
            "ConsumerARN": arn,
            "ConsumerName": arn.rpartition("/")[2].partition(":")[0],
            "ConsumerStatus": "ACTIVE",
            "ConsumerCreationTimestamp": ARRIVED,
            "StreamARN": arn.partition("/consumer/")[0],
        }
        return json.dumps({"ConsumerDescription": found, "Consumer": found}).encode()


class Pushing(Requests):
    consumers = Consumers()
    replay = consumers

    def do_POST(self) -> None:  # noqa: N802 -- the base class's name
        if self.headers["x-amz-target"].endswith(".SubscribeToShard"):
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._push(request)
        else:
            super().do_POST()

    def _push(self, request: dict[str, Any]) -> None:
        stream = request["ConsumerARN"].partition("/consumer/")[0].rpartition("/")[2]
        shard = self.consumers.replay.shards_of(stream)[int(request["ShardId"].rpartition("-")[2])]
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
    ThreadingHTTPServer((HOST, port), Pushing).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
