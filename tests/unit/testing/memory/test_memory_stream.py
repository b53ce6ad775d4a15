"""Promises of the memory stream beyond the port's: limits, expiry, trimming, listing by position."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sublet.decisions.session.read_position import IteratorType, ReadPosition, after
from sublet.errors import CheckpointNotInStream, ShardNotFound
from sublet.ports import PollRefusal
from sublet.protocol.records import GetRecordsReply, Page
from sublet.protocol.shard import HASH_KEY_MAX
from sublet.settings import StartKind, StartPosition
from sublet.testing.memory import FakeClock, MemoryStream

FIRST, SECOND, THIRD = (f"shardId-{n:012}" for n in range(3))
HORIZON = ReadPosition(IteratorType.TRIM_HORIZON)
SECOND_LONG = timedelta(seconds=1)


def polled(stream: MemoryStream, iterator: str, limit: int = 10_000) -> GetRecordsReply:
    reply = stream.poll(iterator, limit)
    assert isinstance(reply, GetRecordsReply), reply
    return reply


def page(stream: MemoryStream, iterator: str, limit: int = 10_000) -> Page:
    return polled(stream, iterator, limit).page


def data_from(stream: MemoryStream, shard_id: str, position: ReadPosition) -> list[bytes]:
    return [record.data for record in page(stream, stream.open(shard_id, position)).records]


def test_sequence_numbers_look_and_rise_like_the_services() -> None:
    clock = FakeClock()
    stream = MemoryStream(2, clock=clock)
    numbers = [stream.put(f"key-{n}", b"") for n in range(50)]
    clock.advance(timedelta(days=400))
    stream.split(FIRST)
    numbers.append(stream.put("later", b""))
    assert {len(number) for number in numbers} == {56}
    assert numbers == sorted(numbers, key=int)
    assert len(set(numbers)) == len(numbers)


def test_keys_go_to_the_shard_of_their_md5() -> None:
    stream = MemoryStream(4)
    stream.put("a", b"")  # 0cc175b9...
    stream.put("b", b"")  # 92eb5ffe...
    assert [len(data_from(stream, f"shardId-{n:012}", HORIZON)) for n in range(4)] == [1, 0, 1, 0]


def test_an_iterator_expires_after_five_minutes() -> None:
    clock = FakeClock()
    stream = MemoryStream(clock=clock)
    iterator = stream.open(FIRST, HORIZON)
    clock.advance(timedelta(seconds=299))
    later = polled(stream, iterator).next_iterator
    clock.advance(SECOND_LONG)
    assert stream.poll(iterator, 1) is PollRefusal.ITERATOR_EXPIRED
    assert later is not None
    assert isinstance(stream.poll(later, 1), GetRecordsReply)


def test_a_page_holds_ten_megabytes_or_one_record() -> None:
    stream = MemoryStream()
    for size in (6, 3, 3, 11, 1):
        stream.put("", bytes(size * 2**20))
    sizes = []
    iterator = stream.open(FIRST, HORIZON)
    for _ in range(4):
        reply = polled(stream, iterator)
        sizes.append([len(record.data) >> 20 for record in reply.page.records])
        iterator = reply.next_iterator or ""
    assert sizes == [[6, 3], [3], [11], [1]]


def test_a_page_holds_ten_megabytes_after_trimming_too() -> None:
    clock = FakeClock()
    stream = MemoryStream(clock=clock)
    stream.put("", bytes(9 * 2**20))
    clock.advance(SECOND_LONG)
    for _ in range(3):
        stream.put("", bytes(4 * 2**20))
    stream.trim(clock.now())
    assert len(data_from(stream, FIRST, HORIZON)) == 2


def test_an_unthrottled_stream_allows_any_number_of_polls() -> None:
    stream = MemoryStream()
    iterator = stream.open(FIRST, HORIZON)
    assert all(isinstance(stream.poll(iterator, 1), GetRecordsReply) for _ in range(20))


def test_a_throttled_shard_allows_five_polls_a_second_over_all_its_readers() -> None:
    clock = FakeClock()
    stream = MemoryStream(2, clock=clock, throttled=True)
    iterator = stream.open(FIRST, HORIZON)
    for _ in range(5):
        page(stream, iterator)
    assert stream.poll(stream.open(FIRST, HORIZON), 1) is PollRefusal.THROTTLED
    assert isinstance(stream.poll(stream.open(SECOND, HORIZON), 1), GetRecordsReply)
    clock.advance(SECOND_LONG)
    assert isinstance(stream.poll(iterator, 1), GetRecordsReply)


def test_a_throttled_shard_pays_a_large_page_off_at_two_megabytes_a_second() -> None:
    clock = FakeClock()
    stream = MemoryStream(clock=clock, throttled=True)
    stream.put("", bytes(10 * 2**20))
    iterator = polled(stream, stream.open(FIRST, HORIZON)).next_iterator
    assert iterator is not None
    clock.advance(timedelta(seconds=3.9))
    assert stream.poll(iterator, 1) is PollRefusal.THROTTLED
    clock.advance(timedelta(seconds=0.1))
    assert isinstance(stream.poll(iterator, 1), GetRecordsReply)


def test_lag_is_the_age_of_the_oldest_waiting_record() -> None:
    clock = FakeClock()
    stream = MemoryStream(clock=clock)
    for _ in range(3):
        stream.put("", b"")
        clock.advance(SECOND_LONG)
    iterator = stream.open(FIRST, HORIZON)
    assert page(stream, iterator, limit=1).millis_behind_latest == 2000
    assert page(stream, iterator).millis_behind_latest == 0


def test_trimming_reads_on_from_the_horizon() -> None:
    clock = FakeClock()
    stream = MemoryStream(clock=clock)
    oldest = stream.put("", b"0")
    at_oldest = stream.open(FIRST, HORIZON)
    clock.advance(SECOND_LONG)
    stream.put("", b"1")
    stream.put("", b"2")
    stream.trim(clock.now())
    at = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number=oldest)
    for position in (
        HORIZON,
        at,
        after(oldest),
        ReadPosition(IteratorType.AT_TIMESTAMP, at=clock.now() - SECOND_LONG),
    ):
        assert data_from(stream, FIRST, position) == [b"1", b"2"]
    assert [record.data for record in page(stream, at_oldest, limit=1).records] == [b"1"]


def test_a_wholly_trimmed_closed_shard_still_takes_its_own_checkpoint() -> None:
    clock = FakeClock()
    stream = MemoryStream(clock=clock)
    last = stream.put("", b"")
    clock.advance(SECOND_LONG)
    stream.split(FIRST)
    stream.trim(clock.now())
    reply = page(stream, stream.open(FIRST, after(last)))
    assert (reply.records, reply.is_shard_end, len(reply.child_shards)) == ((), True, 2)


def test_a_shard_closed_before_the_horizon_is_gone_and_its_children_name_it_still() -> None:
    clock = FakeClock()
    stream = MemoryStream(clock=clock)
    stream.split(FIRST)
    stream.trim(clock.advance(SECOND_LONG))
    assert not stream.has_shard(FIRST)
    with pytest.raises(ShardNotFound):
        stream.open(FIRST, HORIZON)
    assert [(shard.shard_id, shard.parent_shard_id) for shard in stream.list_shards()] == [
        (SECOND, FIRST),
        (THIRD, FIRST),
    ]


def test_another_shards_or_another_streams_sequence_number_is_refused() -> None:
    stream = MemoryStream(2)
    elsewhere = stream.put("", b"", HASH_KEY_MAX)
    for number in (elsewhere, "5", "9" * 129):
        with pytest.raises(CheckpointNotInStream, match=number):
            stream.open(FIRST, after(number))


def test_listing_by_position_finds_a_whole_generation() -> None:
    """Whatever the position, the shards found cover every hash key once, or records would be missed or read twice."""
    clock = FakeClock()
    stream = MemoryStream(2, clock=clock)
    born = clock.now()
    clock.advance(SECOND_LONG)
    stream.split(FIRST)
    split_at = clock.now()
    stream.put("", b"after the split, at the same moment")
    clock.advance(SECOND_LONG)
    stream.merge(SECOND, "shardId-000000000003")
    positions = [StartPosition(StartKind.TRIM_HORIZON), StartPosition(StartKind.LATEST)] + [
        StartPosition(StartKind.AT_TIMESTAMP, moment)
        for moment in (
            born - SECOND_LONG,
            born,
            split_at,
            split_at + SECOND_LONG / 2,
            clock.now() + SECOND_LONG,
        )
    ]
    found = [[int(shard.shard_id[-1]) for shard in stream.list_shards(at)] for at in positions]
    assert found == [[0, 1], [2, 4], [0, 1], [0, 1], [0, 1], [1, 2, 3], [2, 4]]


def test_reshards_that_cannot_be() -> None:
    stream = MemoryStream(3)
    with pytest.raises(ValueError, match="not adjacent"):
        stream.merge(FIRST, THIRD)
    with pytest.raises(ValueError, match="does not split"):
        stream.split(FIRST, at=0)
    stream.split(FIRST)
    with pytest.raises(ValueError, match="closed already"):
        stream.split(FIRST)
