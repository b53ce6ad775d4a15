"""A stream on the emulator, with a producer that numbers its records and an operator who reshards, from one seed."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any

from sublet.protocol.aggregation import aggregate


class BusyStream:
    """`produced` holds every record that the service has taken, once."""

    def __init__(self, client: Any, name: str, seed: int) -> None:
        self.name = name
        self.produced: list[bytes] = []
        self._client = client
        self._chance = Random(seed)
        self._stop = threading.Event()
        client.create_stream(StreamName=name, ShardCount=2)
        client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})

    def open_shards(self) -> list[dict[str, Any]]:
        shards = self._client.list_shards(StreamName=self.name)["Shards"]
        open_ = [s for s in shards if "EndingSequenceNumber" not in s["SequenceNumberRange"]]
        return sorted(open_, key=lambda s: int(s["HashKeyRange"]["StartingHashKey"]))

    def produce(self) -> None:
        """Some plain records, and one aggregate whose records have one key, so that it is valid after any reshard."""
        count = self._chance.randrange(20, 120)
        entries = [(f"key-{self._chance.randrange(1000)}", self._number()) for _ in range(count)]
        key = f"key-{self._chance.randrange(1000)}"
        inner = [self._number() for _ in range(10)]
        entries.append((key, aggregate([(key, None, data) for data in inner])))
        records = [{"PartitionKey": key, "Data": data} for key, data in entries]
        reply = self._client.put_records(StreamName=self.name, Records=records)
        assert reply["FailedRecordCount"] == 0, reply

    def reshard(self) -> None:
        """Split or merge at random, between one and five open shards; nothing if none is listed yet."""
        shards = self.open_shards()
        if not shards:
            return
        if len(shards) > 1 and (len(shards) > 4 or self._chance.random() < 0.5):
            first = self._chance.randrange(len(shards) - 1)
            left, right = (shards[first + n]["ShardId"] for n in (0, 1))
            self._client.merge_shards(StreamName=self.name, ShardToMerge=left, AdjacentShardToMerge=right)
        else:
            shard = self._chance.choice(shards)
            low, high = (int(shard["HashKeyRange"][f"{end}HashKey"]) for end in ("Starting", "Ending"))
            middle = str((low + high) // 2)
            self._client.split_shard(StreamName=self.name, ShardToSplit=shard["ShardId"], NewStartingHashKey=middle)
        self._client.get_waiter("stream_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})

    def run(self, reshard_every: float) -> None:
        """Produce until stopped; for a thread."""
        next_reshard = time.monotonic() + reshard_every
        while not self._stop.wait(0.1):
            self.produce()
            if time.monotonic() > next_reshard:
                self.reshard()
                next_reshard = time.monotonic() + reshard_every

    def stop(self) -> None:
        self._stop.set()

    def _number(self) -> bytes:
        self.produced.append(b"%d" % len(self.produced))
        return self.produced[-1]
