"""Ticks of a catch-up send no worker to a shard in which nothing waits, and send one as soon as something does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sublet.decisions.status.status_rules import Status
from sublet.engine.manager.quiet_probing import BOUNDS, show_quiet
from sublet.engine.manager.tick import LeaseManager, TickReport
from sublet.errors import StreamAccessDenied, StreamUnavailable
from sublet.metric_names import Metric
from sublet.operate.status_watch import Watch
from sublet.ports import PollRefusal, Refusal, Unanswered
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import GetRecordsReply, Page
from sublet.testing.memory.telemetry import MemoryMetrics

from tests.doubles.engine_world import (
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    most_in,
    raising,
)

HOUR = timedelta(hours=1)
SHARDS = 5


def sent(report: TickReport) -> list[str]:
    return sorted(claim.lease_key for item in report.dispatched for claim in item.claims)


def tick(world: EngineWorld, manager: LeaseManager | None = None) -> list[str]:
    """The leases that it sends workers for, which then run."""
    report = (manager or world.manager()).tick()
    for item in world.dispatcher.take():
        world.window(item)
    return sent(report)


def read(world: EngineWorld, *data: str) -> LeaseManager:
    """A world whose shards have been read to their tips, and a process that ticks."""
    world.put(*(data or ("a",)), of=len(world.shards.logs))
    tick(world)
    world.clock.advance(MINUTE)
    world.stream.polls.clear()
    world.stream.opened.clear()
    return world.manager()


def test_no_worker_is_sent_where_nothing_waits_and_nothing_is_written() -> None:
    world = EngineWorld(shards=SHARDS)
    manager = read(world)
    world.table.writes.clear()
    for _ in range(10):
        report = manager.tick()
        assert report.dispatched == ()
        assert (report.quiet_leases, report.unclaimed_leases) == (SHARDS, 0)
        world.clock.advance(MINUTE)
    assert world.table.writes == []


def test_a_shard_that_wakes_is_handled_by_the_next_tick_and_no_other_is_sent_for() -> None:
    world = EngineWorld(shards=SHARDS)
    manager = read(world)
    assert tick(world, manager) == []
    world.clock.advance(MINUTE)
    world.put("new", shard=2, of=SHARDS)
    assert tick(world, manager) == ["shardId-000000000002"]
    assert world.handler.data()[-1] == b"new"


def test_a_process_that_ticks_again_makes_one_call_for_each_quiet_shard() -> None:
    world = EngineWorld(shards=SHARDS)
    manager = read(world)
    for _ in range(10):
        tick(world, manager)
        world.clock.advance(MINUTE)
    assert len(world.stream.polls) == 10 * SHARDS
    assert len(world.stream.opened) == SHARDS


def test_an_iterator_that_may_have_expired_is_not_used() -> None:
    world = EngineWorld()
    manager = read(world)
    for _ in range(3):
        tick(world, manager)
        world.clock.advance(5 * MINUTE)
    assert len(world.stream.opened) == 3


def test_a_shard_is_asked_once_a_second_however_many_ticks_come() -> None:
    world = EngineWorld(shards=SHARDS)
    manager = read(world)
    for _ in range(5):
        assert tick(world, manager) == []
    for shard_id in {shard_id for _, shard_id in world.stream.polls}:
        times = [at for at, polled in world.stream.polls if polled == shard_id]
        assert len(times) == 5
        assert all(later - earlier >= timedelta(seconds=1) for earlier, later in pairwise(times))


def test_tick_finds_a_record_put_within_a_second_of_the_last_tick() -> None:
    world = EngineWorld(shards=SHARDS)
    manager = read(world)
    assert tick(world, manager) == []
    world.put("new", shard=2, of=SHARDS)
    assert tick(world, manager) == ["shardId-000000000002"]


def test_the_pages_of_a_walk_are_a_second_apart() -> None:
    world = EngineWorld(advance=MINUTE)
    read(world)
    world.clock.advance(20 * MINUTE)
    tick(world)
    polls = [at for at, _ in world.stream.polls]
    assert most_in(SECOND, polls[: BOUNDS.pages]) == 1


def test_a_walk_that_does_not_reach_the_tip_is_no_proof() -> None:
    """An empty page that lags says nothing of what follows it. A worker walks the rest."""
    world = EngineWorld(advance=MINUTE)
    read(world)
    world.clock.advance(20 * MINUTE)
    assert tick(world) == [SHARD]
    assert tick(world) == [], "it has noted in its row how far it has come"


def test_a_process_does_not_walk_what_a_worker_has_walked() -> None:
    """It has a reader of its own, which has come three pages far."""
    world = EngineWorld(advance=MINUTE)
    manager = read(world)
    world.clock.advance(20 * MINUTE)
    assert tick(world, manager) == [SHARD]
    assert tick(world, manager) == []


def test_quiet_walk_of_a_tick_is_not_repeated_by_the_next_process() -> None:
    world = EngineWorld(advance=timedelta(minutes=15))
    tick(world)
    polls = []
    for _ in range(4):
        world.clock.advance(12 * MINUTE)
        world.stream.polls.clear()
        assert tick(world) == []
        polls.append(len(world.stream.polls))
    assert polls == [1, 2, 1, 1], "without its memory the last would be four"


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: PollRefusal.THROTTLED,
        lambda _: Unanswered("no answer"),
        lambda _: PollRefusal.ITERATOR_EXPIRED,
        lambda _: GetRecordsReply(Page((), 0, 1), "iterator"),
        raising(StreamUnavailable("no answer")),
        raising(StreamAccessDenied("no kinesis:GetRecords")),
    ],
    ids=["throttled", "no answer", "expired", "an empty page that lags", "unavailable", "denied"],
)
def test_an_answer_that_is_none_sends_a_worker(
    answer: Callable[[object], GetRecordsReply | Refusal],
) -> None:
    world = EngineWorld()
    manager = read(world)
    world.stream.disturb = answer
    report = manager.tick()
    assert sent(report) == [SHARD]


def test_tick_probes_no_other_shard_after_a_permanent_refusal() -> None:
    world = EngineWorld(shards=30)
    manager = read(world)
    polled = len(world.stream.polls)
    world.stream.disturb = raising(StreamAccessDenied("no kinesis:GetRecords"))
    report = manager.tick()
    assert len(sent(report)) == 30
    assert len(world.stream.polls) - polled == 1
    assert world.log.messages("error").count("could not probe a shard") == 1


def test_a_service_that_is_slow_does_not_hold_up_the_tick() -> None:
    world = EngineWorld(shards=100)
    manager = read(world)
    began = world.clock.steady()

    def slowly(poll: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        world.tasks.sleep(3 * SECOND)
        return poll()

    world.stream.disturb = slowly
    report = manager.tick()
    unanswered = 100 - report.quiet_leases
    assert 0 < unanswered == len(sent(report)) < 100
    assert world.clock.steady() - began < 2 * BOUNDS.lasts + 10 * SECOND


def test_each_shard_gets_a_worker_once_in_an_interval() -> None:
    world = EngineWorld(replace(NO_WAITING, quiet_visit_interval=HOUR))
    manager = read(world)
    visits = []
    for minute in range(180):
        if tick(world, manager):
            visits.append(minute)
        world.clock.advance(MINUTE)
    assert [later - earlier for earlier, later in pairwise(visits)] == [60, 60]


def test_tick_dispatches_every_free_lease_without_quiet_visit_interval() -> None:
    world = EngineWorld(replace(NO_WAITING, quiet_visit_interval=timedelta(0)), shards=SHARDS)
    manager = read(world)
    assert len(tick(world, manager)) == SHARDS
    assert world.stream.polls, "by its workers"


def test_a_shard_that_has_ended_is_sent_for() -> None:
    world = EngineWorld()
    manager = read(world)
    assert tick(world, manager) == []
    world.clock.advance(MINUTE)
    world.shards.split(SHARD)
    assert SHARD in tick(world, manager)
    assert world.table.lease().is_ended


@pytest.mark.parametrize(
    "changes",
    [
        {"caught_up_at": None},
        {"crashes": 1},
        {"pending_checkpoint": Checkpoint("9"), "pending_checkpoint_state": b"x"},
    ],
    ids=["never read to its tip", "its owner crashed", "a checkpoint is pending"],
)
def test_lease_is_dispatched_without_a_probe(changes: dict[str, Any]) -> None:
    world = EngineWorld()
    manager = read(world)
    world.change_lease(**changes)
    world.clock.advance(HOUR / 2)
    assert sent(manager.tick()) == [SHARD]


def test_a_position_that_is_moved_back_by_hand_is_asked_about_anew() -> None:
    """The row still says that it was caught up, which is true of later checkpoints only."""
    world = EngineWorld()
    first, _ = world.put("a", "b")
    tick(world)
    manager = world.manager()
    assert tick(world, manager) == []
    world.clock.advance(MINUTE)
    world.change_lease(checkpoint=Checkpoint(first))
    assert tick(world, manager) == [SHARD]
    assert world.handler.data() == [b"a", b"b", b"b"]


def test_lease_within_an_aggregate_is_dispatched() -> None:
    """Nothing follows the stream record. Only a reader that was at this very position knows that it is done with it."""
    world = EngineWorld()
    data = aggregate([("k", None, b"1"), ("k", None, b"2")])
    put = world.shards.put_record("k", data)
    manager = read(world)
    moved = Checkpoint(put.sequence_number, 0)
    world.change_lease(checkpoint=moved)
    assert tick(world, manager) == [SHARD]


def test_an_aggregate_of_which_every_record_is_handled_is_quiet() -> None:
    world = EngineWorld()
    world.shards.put_record("k", aggregate([("k", None, b"1"), ("k", None, b"2")]))
    assert tick(world) == [SHARD]
    world.clock.advance(MINUTE)
    assert tick(world) == []


def test_leases_beyond_the_limits_do_not_count_as_quiet() -> None:
    """A quiet lease takes no place from one that waits."""
    world = EngineWorld(replace(NO_WAITING, leases_to_acquire=1), shards=3)
    for _ in range(3):
        tick(world)
    world.clock.advance(MINUTE)
    world.put("new", shard=1, of=3)
    assert tick(world) == ["shardId-000000000001"]


def test_a_process_in_continuous_mode_asks_nobody() -> None:
    world = EngineWorld()
    manager = read(world)
    world.settings = replace(world.settings, mode=world.settings.mode.CONTINUOUS)
    assert sent(world.manager().tick()) == [SHARD]
    assert manager is not None
    assert world.stream.polls == []


def test_quiet_shards_count_in_the_metrics_as_read_to_their_tips() -> None:
    """As if a worker had found nothing: so an alarm on the least lagging shard, or on one that is far busier than the
    average, sees the same figures."""
    world = EngineWorld(shards=SHARDS)
    manager = read(world)
    world.metrics.measurements.clear()
    manager.tick()
    assert world.metrics.values(Metric.QUIET_LEASES) == [SHARDS]
    assert world.metrics.values(Metric.BYTES) == [0] * SHARDS
    assert world.metrics.values(Metric.MILLIS_BEHIND_LATEST) == [0] * SHARDS
    assert max(world.metrics.values(Metric.UNREAD_AGE)) == 0


def test_first_quiet_shard_of_a_partly_quiet_stream_gets_a_lag_of_zero() -> None:
    orders, audit = (f"123456789012:{stream}:1700000000:shardId-" for stream in ("orders", "audit"))
    metrics = MemoryMetrics()
    show_quiet([f"{orders}2", f"{orders}1", f"{audit}0"], 0, metrics, others=[f"{orders}0"])
    named = {put.shard_id: put.value for put in metrics.measurements if put.shard_id is not None}
    assert named == {f"{orders}1": 0}


def test_a_shard_that_wakes_and_is_not_read_is_told_of() -> None:
    world = EngineWorld()
    manager = read(world)
    assert tick(world, manager) == []
    world.put("new")
    for _ in range(10):
        manager.tick()
        world.dispatcher.take()
        world.clock.advance(MINUTE)
    assert max(world.metrics.values(Metric.UNREAD_AGE)) >= 4 * 60_000


def test_a_quiet_shard_that_no_worker_visits_is_ok_in_the_status() -> None:
    """`sublet status` asks no shard: it goes by what ticks have stored."""
    world = EngineWorld()
    manager = read(world)
    for _ in range(35):
        assert tick(world, manager) == []
        world.clock.advance(MINUTE)
        status = Watch(world.ports, world.settings, probes=False).look(None)
        words = [shard.status for shard in status.shards]
        assert world.seconds() < 240 or words == [Status.OK]
    world.clock.advance(HOUR / 2)
    assert Watch(world.ports, world.settings, probes=False).look(None).shards[0].status is Status.UNKNOWN
