"""How much of the stream a limited query reads, counted: the driver's looks and the tasks' pages, against what it
delivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sublet.protocol.aggregation import aggregate
from sublet.spark.read.counting import BatchShare

from tests.spark.memory_query import MemoryQuery, memory_query
from tests.spark.several_query import SeveralQuery
from tests.spark.test_follow import shard_id

SECOND = timedelta(seconds=1)
KB = 1024
AT_MOST = 2.2
"""Once on the driver, which counts, and once in the tasks."""


def put(query: MemoryQuery, sizes: list[int], rows: int = 1) -> None:
    """Stream records of these sizes, each an aggregate if it has more than one row; an hour of them."""
    for number, size in enumerate(sizes):
        data = bytes(size // rows)
        key = f"key-{number}"
        query.stream.inner.put(key, data if rows == 1 else aggregate([(key, None, data)] * rows))
        query.clock.sleep(3600 * SECOND / len(sizes))


@pytest.mark.parametrize(
    ("sizes", "rows", "limit"),
    [
        ([KB] * 2000, 1, BatchShare(records=100)),
        ([KB] * 2000, 1, BatchShare(bytes=100 * KB)),
        ([60 * KB] * 100, 1, BatchShare(bytes=100 * KB)),
        ([1000 * KB] * 20, 1, BatchShare(bytes=1024 * KB)),
        ([50 * KB] * 100, 100, BatchShare(records=250)),
        ([50 * KB] * 100, 100, BatchShare(bytes=120 * KB)),
        ([KB] * 10_000, 1, BatchShare(records=1_100)),
        (Random(7).choices((10, 100, 30 * KB), k=1000), 1, BatchShare(bytes=100 * KB)),
        ([KB] * 6000, 1, BatchShare(span=600 * SECOND)),
    ],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_limited_query_fetches_at_most_twice_its_bytes(
    shards: int, sizes: list[int], rows: int, limit: BatchShare
) -> None:
    query = memory_query(shards)
    put(query, sizes, rows)
    query.run_all(
        BatchShare(limit.records and limit.records * shards, limit.bytes and limit.bytes * shards, limit.span)
    )
    assert query.stream.fetched_bytes <= AT_MOST * sum(sizes)
    assert len(query.all_rows) == len(sizes) * rows
    assert len(query.rows) > 2


def put_into(query: MemoryQuery, counts: Sequence[int], size: int = 100) -> None:
    """So many records into each shard."""
    shards = sorted(query.stream.inner.list_shards(), key=lambda shard: shard.shard_id)
    for shard, count in zip(shards, counts, strict=True):
        hash_key = shard.hash_key_range.starting
        for number in range(count):
            query.stream.inner.put(f"key-{number}", bytes(size), explicit_hash_key=hash_key)
            if number % 50 == 0:
                query.clock.sleep(timedelta(milliseconds=10))
    query.clock.sleep(2 * SECOND)


def batches(query: MemoryQuery, limit: BatchShare) -> list[Counter[str]]:
    """The rows of each batch, by shard."""
    query.run_all(limit)
    return [Counter(row.shard_id for row in rows) for rows in query.rows if rows]


def test_a_busy_shard_gets_what_idle_shards_leave_of_the_limit() -> None:
    query = memory_query(8)
    put_into(query, [9000, *[10] * 7])
    found = batches(query, BatchShare(records=1000))
    assert [sum(each.values()) for each in found[:9]] == [1000] * 9
    assert found[0] == {shard_id(0): 930, **{shard_id(shard): 10 for shard in range(1, 8)}}
    assert sum(map(Counter.total, found)) == 9070
    assert query.stream.fetched_bytes <= AT_MOST * 9070 * 100


def test_busy_shards_share_what_is_left_by_what_waits_in_each() -> None:
    query = memory_query(4)
    put_into(query, [6000, 2000, 0, 0])
    first = batches(query, BatchShare(records=1000))[0]
    assert sum(first.values()) == 1000
    assert 250 + 2 * 125 < first[shard_id(0)] < 1000 - 250
    assert query.stream.fetched_bytes <= AT_MOST * 8000 * 100


def test_limit_in_bytes_is_shared_by_need_too() -> None:
    query = memory_query(8)
    put_into(query, [3000, *[1] * 7], size=KB)
    found = batches(query, BatchShare(bytes=512 * KB))
    assert all(each.total() * KB > 0.9 * 512 * KB for each in found[:5])
    assert query.stream.fetched_bytes <= AT_MOST * 3007 * KB


def test_streams_share_a_limit_by_need() -> None:
    query = SeveralQuery("ab", stream="a,b")
    for name, count in (("a", 2000), ("b", 5)):
        query.put(name, count)
    query.clock.sleep(2 * SECOND)
    assert query.plan(BatchShare(records=400))
    rows = Counter(row.stream for row in query.run())
    assert (rows["b"], sum(rows.values())) == (5, 400)


def test_run_for_what_is_there_shares_no_more_than_that() -> None:
    query = memory_query(4)
    put_into(query, [1500, 3, 0, 0])
    query.driver.set_targets()
    put_into(query, [500, 0, 0, 0])
    found = batches(query, BatchShare(records=1000))
    assert sum(map(Counter.total, found)) == 1503
    assert found[0].total() == 1000


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from([0, 1, 7, 60, 400, 1500]), min_size=2, max_size=6), st.sampled_from([20, 100, 700]))
def test_batches_are_full_while_enough_waits_and_no_shard_starves(counts: list[int], limit: int) -> None:
    query = memory_query(len(counts))
    put_into(query, counts)
    found = batches(query, BatchShare(records=limit))
    left = {shard_id(shard): count for shard, count in enumerate(counts)}
    for batch in found:
        total, even = sum(left.values()), limit // len(counts)
        assert batch.total() <= limit
        assert batch.total() >= min(total, limit - limit // 20)
        assert all(batch[name] >= min(count, even) for name, count in left.items())
        left = {name: count - batch[name] for name, count in left.items()}
    assert not any(left.values())
    assert query.stream.fetched_bytes <= AT_MOST * 100 * sum(counts)
