"""A lease's metrics each minute, whether it makes progress or not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.process_health import ShardReport
from sublet.engine.calls.call_limits import HandlerCall
from sublet.engine.lease.held import HeldLease, instant
from sublet.engine.lease.progress import Progress
from sublet.engine.session.metrics import LeaseMetrics
from sublet.metric_names import Metric
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import Page, StreamRecord
from sublet.settings import Checkpointing

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SHARD, EngineWorld

EMPTY_AT_TIP = Page((), 0, 0)
MILLISECOND = timedelta(milliseconds=1)


def progress_in(world: EngineWorld) -> Progress:
    stop = world.tasks.signal()
    held = HeldLease(world.table.lease(), instant(world.clock), world.ports, CONTINUOUS.failover_time, stop)
    return Progress(held, world.settings, world.clock, stop, world.ports.tasks.lock())


def metrics_of(world: EngineWorld) -> LeaseMetrics:
    return LeaseMetrics(SHARD, world.ports, progress_in(world))


def shown(*, polled: bool, after: timedelta, throttled: int = 0) -> EngineWorld:
    """A lease of which nothing has been handled, `after` its window began or its last page was polled. `throttled`:
    polls since, and a call of the handler is under way all the while."""
    world = EngineWorld(CONTINUOUS)
    metrics = metrics_of(world)
    if polled:
        metrics.polled(EMPTY_AT_TIP)
        metrics.handled()
    called_at = world.clock.steady() if throttled else None
    metrics.show(70, 7, throttled, called_at)
    world.clock.advance(after)
    metrics.show(70, 7, throttled, called_at)
    return world


def test_checkpoint_age_grows_before_the_first_page() -> None:
    world = shown(polled=False, after=MINUTE)
    assert world.metrics.values(Metric.CHECKPOINT_AGE) == [0, 60_000]


def test_checkpoint_age_is_zero_at_the_tip() -> None:
    world = shown(polled=True, after=MINUTE)
    assert world.metrics.values(Metric.CHECKPOINT_AGE) == [0, 0]
    assert world.metrics.values(Metric.MILLIS_BEHIND_LATEST) == [0, 0]


def test_a_shard_that_is_not_polled_for_long_waits_too_though_it_was_at_the_tip() -> None:
    """A quiet one is polled far more often; so it is unknown whether records wait."""
    world = shown(polled=True, after=6 * MINUTE)
    assert world.metrics.values(Metric.CHECKPOINT_AGE, SHARD) == [6 * 60_000]
    assert world.metrics.values(Metric.MILLIS_BEHIND_LATEST) == [0, 6 * 60_000]


@pytest.mark.parametrize(("after", "age"), [(5 * MINUTE - MILLISECOND, 0), (5 * MINUTE, 5 * 60_000)])
def test_a_poll_is_overdue_after_five_minutes(after: timedelta, age: int) -> None:
    assert shown(polled=True, after=after).metrics.values(Metric.CHECKPOINT_AGE) == [0, age]


def test_unfinished_age_is_put_after_five_minutes_and_logged_every_five() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpointing=Checkpointing.MANUAL))
    progress = progress_in(world)
    metrics = LeaseMetrics(SHARD, world.ports, progress)
    progress.begin_call(Checkpoint("7"), 3)

    def named_and_logged(after: timedelta) -> tuple[int, int]:
        world.clock.advance(after)
        metrics.show(70, 7, 0, None)
        said = [line for line in world.log.lines if line.message.startswith("handler has not checkpointed")]
        return len(world.metrics.values(Metric.OLDEST_UNFINISHED_AGE, SHARD)), len(said)

    assert named_and_logged(5 * MINUTE - MILLISECOND) == (0, 0)
    assert named_and_logged(MILLISECOND) == (1, 1)
    assert named_and_logged(5 * MINUTE - MILLISECOND) == (2, 1)
    assert named_and_logged(MILLISECOND) == (3, 2)


def test_a_shard_whose_polls_are_throttled_waits_at_once_though_it_was_at_the_tip() -> None:
    world = shown(polled=True, after=MINUTE, throttled=1)
    assert world.metrics.values(Metric.MILLIS_BEHIND_LATEST) == [0, 60_000]
    assert world.metrics.values(Metric.CHECKPOINT_AGE) == [0, 60_000]


def test_a_shard_is_named_with_a_figure_once_that_is_trouble() -> None:
    world = shown(polled=True, after=5 * MINUTE, throttled=2)
    assert world.metrics.values(Metric.THROTTLED_POLLS, SHARD) == [2, 2]
    assert world.metrics.values(Metric.HANDLER_CALL_AGE, SHARD) == [5 * 60_000]
    assert world.metrics.values(Metric.CHECKPOINT_AGE, SHARD) == [5 * 60_000]
    (line,) = world.log.lines
    assert (line.level, line.message) == ("warning", "a shard's position does not move, although records wait")
    assert line.fields == {"shard_id": SHARD, "seconds": 300, "position": "TRIM_HORIZON"}
    world = shown(polled=True, after=5 * MINUTE - MILLISECOND, throttled=1)
    assert world.metrics.values(Metric.THROTTLED_POLLS, SHARD) == []
    assert world.metrics.values(Metric.HANDLER_CALL_AGE, SHARD) == []
    assert world.metrics.values(Metric.HANDLER_CALL_AGE) == [0, 5 * 60_000 - 1]


def test_records_metric_is_put_once_and_never_before_the_first_page() -> None:
    assert shown(polled=True, after=MINUTE).metrics.values(Metric.RECORDS) == [7, 0]
    assert shown(polled=False, after=MINUTE).metrics.values(Metric.RECORDS) == []


def test_the_state_of_a_shard_tells_of_the_call_under_way_and_how_far_behind_it_is() -> None:
    world = EngineWorld(CONTINUOUS)
    metrics = metrics_of(world)
    assert metrics.state(0, None) == ShardReport(SHARD, timedelta(0), None, timedelta(0), None)
    metrics.polled(Page((), 0, 5_000))
    assert metrics.state(0, None).millis_behind_latest is None, "it is unknown whether records wait"
    metrics.polled(Page((StreamRecord("1", b"x", "key", world.clock.now()),), 1, 5_000))
    call = HandlerCall(SHARD, SHARD, "handle")
    assert metrics.state(0, call).call_lasts == timedelta(0), "it waits for its slot"
    call.began_at = world.clock.steady()
    world.clock.advance(MINUTE)
    assert metrics.state(0, call) == ShardReport(SHARD, MINUTE, "handle", MINUTE, 5_000)
