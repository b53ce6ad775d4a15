"""Records that retention takes from under a reader, between two pages of its."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from sublet.decisions.session.read_position import IteratorType
from sublet.engine.session.gap_watch import GapWatch
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.ports import PollRefusal, Refusal, Signal
from sublet.protocol.records import GetRecordsReply, Page, StreamRecord

from tests.doubles.engine_world import NO_WAITING, SECOND, EngineWorld

HOUR = timedelta(hours=1)
ONE_BY_ONE = replace(NO_WAITING, poll_limit=1, checkpoint_interval=HOUR)


def opened(world: EngineWorld) -> list[IteratorType]:
    return [position.type for position in world.stream.opened]


def held_up(world: EngineWorld, lasts: timedelta, retention: timedelta) -> None:
    """Five records in as many pages; the call with the second one takes this long, and another record comes
    meanwhile.
    """
    world.put(*"abcde")
    world.clock.advance(SECOND)

    def hold(batch: Batch) -> None:
        if batch.records[0].data == b"b":
            world.clock.advance(lasts)
            world.put("new")
            world.shards.trim(before=world.clock.now() - retention)

    world.handler.script = hold
    world.window(lasts=100 * HOUR)


def test_session_reports_a_gap_when_retention_passes_it_during_a_page() -> None:
    world = EngineWorld(ONE_BY_ONE)
    held_up(world, 25 * HOUR, retention=24 * HOUR)
    assert world.handler.data() == [b"a", b"b", b"new"]
    assert world.metrics.values(Metric.DATA_GAP) == [1]
    assert any("read last is past retention" in message for message in world.log.messages("error"))


def test_gap_check_is_made_once_and_finds_none_with_longer_retention() -> None:
    world = EngineWorld(ONE_BY_ONE)
    held_up(world, 25 * HOUR, retention=48 * HOUR)
    assert world.handler.data() == [b"a", b"b", b"c", b"d", b"e", b"new"]
    assert world.metrics.values(Metric.DATA_GAP) == []
    assert opened(world).count(IteratorType.AT_SEQUENCE_NUMBER) == 1


def test_gap_check_is_not_made_within_the_shortest_retention() -> None:
    world = EngineWorld(ONE_BY_ONE)
    held_up(world, 22 * HOUR, retention=24 * HOUR)
    assert world.handler.data() == [b"a", b"b", b"c", b"d", b"e", b"new"]
    assert IteratorType.AT_SEQUENCE_NUMBER not in opened(world)


def test_a_question_that_is_not_answered_is_asked_again() -> None:
    world = EngineWorld(ONE_BY_ONE)
    refused = 0

    def refuse(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        nonlocal refused
        is_question = world.stream.opened[-1].type is IteratorType.AT_SEQUENCE_NUMBER
        if is_question and not refused:
            refused += 1
            return PollRefusal.THROTTLED
        return poll()

    world.stream.disturb = refuse
    held_up(world, 25 * HOUR, retention=24 * HOUR)
    assert refused == 1
    assert world.metrics.values(Metric.DATA_GAP) == [1]


Poll = Callable[[], GetRecordsReply | Refusal]


def undated(poll: Poll) -> GetRecordsReply:
    """An empty page behind the tip, and a proxy has left out when it was answered."""
    reply = poll()
    assert isinstance(reply, GetRecordsReply)
    return GetRecordsReply(Page((), 0, 60_000), reply.next_iterator)


def asked_after(
    world: EngineWorld, answers: list[Callable[[Poll], GetRecordsReply | Refusal]], stop: Signal
) -> list[float]:
    """Seconds from a page that comes a day after the one before, whose record is past retention: when it is asked for
    that. `answers`: the first ones.
    """
    watch = GapWatch(world.ports, world.table.lease(), stop)
    for hour, data in ((0, "a"), (25, "b")):
        world.clock.advance(hour * HOUR)
        world.shards.trim(before=world.clock.now() - HOUR)
        (number,) = world.put(data)
        page = Page((StreamRecord(number, data.encode(), "k", world.clock.now()),), 1, 0)
        began = world.clock.steady()
        world.stream.disturb = lambda poll: answers.pop(0)(poll) if answers else poll()
        watch.look_at(page, began, world.clock.now())
    return [(at - began).total_seconds() for at, _ in world.stream.polls]


def test_gap_check_is_repeated_each_second_until_it_is_answered() -> None:
    """An empty page far behind the tip says nothing."""
    world = EngineWorld()
    assert asked_after(world, [lambda _: PollRefusal.THROTTLED, undated], world.tasks.signal()) == [0, 1, 2]
    assert world.metrics.values(Metric.DATA_GAP) == [1]


def test_a_stopping_session_looks_for_no_gap_and_reports_none() -> None:
    world = EngineWorld()
    stop = world.tasks.signal()
    world.at(25 * HOUR + 1.5 * SECOND, stop.set)
    assert asked_after(world, [lambda _: PollRefusal.THROTTLED] * 9, stop) == [0, 1]
    assert world.metrics.values(Metric.DATA_GAP) == []
