"""The PushReader port's promises, in memory, over the embedded AWS, whose SubscribeToShard keeps the service's rules,
and over LocalStack, which keeps some of them: `make e2e-localstack` runs those.

Where a promise is one that another client has broken, its test names the report.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from sublet.aws.push.pushes import KinesisSubscription
from sublet.decisions.session.push import PushEnd
from sublet.decisions.session.read_position import IteratorType, ReadPosition, after
from sublet.errors import CheckpointNotInStream, ShardNotFound, StreamKeyUnavailable, StreamNotFound
from sublet.ports import PollRefusal, ShardSubscription, Unanswered
from sublet.protocol.records import Page
from sublet.protocol.shard import HASH_KEY_MAX
from sublet.reading.pushing import FanOutReader
from sublet.system.clock import SystemClock
from sublet.system.threads import ThreadTasks

from infra.local.embedded import EmbeddedAws
from infra.local.fan_out import Fault
from infra.local.localstack_host import aws_at, localstack
from tests.contract.push_benches import (
    FIRST,
    HORIZON,
    LATEST,
    NEVER,
    PATIENCE,
    SECOND,
    SOON,
    THIRD,
    Bench,
    Listened,
    Rules,
    answers_until_a_record,
    data_of,
    end_of,
    interrupted_while_it_waits,
    memory_bench,
    page_of,
    read_until,
    records_of,
    served_bench,
    several_in_memory,
    several_served,
)

Benches = Callable[[int], Bench]


IN_MEMORY = {"memory": memory_bench, "several-in-memory": several_in_memory}
SERVED = {"embedded": served_bench, "several-embedded": several_served}
LOCALSTACK = {"localstack": served_bench, "several-localstack": several_served}
LOCALSTACK_MOMENT = 1.1
"""Seconds: it cuts a position's moment to its second."""
ON_LOCALSTACK = [
    pytest.mark.emulator,
    pytest.mark.skipif(os.environ.get("E2E_AWS") != "localstack", reason="needs `make e2e-localstack`"),
]

_ENDS = "it cuts the connection at a shard's end, and names no children"
_ERRORS = "its code for whatever is gone or wrong is InternalError"
LACKING = {
    "test_a_split_shard_ends_with_its_children": _ENDS,
    "test_a_shard_that_is_split_while_it_is_read_ends": _ENDS,
    "test_merged_shards_both_end_with_their_one_child": _ENDS,
    "test_a_closed_shard_opened_at_its_end_ends_at_once": _ENDS,
    "test_a_takeover_ends_the_old_reader_and_loses_nothing": "any number of subscriptions live side by side",
    "test_a_shard_that_is_gone_is_named": _ERRORS,
    "test_a_deleted_stream_is_not_a_missing_consumer[localstack]": _ERRORS,
    "test_a_number_of_another_stream_is_refused": _ERRORS,
}
"""What LocalStack 4.9.2's SubscribeToShard lacks, by the test that fails for it; one that passes is reported."""


@pytest.fixture(scope="session")
def localstack_aws() -> Iterator[EmbeddedAws]:
    endpoint = os.environ.get("E2E_ENDPOINT")
    with nullcontext(aws_at(endpoint)) if endpoint else localstack() as aws:
        yield aws


@pytest.fixture(
    params=[
        *IN_MEMORY,
        *(pytest.param(name, marks=pytest.mark.emulator) for name in SERVED),
        *(pytest.param(name, marks=ON_LOCALSTACK) for name in LOCALSTACK),
    ]
)
def bench_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Benches]:
    opened: list[Any] = []
    benches: list[Bench] = []
    aws = None
    if request.param not in IN_MEMORY:
        is_localstack = request.param in LOCALSTACK
        aws = request.getfixturevalue("localstack_aws" if is_localstack else "embedded_aws")
        lack = LACKING.get(request.node.name) or LACKING.get(request.node.originalname)
        if is_localstack and lack is not None:
            request.applymarker(pytest.mark.xfail(reason=lack))
        for name, value in aws.environment.items():
            monkeypatch.setenv(name, value)

    def made(shards: int) -> Bench:
        if aws is None:
            opened.append(IN_MEMORY[request.param](shards))
        else:
            opened.append({**SERVED, **LOCALSTACK}[request.param](aws, shards))
        benches.append(opened[-1].__enter__())
        if request.param in LOCALSTACK:
            benches[-1].moment, benches[-1].takes = LOCALSTACK_MOMENT, lambda _: None
        return benches[-1]

    yield made
    for bench in benches:
        bench.close()
    for each in opened:
        each.__exit__(None, None, None)


@pytest.fixture
def embedded(embedded_aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name, value in embedded_aws.environment.items():
        monkeypatch.setenv(name, value)
    with served_bench(embedded_aws) as bench:
        yield bench
        bench.close()


def test_records_come_in_order_and_whole(bench_of: Benches) -> None:
    bench = bench_of(1)
    numbers = [bench.put(bytes([n]) * n) for n in range(5)]
    records = records_of(bench.reader(), 5)
    assert [record.data for record in records] == [bytes([n]) * n for n in range(5)]
    assert [record.sequence_number for record in records] == numbers
    assert {record.partition_key for record in records} == {"key"}
    assert all(record.approximate_arrival_timestamp.tzinfo is UTC for record in records)


def test_reader_starts_at_each_kind_of_position(bench_of: Benches) -> None:
    bench = bench_of(1)
    bench.put(b"1")
    bench.put(b"2")
    assert data_of(bench.reader(HORIZON), 2) == [b"1", b"2"]
    bench = bench_of(1)
    first = bench.put(b"1")
    time.sleep(bench.moment)
    between = datetime.now(UTC)
    time.sleep(bench.moment)
    bench.put(b"2")
    assert data_of(bench.reader(ReadPosition(IteratorType.AT_TIMESTAMP, first, between)), 1) == [b"2"]


@pytest.mark.parametrize("kind", [IteratorType.AT_SEQUENCE_NUMBER, IteratorType.AFTER_SEQUENCE_NUMBER])
def test_reader_starts_at_or_after_a_sequence_number(bench_of: Benches, kind: IteratorType) -> None:
    bench = bench_of(1)
    first = bench.put(b"1")
    bench.put(b"2")
    wanted = [b"1", b"2"] if kind is IteratorType.AT_SEQUENCE_NUMBER else [b"2"]
    assert data_of(bench.reader(ReadPosition(kind, first)), len(wanted)) == wanted


def test_latest_reads_records_put_after_the_subscription_began(bench_of: Benches) -> None:
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
    bench.takes(Rules(empty_event_every=NEVER))
    reader = bench.reader(LATEST)
    page_of(reader)
    waited: list[bool] = []
    waits = threading.Thread(target=lambda: waited.append(reader.wait(SOON)), daemon=True)
    waits.start()
    waits.join(PATIENCE.total_seconds() / 2)
    assert len(waited) == 1, "it waits on, for an event that never comes"
    answer = reader.read(10)
    assert answer is PollRefusal.NOT_YET or (isinstance(answer, Page) and not answer.records)


def test_an_interrupt_wakes_a_waiting_reader_at_once(bench_of: Benches) -> None:
    """botocore's `EventStream.close` does not."""
    assert not interrupted_while_it_waits(bench_of(1)).is_alive()


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
    """The old one does not take it back, although it could at once."""
    bench = bench_of(1)
    bench.takes(Rules(again_after=NEVER))
    old = bench.reader()
    first = bench.put(b"1")
    assert data_of(old, 1) == [b"1"]
    new = bench.reader(after(first))
    bench.put(b"2")
    read_until(new, lambda: PushEnd.IN_USE in bench.pushes.answers)  # of which nothing can have come
    bench.takes(Rules(again_after=timedelta(0)))
    assert data_of(new, 1) == [b"2"]
    asked = len(bench.pushes.asked)
    read_until(old, lambda: old._known.ended is PushEnd.TAKEN_OVER)
    for _ in range(2):
        assert old.read(10) is PollRefusal.NOT_YET
    assert len(bench.pushes.asked) == asked


def test_a_consumer_that_is_gone_is_polled_instead(bench_of: Benches) -> None:
    bench = bench_of(1)
    reader = bench.reader()
    bench.put(b"1")
    assert data_of(reader, 1) == [b"1"]
    bench.deregister()
    bench.put(b"2")
    answers = answers_until_a_record(reader)
    assert [record.data for page in answers if isinstance(page, Page) for record in page.records] == [b"2"]
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
    """They last 150 ms each and begin at more positions than there are records: empty events move the position too
    (spark-sql-kinesis-connector#91)."""
    assert embedded.fan_out is not None
    embedded.fan_out.takes(
        lasts=timedelta(milliseconds=150),
        again_after=timedelta(0),
        quiet_event_every=timedelta(milliseconds=40),
    )
    reader = embedded.reader()
    sent: list[bytes] = []
    found: list[bytes] = []

    def positions() -> list[int]:
        return [int(each.sequence_number or 0) for each in embedded.pushes.asked]

    until = time.monotonic() + 60
    while len(sent) < 8 or len(set(positions())) <= 1 + len(sent):
        assert time.monotonic() < until, f"{len(set(positions()))} positions for {len(sent)} records"
        if len(sent) < 8 and len(embedded.pushes.asked) >= len(sent) // 2:
            sent.append(b"%d" % len(sent))
            embedded.put(sent[-1])
        answer = reader.read(100)
        found += [record.data for record in answer.records] if isinstance(answer, Page) else []
    found += data_of(reader, len(sent) - len(found))
    assert found == sent
    assert positions() == sorted(positions())


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
def test_reader_loses_and_repeats_nothing_after_any_fault(embedded: Bench, fault: Fault) -> None:
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


def test_shard_end_without_named_children_is_an_end(embedded: Bench) -> None:
    """Bento never ends such a shard (input_kinesis_efo.go asks for children), so it waits for ever. A poll names
    them.
    """
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
    answers = answers_until_a_record(reader)
    (unanswered,) = (answer for answer in answers if isinstance(answer, Unanswered))
    assert "LimitExceededException" in unanswered.problem
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
    """A connection that is open and dead. The watchdog's minute passes at once while the reader listens to it."""
    assert embedded.fan_out is not None
    embedded.fan_out.takes(again_after=timedelta(0))
    embedded.fan_out.plant(Fault("silence", at=1))
    clock = Leaping()
    reader = FanOutReader(embedded.pushes, embedded.stream, FIRST, HORIZON, clock, ThreadTasks(), Random(0))
    embedded.readers.append(reader)
    embedded.put(b"1")
    assert data_of(reader, 1) == [b"1"]
    assert reader._subscription is not None
    reader._subscription = Dead(reader._subscription, clock)
    embedded.put(b"2")
    assert data_of(reader, 1) == [b"2"]
    assert len(embedded.pushes.asked) == 2


class Leaping(SystemClock):
    """The real clock, but for its leaps."""

    leapt = timedelta(0)

    def steady(self) -> datetime:
        return super().steady() + self.leapt


class Dead(Listened):
    """While its reader listens, nothing comes and a minute passes."""

    def __init__(self, real: ShardSubscription, clock: Leaping) -> None:
        super().__init__(real)
        self._clock = clock

    def wait(self, longest: timedelta) -> bool:
        if longest:
            self._clock.leapt += timedelta(minutes=1)
        return super().wait(timedelta(0))
