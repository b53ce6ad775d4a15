"""Aggregates outside their shard's hash key range: dropped as KCL does, but never if Kinesis itself may have placed
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest
from sublet.protocol.aggregation import aggregate
from sublet.protocol.stream_info import Placement, RecordDistribution
from sublet.spark.options import UseOfLeases
from sublet.spark.read.counting import BatchShare
from sublet.spark.read.pace import CallPace
from sublet.spark.source.batch_read_plan import ReadScope, plan_batch
from sublet.testing.memory import MemoryLeaseTable, MemorySightingStore, MemoryStream

from tests.spark.held_query import HeldQuery
from tests.spark.memory_query import (
    MemoryQuery,
    Row,
    SleepingClock,
    WatchedStream,
    memory_query,
    only,
    options,
    rows_of,
)

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
AUTO, BY_KEY = RecordDistribution.AUTO, RecordDistribution.USER_PARTITION_KEY
TOP = 2**128 - 1


def put_aggregates(query: MemoryQuery, count: int, rows: int = 3) -> list[bytes]:
    """Each with records of the lowest and the highest hash key: only a lone shard has them all in its range."""
    wanted = [
        [b"%d" % (query.stream.calls["aggregates"] * 100 + count * 10_000 + n * rows + m) for m in range(rows)]
        for n in range(count)
    ]
    query.stream.calls["aggregates"] += 1
    for data in wanted:
        hash_keys = ["0" if n % 2 else str(TOP) for n in range(rows)]
        query.stream.inner.put("k", aggregate([("k", h, d) for h, d in zip(hash_keys, data, strict=True)]))
    return [each for data in wanted for each in data]


def data_of(rows: list[Row]) -> Counter[bytes]:
    return Counter(row.data for row in rows)


def test_every_aggregate_of_a_stream_in_auto_is_delivered() -> None:
    query = memory_query(3)
    query.stream.inner.distribution = AUTO
    wanted = put_aggregates(query, 5)
    query.stream.inner.put(None, b"keyless")
    query.clock.sleep(5 * SECOND)
    assert data_of(query.run_all()) == Counter([*wanted, b"keyless"])
    assert {row.partition_key for row in query.all_rows} == {"k", None}


def test_no_aggregate_is_dropped_when_the_description_lacks_the_distribution() -> None:
    query = memory_query(2)
    query.stream.inner.distribution = None
    wanted = put_aggregates(query, 5)
    query.clock.sleep(5 * SECOND)
    assert data_of(query.run_all()) == Counter(wanted)


def test_strays_are_delivered_for_a_retention_after_auto_is_switched_off() -> None:
    """Also in a process that is started later: the log remembers, although nothing was read while it was AUTO."""
    query = memory_query(2)
    query.run_all()
    query.stream.inner.distribution = AUTO
    query.clock.sleep(6 * MINUTE)
    assert query.plan(), "that it is AUTO is worth a batch without rows"
    assert query.run() == []
    assert not query.plan()
    wanted = put_aggregates(query, 5)
    query.stream.inner.distribution = BY_KEY
    query.clock.sleep(20 * HOUR)
    query.restart()
    assert data_of(query.run_all()) == Counter(wanted)
    query.clock.sleep(25 * HOUR)
    put_aggregates(query, 5)
    query.clock.sleep(6 * MINUTE)
    assert query.run_all()[len(wanted) :] == []


def test_strays_newer_than_the_description_are_kept() -> None:
    """It may have been switched to AUTO meanwhile."""
    query = memory_query(2)
    query.run_all()
    query.clock.sleep(MINUTE)
    query.stream.inner.distribution = AUTO
    wanted = put_aggregates(query, 5)
    query.stream.inner.distribution = BY_KEY
    query.clock.sleep(5 * SECOND)
    assert data_of(query.run_all()) == Counter(wanted)


def test_strays_right_after_a_reshard_are_dropped() -> None:
    query = memory_query(1)
    query.run_all()
    query.stream.inner.split("shardId-000000000000")
    query.clock.sleep(11 * SECOND)
    query.run_all()
    put_aggregates(query, 5)
    query.clock.sleep(5 * SECOND)
    assert query.run_all() == []
    assert query.stream.calls["describe"] <= 5


@pytest.mark.parametrize("is_described", [True, False])
def test_a_batch_that_is_done_again_by_another_process_has_the_same_rows(is_described: bool) -> None:
    """As of the plan, whatever is learned since: whether the description was before or after the misplaced
    aggregates.
    """
    query = memory_query(2)
    query.run_all()
    query.clock.sleep(SECOND)
    wanted = put_aggregates(query, 5)
    query.clock.sleep(6 * MINUTE if is_described else 5 * SECOND)
    assert query.plan()
    rows = query.run()
    assert data_of(rows) == Counter([] if is_described else wanted)
    query.clock.sleep(6 * MINUTE)
    query.restart()
    assert query.run() == rows
    query.plan()
    query.restart()
    assert query.run() == rows


def test_the_stream_is_described_every_five_minutes() -> None:
    query = memory_query(2)
    for _ in range(60 * 4):
        query.stream.inner.put("k", b"x")
        query.clock.sleep(15 * SECOND)
        query.run_all()
    assert query.stream.calls["describe"] <= 13


@pytest.mark.parametrize("distribution", [AUTO, BY_KEY, None])
def test_limits_count_the_rows_that_are_delivered(distribution: RecordDistribution | None) -> None:
    query = memory_query(1)
    query.stream.inner.split("shardId-000000000000")
    query.stream.inner.distribution = distribution
    for number in range(40):
        if number % 4:
            put_aggregates(query, 1, rows=5)
        else:
            query.stream.inner.put("k", b"plain-%d" % number)
    query.clock.sleep(5 * SECOND)
    query.run_all(BatchShare(records=16))
    sizes = [len(rows) for rows in query.rows if rows]
    if distribution is BY_KEY:
        assert sizes == [10], "of the one shard that has the key, which takes the other shard's share too"
    else:
        assert sum(sizes) == 40 // 4 + 30 * 5
        assert max(sizes) <= 16
        assert min(sizes[:-2]) >= 5


def held_query() -> HeldQuery:
    clock = SleepingClock()
    return HeldQuery(WatchedStream(MemoryStream(2, clock=clock, name="orders"), clock), clock, MemoryLeaseTable())


def test_a_query_that_holds_leases_uses_the_fleet_s_stream_description() -> None:
    held = held_query()
    query = held.query
    query.stream.inner.distribution = AUTO
    described = query.stream.describe()
    held.sightings.keep_placement(Placement().with_description(described), query.clock.now())
    wanted = put_aggregates(query, 5)
    query.stream.inner.distribution = BY_KEY
    query.clock.sleep(HOUR)
    assert data_of(held.drain()) == Counter(wanted)
    held.end()


def test_a_query_that_follows_an_application_uses_the_fleet_s_stream_description() -> None:
    query = memory_query(2, application="orders-audit", leases="follow")
    query.leases, query.sightings = MemoryLeaseTable(), MemorySightingStore()
    query.stream.inner.distribution = AUTO
    described = query.stream.describe()
    query.sightings.keep_placement(Placement().with_description(described), query.clock.now())
    wanted = put_aggregates(query, 5)
    query.stream.inner.distribution = BY_KEY
    query.clock.sleep(HOUR)
    query.restart()
    assert data_of(query.run_all()) == Counter(wanted)
    query.sightings.delete()
    query.log.clear()
    query.rows.clear()
    query.restart()
    assert query.run_all() == []


@pytest.mark.parametrize(("distribution", "delivered"), [(AUTO, 15), (BY_KEY, 0), (None, 15)])
def test_a_batch_read(distribution: RecordDistribution | None, delivered: int) -> None:
    query = memory_query(2)
    query.stream.inner.distribution = distribution
    put_aggregates(query, 5)
    query.clock.sleep(5 * SECOND)
    connection = query.connection(CallPace.of_task(query.clock, query.clock.sleep))
    tasks = plan_batch(only(connection), options(UseOfLeases.BATCH), ReadScope())
    assert len(rows_of(connection, tasks)) == delivered


@pytest.mark.parametrize("seed", range(8))
def test_records_placed_by_kinesis_are_never_lost_however_it_is_switched(seed: int) -> None:
    """Switched at most every hour, which a query that plans every few minutes cannot miss; restarts and limits at
    random."""
    print(f"seed {seed}")
    chance, query = Random(seed), memory_query(1)
    query.stream.inner.split("shardId-000000000000")
    wanted: list[bytes] = []
    acts: list[Callable[[], object]] = [query.restart, query.plan, query.run_all]
    for _ in range(12):
        query.stream.inner.distribution = chance.choice((AUTO, BY_KEY))
        for _ in range(chance.randrange(8, 14)):
            if query.stream.inner.distribution is AUTO:
                wanted += put_aggregates(query, chance.randrange(3), chance.randrange(2, 5))
            if len(query.rows) < len(query.log):
                query.run()
            chance.choice(acts)()
            query.clock.sleep(chance.randrange(3, 8) * MINUTE)
            if len(query.rows) < len(query.log):
                query.run()
            query.run_all(BatchShare(records=chance.randrange(1, 20)))
    query.clock.sleep(HOUR)
    found = data_of(query.run_all())
    assert found.keys() >= set(wanted)
    assert set(found.values()) <= {1}
