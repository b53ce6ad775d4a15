"""An idle shard is walked once: the proof is in the offset, beside its position, and counts for no other."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from sublet.decisions.session.quiet import ARRIVALS_DIFFER_BY
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease
from sublet.protocol.stream_identity import StreamIdentity
from sublet.spark.plan.joining import resume_ranges
from sublet.spark.plan.offsets import Offset, ReadTo, ShardOffset, StreamOffset, Unread
from sublet.spark.plan.planning import ShardRange
from sublet.spark.read.counting import NO_LIMIT, BatchShare
from sublet.spark.read.positions import open_at, opening
from sublet.testing.memory import MemoryStream
from sublet.testing.memory.walk import drawn

from tests.spark.memory_query import MemoryQuery, memory_query

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
ADVANCE = 5 * MINUTE
SHARD = "shardId-000000000000"
LIMITS = [NO_LIMIT, BatchShare(records=100), BatchShare(bytes=10**6), BatchShare(span=10 * MINUTE)]


def idle_query(records: int = 3, /, **given: str) -> MemoryQuery:
    """Everything is read, on a shard where each call covers five minutes."""
    query = memory_query(1, **given)
    query.stream.inner = MemoryStream(1, clock=query.clock, throttled=True, name="orders", advance=lambda: ADVANCE)
    query.restart()
    put(query, records)
    query.clock.sleep(5 * SECOND)
    query.run_all()
    return query


def put(query: MemoryQuery, count: int) -> list[bytes]:
    data = [b"%s-%d" % (query.clock.now().isoformat().encode(), n) for n in range(count)]
    query.stream.inner.put_all((each.decode(), each) for each in data)
    return data


def walk(since: timedelta) -> int:
    """The most calls of a batch if the shard's last proof is this old."""
    return 2 + -(-(since + ARRIVALS_DIFFER_BY) // ADVANCE)


def polls(query: MemoryQuery) -> int:
    return query.stream.calls["poll"]


def last(query: MemoryQuery) -> ShardOffset:
    return query.offset(len(query.log) - 1).shards[SHARD]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("available_now", [False, True])
def test_a_day_off_is_walked_once_and_not_by_every_run(limit: BatchShare, available_now: bool) -> None:
    query, told = idle_query(), []
    query.clock.sleep(20 * HOUR)
    for _ in range(4):
        query.restart()
        before = polls(query)
        start = query.offset(len(query.log) - 1)
        if available_now:
            query.driver.set_targets(start)
        query.run_all(limit)
        told.append(polls(query) - before)
        query.clock.sleep(HOUR)
    assert told[0] <= walk(20 * HOUR)
    assert max(told[1:]) <= walk(HOUR + MINUTE) + 1, "after a batch without rows there is one more look"
    assert last(query).quiet_until is not None


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("pause", [15 * SECOND, 4 * MINUTE, 6 * MINUTE, HOUR])
def test_trigger_walks_only_the_time_since_the_last_one(limit: BatchShare, pause: timedelta) -> None:
    """Also if they are further apart than an iterator's lifetime."""
    query = idle_query()
    query.run_all(limit)
    for _ in range(12):
        query.clock.sleep(pause)
        before = polls(query)
        query.run_all(limit)
        assert polls(query) - before <= walk(pause)


@pytest.mark.parametrize("limit", LIMITS)
def test_records_after_an_idle_day_are_read_within_the_bound_of_polls(limit: BatchShare) -> None:
    query = idle_query()
    query.clock.sleep(20 * HOUR)
    query.restart()
    query.run_all(limit)
    query.clock.sleep(HOUR)
    wanted = put(query, 50)
    query.clock.sleep(MINUTE)
    query.restart()
    before = polls(query)
    assert query.plan(limit)
    planned = polls(query) - before
    assert query.run()
    assert planned <= walk(HOUR + MINUTE) + 6, "and some looks for a place near the tip to end at"
    assert polls(query) - before - planned <= walk(HOUR + MINUTE)
    assert {row.data for row in query.run_all(limit)[-50:]} == set(wanted)


def test_the_last_record_that_was_read_is_looked_for_by_itself() -> None:
    """After a day it may be past retention, and later records too: one call tells, and the idle days are not walked."""
    query = idle_query()
    query.clock.sleep(30 * HOUR)
    query.restart()
    query.run_all()
    query.clock.sleep(24 * HOUR)
    wanted = put(query, 5)
    query.clock.sleep(5 * SECOND)
    query.restart()
    query.plan()
    before = polls(query)
    assert [row.data for row in query.run()] == wanted
    assert polls(query) - before <= walk(24 * HOUR) + 1


def test_an_older_offset_that_is_restored_brings_its_own_proof() -> None:
    """As after removing Spark's newest files, or restoring the folder from a copy."""
    query = idle_query()
    query.clock.sleep(20 * HOUR)
    query.restart()
    query.run_all()
    log = list(query.log)
    wanted = put(query, 5)
    query.clock.sleep(20 * HOUR)
    query.run_all()
    query.restart()
    query.run_all()
    query.log[:], query.rows[:] = log, query.rows[: len(log)]
    query.restart()
    assert [row.data for row in query.run_all()][-5:] == wanted


def test_remembered_walk_applies_to_its_own_position_alone() -> None:
    """Leases that others have moved, and that come back, have other positions: `resume` and `joining` write them
    without a proof."""
    query = idle_query()
    query.clock.sleep(HOUR)
    wanted = put(query, 5)
    query.clock.sleep(20 * HOUR)
    query.run_all()
    query.run_all()
    peeker, shard = query.driver._planners[None]._peeker, query.stream.inner.list_shards()[0]
    earlier = [s.shards[SHARD].position for n in range(len(query.log)) if (s := query.offset(n)).shards]
    read_to = next(position for position in earlier if isinstance(position, ReadTo))
    assert read_to != last(query).position
    found = peeker.look(shard, read_to).end
    assert isinstance(found, ReadTo), "the records after an earlier position are found"
    assert found.sequence_number == query.all_rows[-1].sequence_number
    assert len(wanted) == 5


@pytest.mark.parametrize("seed", range(12))
def test_walk_skips_nothing_at_any_pace_and_jitter_of_arrivals(seed: int) -> None:
    """Arrival times that are off by up to a minute, idle hours, records, restarts, each with its own seed."""
    print(f"seed {seed}")
    chance = Random(seed)
    query = memory_query(1)
    query.stream.inner = MemoryStream(
        2,
        clock=query.clock,
        throttled=True,
        name="orders",
        advance=drawn(Random(seed)),
        stamp=lambda now: now - chance.random() * MINUTE,
    )
    query.restart()
    wanted: list[bytes] = []
    for number in range(25):
        data = [b"%d-%d" % (number, n) for n in range(chance.choice((0, 0, 1, 30)))]
        query.stream.inner.put_all((each.decode(), each) for each in data)
        wanted += data
        query.clock.sleep(chance.choice((SECOND, MINUTE, 10 * MINUTE, 3 * HOUR)) * (chance.random() + 0.1))
        if chance.random() < 0.5:
            query.restart()
        query.run_all(chance.choice(LIMITS))
    query.clock.sleep(HOUR)
    assert sorted(row.data for row in query.run_all()) == sorted(wanted)


def test_a_query_of_an_earlier_version_walks_once() -> None:
    """Its offsets have no such time, nor do those that it writes after a rollback."""
    query = idle_query()
    query.clock.sleep(20 * HOUR)
    query.restart()
    query.run_all()
    assert last(query).quiet_until is not None
    query.log[-1] = query.log[-1].replace('"q"', '"unknown"')
    wanted = put(query, 3)
    query.clock.sleep(20 * HOUR)
    query.restart()
    assert [row.data for row in query.run_all()][-3:] == wanted


def test_resumed_range_drops_its_quiet_time_when_another_worker_checkpointed() -> None:
    moment = datetime(2026, 1, 31, 8, tzinfo=UTC)
    one = ShardRange(SHARD, None, ReadTo("5", moment), "9", quiet_until=moment + HOUR)
    lease = Lease(SHARD, checkpoint=Checkpoint("7", 0))
    [left] = resume_ranges([one], _end("9"), {SHARD: lease}, {}).ranges
    assert (left.begin, left.quiet_until) == (ReadTo("7", None, 0), None)
    [same] = resume_ranges([one], _end("9"), {SHARD: replace(lease, checkpoint=Checkpoint("5", 0))}, {}).ranges
    assert same == one


def _end(number: str) -> Offset:
    identity = StreamIdentity("arn", datetime(2026, 1, 1, tzinfo=UTC))
    return Offset({None: StreamOffset("orders", identity, {SHARD: ShardOffset(ReadTo(number))})})


def test_record_read_in_part_is_reopened_despite_a_later_quiet_time() -> None:
    moment = datetime(2026, 1, 31, 8, tzinfo=UTC)
    part = ReadTo("7", None, 3)
    assert opening(part, moment) == open_at(part)
    assert opening(ReadTo("7", moment), moment + MINUTE) == open_at(ReadTo("7")), "the record is nearer"
    assert opening(ReadTo("7", moment), moment + HOUR).at == moment + HOUR - ARRIVALS_DIFFER_BY
    assert opening(Unread(moment), moment + MINUTE) == open_at(Unread(moment))
