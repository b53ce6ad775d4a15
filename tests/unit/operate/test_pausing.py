"""An operator's pauses: what is refused, what a resume ends, and when everything counts as released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from sublet.decisions.manager.dispatching import WORKER_STARTS_WITHIN, DispatchedWorker
from sublet.decisions.session.control import SETTLES_WITHIN, pause_of
from sublet.engine.control_watch import ControlWatch
from sublet.errors import ControlRefused
from sublet.operate.pausing import TRIES, ApplicationControl, OrderedPause, ReleaseWatch
from sublet.ports import Clock, Ports
from sublet.protocol.checkpoint import SHARD_END
from sublet.protocol.control import Control, Order, Pause
from sublet.protocol.lease import Lease
from sublet.testing.memory import MemoryControlStore

from tests.doubles.engine_world import CONTINUOUS, MINUTE, SECOND, SHARD, EngineWorld

OTHER = "shardId-000000000001"


def pausing(world: EngineWorld) -> ApplicationControl:
    return ApplicationControl("orders", world.ports, world.settings)


def order(world: EngineWorld, what: Order = Order.PAUSE, *shards: str, lasts: timedelta | None = None) -> OrderedPause:
    operator = pausing(world)
    ends = None if lasts is None else lambda now: now + lasts
    return operator.order(operator.pause(what, "anna@desk", ends), shards)


def held_world(shards: int = 2, owner: str = "orders-lambda-0") -> EngineWorld:
    world = EngineWorld(CONTINUOUS, shards=shards)
    for lease in world.table.real.scan().leases:
        world.steal(lease.lease_key, owner, "item/1")
    return world


def test_pause_tells_which_leases_are_held() -> None:
    world = held_world(1)
    ordered = order(world)
    assert [lease.lease_key for lease in ordered.leases] == [SHARD]
    assert [lease.actual_owner for lease in ordered.held] == ["orders-lambda-0"]
    assert world.control.control().application == ordered.pause


def test_single_shards_are_paused_by_name() -> None:
    world = held_world()
    ordered = order(world, Order.PAUSE, OTHER)
    assert [lease.lease_key for lease in ordered.held] == [OTHER]
    assert world.control.control() == Control(leases={OTHER: ordered.pause}, round=1)


@pytest.mark.parametrize("shard", ["shardId-7", SHARD])
def test_a_shard_without_an_unfinished_lease_is_refused_with_those_that_there_are(shard: str) -> None:
    world = held_world()
    world.change_lease(SHARD, checkpoint=SHARD_END)
    with pytest.raises(ControlRefused, match=f"no unfinished lease of {shard}; it has {OTHER}$"):
        order(world, Order.PAUSE, shard)
    assert world.control.control() == Control()


def java_holds(world: EngineWorld, lease_key: str) -> None:
    """As Java's KCL takes a lease: it leaves our attributes."""
    lease = world.table.lease(lease_key)
    world.put_lease(replace(lease, lease_owner="java-1", lease_counter=lease.lease_counter + 1))


@pytest.mark.parametrize("shards", [(), (SHARD,), (OTHER,)])
@pytest.mark.parametrize("what", [Order.PAUSE, Order.DRAIN])
def test_pause_is_refused_beside_javas_workers(what: Order, shards: Sequence[str]) -> None:
    """Not even a shard that is ours: Java would take it."""
    world = held_world()
    java_holds(world, OTHER)
    with pytest.raises(ControlRefused, match=f"holds {OTHER} by java-1"):
        order(world, what, *shards)
    assert world.control.control() == Control()


def test_release_of_our_lease_is_allowed_beside_javas_workers() -> None:
    world = held_world()
    java_holds(world, OTHER)
    order(world, Order.RELEASE, SHARD)
    with pytest.raises(ControlRefused, match=f"holds {OTHER} by java-1"):
        order(world, Order.RELEASE, OTHER)


def test_java_s_workers_that_are_gone_hold_nothing() -> None:
    world = held_world()
    java_holds(world, OTHER)
    world.manager().tick()
    world.clock.advance(world.settings.failover_time + SECOND)
    assert [lease.lease_key for lease in order(world).held] == []


def test_a_time_in_the_past_is_refused() -> None:
    with pytest.raises(ControlRefused, match="is in the past: give a later end"):
        order(held_world(), lasts=-SECOND)


def test_resume_returns_the_pauses_it_ends() -> None:
    world = held_world()
    whole, single = order(world), order(world, Order.PAUSE, OTHER)
    assert pausing(world).resume() == {"orders": whole.pause, OTHER: single.pause}
    assert pausing(world).resume() == {}


def test_resume_of_a_shard() -> None:
    world = held_world()
    order(world, Order.PAUSE, SHARD, OTHER)
    assert list(pausing(world).resume([OTHER])) == [OTHER]
    assert list(world.control.control().leases) == [SHARD]


@dataclass
class Contended:
    """A control that another operator changes before each of the first `times` writes."""

    real: MemoryControlStore
    times: int
    pause: Pause

    def control(self) -> Control:
        return self.real.control()

    @property
    def answered_at(self) -> None:
        return None

    def keep_control(self, control: Control) -> bool:
        if self.times:
            self.times -= 1
            stands = self.real.control()
            assert self.real.keep_control(
                Control(leases={**stands.leases, f"s-{self.times}": self.pause}, round=stands.round)
            )
        return self.real.keep_control(control)

    def replace_unreadable(self) -> None:
        self.real.replace_unreadable()


def test_concurrent_pauses_of_two_operators_both_stand() -> None:
    world = held_world()
    other = Pause(Order.PAUSE, world.clock.now(), "bo@desk")
    world.ports_with = {"control": Contended(world.control, TRIES - 1, other)}
    order(world, Order.PAUSE, SHARD)
    assert len(world.control.control().leases) == TRIES
    world.ports_with = {"control": Contended(world.control, TRIES, other)}
    with pytest.raises(ControlRefused, match="try again"):
        order(world, Order.PAUSE, OTHER)


def test_take_back_removes_its_own_request_alone() -> None:
    world = held_world()
    request = order(world, Order.RELEASE, SHARD, lasts=MINUTE)
    pausing(world).take_back(request.pause, [SHARD])
    assert world.control.control().leases == {}
    request, stays = order(world, Order.RELEASE, SHARD, lasts=MINUTE), order(world, Order.PAUSE, SHARD)
    pausing(world).take_back(request.pause, [SHARD])
    assert world.control.control().leases == {SHARD: stays.pause}


# Waiting.


def releasing(world: EngineWorld, *shards: str, settles: bool = True) -> ReleaseWatch:
    since = world.clock.steady() if settles else None
    return ReleaseWatch(world.ports, world.settings, lambda: None, frozenset(shards), settled_since=since)


def free(world: EngineWorld, lease_key: str) -> None:
    world.change_lease(lease_key, lease_owner=None)


def test_drain_waits_until_all_are_released_and_shows_each_change() -> None:
    world = held_world()
    heartbeating(world)
    world.at(30 * SECOND, lambda: free(world, SHARD))
    world.at(50 * SECOND, lambda: free(world, OTHER))
    shown: list[list[str]] = []
    left = releasing(world).wait(10 * MINUTE, lambda left: shown.append([lease.lease_key for lease in left]))
    assert left == ()
    assert shown == [[SHARD, OTHER], [OTHER], []]
    assert 50 <= world.seconds() <= 53


def heartbeating(world: EngineWorld) -> None:
    def beat() -> None:
        for lease in world.table.real.scan().leases:
            if lease.lease_owner is not None:
                world.change_lease(
                    lease.lease_key,
                    lease_counter=lease.lease_counter + 1,
                    holder_counter=lease.lease_counter + 1,
                )

    for second in range(0, 600, 5):
        world.at(second * SECOND, beat)


def test_drain_returns_the_leases_left_after_its_timeout() -> None:
    world = held_world()
    heartbeating(world)
    left = releasing(world).wait(MINUTE, lambda _: None)
    assert [lease.lease_key for lease in left] == [SHARD, OTHER]
    assert 60 <= world.seconds() <= 62


def test_an_owner_that_is_gone_is_not_waited_for_longer_than_failover_time() -> None:
    """Even if no tick runs any more that could see it."""
    world = held_world()
    assert releasing(world).wait(10 * MINUTE, lambda _: None) == ()
    assert world.settings.failover_time <= world.clock.now() - world.began
    assert world.clock.now() - world.began <= world.settings.failover_time + 5 * SECOND


def test_a_tick_that_had_read_the_control_before_may_still_send_a_worker() -> None:
    world = EngineWorld(CONTINUOUS)
    assert releasing(world).wait(10 * MINUTE, lambda _: None) == ()
    assert timedelta(seconds=world.seconds()) >= SETTLES_WITHIN
    before = world.seconds()
    assert releasing(world, settles=False).wait(10 * MINUTE, lambda _: None) == ()
    assert world.seconds() == before


def test_a_short_timeout_does_not_make_it_settled() -> None:
    world = EngineWorld(CONTINUOUS)
    assert releasing(world).wait(SECOND, lambda _: None) == ()
    assert timedelta(seconds=world.seconds()) >= SETTLES_WITHIN


def test_a_clock_that_is_set_back_holds_no_drain() -> None:
    world = EngineWorld(CONTINUOUS)
    world.at(SECOND, lambda: world.clock.jump(-MINUTE))
    assert releasing(world).wait(MINUTE, lambda _: None) == ()
    assert SETTLES_WITHIN <= world.clock.steady() - world.began <= SETTLES_WITHIN + 5 * SECOND


def drained(world: EngineWorld) -> OrderedPause:
    return pausing(world).drain("anna@desk", 10 * MINUTE, lambda _: None)


def test_a_drain_that_another_operator_ends_is_not_waited_for() -> None:
    world = EngineWorld(CONTINUOUS)
    world.at(4 * SECOND, lambda: pausing(world).resume())
    with pytest.raises(ControlRefused, match="drain was ended meanwhile by a resume"):
        drained(world)
    assert world.seconds() < 10


def test_a_drain_in_whose_place_another_one_stands_is_still_a_drain() -> None:
    world = EngineWorld(CONTINUOUS)
    world.at(4 * SECOND, lambda: order(world, Order.DRAIN))
    assert drained(world).held == ()


def test_a_pause_with_an_end_does_not_end_a_drain() -> None:
    world = EngineWorld(CONTINUOUS)
    ordered = order(world, Order.DRAIN)
    with pytest.raises(ControlRefused, match="anna@desk has drained the application"):
        order(world, Order.PAUSE, lasts=MINUTE)
    assert world.control.control().application == ordered.pause


def released(world: EngineWorld, timeout: timedelta) -> OrderedPause:
    return pausing(world).release("bo@desk", SHARD, timeout, lambda _: None)


def test_a_request_that_no_worker_could_see_in_time_is_refused() -> None:
    with pytest.raises(ControlRefused, match="every 10 s"):
        released(held_world(), 10 * SECOND)


def test_a_request_stands_as_long_as_the_one_that_waits_longest() -> None:
    """The first is taken back when its time is over; the owner still reads the second."""
    world = held_world()
    heartbeating(world)
    first = order(world, Order.RELEASE, SHARD, lasts=20 * SECOND)
    world.at(21 * SECOND, lambda: pausing(world).take_back(first.pause, [SHARD]))
    world.at(40 * SECOND, lambda: free(world, SHARD) if world.control.control().leases else None)
    assert released(world, MINUTE).held == ()
    assert world.control.control().leases == {}


def test_a_request_that_another_operator_ends_is_not_waited_for() -> None:
    world = held_world()
    heartbeating(world)
    world.at(15 * SECOND, lambda: pausing(world).resume([SHARD]))
    with pytest.raises(ControlRefused, match="release was ended meanwhile by a resume"):
        released(world, MINUTE)


def test_a_worker_on_its_way_is_waited_for() -> None:
    world = EngineWorld(CONTINUOUS)
    lease: Lease = world.table.lease()
    sent = DispatchedWorker(lease.fence, "orders-lambda-0", is_steal=False, at=world.clock.now() + 9 * SECOND)
    world.at(9 * SECOND, lambda: world.sightings.keep_dispatched({SHARD: sent}, 0))
    assert releasing(world).wait(10 * MINUTE, lambda _: None) == ()
    assert timedelta(seconds=world.seconds()) >= 9 * SECOND + WORKER_STARTS_WITHIN


def test_drain_of_one_shard_does_not_wait_for_others() -> None:
    world = held_world()
    heartbeating(world)
    free(world, SHARD)
    assert releasing(world, SHARD).wait(MINUTE, lambda _: None) == ()


# With the engine.


def test_a_drained_fleet_has_handled_and_checkpointed_everything_that_it_had_read() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    for second in range(120):
        world.at(second * SECOND, lambda second=second: world.put(f"{second}", shard=second % 2, of=2))  # type: ignore[misc]
    window = world.tasks.spawn(lambda: world.window(lasts=10 * MINUTE))
    world.tasks.wait(lambda: False, world.clock.steady() + 30 * SECOND)
    ordered = order(world, Order.DRAIN)
    assert len(ordered.held) == 2
    assert releasing(world).wait(MINUTE, lambda _: None) == ()
    assert world.seconds() <= 30 + 15
    window.result()
    for lease in world.table.real.scan().leases:
        last = [batch for batch in world.handler.batches if batch.shard_id == lease.shard_id][-1].records[-1]
        assert lease.checkpoint == last.checkpoint
    handled = len(world.handler.finished)
    world.manager().tick()
    assert world.dispatcher.take() == []
    pausing(world).resume()
    world.manager().tick()
    for item in world.dispatcher.take():
        world.window(item, lasts=3 * MINUTE)
    assert len(world.handler.finished) == 120
    assert handled < 120


def test_pause_tells_which_current_order_it_replaces() -> None:
    world = held_world()
    shard = order(world, Order.PAUSE, OTHER)
    assert shard.replaces == ()
    first = order(world, lasts=MINUTE)
    assert first.replaces == (), "the shard's own pause goes on"
    assert order(world, lasts=2 * MINUTE).replaces == (first.pause,)
    world.clock.advance(SECOND)
    assert order(world, Order.PAUSE, OTHER).replaces == (shard.pause,)
    world.clock.advance(2 * MINUTE)
    assert order(world).replaces == ()


class Skewed:
    """The clock of an operator's machine that is ahead, or behind."""

    def __init__(self, clock: Clock, by: timedelta) -> None:
        self._clock = clock
        self._by = by

    def now(self) -> datetime:
        return self._clock.now() + self._by

    def steady(self) -> datetime:
        return self._clock.steady()


def skewed(world: EngineWorld, by: timedelta) -> Ports:
    return replace(world.ports, clock=Skewed(world.ports.clock, by))


@pytest.fixture
def dated_world() -> EngineWorld:
    """Its store says the time, as DynamoDB does."""
    world = held_world(1)
    world.control = MemoryControlStore(world.ports.clock.now)
    return world


@pytest.mark.parametrize("by", [timedelta(hours=-1), timedelta(minutes=-3), timedelta(minutes=3), timedelta(hours=1)])
def test_a_pause_lasts_as_long_as_it_says_whatever_an_operator_s_clock_says(
    dated_world: EngineWorld, by: timedelta
) -> None:
    world = dated_world
    operator = ApplicationControl("orders", skewed(world, by), world.settings)
    pause = operator.order(operator.pause(Order.PAUSE, "anna@desk", lambda now: now + 5 * MINUTE)).pause
    assert pause.until is not None
    assert abs(pause.until - world.ports.clock.now() - 5 * MINUTE) < SECOND


@pytest.mark.parametrize("by", [timedelta(hours=-1), timedelta(minutes=-3), timedelta(minutes=3), timedelta(hours=1)])
def test_a_pause_ends_in_time_whatever_a_worker_s_clock_says(dated_world: EngineWorld, by: timedelta) -> None:
    world = dated_world
    order(world, lasts=5 * MINUTE)
    leases = world.table.real.scan().leases
    watch = ControlWatch(skewed(world, by))
    assert set(watch.pauses(leases)) == {SHARD}
    assert pause_of(watch.current(), SHARD, watch.now) is not None
    world.tasks.sleep(5 * MINUTE + SECOND)
    assert watch.pauses(leases) == {}
    assert pause_of(watch.current(), SHARD, watch.now) is None


@pytest.mark.parametrize("by", [timedelta(hours=-1), timedelta(hours=1)])
def test_resume_works_with_a_wrong_clock(dated_world: EngineWorld, by: timedelta) -> None:
    order(dated_world, lasts=5 * MINUTE)
    assert set(ApplicationControl("orders", skewed(dated_world, by), dated_world.settings).resume()) == {"orders"}
