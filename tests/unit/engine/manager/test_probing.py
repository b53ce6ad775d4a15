"""A tick reports shards that are not read, and a window reports a lease that makes no progress."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.unread_shards import PROBES_MAX
from sublet.errors import StreamAccessDenied, StreamKeyUnavailable
from sublet.metric_names import Metric
from sublet.ports import PollRefusal
from sublet.protocol.checkpoint import LATEST, Checkpoint

from tests.doubles.engine_world import CONTINUOUS, MINUTE, NO_WAITING, SHARD, EngineWorld, lease_of, raising

SHARD_1 = "shardId-000000000001"
MILLIS_A_MINUTE = 60_000


def worst(world: EngineWorld, metric: Metric) -> float:
    return max(world.metrics.values(metric), default=0)


def test_an_unread_shard_with_records_ages_from_tick_to_tick() -> None:
    world = EngineWorld(NO_WAITING, shards=2)
    world.put("a", of=2)
    for _ in range(4):
        world.manager().tick()
        world.clock.advance(5 * MINUTE)
    ages = world.metrics.values(Metric.UNREAD_AGE, SHARD)
    assert [age // MILLIS_A_MINUTE for age in ages] == [5, 10, 15]
    assert world.metrics.values(Metric.MILLIS_BEHIND_LATEST, SHARD)[-1] // MILLIS_A_MINUTE == 15
    assert not world.metrics.values(Metric.UNREAD_AGE, SHARD_1)


def test_unread_age_restarts_when_the_checkpoint_moved() -> None:
    world = EngineWorld(NO_WAITING)
    first, _ = world.put("a", "b")
    world.manager().tick()
    world.clock.advance(10 * MINUTE)
    world.change_lease(checkpoint=Checkpoint(first))
    world.manager().tick()
    assert worst(world, Metric.UNREAD_AGE) == 0


def test_a_record_that_has_just_come_to_a_long_quiet_shard_is_young() -> None:
    world = EngineWorld(NO_WAITING)
    (first,) = world.put("a")
    world.change_lease(checkpoint=Checkpoint(first))
    for _ in range(3):
        world.manager().tick()
        world.clock.advance(10 * MINUTE)
    world.put("b")
    world.clock.advance(MINUTE)
    world.manager().tick()
    assert worst(world, Metric.UNREAD_AGE) == 0
    assert worst(world, Metric.MILLIS_BEHIND_LATEST) // MILLIS_A_MINUTE == 1


@pytest.mark.parametrize("of", ["caught up", "never pinned", "waits for its parent"])
def test_tick_probes_no_shard_that_cannot_be_unread(of: str) -> None:
    world = EngineWorld(replace(NO_WAITING, quiet_visit_interval=timedelta(0)))
    world.put("a")
    if of == "caught up":
        world.change_lease(caught_up_at=world.clock.now())
    elif of == "never pinned":
        world.change_lease(checkpoint=LATEST)
    else:
        world.shards.split(SHARD)
        world.change_lease(caught_up_at=world.clock.now())
        world.put_lease(lease_of(world.shards.list_shards()[1]))
    world.manager().tick()
    assert world.stream.polls == []


def heartbeating(world: EngineWorld, ticks: int, owner: str = "java") -> None:
    """Ticks five minutes apart, with a foreign owner that lives, and does nothing else."""
    for _ in range(ticks):
        lease = world.table.lease()
        world.change_lease(lease_owner=owner, lease_counter=lease.lease_counter + 1)
        world.manager().tick()
        world.clock.advance(5 * MINUTE)


def test_an_owner_that_heartbeats_without_progress_is_logged() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("a")
    heartbeating(world, 4)
    assert [age // MILLIS_A_MINUTE for age in world.metrics.values(Metric.OWNER_STALLED_AGE, SHARD)] == [
        5,
        10,
        15,
    ]
    assert worst(world, Metric.UNREAD_AGE) == 0, "somebody reads it"
    assert world.metrics.values(Metric.MILLIS_BEHIND_LATEST, SHARD) == [], "its owner's to tell"
    assert (
        "checkpoint does not move, although records wait and its owner heartbeats" in world.log.messages("warning")[-1]
    )


def test_program_that_pulls_now_and_then_does_not_call_itself_stalled() -> None:
    """Each run has a worker id of its own, finds a record that has waited since the last one, and leaves another."""
    world = EngineWorld(NO_WAITING)
    world.put("a")
    for run in range(4):
        for _ in range(2):
            lease = world.table.lease()
            world.change_lease(lease_owner=f"cron-{run}", lease_counter=lease.lease_counter + 1)
            world.manager().tick()
            world.clock.advance(10 * timedelta(seconds=1))
        world.change_lease(lease_owner=None)
        world.clock.advance(10 * MINUTE)
    assert 0 < worst(world, Metric.OWNER_STALLED_AGE) <= 10_000
    assert world.log.messages("warning") == []


def test_an_owner_that_has_nothing_to_read_is_well() -> None:
    """Also of a fleet that tells nothing of the tip, and of a shard whose idle day takes many pages to walk."""
    world = EngineWorld(NO_WAITING)
    (read,) = world.put("a")
    world.change_lease(checkpoint=Checkpoint(read))
    world.clock.advance(timedelta(days=1))
    heartbeating(world, 40)
    assert worst(world, Metric.OWNER_STALLED_AGE) == 0
    polls = len(world.stream.polls)
    heartbeating(world, 20)
    assert len(world.stream.polls) - polls <= 20 * 17, "the day is walked once"


def test_a_record_at_the_end_of_an_idle_day_is_found_by_and_by() -> None:
    """Page by page, tick by tick: how far the shard was walked is remembered."""
    world = EngineWorld(NO_WAITING, advance=MINUTE)
    (read,) = world.put("a")
    world.change_lease(checkpoint=Checkpoint(read))
    world.clock.advance(timedelta(hours=10))
    heartbeating(world, 12)
    assert worst(world, Metric.OWNER_STALLED_AGE) == 0
    world.put("b")
    heartbeating(world, 4)
    assert worst(world, Metric.OWNER_STALLED_AGE) // MILLIS_A_MINUTE == 10


def test_a_tick_asks_about_a_few_at_most_and_about_the_unread_first() -> None:
    world = EngineWorld(NO_WAITING, shards=3 * PROBES_MAX)
    world.manager().tick()
    assert len(world.stream.polls) == PROBES_MAX
    for shard in range(3 * PROBES_MAX):
        world.put("a", shard=shard, of=3 * PROBES_MAX)
    world.manager().tick()
    asked = {shard_id for _, shard_id in world.stream.polls[PROBES_MAX:]}
    world.manager().tick()
    assert {shard_id for _, shard_id in world.stream.polls[2 * PROBES_MAX :]} == asked


def test_a_tick_that_may_not_look_says_so_once_and_has_done_its_work() -> None:
    world = EngineWorld(NO_WAITING, shards=2)
    world.stream.disturb_open = raising(StreamAccessDenied("no kinesis:GetShardIterator"))
    assert len(world.manager().tick().dispatched) == 1
    assert sum(world.metrics.values(Metric.READS_REFUSED)) == 1


def test_unread_age_survives_a_tick_whose_probe_is_throttled() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("a")
    world.manager().tick()
    world.clock.advance(10 * MINUTE)
    world.stream.disturb = lambda _: PollRefusal.THROTTLED
    world.manager().tick()
    world.stream.disturb = lambda poll: poll()
    world.clock.advance(10 * MINUTE)
    world.manager().tick()
    assert worst(world, Metric.UNREAD_AGE) == 20 * MILLIS_A_MINUTE


@pytest.mark.parametrize(("handler_timeout", "hangs"), [(timedelta(minutes=15), True), (None, False)])
def test_a_window_whose_handler_hangs_tells_how_long_and_that_its_shard_stands_still(
    handler_timeout: timedelta | None, hangs: bool
) -> None:
    """A call without a limit waits for a program that pulls: its shard stands still, and nothing hangs."""
    world = EngineWorld(replace(CONTINUOUS, handler_timeout=handler_timeout))
    world.put("poison")
    world.handler.script = lambda _: world.tasks.sleep(timedelta(minutes=12))
    world.window(lasts=timedelta(minutes=14))
    assert (worst(world, Metric.HANDLER_CALL_AGE) >= 11 * MILLIS_A_MINUTE) is hangs
    assert hangs or worst(world, Metric.HANDLER_CALL_AGE) == 0
    assert world.metrics.values(Metric.CHECKPOINT_AGE, SHARD)[-1] >= 10 * MILLIS_A_MINUTE
    assert worst(world, Metric.MILLIS_BEHIND_LATEST) >= 10 * MILLIS_A_MINUTE


def test_a_slow_handler_has_a_lag_in_every_minute() -> None:
    """Pages of 2.5 minutes each, and still there is a figure for each minute."""
    world = EngineWorld(replace(CONTINUOUS, poll_limit=1))
    world.put(*(f"{n}" for n in range(20)))
    world.clock.advance(timedelta(hours=1))
    world.handler.script = lambda _: world.tasks.sleep(timedelta(seconds=150))
    world.window(lasts=timedelta(minutes=14))
    lags = world.metrics.values(Metric.MILLIS_BEHIND_LATEST)
    assert len(lags) >= 14
    assert min(lags) > 0
    assert worst(world, Metric.CHECKPOINT_AGE) < 3 * MILLIS_A_MINUTE


def test_polls_that_are_always_throttled_are_counted_in_a_row() -> None:
    world = EngineWorld(CONTINUOUS)
    world.stream.disturb = lambda _: PollRefusal.THROTTLED
    world.window(lasts=timedelta(minutes=3))
    assert worst(world, Metric.THROTTLED_POLLS) > 30
    assert worst(world, Metric.CHECKPOINT_AGE) >= 2 * MILLIS_A_MINUTE


def test_a_shard_that_may_not_be_read_is_a_lease_that_failed() -> None:
    world = EngineWorld(NO_WAITING)
    world.stream.disturb_open = raising(StreamKeyUnavailable("the key is disabled"))
    world.window()
    assert sum(world.metrics.values(Metric.READS_REFUSED, SHARD)) == 1
    assert sum(world.metrics.values(Metric.LEASES_FAILED, SHARD)) == 1


def test_a_window_without_trouble_puts_zeros() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("a")
    world.window()
    for metric in (
        Metric.HANDLER_FAILURES,
        Metric.LEASES_FAILED,
        Metric.READS_REFUSED,
        Metric.CHECKPOINT_AGE,
    ):
        assert set(world.metrics.values(metric)) == {0}


def test_a_lease_that_waits_for_another_s_slot_before_its_first_page_stands_still() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    world.put("a", shard=1, of=2)
    world.handler.on_acquired = lambda shard_id, _: (
        world.tasks.sleep(timedelta(minutes=8)) if shard_id == SHARD else None
    )
    world.window(lasts=timedelta(minutes=10))
    assert world.metrics.values(Metric.CHECKPOINT_AGE, SHARD_1)[-1] >= 6 * MILLIS_A_MINUTE
