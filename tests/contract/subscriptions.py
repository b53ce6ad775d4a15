"""Fan-out consumers and subscriptions of the embedded AWS through botocore alone, to show what any reader of Kinesis
may expect.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Queue
from typing import Any

from botocore.eventstream import ParserError
from botocore.exceptions import EventStreamError
from urllib3.exceptions import HTTPError

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import FanOut

PATIENCE = 60.0
"""Seconds until a test gives up on something that should happen at once."""

Json = dict[str, Any]
END = object()


@dataclass
class Subscription:
    """Reads one subscription in a thread of its own: its events, an exception that ended it, or END."""

    stream: Any
    came: Queue[Any] = field(default_factory=Queue)
    reading: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()

    def next(self) -> Any:
        return self.came.get(timeout=PATIENCE)

    def event(self) -> Json:
        came = self.next()
        assert isinstance(came, dict), came
        return came

    def records(self, count: int) -> list[bytes]:
        """The data of the next `count` records, whichever events they come in."""
        found: list[bytes] = []
        while len(found) < count:
            found += [record["Data"] for record in self.event()["Records"]]
        return found

    def last(self) -> Any:
        """What ends it, after any number of events."""
        until = time.monotonic() + PATIENCE
        while isinstance(came := self.next(), dict):
            assert time.monotonic() < until, "it goes on"
        return came

    def _read(self) -> None:
        try:
            for event in self.stream:
                self.came.put(event["SubscribeToShardEvent"])
            self.came.put(END)
        except (EventStreamError, ParserError, HTTPError) as problem:
            self.came.put(problem)
        finally:
            self.stream.close()


@dataclass(frozen=True)
class Consumed:
    """A stream of its own with one registered consumer."""

    aws: EmbeddedAws
    client: Any
    stream: str
    stream_arn: str
    consumer_arn: str
    opened: list[Subscription] = field(default_factory=list)

    @property
    def fan_out(self) -> FanOut:
        return FanOut(self.aws, self.consumer_arn)

    @property
    def shards(self) -> list[str]:
        return [shard["ShardId"] for shard in self.client.list_shards(StreamName=self.stream)["Shards"]]

    def put(self, data: bytes, hash_key: int = 0) -> str:
        reply = self.client.put_record(
            StreamName=self.stream, Data=data, PartitionKey="key", ExplicitHashKey=str(hash_key)
        )
        return str(reply["SequenceNumber"])

    def subscribe(self, kind: str = "TRIM_HORIZON", shard: int | str = 0, **position: object) -> Subscription:
        shard_id = shard if isinstance(shard, str) else f"shardId-{shard:012}"
        reply = self.client.subscribe_to_shard(
            ConsumerARN=self.consumer_arn, ShardId=shard_id, StartingPosition={"Type": kind, **position}
        )
        self.opened.append(Subscription(reply["EventStream"]))
        return self.opened[-1]

    def as_other(self, consumer_arn: str) -> Consumed:
        return replace(self, consumer_arn=consumer_arn)


@contextmanager
def consumed(aws: EmbeddedAws, shards: int = 1) -> Iterator[Consumed]:
    """A new stream, deleted after the block, which ends every subscription and closes its connection."""
    client = aws.client("kinesis")
    name = f"stream-{uuid.uuid4().hex[:8]}"
    client.create_stream(StreamName=name, ShardCount=shards)
    summary = partial(client.describe_stream_summary, StreamName=name)
    eventually(lambda: summary()["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE")
    stream_arn = summary()["StreamDescriptionSummary"]["StreamARN"]
    stream = Consumed(aws, client, name, stream_arn, registered(client, stream_arn, "reader"))
    yield stream
    gone = client.exceptions.ResourceNotFoundException, client.exceptions.ResourceInUseException
    with suppress(*gone):  # or it is being deleted
        client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
    for subscription in stream.opened:
        subscription.reading.join(PATIENCE)
    client.close()


def registered(client: Any, stream_arn: str, name: str) -> str:
    """The ARN of a new consumer, once it is active."""
    consumer = client.register_stream_consumer(StreamARN=stream_arn, ConsumerName=name)["Consumer"]
    arn: str = consumer["ConsumerARN"]
    eventually(
        lambda: client.describe_stream_consumer(ConsumerARN=arn)["ConsumerDescription"]["ConsumerStatus"] == "ACTIVE"
    )
    return arn


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)
