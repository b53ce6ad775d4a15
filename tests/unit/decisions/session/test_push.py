"""What a reader by push does next. Each known fault of another client has a test here, or in
tests/contract/test_push_reader.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from sublet.decisions.session.push import (
    ASKED_AGAIN_AFTER,
    GIVES_WAY_FOR,
    LASTS,
    RENEWED_EARLIER,
    SILENCE_MAX,
    TAKEN_OVER_AFTER,
    WAITS_AT_MOST,
    NoContinuation,
    PushAction,
    PushEnd,
    PushStep,
    SubscriptionState,
    ending,
    is_silent,
    next_step,
)
from sublet.decisions.session.read_position import IteratorType, ReadPosition, after
from sublet.decisions.time_and_chance import Chance
from sublet.protocol.shard import FULL_RANGE, ChildShard, Shard

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)
OPENED = ReadPosition(IteratorType.AT_SEQUENCE_NUMBER, sequence_number="7")
PARENT, CHILD = "shardId-000000000000", "shardId-000000000001"


class Never:
    """Draws the least."""

    def shuffle(self, x: list[object], /) -> None: ...

    def getrandbits(self, k: int, /) -> int:
        return 0 * k


class Always(Never):
    """Draws the most."""

    def getrandbits(self, k: int, /) -> int:
        return (1 << k) - 1


LEAST, MOST = Never(), Always()


def begun(chance: Chance = LEAST) -> SubscriptionState:
    return SubscriptionState(OPENED).begun(NOW, chance)


def test_a_new_reader_subscribes_where_it_was_opened() -> None:
    assert next_step(SubscriptionState(OPENED), NOW) == PushStep(PushAction.SUBSCRIBE, why="not subscribed yet")
    assert SubscriptionState(OPENED).position == OPENED


def test_each_event_moves_the_position_to_its_continuation() -> None:
    """Of empty events too: a reader that moved only with records would begin at the same place for ever
    (awslabs/spark-sql-kinesis-connector#91).
    """
    known = begun().moved("9", NOW).over(PushEnd.LAPSED, NOW + LASTS, LEAST)
    assert known.position == after("9")
    assert next_step(known, NOW + LASTS) == PushStep(PushAction.SUBSCRIBE, why=PushEnd.LAPSED)


def test_a_reader_without_an_event_subscribes_where_it_was_opened() -> None:
    """A first subscription that breaks says nothing of where it was, and must not turn into a null position
    (apache/flink, FLINK-39540).
    """
    for end in PushEnd:
        assert begun().over(end, NOW + SECOND, LEAST).position == OPENED


@pytest.mark.parametrize(("chance", "after_this"), [(LEAST, LASTS), (MOST, LASTS - RENEWED_EARLIER)])
def test_subscriptions_that_began_together_are_renewed_apart(chance: Chance, after_this: timedelta) -> None:
    known = begun(chance).resumed(after_this)
    assert next_step(known, NOW + after_this - 2 * SECOND).act is PushAction.LISTEN
    assert next_step(known, NOW + after_this + SECOND) == PushStep(PushAction.SUBSCRIBE, why=PushEnd.LAPSED)


def test_a_refused_renewal_keeps_the_subscription_that_lives() -> None:
    late = NOW + LASTS
    known = begun().resumed(LASTS).put_off(late, LEAST)
    assert next_step(known, late + SECOND).act is PushAction.LISTEN
    assert next_step(known, late + TAKEN_OVER_AFTER).act is PushAction.SUBSCRIBE


def pause_after(known: SubscriptionState, at: datetime) -> timedelta:
    step = next_step(known, at)
    return timedelta(0) if step.until is None else step.until - at


@pytest.mark.parametrize(
    ("end", "pause"),
    [
        (PushEnd.LAPSED, timedelta(0)),
        (PushEnd.CUT, timedelta(0)),
        (PushEnd.TAKEN_OVER, GIVES_WAY_FOR),
        (PushEnd.IN_USE, ASKED_AGAIN_AFTER),
        (PushEnd.SILENT, ASKED_AGAIN_AFTER),
        (PushEnd.REFUSED, ASKED_AGAIN_AFTER),
        (PushEnd.NOT_AN_END, ASKED_AGAIN_AFTER),
    ],
)
def test_next_subscription_waits_by_how_the_last_one_ended(end: PushEnd, pause: timedelta) -> None:
    later = NOW + LASTS
    known = begun().moved("9", NOW).over(end, later, LEAST)
    assert pause_after(known, later) == pause
    if pause:
        assert next_step(known, later) == PushStep(PushAction.WAIT, later + pause, end)
    assert begun().moved("9", NOW).over(end, later, MOST).wait_until in (
        None,
        later + pause * (1 + 1023 / 1024 / 4),
    )
    assert next_step(known, later + pause).act is PushAction.SUBSCRIBE


def test_subscriptions_that_fail_again_and_again_wait_longer_and_longer() -> None:
    known, now, pauses = SubscriptionState(OPENED), NOW, []
    for _ in range(8):
        known = known.begun(now, LEAST).over(PushEnd.CUT, now, LEAST)
        pauses.append(pause_after(known, now))
        now += pauses[-1]
    assert pauses[:4] == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND]
    assert pauses[-1] == WAITS_AT_MOST
    assert pause_after(known.begun(now, LEAST).moved("9", now).over(PushEnd.REFUSED, now, LEAST), now) == SECOND


def test_a_young_subscription_of_another_is_asked_for_each_second() -> None:
    """It is over within five seconds: waiting longer and longer would lose time, and giving up would lose the shard."""
    known, now = SubscriptionState(OPENED), NOW
    for _ in range(20):
        known = known.over(PushEnd.IN_USE, now, LEAST)
        assert pause_after(known, now) == ASKED_AGAIN_AFTER
        now += ASKED_AGAIN_AFTER


def test_silence_is_counted_from_when_the_reader_listens() -> None:
    """A handler that takes longer than the watchdog must not end a healthy subscription (amazon-kinesis-client#463,
    #653).
    """
    known = begun()
    busy_until = NOW + 2 * SILENCE_MAX
    assert is_silent(known, busy_until)
    heard = known.resumed(2 * SILENCE_MAX)
    assert not is_silent(heard, busy_until + SILENCE_MAX - SECOND)
    assert is_silent(heard, busy_until + SILENCE_MAX)


def test_listening_ends_when_the_subscription_has_to_be_renewed_or_is_silent() -> None:
    assert next_step(begun(), NOW) == PushStep(PushAction.LISTEN, NOW + SILENCE_MAX)
    late = NOW + LASTS - SECOND
    assert next_step(begun().resumed(LASTS - SECOND), late) == PushStep(PushAction.LISTEN, NOW + LASTS)


def test_reader_polls_without_a_consumer() -> None:
    assert next_step(begun().over(PushEnd.NO_CONSUMER, NOW, Random(0)), NOW).act is PushAction.POLL


def shard(shard_id: str, *parents: str, is_open: bool = True) -> Shard:
    return Shard(shard_id, FULL_RANGE, parents[0] if parents else None, None, "1", is_open)


TOLD = ChildShard(CHILD, frozenset({PARENT}), FULL_RANGE)


@pytest.mark.parametrize(
    ("told", "listed", "meaning"),
    [
        ([TOLD], [shard(PARENT)], NoContinuation.STILL_OPEN),
        ([], [shard(PARENT)], NoContinuation.STILL_OPEN),
        ([TOLD], [shard(PARENT, is_open=False)], NoContinuation.SHARD_ENDED),
        ([], [shard(PARENT, is_open=False), shard(CHILD, PARENT)], NoContinuation.ASK_BY_POLLS),
        ([TOLD], [shard(CHILD, PARENT)], NoContinuation.ASK_BY_POLLS),
        ([], [], NoContinuation.ASK_BY_POLLS),
    ],
    ids=[
        "the listing says that it is open",
        "a null continuation alone",
        "both agree",
        "the listing alone: records may follow",
        "not listed: too new, or past retention",
        "all of its children are gone too",
    ],
)
def test_an_end_is_a_null_continuation_and_the_listing(
    told: list[ChildShard], listed: list[Shard], meaning: NoContinuation
) -> None:
    """Not the continuation alone (amazon-kinesis-client#1744). And a shard whose children are gone ends too, which
    Bento never ends: its polls say so.
    """
    assert ending(PARENT, told, listed) is meaning
