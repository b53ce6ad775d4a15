"""A stream with a fan-out consumer under test, with its producer's and operator's side, and what its readers find."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import NamedTuple

from msgspec.structs import replace
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.kinesis.fan_out_consumers import StatedConsumer
from sublet.aws.kinesis.several_streams import AwsStreams
from sublet.aws.kinesis.stream import KinesisStream
from sublet.aws.push.push_requests import PushRequests
from sublet.aws.push.pushes import KinesisPushes
from sublet.aws.push.pushes_of_streams import PushesOfStreams
from sublet.decisions.session.push import TAKEN_OVER_AFTER, PushEnd
from sublet.decisions.session.read_position import LONGEST_RETENTION, IteratorType, ReadPosition
from sublet.ports import Pushed, Pushes, Refusal, ShardSubscription, Stream, Unanswered
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.shard import ChildShard
from sublet.protocol.stream_key import StreamKey, child_in_stream, in_stream, own_id, stream_key_of
from sublet.reading.pushing import FanOutReader
from sublet.reading.several_streams import AllPushes, StreamOfSeveral
from sublet.settings import Mode, Reading, Settings, StreamChoice
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks
from sublet.testing.memory import MemoryFanOut, MemoryLog, MemoryStream
from sublet.testing.memory.pushes import EMPTY_EVENT_EVERY

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import FanOut
from tests.contract.subscriptions import consumed

HORIZON = ReadPosition(IteratorType.TRIM_HORIZON)
LATEST = ReadPosition(IteratorType.LATEST)
FIRST, SECOND, THIRD = (f"shardId-{n:012}" for n in range(3))
PATIENCE = timedelta(seconds=20 if os.environ.get("E2E_AWS") == "localstack" else 60)
"""Until a test gives up on something that should happen at once. Some of it never happens on LocalStack."""
SOON = timedelta(milliseconds=300)
NEVER = timedelta(hours=1)


class CountedPushes:
    """Passes on, and counts what was asked."""

    def __init__(self, real: Pushes) -> None:
        self.real = real
        self.asked: list[ReadPosition] = []
        self.answers: list[PushEnd | None] = []

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd | Unanswered:
        self.asked.append(position)
        answer = self.real.subscribe(shard_id, position)
        self.answers.append(answer if isinstance(answer, PushEnd) else None)
        return answer


class Rules(NamedTuple):
    """How soon another subscription may take a shard over, and how often an empty event comes: so that a test neither
    waits for them nor has to be faster than they are."""

    again_after: timedelta = TAKEN_OVER_AFTER
    empty_event_every: timedelta = EMPTY_EVENT_EVERY


@dataclass
class Bench:
    """A stream with a fan-out consumer, and its producer's and operator's side."""

    stream: Stream
    pushes: CountedPushes
    put: Callable[[bytes], str]
    split: Callable[[], object]
    merge: Callable[[], object]
    delete: Callable[[], object]
    deregister: Callable[[], object]
    fan_out: FanOut | None = None
    key: StreamKey | None = None
    """Of a stream of several."""
    moment: float = 0.02
    """Seconds that tell two moments apart."""
    takes: Callable[[Rules], object] = lambda _: None
    """Changes the service's rules; LocalStack's are fixed."""
    readers: list[FanOutReader] = field(default_factory=list)

    def reader(self, position: ReadPosition = HORIZON, shard_id: str = FIRST) -> FanOutReader:
        named = shard_id if self.key is None else in_stream(self.key, shard_id)
        reader = FanOutReader(self.pushes, self.stream, named, position, SystemClock(), ThreadTasks(), Random(0))
        self.readers.append(reader)
        return reader

    def close(self) -> None:
        for reader in self.readers:
            reader.interrupt()
            reader.close()


@contextmanager
def memory_bench(shards: int = 1) -> Iterator[Bench]:
    stream = MemoryStream(shards, clock=SystemClock(), advance=lambda: LONGEST_RETENTION)
    consumer = MemoryFanOut(stream, SystemClock(), ThreadTasks())

    def takes(rules: Rules) -> None:
        consumer.again_after, consumer.empty_event_every = rules

    yield Bench(
        stream,
        CountedPushes(consumer),
        lambda data: stream.put("key", data, 0),
        lambda: stream.split(FIRST),
        lambda: stream.merge(FIRST, SECOND),
        stream.delete,
        lambda: setattr(consumer, "is_registered", False),
        takes=takes,
    )


@contextmanager
def several_in_memory(shards: int = 1) -> Iterator[Bench]:
    """One of two streams, each with a consumer of its own."""
    with memory_bench(shards) as bench, memory_bench(shards) as other:
        key = StreamKey.of(bench.stream.describe().identity)
        consumers = {key: bench.pushes.real, StreamKey(key.account, "other", 1): other.pushes.real}
        bench.pushes.real = AllPushes(consumers.__getitem__)
        bench.stream, bench.key = StreamOfSeveral(key, bench.stream), key
        yield bench


@contextmanager
def several_served(aws: EmbeddedAws, shards: int = 1) -> Iterator[Bench]:
    """A stream of an application of several, whose consumer is found by its name."""
    with served_bench(aws, shards) as bench:
        key = StreamKey.of(bench.stream.describe().identity)
        settings = Settings(
            application="contract",
            streams=StreamChoice.parse(key.stream),
            mode=Mode.CONTINUOUS,
            reading=Reading.FAN_OUT,
            fan_out_consumer="reader",
        )
        streams = AwsStreams(kinesis_client(), kinesis_poll_client(), settings)
        requests = PushRequests(kinesis_poll_client())
        pushes = PushesOfStreams(requests, kinesis_client(), streams, settings, SystemClock(), MemoryLog())
        bench.pushes.real = AllPushes(pushes.of)
        bench.stream, bench.key = streams.of(key), key
        yield bench


@contextmanager
def served_bench(aws: EmbeddedAws, shards: int = 1) -> Iterator[Bench]:
    with consumed(aws, shards) as real:
        stream = KinesisStream(
            kinesis_client(), kinesis_poll_client(), Settings(application="contract", stream=real.stream)
        )
        pushes = KinesisPushes(
            PushRequests(kinesis_poll_client()), stream, real.stream, StatedConsumer(real.consumer_arn)
        )
        client, name = real.client, real.stream

        def settle() -> None:
            client.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})

        def split() -> None:
            client.split_shard(StreamName=name, ShardToSplit=FIRST, NewStartingHashKey=str(2**127))
            settle()

        def merge() -> None:
            client.merge_shards(StreamName=name, ShardToMerge=FIRST, AdjacentShardToMerge=SECOND)
            settle()

        def delete() -> None:
            client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
            client.get_waiter("stream_not_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})

        yield Bench(
            stream,
            CountedPushes(pushes),
            real.put,
            split,
            merge,
            delete,
            lambda: client.deregister_stream_consumer(ConsumerARN=real.consumer_arn),
            real.fan_out,
            takes=lambda rules: real.fan_out.takes(
                again_after=rules.again_after, quiet_event_every=rules.empty_event_every
            ),
        )


class Listened:
    """A subscription; `listens` is set when its reader begins to wait for an event, which it does until one comes,
    however long it was to wait."""

    def __init__(self, real: ShardSubscription) -> None:
        self._real = real
        self.listens = threading.Event()

    @property
    def has_more(self) -> bool:
        return self._real.has_more

    def wait(self, longest: timedelta) -> bool:
        if not longest:
            return self._real.wait(longest)
        self.listens.set()
        return self._real.wait(NEVER)

    def next(self) -> Pushed | PushEnd | Unanswered:
        return self._real.next()

    def interrupt(self) -> None:
        self._real.interrupt()

    def close(self) -> None:
        self._real.close()


def interrupted_while_it_waits(bench: Bench) -> threading.Thread:
    """A thread in which a reader waited for an event that never comes, until it was interrupted."""
    bench.takes(Rules(empty_event_every=NEVER))
    reader = bench.reader(LATEST)
    page_of(reader)
    assert reader._subscription is not None
    listened = reader._subscription = Listened(reader._subscription)
    waits = threading.Thread(target=reader.wait, args=(NEVER,), daemon=True)
    waits.start()
    assert listened.listens.wait(PATIENCE.total_seconds())
    time.sleep(0.1)  # so that it is most likely at the connection, and not only on its way
    reader.interrupt()
    waits.join(PATIENCE.total_seconds() / 2)
    return waits


def page_of(reader: FanOutReader, limit: int = 10_000) -> Page:
    """The next page, empty ones included."""
    until = datetime.now(UTC) + PATIENCE
    while datetime.now(UTC) < until:
        page = reader.read(limit)
        if isinstance(page, Page):
            return page
    raise AssertionError("no page came")


def read_until(reader: FanOutReader, is_so: Callable[[], bool]) -> None:
    until = datetime.now(UTC) + PATIENCE
    while not is_so():
        assert datetime.now(UTC) < until
        reader.read(10)


def answers_until_a_record(reader: FanOutReader) -> list[Page | Refusal]:
    answers: list[Page | Refusal] = []
    until = datetime.now(UTC) + PATIENCE
    while not any(isinstance(answer, Page) and answer.records for answer in answers):
        assert datetime.now(UTC) < until, answers
        answers.append(reader.read(10))
    return answers


def records_of(reader: FanOutReader, count: int, limit: int = 10_000) -> list[StreamRecord]:
    found: list[StreamRecord] = []
    until = datetime.now(UTC) + PATIENCE
    while len(found) < count:
        page = page_of(reader, limit)
        assert len(page.records) <= limit
        assert not page.is_shard_end or len(found) + len(page.records) >= count
        found += page.records
        assert datetime.now(UTC) < until, found
    return found


def data_of(reader: FanOutReader, count: int, limit: int = 10_000) -> list[bytes]:
    return [record.data for record in records_of(reader, count, limit)]


def end_of(reader: FanOutReader) -> tuple[list[bytes], tuple[ChildShard, ...]]:
    """The children by their own ids."""
    data: list[bytes] = []
    until = datetime.now(UTC) + PATIENCE
    while datetime.now(UTC) < until:
        page = page_of(reader)
        data += [record.data for record in page.records]
        if page.is_shard_end:
            return data, tuple(_alone(child, stream_key_of(reader._shard_id)) for child in page.child_shards)
    raise AssertionError(f"the shard did not end after {data}")


def _alone(child: ChildShard, key: StreamKey | None) -> ChildShard:
    assert stream_key_of(child.shard_id) == key, "it is named as its parent is"
    parents = frozenset(map(own_id, child.parent_shard_ids))
    alone = replace(child, shard_id=own_id(child.shard_id), parent_shard_ids=parents)
    assert key is None or child_in_stream(key, alone) == child
    return alone
