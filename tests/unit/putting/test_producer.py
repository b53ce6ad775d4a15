"""`sublet.Producer` on a memory clock: what it waits for, when it gives a record up, and its errors."""

from __future__ import annotations

import asyncio
import os
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from datetime import datetime, timedelta
from subprocess import run
from threading import Event, Thread
from typing import Any

import pytest
import sublet.aio
from sublet import (
    Producer,
    ProducerClosed,
    PutRecord,
    RecordRefused,
    RecordsNotPut,
    RecordTimedOut,
    SettingsError,
    StreamAccessDenied,
)
from sublet.decisions.putting.producing import Produced
from sublet.errors import AwsNotConfigured, StreamError, StreamNotFound, StreamUnavailable
from sublet.protocol.records import NewRecord, PutRefused
from sublet.protocol.stream_info import RecordDistribution
from sublet.putting.placing_source import AUTO_PUTS_ALONE, NOT_LISTED
from sublet.testing.memory import FakeClock, MemoryAccount, MemoryLog, MemoryRecordWriter
from sublet.testing.turn_taking import TurnTaking

from tests.doubles.producing_world import delivered

THROTTLED = PutRefused("ProvisionedThroughputExceededException", "Rate exceeded", passes=True)
Answers = list[PutRecord | PutRefused]


class Orders:
    """A stream of two shards; `refuse` answers a call instead of the stream, if it returns something."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.tasks = TurnTaking(self.clock)
        self.account = MemoryAccount(clock=self.clock, tasks=self.tasks)
        self.account.create("orders", 2)
        self.stream = self.account.at("orders")
        self.log = self.account.log
        assert isinstance(self.log, MemoryLog)
        self.calls: list[Sequence[NewRecord]] = []
        self.refuse: Callable[[Sequence[NewRecord]], Answers | None] = lambda _: None
        self.writer = MemoryRecordWriter(self.stream, self.clock, throttled=True)
        self.account.writing = lambda _: self  # type: ignore[method-assign,assignment]

    def put(self, records: Sequence[NewRecord]) -> Answers:
        self.calls.append(records)
        self.tasks.sleep(timedelta(milliseconds=10))
        return self.refuse(records) or self.writer.put(records)

    def producer(self, **options: Any) -> Producer:
        return Producer("orders", account=self.account, **options)

    @property
    def said(self) -> list[str]:
        assert isinstance(self.log, MemoryLog)
        return [line.message for line in self.log.lines]


@pytest.fixture
def orders() -> Orders:
    return Orders()


def refused(records: Sequence[NewRecord]) -> Answers:
    return [THROTTLED] * len(records)


def test_records_wait_for_others_for_a_tenth_of_a_second_and_share_an_aggregate(orders: Orders) -> None:
    producer = orders.producer()
    futures = [producer.put("key", b"%d" % n) for n in range(50)]
    orders.tasks.sleep(timedelta(milliseconds=99))
    assert not orders.calls
    orders.tasks.sleep(timedelta(milliseconds=15))
    assert [len(call) for call in orders.calls] == [1]
    assert len({future.result(0) for future in futures}) == 1
    assert delivered(orders.stream) == [b"%d" % n for n in range(50)]
    producer.close()


def test_a_full_aggregate_does_not_wait(orders: Orders) -> None:
    producer = orders.producer(record_max_buffered_time=60)
    for _ in range(60):
        producer.put("key", bytes(1_000))
    orders.tasks.sleep(timedelta(milliseconds=1))
    assert [len(call[0].data) > 50_000 for call in orders.calls] == [True]
    producer.close()
    assert producer.produced.user_records == 60


def test_a_put_waits_while_the_buffer_is_full(orders: Orders) -> None:
    producer = orders.producer(max_buffered_bytes=10 * 2**20, rate_limit=None)
    began = orders.clock.steady()
    for _ in range(20):
        producer.put("key", bytes(2**20 - 100))
        assert producer._lazy_loop.loop(producer._tell).buffered_bytes <= 10 * 2**20
    assert orders.clock.steady() > began
    producer.close()
    assert producer.produced.user_records == 20


def test_the_buffer_is_full_when_small_records_take_as_much_memory(orders: Orders) -> None:
    """A record of 10 bytes takes some 2,000, most of them for its future."""
    producer = orders.producer(record_max_buffered_time=3_600)
    producer.put("key", b"first")
    tracemalloc.start()
    futures = [producer.put(f"k{n:03}", b"%010d" % n) for n in range(3_000)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = producer._lazy_loop.loop(producer._tell).buffered_bytes
    assert 0.5 * counted < taken < 1.5 * counted
    producer.close()
    assert all(future.done() for future in futures)


def test_a_future_s_callback_may_put_even_into_a_full_buffer(orders: Orders) -> None:
    with orders.producer(max_buffered_bytes=10 * 2**20, rate_limit=None, max_connections=1) as producer:
        echoed: list[Future[PutRecord]] = []

        def echo(_: object) -> None:
            if len(echoed) < 30:
                echoed.append(producer.put("key", bytes(2**20 - 100)))

        for _ in range(12):
            producer.put("key", bytes(2**20 - 100)).add_done_callback(echo)
        while len(echoed) < 12:
            orders.tasks.sleep(timedelta(seconds=1))
    assert producer.produced.user_records == 24


def test_producer_gives_up_records_refused_beyond_patience(orders: Orders) -> None:
    orders.refuse = refused
    producer = orders.producer(patience=5)
    began = orders.clock.steady()
    future = producer.put("key", b"x")
    with pytest.raises(RecordsNotPut, match=r"1 record was given up.*needs more shards.*RecordTimedOut"):
        producer.close()
    assert timedelta(seconds=5) <= orders.clock.steady() - began <= timedelta(seconds=8)
    assert isinstance(future.exception(0), RecordTimedOut)
    assert 5 < len(orders.calls) < 30
    assert orders.said.count("producer gave up records") == 1
    assert producer.produced.given_up == 1


def test_record_behind_a_refused_one_is_given_up_with_it(orders: Orders) -> None:
    """It would be refused too, and has waited as long, although it was never tried."""
    orders.refuse = refused
    producer = orders.producer(patience=5, aggregation_enabled=False)
    began = orders.clock.steady()
    futures = [producer.put("key", data) for data in (b"first", b"second")]
    with pytest.raises(RecordsNotPut, match="2 records were given up"):
        producer.close()
    assert orders.clock.steady() - began <= timedelta(seconds=8)
    assert all(isinstance(future.exception(0), RecordTimedOut) for future in futures)


def test_a_plain_record_in_a_shard_that_is_not_listed_yet_is_in_the_stream(orders: Orders) -> None:
    """Only an aggregate can be in the wrong shard for KCL, which then drops its records."""
    elsewhere = PutRecord("shardId-000000000099", "1")
    orders.refuse = lambda records: [elsewhere] * len(records)
    with orders.producer(aggregation_enabled=False, patience=5) as producer:
        future = producer.put("key", b"x")
    assert future.result(0) == elsewhere


def test_waiting_behind_others_does_not_count_against_patience(orders: Orders) -> None:
    """40 MiB for a shard that takes one a second."""
    with orders.producer(patience=3) as producer:
        futures = [producer.put("key", bytes(2**20 - 100)) for _ in range(40)]
    assert all(future.done() and future.exception() is None for future in futures)


def test_a_stream_that_throttles_gets_everything_once(orders: Orders) -> None:
    with orders.producer(rate_limit=None, aggregation_enabled=False, ordered=False) as producer:
        for n in range(5_000):
            producer.put(f"key-{n}", b"%d" % n)
    assert producer.produced.retried > 100
    assert sorted(map(int, delivered(orders.stream))) == list(range(5_000))


def test_refusals_of_one_shard_do_not_hold_up_the_other(orders: Orders) -> None:
    first, second = (
        str(shard.hash_key_range.starting)
        for shard in sorted(orders.stream.list_shards(), key=lambda one: one.hash_key_range)
    )
    orders.refuse = lambda records: (
        [
            THROTTLED if record.explicit_hash_key == first else PutRecord("shardId-000000000001", "1")
            for record in records
        ]
    )
    producer = orders.producer(patience=5)
    stuck, free = (producer.put("key", b"x", explicit_hash_key=key) for key in (first, second))
    orders.tasks.sleep(timedelta(milliseconds=200))
    assert free.done()
    assert not stuck.done()
    with pytest.raises(RecordsNotPut):
        producer.close()


def test_cancelled_future_does_not_stop_the_put(orders: Orders) -> None:
    with orders.producer() as producer:
        assert producer.put("key", b"x").cancel()
        other = producer.put("key", b"y")
    assert isinstance(other.result(0), PutRecord)
    assert delivered(orders.stream) == [b"x", b"y"]


def test_a_record_that_no_stream_takes_is_refused_at_once(orders: Orders) -> None:
    with orders.producer() as producer:
        for key, data in (
            ("", b"x"),
            ("k" * 257, b"x"),
            ("half \ud83d", b"x"),
            ("k", "text"),
            ("k", bytes(10 * 2**20 + 1)),
        ):
            with pytest.raises(RecordRefused):
                producer.put(key, data)  # type: ignore[arg-type]
        with pytest.raises(RecordRefused, match="explicitHashKey"):
            producer.put("k", b"x", explicit_hash_key="-1")
    assert orders.calls == []


def test_keyless_record_is_refused_unless_kinesis_places_records(orders: Orders) -> None:
    with orders.producer() as producer:
        keyless = producer.put(None, b"x")
        with pytest.raises(RecordsNotPut, match="no partition key"):
            producer.flush()
        assert isinstance(keyless.exception(0), RecordRefused)
        assert orders.calls == []


def test_producer_aggregates_nothing_in_auto_and_logs_it_once(orders: Orders) -> None:
    orders.stream.distribution = RecordDistribution.AUTO
    with orders.producer() as producer:
        for n in range(100):
            producer.put(None if n % 2 else "key", b"%d" % n)
        producer.flush()
        producer.put(None, b"100")
    assert producer.produced.stream_records == 101
    assert producer.produced.aggregated == 0
    assert orders.said == [AUTO_PUTS_ALONE]
    assert sorted(map(int, delivered(orders.stream))) == list(range(101))


def test_aggregates_are_put_again_as_plain_records_when_a_stream_turns_to_auto(
    orders: Orders,
) -> None:
    with orders.producer() as producer:
        producer.put("key", b"before")
        producer.flush()
        orders.tasks.sleep(timedelta(minutes=1))
        orders.stream.distribution = RecordDistribution.AUTO
        for n in range(200):
            producer.put(f"key-{n}", b"%d" % n)
    assert producer.produced.sent_again > 0
    assert {b"%d" % n for n in range(200)} <= set(delivered(orders.stream))


def test_producer_puts_records_alone_in_order_when_it_may_not_list_shards(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(at: object = None) -> None:
        raise StreamAccessDenied("not allowed to list")

    monkeypatch.setattr(orders.stream, "list_shards", denied)
    with orders.producer() as producer:
        for n in range(20):
            producer.put("key", b"%d" % n)
    monkeypatch.undo()
    assert orders.said == [NOT_LISTED]
    assert delivered(orders.stream) == [b"%d" % n for n in range(20)]


def test_a_listing_that_fails_for_a_while_only_delays(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    until = orders.clock.steady() + timedelta(seconds=4)
    listed = orders.stream.list_shards

    def fails(at: Any = None) -> Any:
        if orders.clock.steady() < until:
            raise StreamUnavailable("no answer")
        return listed(at)

    monkeypatch.setattr(orders.stream, "list_shards", fails)
    with orders.producer() as producer:
        future = producer.put("key", b"x")
    assert isinstance(future.result(0), PutRecord)
    until = orders.clock.steady() + timedelta(seconds=100)
    with pytest.raises(RecordsNotPut, match="no answer"), orders.producer(patience=3) as impatient:
        impatient.put("key", b"y")


def test_misplaced_aggregate_is_given_up_after_patience_without_a_shard_listing(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(at: Any = None) -> Any:
        raise StreamNotFound("no such stream")

    def lands_elsewhere(records: Sequence[NewRecord]) -> Answers:
        monkeypatch.setattr(orders.stream, "list_shards", gone)
        return [PutRecord("shardId-000000000099", "1")] * len(records)

    orders.refuse = lands_elsewhere
    producer = orders.producer(patience=60)
    futures = [producer.put("key", b"x"), producer.put("key", b"y")]
    began = orders.clock.steady()
    with pytest.raises(RecordsNotPut, match=r"2 records were given up.*no such stream"):
        producer.close()
    assert timedelta(seconds=60) <= orders.clock.steady() - began < timedelta(seconds=65)
    assert all(isinstance(future.exception(0), StreamNotFound) for future in futures)


def test_a_listing_that_is_never_answered_holds_no_record_longer_than_patience(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_silent(at: Any = None) -> Any:
        orders.tasks.sleep(timedelta(minutes=2))
        raise StreamUnavailable("no answer")

    monkeypatch.setattr(orders.stream, "list_shards", is_silent)
    producer = orders.producer(patience=3)
    begun = orders.clock.steady()
    producer.put("key", b"x")
    orders.tasks.sleep(timedelta(seconds=2))
    later = producer.put("key", b"y")
    with pytest.raises(RecordsNotPut, match=r"2 records were given up.*could not be listed for 0:00:03"):
        producer.flush()
    assert isinstance(later.exception(0), RecordTimedOut)
    assert orders.clock.steady() - begun == timedelta(seconds=5)


def refused_with(bad: Callable[[NewRecord], bool]) -> Callable[[Sequence[NewRecord]], Answers | None]:
    """Kinesis refuses a call for one of its records, and does not say which."""

    def refuse(records: Sequence[NewRecord]) -> Answers | None:
        if any(map(bad, records)):
            raise RecordRefused("Kinesis refuses the call (ValidationException: said so)")
        return None

    return refuse


@pytest.mark.parametrize("aggregation_enabled", [True, False])
@pytest.mark.parametrize("place", [0, 37, 99])
def test_a_record_that_its_call_is_refused_for_is_given_up_alone(
    orders: Orders, aggregation_enabled: bool, place: int
) -> None:
    orders.refuse = refused_with(lambda record: b"bad" in record.data)
    producer = orders.producer(aggregation_enabled=aggregation_enabled, rate_limit=None)
    futures = [producer.put(f"k{n % 7}", b"bad" if n == place else b"%d" % n) for n in range(100)]
    with pytest.raises(RecordsNotPut, match=rf"1 record was given up.*'k{place % 7}' and 3 bytes .*said so"):
        producer.close()
    failed = [n for n, future in enumerate(futures) if future.exception(0) is not None]
    assert failed == [place]
    found = [int(data) for data in delivered(orders.stream)]
    assert sorted(found) == [n for n in range(100) if n != place]
    for key in range(7):
        in_order = [n for n in found if n % 7 == key]
        assert in_order == sorted(in_order)
    assert len(orders.calls) < 50


def test_refused_records_of_a_call_are_found_one_after_the_other(orders: Orders) -> None:
    """Two of them are together in an aggregate; the others are not sent one by one."""
    orders.refuse = refused_with(lambda record: b"bad" in record.data)
    producer = orders.producer(rate_limit=None)
    futures = [producer.put("key", b"bad" if n in (3, 900) else b"%d" % n) for n in range(1_000)]
    with pytest.raises(RecordsNotPut, match="2 records were given up"):
        producer.close()
    assert [n for n, future in enumerate(futures) if future.exception(0) is not None] == [3, 900]
    assert [int(data) for data in delivered(orders.stream)] == [n for n in range(1_000) if n not in (3, 900)]
    assert len(orders.calls) < 50


def test_a_stream_that_no_longer_places_records_itself_refuses_only_the_keyless_ones(orders: Orders) -> None:
    orders.stream.distribution = RecordDistribution.AUTO
    producer = orders.producer()
    producer.put(None, b"before")
    producer.flush()
    orders.tasks.sleep(timedelta(seconds=5))
    orders.stream.distribution = RecordDistribution.USER_PARTITION_KEY
    for _ in range(3):
        keyless, keyed = producer.put(None, b"x"), [producer.put(f"k{n}", b"y") for n in range(100)]
        with pytest.raises(RecordsNotPut, match="1 record was given up"):
            producer.flush()
        assert isinstance(keyless.exception(0), RecordRefused)
        assert all(isinstance(future.result(0), PutRecord) for future in keyed)
        orders.tasks.sleep(timedelta(seconds=2))
    assert producer.produced.aggregated, "the strategy is known again"
    producer.close()


FOR_NOW = [
    AwsNotConfigured("AWS does not accept these credentials (ExpiredTokenException); log in again"),
    StreamAccessDenied("not allowed"),
    StreamNotFound("no such stream"),
    StreamError("Kinesis' error about stream orders: a code that nobody knows"),
]


def refused_until(orders: Orders, until: datetime, problem: Exception) -> None:
    def refuse(_: object) -> None:
        if orders.clock.steady() < until:
            raise problem

    orders.refuse = refuse


@pytest.mark.parametrize("problem", FOR_NOW, ids=lambda problem: type(problem).__name__)
def test_a_call_that_is_refused_for_a_while_only_delays_once_one_has_worked(orders: Orders, problem: Exception) -> None:
    with orders.producer() as producer:
        producer.put("key", b"0")
        producer.flush()
        refused_until(orders, orders.clock.steady() + timedelta(seconds=20), problem)
        for n in range(1, 100):
            producer.put("key", b"%d" % n)
            orders.tasks.sleep(timedelta(milliseconds=250))
    assert [int(data) for data in delivered(orders.stream)] == list(range(100))
    assert producer.produced.given_up == 0


@pytest.mark.parametrize("problem", FOR_NOW, ids=lambda problem: type(problem).__name__)
def test_producer_gives_up_records_of_a_call_refused_beyond_patience(orders: Orders, problem: Exception) -> None:
    producer = orders.producer(patience=5)
    producer.put("key", b"0")
    producer.flush()
    began = orders.clock.steady()
    refused_until(orders, began + timedelta(seconds=600), problem)
    future = producer.put("key", b"1")
    with pytest.raises(RecordsNotPut, match=r"1 record was given up.*refused for 0:00:05, at last with"):
        producer.flush()
    assert timedelta(seconds=5) <= orders.clock.steady() - began < timedelta(seconds=8)
    assert str(problem) in str(future.exception(0))


@pytest.mark.parametrize("problem", FOR_NOW, ids=lambda problem: type(problem).__name__)
def test_producer_raises_a_refusal_at_once_before_its_first_success(orders: Orders, problem: Exception) -> None:
    began = orders.clock.steady()
    refused_until(orders, began + timedelta(seconds=600), problem)
    producer = orders.producer()
    future = producer.put("key", b"1")
    with pytest.raises(RecordsNotPut):
        producer.close()
    assert future.exception(0) is problem
    assert orders.clock.steady() - began < timedelta(seconds=1)


def test_producer_gives_up_nothing_while_listings_are_refused_after_a_success(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    with orders.producer(record_max_buffered_time=0) as producer:
        producer.put("key", b"0")
        producer.flush()
        listed, until = orders.stream.list_shards, orders.clock.steady() + timedelta(seconds=10)

        def fails(at: Any = None) -> Any:
            if orders.clock.steady() < until:
                raise (StreamAccessDenied("not allowed") if producer.produced.calls % 2 else AwsNotConfigured("no"))
            return listed(at)

        orders.stream.split("shardId-000000000000")
        orders.stream.split("shardId-000000000001")
        monkeypatch.setattr(orders.stream, "list_shards", fails)
        for n in range(1, 50):
            producer.put(f"k{n}", b"%d" % n)
    assert {int(data) for data in delivered(orders.stream)} == set(range(50))


def test_a_closed_producer_takes_nothing_more(orders: Orders) -> None:
    producer = orders.producer()
    producer.close()
    producer.close()
    with pytest.raises(ProducerClosed):
        producer.put("key", b"x")


def test_a_block_that_ends_with_an_exception_still_sends_and_raises_that(orders: Orders) -> None:
    orders.refuse = refused
    producer = orders.producer(patience=1)

    def broken_block() -> None:
        with producer:
            producer.put("key", b"x")
            raise KeyError

    with pytest.raises(KeyError):
        broken_block()
    assert producer.produced.given_up == 1


def test_a_child_process_needs_a_producer_of_its_own(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = orders.producer()
    producer.put("key", b"x")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ProducerClosed, match="another process"):
        producer.put("key", b"y")
    monkeypatch.undo()
    producer.close()


@pytest.mark.parametrize(
    "options",
    [
        {"aggregation_max_size": 10},
        {"aggregation_max_size": 2 * 2**20},
        {"rate_limit": 0},
        {"max_connections": True},
        {"max_buffered_bytes": 1},
        {"patience": -1},
        {"patience": timedelta(days=2)},
        {"record_max_buffered_time": "soon"},
        {"ordered": None},
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(options))):
        Producer("orders", account=MemoryAccount(), **options)


def test_async_producer_blocks_only_the_task_when_its_buffer_is_full() -> None:
    account = MemoryAccount()
    account.create("orders", 2)

    async def produce() -> int:
        async with sublet.aio.Producer(
            "orders",
            account=account,
            max_buffered_bytes=10 * 2**20,
            rate_limit=None,
            record_max_buffered_time=0.01,
        ) as producer:
            tasks = [asyncio.ensure_future(producer.put("key", bytes(2**20 - 100))) for _ in range(15)]
            await asyncio.sleep(0)
            cancelled = [task for task in tasks[10:] if task.cancel()]
            placed = [await (await task) for task in tasks if task not in cancelled]
            assert all(isinstance(one, PutRecord) for one in placed)
            return len(placed)

    assert asyncio.run(produce()) == len(delivered(account.at("orders"))) >= 9


def test_async_producer_raises_a_given_up_record_in_its_future_and_block() -> None:
    account = MemoryAccount()
    account.create("orders", 1)

    async def produce() -> None:
        async with sublet.aio.Producer("orders", account=account) as producer:
            future = await producer.put("key", bytes(3 * 2**19))
            with pytest.raises(RecordRefused, match="MaxRecordSizeInKiB"):
                await future

    with pytest.raises(RecordsNotPut):
        asyncio.run(produce())


def test_async_flush_leaves_no_future_unset_with_nothing_to_wait_for() -> None:
    """As after a pause of the program: its records were reported while its event loop did not go round."""
    account = MemoryAccount()
    account.create("orders", 1)

    async def produce() -> PutRecord:
        async with sublet.aio.Producer("orders", account=account) as producer:
            future = await producer.put("key", b"x")
            loop = producer._lazy_loop.loop_if_used()
            assert loop is not None
            assert loop.flush().wait(timedelta(seconds=60))
            await producer.flush()
            return future.result()

    assert asyncio.run(produce()).shard_id == "shardId-000000000000"


def test_threads_that_begin_at_once_share_one_loop() -> None:
    """Two loops would put a key's records in any order, and `close` would end only one of them."""
    account = MemoryAccount()
    account.create("orders", 1)
    writer = account.writing("orders")
    made: list[str] = []
    is_second = Event()

    def writing(stream: str) -> Any:
        made.append(stream)
        is_second.wait(0.3) if len(made) == 1 else is_second.set()
        return writer

    account.writing = writing  # type: ignore[method-assign]
    with Producer("orders", account=account) as producer:
        watching = Thread(target=lambda: producer.put("key", b"0"))
        watching.start()
        producer.put("key", b"1")
        watching.join()
    assert made == ["orders"]
    assert producer.produced.user_records == 2


def test_a_cancelled_future_counts_as_done_once_its_record_is_in_the_stream(orders: Orders) -> None:
    with orders.producer() as producer:
        future = producer.put("key", b"x")
        future.cancel()
    assert wait([future], timeout=0).done == {future}


def test_callback_that_raises_a_base_exception_leaves_no_future_unset(
    orders: Orders,
) -> None:
    def leaves(_: object) -> None:
        raise asyncio.CancelledError

    with orders.producer() as producer:
        futures = [producer.put("key", b"%d" % n) for n in range(3)]
        futures[0].add_done_callback(leaves)
    assert all(isinstance(future.result(0), PutRecord) for future in futures)
    assert "a future's callback raised" in orders.said


@pytest.mark.parametrize("call", ["flush", "close"])
def test_a_callback_that_waits_for_itself_gets_an_error_instead(orders: Orders, call: str) -> None:
    raised: list[Exception] = []

    def waits(_: object) -> None:
        try:
            getattr(producer, call)()
        except RuntimeError as failure:
            raised.append(failure)

    with orders.producer() as producer:
        producer.put("key", b"x").add_done_callback(waits)
        producer.flush()
        producer.put("key", b"y")
    assert [str(failure)[:15] for failure in raised] == ["flush and close"]
    assert delivered(orders.stream) == [b"x", b"y"]


def test_a_producer_that_put_nothing_is_closed_without_a_call_or_a_client() -> None:
    """A block that is left before the first put must not raise what making boto3's clients raises."""
    account = MemoryAccount()
    account.create("orders", 1)

    def writing(_: str) -> Any:
        raise ConnectionError

    account.writing = writing  # type: ignore[method-assign,assignment]
    with Producer("orders", account=account) as producer:
        producer.flush()
    with pytest.raises(ProducerClosed):
        producer.put("key", b"x")

    def broken_block() -> None:
        with Producer("orders", account=account) as unlucky:
            unlucky.put("key", b"x")

    with pytest.raises(ConnectionError) as raised:
        broken_block()
    assert not isinstance(raised.value.__context__, ConnectionError)  # raised once, not by the close again


def test_a_forked_child_leaves_the_block_as_if_the_producer_were_its_parent_s(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = orders.producer()

    def child() -> None:
        with producer:
            producer.put("key", b"x")
            monkeypatch.setattr(os, "getpid", lambda: -1)
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        child()
    producer.close()
    with pytest.raises(ProducerClosed):
        producer.flush()
    monkeypatch.undo()
    assert orders.calls == []
    producer.close()
    assert delivered(orders.stream) == [b"x"]


def test_a_forked_child_counts_nothing_and_does_not_wait_for_the_parent_s_threads(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them may have had the lock when the process was forked: the child's copy of it is never released."""
    with orders.producer() as producer:
        producer.put("key", b"x")
        producer.flush()
        producer.put("key", b"y")
        with producer._lazy_loop.loop(producer._tell)._lock, monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: -1)
            assert producer.produced == Produced()
        assert producer.produced.user_records == 1


def test_a_program_that_ends_without_closing_its_producer_has_put_everything() -> None:
    program = """
import sublet, sublet.testing.memory
account = sublet.testing.memory.MemoryAccount()
account.create("orders", 1)
writer = account.writing("orders")
class Writer:
    def put(self, records):
        print("put", len(records), flush=True)
        return writer.put(records)
account.writing = lambda stream: Writer()
producer = sublet.Producer("orders", account=account, record_max_buffered_time=3600)
producer.put("key", b"x")
"""
    done = run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("put 1\n", "")


# A signal that arrives just before the main thread begins to wait is noticed by Python when that wait ends, which here
# needs the signal's handler: SIGUSR1 interrupts the wait. A shell's background job ignores SIGINT, and so would its
# children.
ENDED_WHILE_CLOSING = """
import asyncio, os, signal, sys, threading
import sublet, sublet.aio, sublet.testing.memory
from sublet.protocol.records import PutRefused
account = sublet.testing.memory.MemoryAccount()
account.create("orders", 1)
writer, left, calls = account.writing("orders"), threading.Event(), []
class Writer:
    def put(self, records):
        calls.append(records)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.{signal})
            while not left.wait(0.1):
                os.kill(os.getpid(), signal.SIGUSR1)
            return [PutRefused("NoAnswer", "lost", passes=True)]
        answers = writer.put(records)
        print("put", len(records), flush=True)
        return answers
account.writing = lambda stream: Writer()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.signal(signal.SIGINT, signal.default_int_handler)
def plain():
    with sublet.Producer("orders", account=account) as producer:
        producer.put("key", b"x")
async def on_loop():
    async with sublet.aio.Producer("orders", account=account) as producer:
        await producer.put("key", b"x")
try:
    {call}
finally:
    left.set()
"""


@pytest.mark.parametrize("call", ["plain()", "asyncio.run(on_loop())"])
@pytest.mark.parametrize("signal", ["SIGTERM", "SIGINT"])
def test_a_program_that_a_signal_ends_while_its_block_is_left_has_put_everything(call: str, signal: str) -> None:
    program = ENDED_WHILE_CLOSING.format(signal=signal, call=call)
    done = run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "put 1\n", done.stderr
    assert done.returncode == (0 if signal == "SIGTERM" else -2)


def test_a_producer_serves_one_event_loop_after_another() -> None:
    account = MemoryAccount()
    account.create("orders", 1)
    producer = sublet.aio.Producer("orders", account=account)

    async def produce() -> PutRecord:
        future = await producer.put("key", b"x")
        await producer.flush()
        return future.result()

    assert [asyncio.run(produce()).shard_id for _ in range(2)] == ["shardId-000000000000"] * 2
    asyncio.run(producer.close())


@pytest.mark.parametrize("producer", [Producer, sublet.aio.Producer])
def test_an_option_that_a_producer_does_not_have_is_named_with_those_that_it_has(producer: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^Producer has no option nope; its options are account, .*patience.*"
    ) as raised:
        producer("orders", nope=1)
    assert "producer_rules" not in str(raised.value)
