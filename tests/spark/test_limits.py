"""How much of the stream a limited query reads, counted: the driver's looks and the tasks' pages, against what it
delivers."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from sublet.protocol.aggregation import aggregate
from sublet.spark.read.counting import BatchShare

from tests.spark.memory_query import MemoryQuery, memory_query

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
