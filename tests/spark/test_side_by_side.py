"""One task reads several shards: at the same time, in order within each, in bounded memory, and leaves no thread."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Self

import pyarrow as pa
import pytest
from sublet.errors import StreamUnavailable
from sublet.ports import PollRefusal, Refusal
from sublet.protocol.records import Page, StreamRecord
from sublet.settings import POLL_LIMIT_MAX
from sublet.spark.plan.offsets import ReadTo, Unread
from sublet.spark.plan.planning import ShardRange
from sublet.spark.read.connection import StreamAccess
from sublet.spark.read.pace import CallPace
from sublet.spark.read.page_memory import RECORD_OVERHEAD, PageBudget, PageMemory
from sublet.spark.read.reading import ReadTask, record_pages
from sublet.spark.read.side_by_side import read_side_by_side
from sublet.spark.read.task_sleep import ReadingOver, task_sleep
from sublet.spark.source.stream_read import StreamReader
from sublet.system.clock import SystemClock
from sublet.testing.memory import MemoryLog, MemoryStream

from tests.spark.memory_query import WatchedStream, memory_query, only, options

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KB = 1024
SOON = 60
"""Seconds: far more than anything here takes."""


def name(shard: int) -> str:
    return f"shardId-{shard:012}"


@dataclass
class Shards:
    """A stream of ended shards that hold as many records of 1 KB. `reads` is called before each poll."""

    records: int
    reads: Callable[[str], object] = lambda _: None
    page: int = 10_000
    hold: type[tuple[StreamRecord, ...]] = tuple
    polls: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def reader(self, shard_id: str, position: object) -> Reader:  # noqa: ARG002
        return Reader(self, shard_id)


@dataclass
class Reader:
    shards: Shards
    shard_id: str
    at: int = 0

    def open(self) -> None:
        """Nothing to do."""

    def read(self, limit: int) -> Page:
        self.shards.reads(self.shard_id)
        self.shards.polls[self.shard_id] += 1
        count = min(limit, self.shards.page, self.shards.records - self.at)
        some = self.shards.hold([StreamRecord(str(self.at + n + 1), bytes(KB), "k", NOW) for n in range(count)])
        self.at += count
        return Page(some, KB * count, 0, self.at >= self.shards.records)


def no_sleep(pause: timedelta) -> None:
    """The pace is not waited for."""


def access(shards: Shards, sleep: Callable[[timedelta], object] = no_sleep) -> StreamAccess:
    clock = SystemClock()
    pace = CallPace.of_task(clock, sleep)
    return StreamAccess(shards, pace, clock, sleep, MemoryLog(), timedelta(seconds=SOON))  # type: ignore[arg-type]


def tasks(shards: int, **how: timedelta) -> list[ReadTask]:
    return [
        ReadTask("orders", ShardRange(name(shard), None, Unread(), None), True, first_call_waited=True, **how)  # type: ignore[arg-type]
        for shard in range(shards)
    ]


def read(shards: Shards, count: int, **how: int) -> Generator[pa.RecordBatch, None, None]:
    own = access(shards)
    return read_side_by_side(tasks(count), lambda _: own, **how)


def reading_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("sublet-shard")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert reading_threads() == []


def by_shard(batches: Sequence[pa.RecordBatch]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for batch in batches:
        [shard_id] = set(batch.column("shardId").to_pylist())
        found[shard_id] += map(int, batch.column("sequenceNumber").to_pylist())
    return found


def test_task_reads_its_shards_at_the_same_time() -> None:
    """No shard's first poll returns before all of them are made."""
    all_polled = threading.Barrier(4)

    def poll(shard_id: str) -> None:
        if not shards.polls[shard_id]:
            all_polled.wait(SOON)

    shards = Shards(10, poll)
    assert by_shard(list(read(shards, 4))) == {name(shard): list(range(1, 11)) for shard in range(4)}


def test_source_reads_all_shards_in_as_many_partitions_as_the_option_says() -> None:
    query = memory_query(5)
    query.stream.inner.put_all((f"key-{number}", b"%d" % number) for number in range(200))
    query.clock.sleep(timedelta(seconds=2))
    own = options(maxPartitions="2")
    driver = only(query.connection(CallPace.of_driver(query.clock, query.clock.sleep)))
    task = query.connection(CallPace.of_task(query.clock, query.clock.sleep))
    reader = StreamReader(own, lambda _: driver, lambda _: None, lambda _: None, lambda _: task)
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    assert sorted(len(part.tasks) for part in parts) == [2, 3]
    rows = [row for part in parts for batch in reader.read(part) for row in batch.column("data").to_pylist()]
    assert sorted(map(int, rows)) == list(range(200))


def test_batches_hold_rows_of_one_shard_in_order() -> None:
    found = list(read(Shards(5000, page=700), 6))
    assert by_shard(found) == {name(shard): list(range(1, 5001)) for shard in range(6)}


def test_more_shards_than_threads_are_read_in_turn() -> None:
    """All threads have started when the first batch comes; none but the first shard gives one before that."""
    go = threading.Event()

    def poll(shard_id: str) -> None:
        assert shard_id == name(0) or go.wait(SOON)

    batches = read(Shards(3, poll), 40, at_once=8)
    first = next(batches)
    assert len(reading_threads()) == 8
    go.set()
    assert by_shard([first, *batches]) == {name(shard): [1, 2, 3] for shard in range(40)}


def test_pages_that_wait_for_a_slow_consumer_stay_within_the_memory() -> None:
    memory, taken, most = 3000 * (KB + RECORD_OVERHEAD), 0, 0

    def poll(_: str) -> None:
        nonlocal most
        fetched = sum(shards.polls.values()) * shards.page
        most = max(most, fetched - taken)

    shards = Shards(20_000, poll, page=500)
    with closing(read(shards, 8, memory=memory)) as batches:
        for batch in batches:
            taken += batch.num_rows
    assert taken == 8 * 20_000
    assert most * (KB + RECORD_OVERHEAD) <= memory


class LivePage(tuple[StreamRecord, ...]):
    """A page's records, counted while they are in memory."""

    __slots__ = ()
    live = 0

    def __new__(cls, records: Sequence[StreamRecord]) -> Self:
        cls.live += 1
        return super().__new__(cls, records)

    def __del__(self) -> None:
        LivePage.live -= 1


def test_shards_that_wait_for_their_next_page_keep_none_in_memory() -> None:
    """Those of the batch that the generator has yielded last are its own."""
    asleep, go = threading.Semaphore(0), threading.Event()

    def sleep(_: timedelta) -> None:
        asleep.release()
        assert go.wait(SOON)

    own = access(Shards(100, page=50, hold=LivePage), sleep)
    with closing(read_side_by_side(tasks(8), lambda _: own)) as batches:
        for _ in range(8):
            next(batches)
        assert all(asleep.acquire(timeout=SOON) for _ in range(8))
        live = LivePage.live
        go.set()
    assert live <= 1


def test_budget_lets_a_page_that_is_larger_than_it_pass_alone() -> None:
    budget = PageBudget(10)
    budget.take(100)
    budget.free(100)
    budget.take(10)
    waiting = threading.Thread(target=lambda: budget.take(1))
    waiting.start()
    budget.free(10)
    waiting.join(SOON)
    assert budget.used == 1


def test_closed_budget_ends_all_waits() -> None:
    budget, ended = PageBudget(10), threading.Semaphore(0)

    def take() -> None:
        with pytest.raises(ReadingOver):
            budget.take(10)
        ended.release()

    budget.take(10)
    for _ in range(5):
        threading.Thread(target=take, daemon=True).start()
    budget.close()
    assert all(ended.acquire(timeout=SOON) for _ in range(5))


def test_threads_end_with_a_generator_that_is_not_read_to_its_end() -> None:
    """As at a LIMIT. One shard still owes an hour for earlier reads, another waits for memory."""
    own = access(Shards(10_000, page=500), task_sleep)
    late = ReadTask("orders", ShardRange(name(9), None, Unread(), None), True, debt=timedelta(hours=1))
    batches = read_side_by_side([*tasks(1), late], lambda _: own, memory=1_000_000)
    next(batches)
    assert len(reading_threads()) == 2
    batches.close()
    assert reading_threads() == []


def test_a_shard_that_fails_ends_the_others() -> None:
    def poll(shard_id: str) -> None:
        if shard_id == name(1):
            raise StreamUnavailable("the network is down")

    own = access(Shards(10, poll), task_sleep)
    late = ReadTask("orders", ShardRange(name(9), None, Unread(), None), True, debt=timedelta(hours=1))
    with pytest.raises(StreamUnavailable, match="the network is down"):
        list(read_side_by_side([*tasks(2), late], lambda _: own))
    assert reading_threads() == []


def test_task_waits_at_its_end_until_the_reads_of_all_shards_are_paid_for() -> None:
    """Else the driver's next look would exceed a shard's limit."""
    slept: list[timedelta] = []
    own = access(Shards(400), slept.append)  # a page of each
    list(read_side_by_side(tasks(3), lambda _: own))
    assert len(slept) == 3
    assert all(pause > timedelta(seconds=0.15) for pause in slept)


def test_pages_without_records_of_their_ranges_leave_their_memory_to_other_shards() -> None:
    """Of each shard only the record before the range is left. A page that kept its memory would halt all others."""
    ranges = [
        ShardRange(name(shard), None, ReadTo("1", NOW), None, verify=True) for shard in range(3)
    ]  # as of shards that were closed after their last record
    own = access(Shards(1))
    done: list[list[pa.RecordBatch]] = []
    some = [ReadTask("orders", each, True, first_call_waited=True) for each in ranges]
    reading = threading.Thread(
        target=lambda: done.append(list(read_side_by_side(some, lambda _: own, memory=KB, at_once=1))), daemon=True
    )
    reading.start()
    reading.join(SOON)
    assert done == [[]]


@dataclass
class Steady:
    """A clock that the test sets."""

    at: datetime = NOW

    def steady(self) -> datetime:
        return self.at

    def now(self) -> datetime:
        return self.at

    def sleep(self, pause: timedelta) -> None:
        self.at += pause


@dataclass
class SlowBudget(PageBudget):
    """Memory that is free only after a wait: the consumer takes that long for what others have fetched."""

    clock: Steady
    wait: timedelta
    waits: int = 0

    def __post_init__(self) -> None:
        super().__init__(10**9)

    def take(self, size: int) -> None:
        self.clock.at += self.wait
        self.waits += 1
        super().take(size)


class ReaderOf:
    """A reader that gives these replies."""

    def __init__(self, *replies: Page | Refusal) -> None:
        self.replies = list(replies)

    def reader(self, shard_id: str, position: object) -> ReaderOf:  # noqa: ARG002
        return self

    def open(self) -> None:
        """Nothing to do."""

    def read(self, limit: int) -> Page | Refusal:  # noqa: ARG002
        return self.replies.pop(0)


PATIENCE = timedelta(seconds=60)
AT_TIP = Page((), 0, 0, False)
LAST = StreamRecord("1", b"data", "k", NOW)


def access_of(stream: object, clock: Steady, memory: PageMemory | None = None) -> StreamAccess:
    pace = CallPace.of_task(clock, clock.sleep)
    return StreamAccess(stream, pace, clock, clock.sleep, MemoryLog(), PATIENCE, memory)  # type: ignore[arg-type]


def up_to(sequence_number: str) -> ReadTask:
    return ReadTask("orders", ShardRange(name(0), None, Unread(), sequence_number), True, first_call_waited=True)


def orders(clock: Steady, records: int) -> tuple[WatchedStream, str]:
    """A stream whose iterators expire after five minutes, and its last record's sequence number."""
    inner = MemoryStream(1, clock=clock, name="orders")
    return WatchedStream(inner, clock), inner.put_all(("k", b"data") for _ in range(records))[-1]


@pytest.mark.parametrize(
    "before",
    [[PollRefusal.THROTTLED] * 3, [PollRefusal.ITERATOR_EXPIRED] * 4, [AT_TIP] * 3],
    ids=["throttled", "expired", "empty"],
)
def test_waits_for_memory_do_not_count_as_patience(before: list[Page | Refusal]) -> None:
    """The consumer is slow. Before the record comes, Kinesis refuses some polls, or gives some empty pages."""
    clock = Steady()
    memory = PageMemory(SlowBudget(clock, 2 * PATIENCE), None, clock)
    own = access_of(ReaderOf(*before, Page((LAST,), 4, 0, False)), clock, memory)
    assert [len(page) for page in record_pages(own, up_to("1"))] == [1]


@pytest.mark.parametrize("reply", [PollRefusal.THROTTLED, AT_TIP], ids=["throttled", "empty"])
def test_shard_that_gives_nothing_for_longer_than_patience_fails(reply: Page | Refusal) -> None:
    clock = Steady()
    budget = SlowBudget(clock, timedelta(seconds=25))
    own = access_of(ReaderOf(*[reply] * 200), clock, PageMemory(budget, None, clock))
    with pytest.raises(StreamUnavailable):
        list(record_pages(own, up_to("1")))
    assert PATIENCE < clock.at - NOW - budget.waits * budget.wait < 1.2 * PATIENCE


@pytest.mark.parametrize("wait", [timedelta(minutes=6), timedelta(hours=1)], ids=str)
def test_shard_is_read_though_each_wait_for_memory_outlives_its_iterator(wait: timedelta) -> None:
    """Each page waits for its memory once."""
    clock = Steady()
    stream, last = orders(clock, 1_500)
    budget = SlowBudget(clock, wait)
    pages = [len(page) for page in record_pages(access_of(stream, clock, PageMemory(budget, None, clock)), up_to(last))]
    assert sum(pages) == 1_500
    assert len(pages) == budget.waits > 1


def test_iterator_that_expires_while_the_consumer_is_busy_is_renewed_unrefused() -> None:
    """A poll that is throttled afterwards is the first one refused, and so is repeated after a second."""
    clock, slept = Steady(), list[timedelta]()
    stream, last = orders(clock, POLL_LIMIT_MAX + 1)
    own = access_of(stream, clock)
    pages = record_pages(replace(own, sleep=slept.append), up_to(last))
    assert len(next(pages)) == POLL_LIMIT_MAX
    clock.at += timedelta(minutes=10)
    refusals = [None, PollRefusal.THROTTLED]
    stream.refuse = lambda _: refusals.pop(0) if refusals else None
    assert len(next(pages)) == 1
    assert stream.refusals == [PollRefusal.ITERATOR_EXPIRED, PollRefusal.THROTTLED]
    assert slept == [timedelta(seconds=1)]


def test_calls_keep_their_distance_after_a_wait_for_memory() -> None:
    clock, called = Steady(), list[datetime]()

    class Watched(ReaderOf):
        def read(self, limit: int) -> Page | Refusal:
            called.append(clock.at)
            return super().read(limit)

    class SlowOnce(SlowBudget):
        def take(self, size: int) -> None:
            super().take(size)
            self.wait = timedelta(0)

    pages = [Page((StreamRecord(str(number), b"data", "k", NOW),), 4, 1, False) for number in (1, 2, 3)]
    memory = PageMemory(SlowOnce(clock, timedelta(seconds=30)), None, clock)
    list(record_pages(access_of(Watched(*pages), clock, memory), up_to("3")))
    assert len(called) == 3
    assert all(after - before >= timedelta(seconds=0.5) for before, after in pairwise(called))
