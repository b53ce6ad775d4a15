"""Polling one shard: at the pace that Kinesis allows, ahead of the handler, and without losing or repeating a
record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from unittest.mock import Mock

import pytest
from sublet.decisions.session.read_position import IteratorType, ReadPosition
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.process_shared import NO_PAGE, Budget, PageSize, QuietShards
from sublet.engine.session.pages import PageFeed
from sublet.errors import StreamKeyUnavailable
from sublet.ports import PollRefusal, Refusal
from sublet.protocol.records import GetRecordsReply, Page

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    most_in,
    only,
)

MS = timedelta(milliseconds=1)


def about(gap: timedelta, pace: timedelta) -> bool:
    """At the tip a poll comes up to a tenth later."""
    return pace <= gap <= pace * 1.1


def gaps(polls: list[tuple[datetime, str]]) -> list[timedelta]:
    moments = [at for at, _ in polls]
    return [after - before for before, after in pairwise(moments)]


def test_poll_follows_after_200_ms_with_records_and_after_2_s_when_idle() -> None:
    """`poll_interval` and `idle_poll_interval`, at their defaults."""
    world = EngineWorld(replace(CONTINUOUS, poll_limit=1))
    world.put("a", "b", "c")
    world.window(lasts=MINUTE)
    assert all(about(gap, 200 * MS) for gap in gaps(world.stream.polls)[:3])
    assert all(about(gap, 2 * SECOND) for gap in gaps(world.stream.polls)[-3:])


def test_an_empty_page_behind_the_tip_is_not_idleness() -> None:
    """Kinesis gives empty pages far behind the tip; waiting 2 s at each would never catch up."""
    world = EngineWorld(CONTINUOUS)
    answers = [5000, 5000, 0, 0]

    def empty(_: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply:
        return GetRecordsReply(Page((), 0, answers.pop(0) if answers else 0), f"{SHARD} 0 x")

    world.stream.disturb = empty
    world.window(lasts=5 * SECOND)
    assert gaps(world.stream.polls)[:2] == [200 * MS, 200 * MS]
    assert about(gaps(world.stream.polls)[2], 2 * SECOND)


@pytest.mark.parametrize("takes", [0 * MS, 50 * MS, 150 * MS, 700 * MS])
def test_shard_is_polled_at_most_five_times_a_second(
    takes: timedelta,
) -> None:
    world = EngineWorld(replace(CONTINUOUS, poll_limit=1))
    world.put(*map(str, range(60)))

    def slow(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        world.tasks.sleep(takes)
        return poll()

    world.stream.disturb = slow
    world.stream.disturb_open = lambda _: world.tasks.sleep(takes)
    world.window(lasts=10 * SECOND)
    assert most_in(SECOND, (at for at, _ in world.stream.polls)) <= 5


def test_a_fast_consumer_is_not_throttled_by_a_shard_that_counts() -> None:
    world = EngineWorld(replace(CONTINUOUS, poll_limit=1), throttled=True)
    world.put(*map(str, range(50)))
    refused = []

    def watch(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        answer = poll()
        if isinstance(answer, PollRefusal):
            refused.append(answer)
        return answer

    world.stream.disturb = watch
    world.window(lasts=15 * SECOND)
    assert len(world.handler.data()) == 50
    assert refused == []


def test_pages_of_a_megabyte_catch_up_sooner_than_those_that_use_up_five_seconds() -> None:
    """40 MB, by Kinesis' count of 2 MB a second."""

    def lasted(poll_bytes: int | None) -> timedelta:
        world = EngineWorld(replace(CONTINUOUS, poll_bytes=poll_bytes), throttled=True)
        for _ in range(160):
            world.shards.put("key", b"x" * 2**18)
        came: list[datetime] = []

        def watch(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
            answer = poll()
            if isinstance(answer, GetRecordsReply) and answer.page.records:
                came.append(world.clock.steady())
            return answer

        world.stream.disturb = watch
        world.window(lasts=MINUTE)
        assert len(world.handler.data()) == 160
        return came[-1] - came[0]

    assert lasted(2**20) < 20.5 * SECOND < lasted(None)


def refused(times: int, why: PollRefusal) -> EngineWorld:
    """A minute with one record, of which the first reads bring nothing."""
    world, refusals = EngineWorld(CONTINUOUS), [why] * times

    def refuse(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        return refusals.pop() if refusals else poll()

    world.put("a")
    world.stream.disturb = refuse
    world.window(lasts=MINUTE)
    return world


def test_throttled_polls_back_off_up_to_five_seconds_and_lose_nothing() -> None:
    """Five seconds is how long one reply of 10 MB uses up the shard's 2 MB a second."""
    world = refused(5, PollRefusal.THROTTLED)
    assert [gap // SECOND for gap in gaps(world.stream.polls)[:5]] == [1, 2, 4, 5, 5]
    assert world.handler.data() == [b"a"]


def test_read_that_brings_nothing_yet_is_made_again_at_once() -> None:
    """As soon as calls may follow each other. It has waited itself, and nobody refused it."""
    world = refused(5, PollRefusal.NOT_YET)
    assert gaps(world.stream.polls)[:5] == [SECOND / 5] * 5
    assert world.handler.data() == [b"a"]


def test_poll_backoff_restarts_after_a_good_poll() -> None:
    world = EngineWorld(CONTINUOUS)
    answers = [True, True, False, True, False]

    def throttle(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        return PollRefusal.THROTTLED if answers and answers.pop(0) else poll()

    world.stream.disturb = throttle
    world.window(lasts=20 * SECOND)
    first, second, idle, third = gaps(world.stream.polls)[:4]
    assert [first, second, third] == [SECOND, 2 * SECOND, SECOND]
    assert about(idle, 2 * SECOND)


def test_a_service_that_refuses_every_iterator_is_asked_no_faster() -> None:
    """Kinesis says InvalidArgument and ExpiredIterator alike: one that lasts must not become a busy loop."""
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    world.stream.disturb = lambda _: PollRefusal.ITERATOR_EXPIRED
    world.window(lasts=5 * SECOND)
    assert 20 <= len(world.stream.polls) <= 26
    assert min(gaps(world.stream.polls)) >= 200 * MS


def test_an_expired_iterator_is_opened_again_after_the_last_fetched_record() -> None:
    """A handler call longer than 300 s outlives it; nothing is lost, and nothing comes twice."""
    world = EngineWorld(replace(CONTINUOUS, poll_limit=2))
    numbers = world.put("a", "b", "c", "d", "e")
    world.handler.script = lambda _: world.tasks.sleep(6 * MINUTE)
    world.window(lasts=30 * MINUTE)
    assert world.handler.data() == [b"a", b"b", b"c", b"d", b"e"]
    reopened = world.stream.opened[1:]
    assert reopened
    assert {position.type for position in reopened} == {IteratorType.AFTER_SEQUENCE_NUMBER}
    assert {position.sequence_number for position in reopened} <= set(numbers)


def test_iterator_expired_before_the_first_record_is_reopened_at_the_same_place() -> None:
    world = EngineWorld(CONTINUOUS)
    expired = [True]

    def expire_once(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        return PollRefusal.ITERATOR_EXPIRED if expired and expired.pop() else poll()

    world.put("a")
    world.stream.disturb = expire_once
    world.window(lasts=10 * SECOND)
    assert world.handler.data() == [b"a"]
    assert world.stream.opened[0] == world.stream.opened[1]


def test_the_next_page_is_fetched_while_the_handler_works() -> None:
    """Ten pages at a second of handling each: the polls cost no time of their own."""
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put(*map(str, range(10)))
    world.handler.script = lambda _: world.tasks.sleep(SECOND)

    def slow(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        world.tasks.sleep(900 * MS)
        return poll()

    world.stream.disturb = slow
    report = world.window()
    assert only(report).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [str(n).encode() for n in range(10)]
    assert world.handler.batches[-1].records[0].data == b"9"
    finished_after = timedelta(seconds=world.seconds())
    assert finished_after < 900 * MS + 10 * SECOND + 2 * SECOND


def test_session_prefetches_at_most_one_page() -> None:
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put(*map(str, range(10)))
    world.clock.advance(MINUTE)
    polls_during_first_call: list[int] = []

    def work(_: object) -> None:
        world.tasks.sleep(10 * SECOND)
        polls_during_first_call.append(len(world.stream.polls))

    world.handler.script = work
    world.window(lasts=10 * MINUTE)
    assert polls_during_first_call[0] == 2


def test_idle_shard_is_polled_without_prefetching(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to do meanwhile: no poll of it needs a task of its own."""

    def tasks_in(lasts: timedelta) -> tuple[int, int]:
        world = EngineWorld(CONTINUOUS)
        spawn = Mock(wraps=world.tasks.spawn)
        monkeypatch.setattr(world.tasks, "spawn", spawn)
        world.window(lasts=lasts)
        return spawn.call_count, len(world.stream.polls)

    (few, some_polls), (more, many_polls) = tasks_in(15 * SECOND), tasks_in(MINUTE)
    assert many_polls > 2 * some_polls
    assert more == few


def test_a_fetched_page_is_handled_only_after_the_one_before_it() -> None:
    world = EngineWorld(replace(NO_WAITING, poll_limit=3))
    world.put(*map(str, range(30)))
    world.clock.advance(MINUTE)
    world.handler.script = lambda batch: world.tasks.sleep(len(batch.records) * SECOND / 7)
    world.window()
    assert world.handler.data() == [str(n).encode() for n in range(30)]


def test_budget_gives_at_most_its_rest_and_takes_it_back() -> None:
    world = EngineWorld()
    budget = Budget(100, 10, world.tasks)
    assert budget.take(PageSize(60, 5))
    assert not budget.take(PageSize(60, 5)), "bytes"
    assert not budget.take(PageSize(10, 6)), "records"
    assert budget.take(NO_PAGE)
    budget.free(PageSize(60, 5))
    assert budget.take(PageSize(100, 10))


def test_feed_returns_all_memory_at_its_end_even_of_an_unhandled_page() -> None:
    """The children that start in the same window need it."""
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put("in hand", "fetched ahead")
    everything = PageSize(world.settings.max_bytes_in_flight, world.settings.max_records_in_flight)
    budget = Budget(everything.bytes, everything.records, world.tasks)
    feed = PageFeed(
        SHARD,
        ReadPosition(IteratorType.TRIM_HORIZON),
        world.ports,
        world.settings,
        budget,
        QuietShards(world.tasks),
        world.tasks.signal(),
        world.clock.steady() + MINUTE,
    )
    assert feed.next() is not None
    feed.read_ahead()
    world.tasks.sleep(SECOND)
    assert not budget.take(everything)
    feed.close()
    assert budget.take(everything)


def test_stream_error_of_a_prefetched_page_is_raised_after_earlier_pages() -> None:
    """What was fetched before it is handled first."""
    world = EngineWorld(replace(CONTINUOUS, poll_limit=1))
    world.put("a")
    polls = 0

    def second_fails(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        nonlocal polls
        polls += 1
        if polls > 1:
            raise StreamKeyUnavailable("key is disabled")
        return poll()

    world.stream.disturb = second_fails
    world.handler.script = lambda _: world.tasks.sleep(10 * SECOND)
    assert only(world.window()).outcome is SessionOutcome.SERVICE_FAILED
    assert world.handler.data() == [b"a"]
