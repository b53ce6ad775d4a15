"""The PushReader port's promises, in memory and over the embedded AWS, whose SubscribeToShard keeps the service's rules.

Where a promise is one that another client has broken, its test names the report.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from sublet.aws.clients import kinesis_client, kinesis_poll_client
from sublet.aws.fan_out_consumers import StatedConsumer
from sublet.aws.kinesis import KinesisStream
from sublet.aws.push_requests import PushRequests
from sublet.aws.pushes import KinesisPushes, KinesisSubscription
from sublet.aws.pushes_of_streams import PushesOfStreams
from sublet.aws.streams import AwsStreams
from sublet.decisions.push import PushEnd
from sublet.decisions.read_position import LONGEST_RETENTION, IteratorType, ReadPosition, after
from sublet.errors import CheckpointNotInStream, ShardNotFound, StreamKeyUnavailable, StreamNotFound
from sublet.memory import MemoryFanOut, MemoryLog, MemoryStream
from sublet.ports import PollRefusal, Pushes, ShardSubscription, Stream
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.shard import HASH_KEY_MAX, ChildShard
from sublet.protocol.stream_key import StreamKey, child_in_stream, in_stream, own_id, stream_key_of
from sublet.pushing import FanOutReader
from sublet.settings import Mode, Reading, Settings, StreamChoice
from sublet.several_streams import AllPushes, StreamOfSeveral
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import FanOut, Fault
from tests.contract.subscriptions import consumed

HORIZON = ReadPosition(IteratorType.TRIM_HORIZON)
LATEST = ReadPosition(IteratorType.LATEST)
FIRST, SECOND, THIRD = (f"shardId-{n:012}" for n in range(3))
PATIENCE = timedelta(seconds=10)
SOON = timedelta(milliseconds=300)


class CountedPushes:
    """Passes on, and counts what was asked."""

    def __init__(self, real: Pushes) -> None:
        self.real = real
        self.asked: list[ReadPosition] = []
        self.answers: list[PushEnd | None] = []

    def subscribe(self, shard_id: str, position: ReadPosition) -> ShardSubscription | PushEnd:
        self.asked.append(position)
        answer = self.real.subscribe(shard_id, position)
        self.answers.append(answer if isinstance(answer, PushEnd) else None)
        return answer


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
    readers: list[FanOutReader] = field(default_factory=list)

    def reader(self, position: ReadPosition = HORIZON, shard_id: str = FIRST) -> FanOutReader:
        named = shard_id if self.key is None else in_stream(self.key, shard_id)
        reader = FanOutReader(
            self.pushes, self.stream, named, position, SystemClock(), ThreadTasks(), Random(0)
        )  # fmt: skip
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
    yield Bench(
        stream, CountedPushes(consumer), lambda data: stream.put("key", data, 0), lambda: stream.split(FIRST),
        lambda: stream.merge(FIRST, SECOND), stream.delete, lambda: setattr(consumer, "is_registered", False),
    )  # fmt: skip


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
def several_embedded(aws: EmbeddedAws, shards: int = 1) -> Iterator[Bench]:
    """A stream of an application of several, whose consumer is found by its name."""
    with embedded_bench(aws, shards) as bench:
        key = StreamKey.of(bench.stream.describe().identity)
        settings = Settings(
            application="contract", streams=StreamChoice.parse(key.stream), mode=Mode.CONTINUOUS,
            reading=Reading.FAN_OUT, fan_out_consumer="reader",
        )  # fmt: skip
        streams = AwsStreams(kinesis_client(), kinesis_poll_client(), settings)
        requests = PushRequests(kinesis_poll_client())
        pushes = PushesOfStreams(requests, kinesis_client(), streams, settings, SystemClock(), MemoryLog())
        bench.pushes.real = AllPushes(pushes.of)
        bench.stream, bench.key = streams.of(key), key
        yield bench


@contextmanager
def embedded_bench(aws: EmbeddedAws, shards: int = 1) -> Iterator[Bench]:
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
            stream, CountedPushes(pushes), real.put, split, merge, delete,
            lambda: client.deregister_stream_consumer(ConsumerARN=real.consumer_arn), real.fan_out,
        )  # fmt: skip


Benches = Callable[[int], Bench]


IN_MEMORY = {"memory": memory_bench, "several-in-memory": several_in_memory}
EMBEDDED = {"embedded": embedded_bench, "several-embedded": several_embedded}


@pytest.fixture(params=[*IN_MEMORY, *(pytest.param(name, marks=pytest.mark.emulator) for name in EMBEDDED)])
def bench_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Benches]:
    opened: list[Any] = []
    benches: list[Bench] = []

    def made(shards: int) -> Bench:
        if request.param in IN_MEMORY:
            opened.append(IN_MEMORY[request.param](shards))
        else:
            opened.append(EMBEDDED[request.param](request.getfixturevalue("embedded_aws"), shards))
        benches.append(opened[-1].__enter__())
        return benches[-1]

    if request.param in EMBEDDED:
        for name, value in request.getfixturevalue("embedded_aws").environment.items():
            monkeypatch.setenv(name, value)
    yield made
    for bench in benches:
        bench.close()
    for each in opened:
        each.__exit__(None, None, None)


@pytest.fixture
def embedded(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with embedded_bench(embedded_aws) as bench:
        yield bench
        bench.close()


def page_of(reader: FanOutReader, limit: int = 10_000) -> Page:
    """The next page, empty ones included."""
    until = datetime.now(UTC) + PATIENCE
    while datetime.now(UTC) < until:
        page = reader.read(limit)
        if isinstance(page, Page):
            return page
    raise AssertionError("no page came")


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


def test_records_come_in_order_and_whole(bench_of: Benches) -> None:
    bench = bench_of(1)
    numbers = [bench.put(bytes([n]) * n) for n in range(5)]
    records = records_of(bench.reader(), 5)
    assert [record.data for record in records] == [bytes([n]) * n for n in range(5)]
    assert [record.sequence_number for record in records] == numbers
    assert {record.partition_key for record in records} == {"key"}
    assert all(record.approximate_arrival_timestamp.tzinfo is UTC for record in records)


def test_each_start_position(bench_of: Benches) -> None:
    bench = bench_of(1)
    first = bench.put(b"1")
    time.sleep(0.02)
    between = datetime.now(UTC)
    time.sleep(0.02)
    bench.put(b"2")
    assert data_of(bench.reader(HORIZON), 2) == [b"1", b"2"]
    bench = bench_of(1)
    first = bench.put(b"1")
    time.sleep(0.02)
    between = datetime.now(UTC)
    time.sleep(0.02)
    bench.put(b"2")
    assert data_of(bench.reader(ReadPosition(IteratorType.AT_TIMESTAMP, first, between)), 1) == [b"2"]


@pytest.mark.parametrize("kind", [IteratorType.AT_SEQUENCE_NUMBER, IteratorType.AFTER_SEQUENCE_NUMBER])
def test_at_and_after_a_sequence_number(bench_of: Benches, kind: IteratorType) -> None:
    bench = bench_of(1)
    first = bench.put(b"1")
    bench.put(b"2")
    wanted = [b"1", b"2"] if kind is IteratorType.AT_SEQUENCE_NUMBER else [b"2"]
    assert data_of(bench.reader(ReadPosition(kind, first)), len(wanted)) == wanted


def test_latest_brings_what_is_put_after_it_began(bench_of: Benches) -> None:
    bench = bench_of(1)
    bench.put(b"before")
    reader = bench.reader(LATEST)
    assert page_of(reader).records == ()
    bench.put(b"after")
    assert data_of(reader, 1) == [b"after"]


def test_a_page_has_no_more_than_its_limit_and_the_rest_comes_next(bench_of: Benches) -> None:
    bench = bench_of(1)
    for n in range(7):
        bench.put(b"%d" % n)
    assert data_of(bench.reader(), 7, limit=2) == [b"%d" % n for n in range(7)]


def test_a_wait_ends_in_time_without_records(bench_of: Benches) -> None:
    bench = bench_of(1)
    reader = bench.reader(LATEST)
    page_of(reader)
    began = time.monotonic()
    reader.wait(SOON)
    assert time.monotonic() - began < 2
    answer = reader.read(10)
    assert answer is PollRefusal.NOT_YET or (isinstance(answer, Page) and not answer.records)


def test_an_interrupt_wakes_a_waiting_reader_at_once(bench_of: Benches) -> None:
    """botocore's `EventStream.close` does not."""
    bench = bench_of(1)
    reader = bench.reader(LATEST)
    page_of(reader)
    waits = threading.Thread(target=reader.wait, args=(PATIENCE,))
    waits.start()
    time.sleep(0.2)
    began = time.monotonic()
    reader.interrupt()
    waits.join(PATIENCE.total_seconds())
    assert not waits.is_alive()
    assert time.monotonic() - began < 0.5


def test_a_split_shard_ends_with_its_children(bench_of: Benches) -> None:
    bench = bench_of(1)
    bench.put(b"last")
    bench.split()
    data, children = end_of(bench.reader())
    assert data == [b"last"]
    assert {child.shard_id for child in children} == {SECOND, THIRD}
    assert all(child.parent_shard_ids == {FIRST} for child in children)


def test_a_shard_that_is_split_while_it_is_read_ends(bench_of: Benches) -> None:
    bench = bench_of(1)
    reader = bench.reader()
    page_of(reader)
    bench.split()
    assert {child.shard_id for child in end_of(reader)[1]} == {SECOND, THIRD}


def test_merged_shards_both_end_with_their_one_child(bench_of: Benches) -> None:
    bench = bench_of(2)
    bench.merge()
    for shard_id in (FIRST, SECOND):
        (child,) = end_of(bench.reader(shard_id=shard_id))[1]
        assert (child.shard_id, child.parent_shard_ids) == (THIRD, frozenset({FIRST, SECOND}))
        assert child.hash_key_range.ending == HASH_KEY_MAX


def test_a_closed_shard_opened_at_its_end_ends_at_once(bench_of: Benches) -> None:
    bench = bench_of(1)
    last = bench.put(b"last")
    bench.split()
    data, children = end_of(bench.reader(after(last)))
    assert (data, len(children)) == ([], 2)


def test_a_takeover_ends_the_old_reader_and_loses_nothing(bench_of: Benches) -> None:
    bench = bench_of(1)
    old = bench.reader()
    first = bench.put(b"1")
    assert data_of(old, 1) == [b"1"]
    new = bench.reader(after(first))
    bench.put(b"2")
    assert data_of(new, 1) == [b"2"]
    assert PushEnd.IN_USE in bench.pushes.answers, "the old one was younger than five seconds"
    asked = len(bench.pushes.asked)
    over = time.monotonic() + 7  # longer than the five seconds after which it could take the shard back
    while time.monotonic() < over:
        assert old.read(10) not in (PollRefusal.NO_ANSWER, PollRefusal.NOT_PUSHED)
    assert len(bench.pushes.asked) == asked


def test_a_consumer_that_is_gone_is_polled_instead(bench_of: Benches) -> None:
    bench = bench_of(1)
    reader = bench.reader()
    bench.put(b"1")
    assert data_of(reader, 1) == [b"1"]
    bench.deregister()
    bench.put(b"2")
    until = time.monotonic() + 10
    answers: list[PollRefusal] = []
    found: list[bytes] = []
    while not found and time.monotonic() < until:
        answer = reader.read(10)
        if isinstance(answer, Page):
            found += [record.data for record in answer.records]
        else:
            answers.append(answer)
    assert found == [b"2"]
    assert answers.count(PollRefusal.NOT_PUSHED) == (1 if reader.is_polling else 0)
    assert reader.read(10) is not PollRefusal.NOT_PUSHED or reader.is_polling


def test_a_shard_that_is_gone_is_named(bench_of: Benches) -> None:
    with pytest.raises(ShardNotFound, match="shardId-000000000099"):
        bench_of(1).reader(shard_id="shardId-000000000099").read(10)


def test_a_deleted_stream_is_not_a_missing_consumer(bench_of: Benches) -> None:
    bench = bench_of(1)
    bench.delete()
    with pytest.raises(StreamNotFound):
        bench.reader().read(10)


def test_a_number_of_another_stream_is_refused(bench_of: Benches) -> None:
    bench = bench_of(1)
    number = bench.put(b"1")
    another = str(int(number) + (1 << 80) + (1 << 4))
    with pytest.raises(CheckpointNotInStream, match=another):
        bench.reader(after(another)).read(10)


# What goes wrong on the way, over the embedded AWS alone.


def test_subscriptions_that_lapse_lose_and_repeat_nothing(embedded: Bench) -> None:
    """Of a sixth of a second each, some of them without a record."""
    assert embedded.fan_out is not None
    embedded.fan_out.takes(
        lasts=timedelta(milliseconds=150),
        again_after=timedelta(0),
        quiet_event_every=timedelta(milliseconds=40),
    )
    reader = embedded.reader()
    sent: list[bytes] = []
    found: list[bytes] = []
    until = time.monotonic() + 40
    while len(sent) < 20 or len(embedded.pushes.asked) <= 10:
        assert time.monotonic() < until
        if len(sent) < 20 and len(embedded.pushes.asked) >= len(sent) // 2:
            sent.append(b"%d" % len(sent))
            embedded.put(sent[-1])
        answer = reader.read(100)
        found += [record.data for record in answer.records] if isinstance(answer, Page) else []
    found += data_of(reader, len(sent) - len(found))
    assert found == sent
    asked = [int(each.sequence_number or 0) for each in embedded.pushes.asked]
    assert asked == sorted(asked)
    assert len(set(asked)) > len(sent) / 2, (
        "empty events move the position too (spark-sql-kinesis-connector#91)"
    )


@pytest.mark.parametrize(
    "fault",
    [
        Fault("cut", at=2),
        Fault("exception", at=2),
        Fault("exception", at=2, code="KMSThrottlingException"),
        Fault("error", at=2, code="InternalFailure"),
        Fault("end", at=2),
        Fault("damage", at=2),
        Fault("null_end", at=2),
        Fault("null_end"),
        Fault("delay", at=1, lasting=timedelta(seconds=1)),
        Fault("repeat"),
        Fault("no_initial"),
        Fault("unchunked"),
        Fault("refuse", code="LimitExceededException"),
        Fault("refuse", code="ResourceInUseException"),
        Fault("refuse", code="InternalFailureException"),
        Fault("cut"),
    ],
    ids=str,
)
def test_whatever_goes_wrong_loses_and_repeats_nothing(embedded: Bench, fault: Fault) -> None:
    assert embedded.fan_out is not None
    embedded.fan_out.takes(again_after=timedelta(0), quiet_event_every=timedelta(milliseconds=100))
    embedded.fan_out.plant(fault)
    reader = embedded.reader()
    found: list[bytes] = []
    sent = [b"%d" % n for n in range(8)]
    for data in sent:
        embedded.put(data)
        answer = reader.read(100)
        found += [record.data for record in answer.records] if isinstance(answer, Page) else []
    found += data_of(reader, len(sent) - len(found))
    assert found == sent
    assert not reader.is_polling


def test_an_end_that_names_no_children_is_an_end_all_the_same(embedded: Bench) -> None:
    """Bento never ends such a shard (input_kinesis_efo.go asks for children), so it waits for ever. A poll names them."""
    assert embedded.fan_out is not None
    embedded.fan_out.plant(Fault("no_children"))
    embedded.put(b"1")
    embedded.split()
    reader = embedded.reader()
    data, children = end_of(reader)
    assert (data, len(children)) == ([b"1"], 2)
    assert reader.is_polling


def test_calls_that_are_refused_are_reported_to_the_caller(embedded: Bench) -> None:
    """Otherwise a shard that can never be subscribed to would stand still in silence."""
    assert embedded.fan_out is not None
    embedded.fan_out.plant(
        Fault("refuse", code="LimitExceededException"), Fault("refuse", code="ResourceInUseException")
    )
    reader = embedded.reader()
    embedded.put(b"1")
    answers = [reader.read(10) for _ in range(2)]
    assert answers[0] is PollRefusal.NO_ANSWER
    answers += [reader.read(10) for _ in range(6)]
    assert PollRefusal.THROTTLED in answers
    assert [record.data for page in answers if isinstance(page, Page) for record in page.records] == [b"1"]


def test_a_key_that_is_disabled_is_named(embedded: Bench) -> None:
    assert embedded.fan_out is not None
    embedded.fan_out.plant(Fault("exception", at=1, code="KMSDisabledException"))
    reader = embedded.reader()
    page_of(reader)
    with pytest.raises(StreamKeyUnavailable, match="KMSDisabledException"):
        page_of(reader)


def test_records_that_are_not_asked_for_stay_with_the_service(embedded: Bench) -> None:
    """Memory is bounded by not reading: 8 MB are put, and only what is read is ever here."""
    assert embedded.fan_out is not None
    embedded.fan_out.takes(bytes_a_second=100 * 2**20)
    reader = embedded.reader()
    embedded.put(b"0")
    page_of(reader)
    for _ in range(8):
        embedded.put(b"x" * 1_000_000)
    time.sleep(1)
    subscription = reader._subscription
    assert isinstance(subscription, KinesisSubscription)
    assert not subscription._messages.is_begun
    assert sum(len(data) for data in data_of(reader, 8)) == 8_000_000


def test_a_silent_subscription_is_given_up(embedded: Bench) -> None:
    """A connection that is open and dead. The watchdog's minute passes on a clock of the test's own."""
    assert embedded.fan_out is not None
    embedded.fan_out.takes(again_after=timedelta(0))
    embedded.fan_out.plant(Fault("silence", at=1))
    clock = Hurrying()
    reader = FanOutReader(embedded.pushes, embedded.stream, FIRST, HORIZON, clock, ThreadTasks(), Random(0))
    embedded.readers.append(reader)
    embedded.put(b"1")
    assert data_of(reader, 1) == [b"1"]
    embedded.put(b"2")
    assert data_of(reader, 1) == [b"2"]
    assert len(embedded.pushes.asked) == 2


class Hurrying:
    """A clock that is twenty times as fast."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self._began = self._real.steady()

    def now(self) -> datetime:
        return self._real.now()

    def steady(self) -> datetime:
        return self._began + 20 * (self._real.steady() - self._began)
