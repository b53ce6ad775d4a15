"""A backlog whose producer has stopped since: a batch ends near its last record, found by the driver in few looks."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from sublet.spark.options import UseOfLeases
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.read.pace import CallPace
from sublet.spark.source.batch_read_plan import ReadScope, plan_batch
from sublet.testing.memory import MemoryStream

from tests.spark.memory_query import MemoryQuery, memory_query, only, options, rows_of

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
ADVANCE = 5 * MINUTE
DATA = bytes(100)
COUNT = 30_000
"""Three of the largest pages."""

READ_BY_DRIVER = 1_500
"""The most records that the driver may read to find the last one."""

STOPPED = [(10 * MINUTE, 10 * MINUTE), (100 * MINUTE, 5 * MINUTE), (10 * MINUTE, 20 * HOUR)]
"""For how long records arrived, and how long ago the last one did."""


def stopped_query(lasted: timedelta, idle: timedelta, jitter: timedelta = timedelta(0)) -> MemoryQuery:
    query, chance = memory_query(1), Random(3)
    query.stream.inner = MemoryStream(
        1,
        clock=query.clock,
        throttled=True,
        name="orders",
        advance=lambda: ADVANCE,
        stamp=lambda now: now - chance.random() * jitter,
    )
    query.restart()
    for _ in range(COUNT // 50):
        query.clock.sleep(lasted / (COUNT // 50))
        query.stream.inner.put_all([("k", DATA)] * 50)
    query.clock.sleep(idle)
    query.restart()
    return query


def fetched(query: MemoryQuery) -> int:
    return query.stream.fetched_bytes // len(DATA)


@pytest.mark.parametrize("limit", [NO_LIMIT, BatchShare(span=24 * HOUR)])
@pytest.mark.parametrize(("lasted", "idle"), STOPPED)
def test_backlog_with_an_idle_tail_is_one_batch(lasted: timedelta, idle: timedelta, limit: BatchShare) -> None:
    query = stopped_query(lasted, idle)
    assert query.plan(limit)
    assert fetched(query) <= READ_BY_DRIVER
    query.run()
    assert len(query.run_all(limit)) == COUNT
    assert len([rows for rows in query.rows if rows]) == 1


@pytest.mark.parametrize(("lasted", "idle"), STOPPED)
def test_driver_finds_what_is_available_now_without_reading_the_backlog(lasted: timedelta, idle: timedelta) -> None:
    query = stopped_query(lasted, idle)
    query.driver.set_targets(query.offset(-1))
    assert fetched(query) <= READ_BY_DRIVER
    query.run_all()
    assert [len(rows) for rows in query.rows if rows] == [COUNT]


@pytest.mark.parametrize(("lasted", "idle"), STOPPED)
def test_batch_read_is_planned_without_reading_the_backlog(lasted: timedelta, idle: timedelta) -> None:
    query = stopped_query(lasted, idle)
    connection = query.connection(CallPace.of_driver(query.clock, query.clock.sleep))
    tasks = plan_batch(only(connection), options(UseOfLeases.BATCH), ReadScope())
    assert fetched(query) <= READ_BY_DRIVER
    assert len(rows_of(query.connection(CallPace.of_task(query.clock, query.clock.sleep)), tasks)) == COUNT


@pytest.mark.parametrize(("lasted", "idle"), STOPPED)
def test_last_record_is_found_in_twenty_looks_that_walk_the_tail_once(lasted: timedelta, idle: timedelta) -> None:
    query = stopped_query(lasted, idle)
    assert query.plan()
    assert query.stream.calls["open"] <= 20
    assert query.stream.calls["poll"] - query.stream.calls["open"] <= idle / ADVANCE
    assert query.stream.refusals == []


def test_backlog_is_read_once_though_arrival_times_do_not_rise() -> None:
    query = stopped_query(10 * MINUTE, HOUR, jitter=MINUTE)
    rows = query.run_all()
    assert len(rows) == len({row.sequence_number for row in rows}) == COUNT
    assert len([rows for rows in query.rows if rows]) <= 3


@pytest.mark.parametrize("age", [20 * SECOND, 10 * MINUTE, 10 * HOUR])
def test_a_few_records_before_an_idle_tail_are_planned_in_a_few_looks(age: timedelta) -> None:
    query = memory_query(1)
    query.stream.inner.put_all([("k", DATA)] * 5)
    query.clock.sleep(age)
    assert query.plan()
    assert query.stream.calls["open"] <= (2 if age <= 10 * MINUTE else 7)
    assert len(query.run()) == 5


@pytest.mark.parametrize("closed_at_poll", range(2, 14, 2))
def test_shard_that_closes_while_it_is_searched_is_read_whole(closed_at_poll: int) -> None:
    query = stopped_query(10 * MINUTE, 10 * MINUTE)

    def split_once(_: str) -> None:
        if query.stream.calls["poll"] == closed_at_poll:
            query.stream.inner.split("shardId-000000000000")

    query.stream.refuse = split_once
    rows = query.run_all()
    assert len(rows) == len({row.sequence_number for row in rows}) == COUNT
    assert len(query.stream.inner.logs) == 3


@pytest.mark.parametrize("lasts", [timedelta(0), 10 * SECOND, MINUTE])
@pytest.mark.parametrize("ago", [timedelta(0), 2 * SECOND, 30 * SECOND, 2 * MINUTE])
def test_burst_after_an_idle_look_is_one_batch(ago: timedelta, lasts: timedelta) -> None:
    query = memory_query(1)
    query.stream.inner.put("k", DATA)
    query.run_all()
    query.clock.sleep(5 * SECOND)
    assert not query.plan()
    before = fetched(query)
    for _ in range(40):
        query.clock.sleep(lasts / 40)
        query.stream.inner.put_all([("k", DATA)] * 50)
    query.clock.sleep(ago)
    assert query.plan()
    assert len(query.run()) >= 1_900
    query.clock.sleep(2 * SECOND)
    assert len(query.run_all()) == 2_001
    assert fetched(query) - before <= 2.2 * 2_000
