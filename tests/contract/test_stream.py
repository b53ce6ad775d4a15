"""The Stream port's promises, for every implementation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.session.read_position import (
    LONGEST_RETENTION,
    SHORTEST_RETENTION,
    IteratorType,
    ReadPosition,
    after,
)
from sublet.errors import ShardNotFound, StreamNotFound
from sublet.protocol.records import GetRecordsReply, Page, StreamRecord
from sublet.protocol.shard import FULL_RANGE, HASH_KEY_MAX, ChildShard, HashKeyRange
from sublet.reading.polling import PolledStream
from sublet.settings import StartKind, StartPosition

from tests.contract.stream_benches import Bench, kinesis_bench, memory_bench

HORIZON = ReadPosition(IteratorType.TRIM_HORIZON)
LATEST = ReadPosition(IteratorType.LATEST)
FIRST, SECOND, THIRD = (f"shardId-{n:012}" for n in range(3))
POLLS_MAX = 50


@pytest.fixture(params=["memory", pytest.param("embedded", marks=pytest.mark.emulator)])
def bench_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Bench]:
    """Makes a stream with this many shards."""
    if request.param == "memory":
        return memory_bench
    aws = request.getfixturevalue("embedded_aws")
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    return lambda shards: kinesis_bench(aws.client("kinesis"), shards)


def poll_at(stream: PolledStream, iterator: str, limit: int = 1000) -> GetRecordsReply:
    reply = stream.poll(iterator, limit)
    assert isinstance(reply, GetRecordsReply), reply
    return reply


def read(stream: PolledStream, iterator: str) -> tuple[list[StreamRecord], tuple[ChildShard, ...]]:
    """Poll until the tip or the end. Returns the records, and the children at the end."""
    records: list[StreamRecord] = []
    for _ in range(POLLS_MAX):
        page, next_iterator = poll_at(stream, iterator)
        records += page.records
        assert page.is_shard_end is (next_iterator is None)
        if next_iterator is None:
            return records, page.child_shards
        if not page.records and page.millis_behind_latest == 0:
            return records, ()
        iterator = next_iterator
    raise AssertionError(f"neither the tip nor the end within {POLLS_MAX} polls")


def data_from(stream: PolledStream, shard_id: str, position: ReadPosition) -> list[bytes]:
    return [record.data for record in read(stream, stream.open(shard_id, position))[0]]


def test_a_new_streams_shards(bench_of: Callable[[int], Bench]) -> None:
    shards = bench_of(3).stream.list_shards()
    assert [shard.shard_id for shard in shards] == [FIRST, SECOND, THIRD]
    assert all(shard.is_open and not shard.parent_shard_ids for shard in shards)
    assert shards[0].hash_key_range.starting == 0
    assert shards[-1].hash_key_range.ending == HASH_KEY_MAX
    for left, right in itertools.pairwise(shards):
        assert left.hash_key_range.ending + 1 == right.hash_key_range.starting


def test_records_come_in_order_and_whole(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    sequence_numbers = [bench.put(bytes([n]) * n) for n in range(5)]
    records, _ = read(bench.stream, bench.stream.open(FIRST, HORIZON))
    assert [record.data for record in records] == [bytes([n]) * n for n in range(5)]
    assert [record.sequence_number for record in records] == sequence_numbers
    assert sequence_numbers == sorted(sequence_numbers, key=int)
    assert {record.partition_key for record in records} == {"key"}
    assert all(record.approximate_arrival_timestamp.tzinfo is UTC for record in records)


def test_each_shard_has_its_own_records(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(2)
    bench.put(b"low", 0)
    bench.put(b"high", HASH_KEY_MAX)
    assert data_from(bench.stream, FIRST, HORIZON) == [b"low"]
    assert data_from(bench.stream, SECOND, HORIZON) == [b"high"]


def test_a_poll_brings_no_more_than_its_limit(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    for n in range(5):
        bench.put(b"%d" % n)
    first, later = poll_at(bench.stream, bench.stream.open(FIRST, HORIZON), limit=2)
    assert [record.data for record in first.records] == [b"0", b"1"]
    assert later is not None
    assert [record.data for record in poll_at(bench.stream, later).page.records] == [b"2", b"3", b"4"]


def test_a_reader_goes_from_page_to_page(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    for n in range(3):
        bench.put(b"%d" % n)
    bench.split(FIRST)
    reader, read = bench.stream.reader(FIRST, HORIZON), []
    while True:
        page = reader.read(2)
        assert isinstance(page, Page), page
        read += [record.data for record in page.records]
        if page.is_shard_end:
            break
    assert read == [b"0", b"1", b"2"]
    assert {child.shard_id for child in page.child_shards} == {SECOND, THIRD}


def test_an_iterator_may_be_polled_again(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    bench.put(b"0")
    iterator = bench.stream.open(FIRST, HORIZON)
    assert poll_at(bench.stream, iterator).page.records == poll_at(bench.stream, iterator).page.records != ()


def test_latest_reads_records_put_after_the_open(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    bench.put(b"before")
    iterator = bench.stream.open(FIRST, LATEST)
    empty, later = poll_at(bench.stream, iterator)
    assert (empty.records, empty.millis_behind_latest) == ((), 0)
    bench.put(b"after")
    assert later is not None
    assert [record.data for record in read(bench.stream, later)[0]] == [b"after"]


def test_stream_is_read_at_or_after_a_sequence_number(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    sequence_numbers = [bench.put(b"%d" % n) for n in range(3)]
    at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number=sequence_numbers[1])
    assert data_from(bench.stream, FIRST, at) == [b"1", b"2"]
    assert data_from(bench.stream, FIRST, after(sequence_numbers[0])) == [b"1", b"2"]
    assert data_from(bench.stream, FIRST, after(sequence_numbers[2])) == []


def test_stream_is_read_from_a_timestamp(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    bench.put(b"before")
    between = bench.let_time_pass()
    bench.put(b"after")
    assert data_from(bench.stream, FIRST, ReadPosition(IteratorType.AT_TIMESTAMP, at=between)) == [b"after"]


def test_a_moment_before_any_retention_is_the_shards_beginning(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    bench.put(b"first")
    long_ago = datetime.now(UTC) - LONGEST_RETENTION
    assert data_from(bench.stream, FIRST, ReadPosition(IteratorType.AT_TIMESTAMP, at=long_ago)) == [b"first"]


def test_a_split_shard_keeps_its_records_and_ends_with_its_children(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    bench.put(b"parent's")
    bench.split(FIRST)
    bench.put(b"low child's", 0)
    bench.put(b"high child's", HASH_KEY_MAX)

    records, children = read(bench.stream, bench.stream.open(FIRST, HORIZON))
    assert [record.data for record in records] == [b"parent's"]
    middle = (HASH_KEY_MAX + 1) // 2
    assert {child.shard_id: child.hash_key_range for child in children} == {
        SECOND: HashKeyRange(0, middle - 1),
        THIRD: HashKeyRange(middle, HASH_KEY_MAX),
    }
    assert all(child.parent_shard_ids == {FIRST} for child in children)
    assert data_from(bench.stream, SECOND, HORIZON) == [b"low child's"]
    assert data_from(bench.stream, THIRD, HORIZON) == [b"high child's"]
    listed = {shard.shard_id: shard for shard in bench.stream.list_shards()}
    assert [listed[shard_id].is_open for shard_id in (FIRST, SECOND, THIRD)] == [False, True, True]
    assert listed[SECOND].parent_shard_ids == listed[THIRD].parent_shard_ids == {FIRST}
    assert int(listed[FIRST].starting_sequence_number) < int(listed[SECOND].starting_sequence_number)


def test_merged_shards_both_end_with_their_one_child(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(2)
    bench.put(b"low", 0)
    bench.put(b"high", HASH_KEY_MAX)
    bench.merge(FIRST, SECOND)
    for parent, data in ((FIRST, b"low"), (SECOND, b"high")):
        records, children = read(bench.stream, bench.stream.open(parent, HORIZON))
        assert [record.data for record in records] == [data]
        assert children == (ChildShard(THIRD, frozenset({FIRST, SECOND}), FULL_RANGE),)
    merged = next(shard for shard in bench.stream.list_shards() if shard.shard_id == THIRD)
    assert merged.parent_shard_ids == {FIRST, SECOND}


def test_a_closed_shard_opened_at_its_end_ends_at_once(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    last = bench.put(b"last")
    bench.split(FIRST)
    records, children = read(bench.stream, bench.stream.open(FIRST, after(last)))
    assert records == []
    assert {child.shard_id for child in children} == {SECOND, THIRD}


def test_the_shards_that_are_open_now(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    bench.split(FIRST)
    now_open = bench.stream.list_shards(StartPosition(StartKind.LATEST))
    assert {shard.shard_id for shard in now_open} == {SECOND, THIRD}


def test_shards_that_there_are_not(bench_of: Callable[[int], Bench]) -> None:
    stream = bench_of(1).stream
    assert stream.has_shard(FIRST)
    assert not stream.has_shard("shardId-000000000099")
    with pytest.raises(ShardNotFound, match="no shard shardId-000000000099"):
        stream.open("shardId-000000000099", HORIZON)


def test_a_new_stream_keeps_records_for_a_day(bench_of: Callable[[int], Bench]) -> None:
    assert bench_of(1).stream.describe().retention == SHORTEST_RETENTION


def test_a_deleted_stream_is_not_a_missing_shard(bench_of: Callable[[int], Bench]) -> None:
    bench = bench_of(1)
    iterator = bench.stream.open(FIRST, HORIZON)
    bench.delete()
    calls: list[Callable[[], object]] = [
        bench.stream.list_shards,
        bench.stream.describe,
        lambda: bench.stream.has_shard(FIRST),
        lambda: bench.stream.open(FIRST, HORIZON),
        lambda: bench.stream.poll(iterator, 10),
    ]
    for call in calls:
        with pytest.raises(StreamNotFound):
            call()


def test_the_services_time_is_never_in_its_future_and_hardly_in_its_past(
    bench_of: Callable[[int], Bench],
) -> None:
    """Records put from now on are not earlier: a shard opened at that time misses none of them."""
    bench = bench_of(1)
    told = bench.stream.service_time()
    bench.put(b"after")
    (record,) = read(bench.stream, bench.stream.open(FIRST, HORIZON))[0]
    assert timedelta(0) <= record.approximate_arrival_timestamp - told < timedelta(seconds=10)
    assert data_from(bench.stream, FIRST, ReadPosition(IteratorType.AT_TIMESTAMP, at=told)) == [b"after"]
