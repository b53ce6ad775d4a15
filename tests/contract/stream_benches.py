"""A stream under test with its producer's and operator's side: in memory, and on the embedded AWS."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis.stream import KinesisStream
from sublet.reading.polling import PolledStream
from sublet.settings import Settings
from sublet.system.clock import SystemClock
from sublet.testing.memory import FakeClock, MemoryStream

A_MOMENT = timedelta(milliseconds=1100)
"""Longer than the second to which some clocks and parameters are rounded."""


class Bench(Protocol):
    @property
    def stream(self) -> PolledStream: ...

    def put(self, data: bytes, hash_key: int = 0) -> str: ...

    def split(self, shard_id: str) -> None: ...

    def merge(self, shard_id: str, adjacent: str) -> None: ...

    def delete(self) -> None: ...

    def let_time_pass(self) -> datetime:
        """Waits a moment before and after the time that it returns."""


@dataclass(frozen=True)
class MemoryBench:
    stream: MemoryStream
    clock: FakeClock

    def put(self, data: bytes, hash_key: int = 0) -> str:
        return self.stream.put("key", data, hash_key)

    def split(self, shard_id: str) -> None:
        self.stream.split(shard_id)

    def merge(self, shard_id: str, adjacent: str) -> None:
        self.stream.merge(shard_id, adjacent)

    def delete(self) -> None:
        self.stream.delete()

    def let_time_pass(self) -> datetime:
        between = self.clock.advance(A_MOMENT)
        self.clock.advance(A_MOMENT)
        return between


@dataclass(frozen=True)
class KinesisBench:
    """The real adapter; a client of the test's own creates and reshards its stream."""

    stream: KinesisStream
    client: Any
    name: str

    def put(self, data: bytes, hash_key: int = 0) -> str:
        reply = self.client.put_record(
            StreamName=self.name, Data=data, PartitionKey="key", ExplicitHashKey=str(hash_key)
        )
        return str(reply["SequenceNumber"])

    def split(self, shard_id: str) -> None:
        shard = next(shard for shard in self.stream.list_shards() if shard.shard_id == shard_id)
        middle = sum(shard.hash_key_range) // 2 + 1
        self.client.split_shard(StreamName=self.name, ShardToSplit=shard_id, NewStartingHashKey=str(middle))
        self._wait()

    def merge(self, shard_id: str, adjacent: str) -> None:
        self.client.merge_shards(StreamName=self.name, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent)
        self._wait()

    def delete(self) -> None:
        self.client.delete_stream(StreamName=self.name)
        self.client.get_waiter("stream_not_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})

    def let_time_pass(self) -> datetime:
        time.sleep(A_MOMENT.total_seconds())
        between = SystemClock().now()
        time.sleep(A_MOMENT.total_seconds())
        return between

    def _wait(self) -> None:
        self.client.get_waiter("stream_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})


def memory_bench(shards: int) -> MemoryBench:
    clock = FakeClock()
    return MemoryBench(MemoryStream(shards, clock=clock), clock)


def kinesis_bench(client: Any, shards: int) -> KinesisBench:
    name = f"stream-{uuid.uuid4().hex[:8]}"
    client.create_stream(StreamName=name, ShardCount=shards)
    client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    settings = Settings(application="contract", stream=name)
    return KinesisBench(KinesisStream(kinesis_client(), kinesis_poll_client(), settings), client, name)
