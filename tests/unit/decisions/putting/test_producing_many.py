"""A producer's decisions do not go through all records again and again."""

from __future__ import annotations

import tracemalloc
from datetime import timedelta
from random import Random

from sublet.decisions.putting.outbox import ProducerRules
from sublet.decisions.putting.producing import ProducerState
from sublet.testing.memory import FakeClock

from tests.doubles.producing_world import queued

MANY = 20_000


def test_a_plan_does_not_copy_the_records_that_wait_for_a_listing() -> None:
    """It is made for each few hundred records that arrive, so puts would become slower the more of them wait."""
    clock = FakeClock()
    producing = ProducerState(ProducerRules(), Random(0))
    producing.add([queued(b"x", "key", clock.steady()) for _ in range(MANY)], clock.steady())
    tracemalloc.start()
    producing.plan(clock.steady())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MANY


def test_producer_gives_up_records_that_waited_for_a_listing_beyond_patience() -> None:
    clock = FakeClock()
    producing = ProducerState(ProducerRules(patience=timedelta(seconds=5)), Random(0))
    for data in (b"old", b"newer", b"new"):
        producing.add([queued(data, "key", clock.steady())], clock.steady())
        clock.advance(timedelta(seconds=3))
    producing.plan(clock.steady())
    settled = producing.take_settled()
    assert [record.ticket for some in settled for record in some.user_records] == [b"old", b"newer"]
    assert producing.plan(clock.steady()).look_again_at == clock.steady() + timedelta(seconds=2)


def test_records_added_late_are_given_up_only_once_a_listing_was_wanted_for_patience() -> None:
    """As after a pause of the whole process between a put and the loop's next look."""
    clock = FakeClock()
    producing = ProducerState(ProducerRules(patience=timedelta(seconds=5)), Random(0))
    late = [queued(data, "key", clock.steady()) for data in (b"a", b"b")]
    clock.advance(timedelta(minutes=1))
    producing.add(late, clock.steady())
    plan = producing.plan(clock.steady())
    assert plan.wants_placing
    assert plan.look_again_at == clock.steady() + timedelta(seconds=5)
    assert producing.take_settled() == []
    clock.advance(timedelta(seconds=5))
    producing.plan(clock.steady())
    assert [record.ticket for some in producing.take_settled() for record in some.user_records] == [b"a", b"b"]
