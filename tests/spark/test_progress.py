"""What a query's progress and log say of its shards, over a stream in memory and without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sublet.ports import PollRefusal
from sublet.spark.plan.offsets import offset_from_json, offset_to_json
from sublet.spark.read.counting import BatchShare
from sublet.spark.read.pace import CallPace
from sublet.spark.release import ReadMaxBytes
from sublet.spark.source.stream_read import StreamReader

from tests.spark.memory_query import MemoryQuery, memory_query, only

SHARD = "shardId-000000000000"


def reader_of(query: MemoryQuery) -> StreamReader:
    """The source as Spark's driver has it."""
    clock = query.clock
    return StreamReader(
        query.options,
        lambda _: only(query.connection(CallPace.of_driver(clock, clock.sleep))),
        lambda _: None,
        lambda _: None,
        lambda _: query.connection(CallPace.of_task(clock, clock.sleep)),
    )


def started(reader: StreamReader) -> dict[str, Any]:
    return json.loads(json.dumps(reader.initialOffset()))  # type: ignore[no-any-return]


def test_progress_has_bytes_of_each_shard_if_a_limit_had_them_counted() -> None:
    query = memory_query(2, maxBytesPerTrigger="1000000")
    query.stream.inner.put_all((f"key-{n}", bytes(100)) for n in range(50))
    reader = reader_of(query)
    reader.latestOffset(started(reader), ReadMaxBytes(1_000_000))
    told = reader.reportLatestOffset()
    assert sum(told["bytes"].values()) == query.stream.fetched_bytes == 5000
    assert told["bytes"].keys() == told["millisBehindLatest"].keys()


def test_progress_has_no_bytes_if_nothing_counted_them() -> None:
    query = memory_query()
    query.stream.inner.put("key", bytes(100))
    reader = reader_of(query)
    reader.latestOffset(started(reader), reader.getDefaultReadLimit())
    assert (reader.reportLatestOffset()["bytes"], reader.reportLatestOffset()["throttledCalls"]) == ({}, {})


def test_progress_counts_throttled_calls_by_shard() -> None:
    query = memory_query()
    query.stream.inner.put("key", b"1")
    left = [PollRefusal.THROTTLED, PollRefusal.ITERATOR_EXPIRED, PollRefusal.THROTTLED]
    query.stream.refuse = lambda _: left.pop() if left else None
    reader = reader_of(query)
    reader.latestOffset(started(reader), reader.getDefaultReadLimit())
    assert reader.reportLatestOffset()["throttledCalls"] == {SHARD: 2}


def test_progress_leaves_the_offset_of_earlier_releases_readable() -> None:
    """Before Spark 4.2 the report is a part of the offset."""
    query = memory_query()
    query.stream.inner.put("key", b"1")
    reader = reader_of(query)
    after = reader.latestOffset(started(reader), reader.getDefaultReadLimit())
    assert offset_to_json(offset_from_json({**after, **reader.reportLatestOffset()})) == after


def warnings(query: MemoryQuery) -> list[str]:
    return [line.message for line in query.memory_log.lines if "startPosition" in line.message]


@pytest.mark.parametrize("text", ["LATEST", "TRIM_HORIZON"])
def test_start_position_that_the_checkpoint_overrides_is_told_once_per_run(text: str) -> None:
    query = memory_query(startPosition=text)
    query.plan()
    query.stream.inner.put("key", b"1")
    query.clock.sleep(query.options.list_interval)
    query.run_all()
    assert query.all_rows, "it has read"
    assert warnings(query) == [], "the first run starts there"
    for runs in (1, 2):
        query.restart()
        for _ in range(3):
            query.stream.inner.put("key", b"2")
            query.run_all(BatchShare(records=1))
        assert len(warnings(query)) == runs


def test_start_position_by_default_is_not_told() -> None:
    query = memory_query()
    query.stream.inner.put("key", b"1")
    query.run_all()
    query.restart()
    query.run_all()
    assert warnings(query) == []
