"""The status of each shard of a real table and stream, over the time in which it is watched."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from sublet.decisions.status.shard_status import ShardStatus
from sublet.decisions.status.status_rules import Status, StatusReason
from sublet.handler import Batch
from sublet.operate.status_watch import Watch
from sublet.ports import Applied
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, TRIM_HORIZON, Checkpoint
from sublet.protocol.control import Control, Order, Pause
from sublet.protocol.lease import Lease, Position
from sublet.protocol.lease_writes import seek

from tests.doubles.engine_world import CONTINUOUS, NO_WAITING, SHARD, EngineWorld

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def watch(world: EngineWorld, *, probes: bool = True) -> Watch:
    return Watch(world.ports, world.settings, probes)


def words(world: EngineWorld, watched: Watch) -> list[Status]:
    return [shard.status for shard in watched.look(DAY).shards]


def test_a_shard_that_is_read_to_its_tip_is_well() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"data")
    world.window()
    (shard,) = watch(world).look(DAY).shards
    assert (shard.status, shard.lag) == (Status.OK, timedelta(0))


def test_the_lag_is_how_long_the_next_record_has_waited() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"data")
    world.clock.advance(7 * MINUTE)
    (shard,) = watch(world).look(DAY).shards
    assert shard.lag is not None
    assert timedelta(0) <= shard.lag - 7 * MINUTE < timedelta(seconds=2)


def test_lag_of_a_shard_includes_what_waits_in_children_without_a_lease() -> None:
    """A fleet without a worker, as one scaled to none, makes no lease for the children of a reshard."""
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"data")
    world.window()
    watched = watch(world)
    left, _ = world.shards.split(SHARD)
    world.clock.advance(3 * MINUTE)
    (shard,) = watched.look(DAY).shards
    assert (shard.status, shard.lag) == (Status.OK, timedelta(0)), "nothing is lost yet if nobody comes"
    world.shards.split(left)
    world.shards.merge(*[each.shard_id for each in world.shards.list_shards() if each.is_open][-2:])
    world.shards.put("key", b"behind two reshards")
    world.clock.advance(7 * MINUTE)
    (shard,) = watched.look(DAY).shards
    assert shard.lag is not None
    assert timedelta(0) <= shard.lag - 7 * MINUTE < timedelta(seconds=20)


def test_an_owner_that_heartbeats_and_moves_nothing_is_stalled_after_some_looks() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"data")
    world.clock.advance(MINUTE)
    world.steal()
    watched, seen = watch(world), []
    for beat in range(2, 12):
        seen += words(world, watched)
        world.clock.advance(MINUTE)
        world.change_lease(lease_counter=beat)
    assert seen[0] is Status.UNKNOWN
    assert seen[-1] is Status.STALLED


def test_a_position_that_goes_back_is_shown_as_such() -> None:
    world = EngineWorld(NO_WAITING)
    numbers = [world.shards.put("key", b"data") for _ in range(9)]
    world.steal()
    watched = watch(world)
    for at, number in enumerate([*numbers[:8], numbers[2]]):
        world.change_lease(checkpoint=Checkpoint(number), lease_counter=at + 2)
        found = words(world, watched)
        world.clock.advance(MINUTE)
    assert found == [Status.REWOUND]


def test_children_wait_for_their_parent_and_are_not_asked() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"data")
    world.shards.split(SHARD)
    for child in world.shards.list_shards()[1:]:
        world.put_lease(Lease(child.shard_id, TRIM_HORIZON, parent_shard_ids=child.parent_shard_ids))
    assert words(world, watch(world))[1:] == [Status.WAITING, Status.WAITING]


def test_status_without_probes_asks_no_stream_and_is_unknown() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"data")
    world.clock.advance(7 * MINUTE)
    looks = len(world.stream.looks)
    assert words(world, watch(world, probes=False)) == [Status.UNKNOWN]
    assert "shards" not in world.stream.looks[looks:]


def test_a_paused_shard_is_told_as_such_whatever_waits() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"data")
    world.clock.advance(DAY / 2)
    until = world.clock.now() + DAY
    world.control.keep_control(Control(Pause(Order.PAUSE, world.clock.now(), "anna@desk", until)))
    watched = watch(world)
    (shard,) = watched.look(DAY).shards
    assert shard.pause is not None
    assert (shard.status, shard.pause.until) == (Status.PAUSED, until)
    assert shard.lag is not None
    assert shard.lag >= DAY / 2
    world.control.keep_control(Control(round=1))
    assert words(world, watched) != [Status.PAUSED]


def test_a_java_owner_that_stands_still_while_it_is_watched_is_gone_and_has_no_rate() -> None:
    """Its table has no sightings of a lease manager's. One look tells nothing, and neither does one shortly after."""
    world = EngineWorld(NO_WAITING)
    world.change_lease(lease_owner="java-1", lease_counter=7, throughput_kbps=8.0)
    watched, seen = watch(world, probes=False), []
    for _ in range(3):
        (shard,) = watched.look(DAY).shards
        seen.append((shard.consumer, shard.kbps))
        world.clock.advance(world.settings.failover_time * 2 / 3)
    assert seen == [("java-1", 8.0), ("java-1", 8.0), (None, None)]
    world.change_lease(lease_counter=8)
    (shard,) = watched.look(DAY).shards
    assert (shard.consumer, shard.kbps) == ("java-1", 8.0)


def test_a_shard_whose_row_says_its_lag_is_not_asked() -> None:
    """Its owner has read on a moment ago, or its row says since when a record waits."""
    world = EngineWorld(NO_WAITING)
    world.put("data")
    world.window()
    looks = len(world.stream.looks)
    (shard,) = watch(world).look(DAY).shards
    assert shard.status is Status.OK
    assert "shards" not in world.stream.looks[looks:]
    assert not world.stream.polls[1:]


def test_status_needs_one_look_when_owners_have_reported() -> None:
    """Half an hour of records, handled at half the speed at which the time passes, and no stream asked."""
    world = EngineWorld(replace(CONTINUOUS, batch_size=1, checkpoint_interval=timedelta(0)))
    for _ in range(60):
        world.put("data")
        world.clock.advance(MINUTE / 2)
    world.handler.script = lambda _: world.tasks.sleep(MINUTE)
    world.window(lasts=13 * MINUTE)
    (shard,) = watch(world, probes=False).look(DAY).shards
    assert shard.status is Status.BEHIND
    assert shard.lag is not None
    assert shard.lag > 30 * MINUTE
    assert shard.trend is not None
    assert 0.4 < shard.trend < 0.6
    assert shard.records_per_second is not None
    assert 0 < shard.records_per_second < 0.04


def killed_at_the_tip() -> EngineWorld:
    """The only owner dies without releasing the lease, a moment after it has read to the tip; then a record comes."""
    world = EngineWorld(NO_WAITING)
    world.put("data")
    world.window()
    world.change_lease(lease_owner="orders-1", lease_counter=world.table.lease().lease_counter + 1)
    world.put("data")
    return world


@pytest.mark.parametrize("after", [MINUTE, 6 * MINUTE])
def test_a_shard_whose_owner_was_killed_at_the_tip_is_asked(after: timedelta) -> None:
    world = killed_at_the_tip()
    world.clock.advance(after)
    (shard,) = watch(world).look(DAY).shards
    assert shard.lag is not None
    assert shard.lag >= after
    assert shard.because is not StatusReason.NOTHING_WAITS


def test_a_silent_owners_last_word_is_not_shown_as_how_its_shard_stands_now() -> None:
    world = killed_at_the_tip()
    assert watch(world, probes=False).look(DAY).shards[0].because is StatusReason.NOTHING_WAITS
    said, failover_time = world.clock.now(), world.settings.failover_time
    watched = watch(world, probes=False)
    world.clock.advance(2 * failover_time)
    (shard,) = watched.look(DAY).shards
    assert (shard.status, shard.because, shard.lag) == (Status.OK, StatusReason.NOTHING_WAITED, None)
    assert shard.since is not None
    assert abs(said - shard.since) < timedelta(seconds=5)
    world.clock.advance(4 * failover_time)
    assert words(world, watched) == [Status.UNKNOWN]


def test_shard_is_stopped_when_nobody_took_it_from_its_dead_owner_in_time() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("data")
    world.window()
    world.change_lease(lease_owner="orders-1", lease_counter=world.table.lease().lease_counter + 1)
    world.put("data")
    watched = watch(world)
    seen: list[ShardStatus] = []
    for _ in range(5):
        world.clock.advance(world.settings.failover_time)
        seen += watched.look(DAY).shards
    assert [shard.status for shard in seen[:2]] == [Status.OK, Status.OK]
    assert (seen[-1].status, seen[-1].because) == (Status.STOPPED, StatusReason.OWNER_GONE)


def test_shard_at_its_tip_is_failing_from_the_second_failed_call() -> None:
    world = EngineWorld(replace(CONTINUOUS, handler_backoff_max=timedelta(seconds=3)))
    world.put("data")
    world.window()
    seen: list[Status] = []

    def fails(_: Batch) -> None:
        seen.extend(words(world, watch(world)))
        raise ValueError

    world.put("poison")
    world.handler.script = fails
    world.window()
    seen += words(world, watch(world))
    assert (seen[0], seen[-1]) == (Status.OK, Status.FAILING)
    (shard,) = watch(world).look(DAY).shards
    assert shard.is_bad
    assert shard.failing is not None
    assert (shard.since, shard.trend) == (shard.failing.since, 1)
    assert shard.lag is not None
    assert shard.lag >= world.clock.now() - shard.failing.since


def test_rewound_shard_lags_until_it_is_read_again() -> None:
    """Ten minutes of records were handled as they came. Nobody asks the stream."""
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=timedelta(0)))
    first_at = world.clock.now()
    world.put("first")
    for minute in range(1, 10):
        world.at(minute * MINUTE, partial(world.put, str(minute)))
    world.window(lasts=10 * MINUTE)
    to = Position(AT_TIMESTAMP, first_at - MINUTE)
    assert isinstance(world.table.apply(seek(world.table.lease(), to)), Applied)
    (moved,) = watch(world, probes=False).look(DAY).shards
    assert moved.lag_is_at_least
    assert moved.lag is not None
    assert 8 * MINUTE < moved.lag <= world.clock.now() - first_at
    seen: list[tuple[timedelta | None, timedelta]] = []

    def slow(_: Batch) -> None:
        world.tasks.sleep(MINUTE)
        (shard,) = watch(world, probes=False).look(DAY).shards
        seen.append((shard.lag, world.clock.now() - first_at))

    world.handler.script = slow
    world.window(lasts=2 * MINUTE)
    assert seen[0][0] == seen[0][1]


def test_a_shard_that_was_released_at_its_tip_is_still_quiet_after_a_minute() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("data")
    world.window()
    world.clock.advance(MINUTE)
    (shard,) = watch(world, probes=False).look(DAY).shards
    assert (shard.owner, shard.because) == (None, StatusReason.NOTHING_WAITS)


def test_status_of_an_unopened_latest_lease_has_no_lag() -> None:
    world = EngineWorld(NO_WAITING)
    world.shards.put("key", b"data")
    world.clock.advance(7 * MINUTE)
    world.change_lease(checkpoint=LATEST, lease_owner="java", lease_counter=2)
    (shard,) = watch(world).look(DAY).shards
    assert (shard.status, shard.because.value, shard.lag) == (Status.UNKNOWN, "at LATEST, not opened yet", None)
