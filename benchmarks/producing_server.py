"""A Kinesis stream that takes everything and keeps only counts: `python -m benchmarks.producing_server PORT SHARDS`.

Each stream record goes to the shard of its hash key; user records are counted as a consumer with KCL's rules would
deliver them. `GET /counts` returns the counts since the last request.
"""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64decode
from collections import Counter
from typing import Any

from sublet.protocol.aggregation import deaggregate
from sublet.protocol.hash_keys import KeysInside, hash_key
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import HASH_KEY_MAX, HashKeyRange, Shard
from sublet.protocol.shard_map import ShardMap

from benchmarks.quiet_server import DESCRIPTION, FIRST_SEQUENCE_NUMBER, HOST, Connection


class CountingStream:
    """The operations."""

    def __init__(self, shards: int) -> None:
        self.counts: Counter[str] = Counter()
        self._put = 0
        width = (HASH_KEY_MAX + 1) // shards
        self._shards = [
            Shard(
                f"shardId-{n:012}",
                HashKeyRange(n * width, HASH_KEY_MAX if n == shards - 1 else (n + 1) * width - 1),
            )
            for n in range(shards)
        ]
        self._map = ShardMap.of(self._shards)
        self._inside = {shard.shard_id: KeysInside(shard.hash_key_range) for shard in self._shards}

    def forget(self) -> None:
        """There is nothing to forget."""

    def reply(self, operation: str, body: bytes) -> bytes:
        request: dict[str, Any] = json.loads(body or b"{}")
        self.counts[operation] += 1
        match operation:
            case "PutRecords":
                reply = {
                    "FailedRecordCount": 0,
                    "Records": [self._taken(entry) for entry in request["Records"]],
                }
            case "ListShards":
                reply = {"Shards": [_listed(shard) for shard in self._shards]}
            case "DescribeStreamSummary":
                reply = {"StreamDescriptionSummary": {**DESCRIPTION, "OpenShardCount": len(self._shards)}}
            case _:
                raise LookupError(f"{operation} is not served")
        return json.dumps(reply).encode()

    def _taken(self, entry: dict[str, Any]) -> dict[str, str]:
        self._put += 1
        shard_id = self._map.shard_at(hash_key(entry["PartitionKey"], entry.get("ExplicitHashKey")))
        record = StreamRecord(str(self._put), b64decode(entry["Data"]), entry["PartitionKey"])
        self.counts["stream_records"] += 1
        self.counts["user_records"] += len(deaggregate([record], self._inside[shard_id]).user_records)
        return {"ShardId": shard_id, "SequenceNumber": str(FIRST_SEQUENCE_NUMBER + self._put)}


def _listed(shard: Shard) -> dict[str, Any]:
    starting, ending = shard.hash_key_range
    return {
        "ShardId": shard.shard_id,
        "HashKeyRange": {"StartingHashKey": str(starting), "EndingHashKey": str(ending)},
        "SequenceNumberRange": {"StartingSequenceNumber": str(FIRST_SEQUENCE_NUMBER)},
    }


async def main(port: int, shards: int) -> None:
    stream = CountingStream(shards)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(stream), HOST, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
