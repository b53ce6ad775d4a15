"""A paused lease: no worker is sent for it, and its owner checkpoints and releases it within ten seconds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_other
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.earlier_run import claims_of_earlier_run
from sublet.engine.manager.tick import LeaseManager
from sublet.errors import LeaseTableAccessDenied, LeaseTableUnavailable
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.protocol.control import Control, Order, Pause
from sublet.testing.memory import MemoryControlStore

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    only,
    outcomes,
)

OTHER = "shardId-000000000001"
WITHIN = 10 * SECOND


def pause(world: EngineWorld, *lease_keys: str, lasts: timedelta | None = None) -> None:
    now = world.clock.now()
    ordered = Pause(Order.PAUSE, now, "anna@desk", None if lasts is None else now + lasts)
    before = world.control.control()
    after = with_other(before, leases=dict.fromkeys(lease_keys, ordered))
    assert world.control.keep_control(after if lease_keys else with_other(before, application=ordered))


def resume_all(world: EngineWorld) -> None:
    assert world.control.keep_control(Control(round=world.control.control().round))


def dispatched(world: EngineWorld) -> list[str]:
    world.manager().tick()
    return sorted(claim.lease_key for item in world.dispatcher.take() for claim in item.claims)


# A tick.


def test_tick_dispatches_only_leases_that_are_not_paused() -> None:
    world = EngineWorld(shards=2)
    pause(world, SHARD)
    assert dispatched(world) == [OTHER]


def test_tick_dispatches_nothing_for_a_paused_application_until_resume() -> None:
    world = EngineWorld(shards=2)
    pause(world)
    assert dispatched(world) == []
    resume_all(world)
    assert dispatched(world) == [SHARD, OTHER]


def test_a_pause_until_a_time_ends_by_itself() -> None:
    world = EngineWorld()
    pause(world, lasts=MINUTE)
    world.clock.advance(MINUTE - SECOND)
    assert dispatched(world) == []
    world.clock.advance(SECOND)
    assert dispatched(world) == [SHARD]


def test_leases_of_new_shards_are_created_while_all_are_paused() -> None:
    """Records must not be trimmed without a warning."""
    world = EngineWorld(shards=2, leases=False)
    pause(world)
    assert dispatched(world) == []
    assert len(world.table.real.scan().leases) == 2


def test_a_paused_lease_is_not_unclaimed() -> None:
    world = EngineWorld(replace(NO_WAITING, max_leases_for_worker=1), shards=3)
    pause(world, SHARD)
    world.manager().tick()
    assert world.metrics.values(Metric.UNCLAIMED_LEASES) == [1]


def test_paused_lease_is_not_stolen_from_its_owner() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    for lease_key in (SHARD, OTHER):
        world.steal(lease_key, "orders-lambda-9")
    pause(world, SHARD, OTHER)
    assert dispatched(world) == []


def test_an_earlier_run_s_lease_is_not_resumed_while_it_is_paused() -> None:
    mine = replace(CONTINUOUS, worker_id="process-1")
    world = EngineWorld(mine, shards=2)
    for lease_key in (SHARD, OTHER):
        world.steal(lease_key, "process-1", "earlier/1")
    pause(world, SHARD)
    choices = claims_of_earlier_run(world.ports, mine, world.tasks.signal(), ControlWatch(world.ports))
    assert [choice.lease.lease_key for choice in choices] == [OTHER]


# A window.


def test_a_held_lease_is_released_within_ten_seconds_with_everything_checkpointed() -> None:
    world = EngineWorld(CONTINUOUS)
    for second in range(40):
        world.at(second * SECOND, lambda second=second: world.put(f"{second}"))  # type: ignore[misc]
    world.at(15 * SECOND, lambda: pause(world))
    report = world.window(lasts=10 * MINUTE)
    assert 15 * SECOND < world.clock.now() - world.began <= 15 * SECOND + WITHIN + SECOND
    assert only(report).outcome is SessionOutcome.WINDOW_ENDED
    assert only(report).kept is None
    lease = world.table.lease()
    assert lease.lease_owner is None
    assert world.handler.calls[-1] == ("lease_releasing", SHARD)
    last = world.handler.batches[-1].records[-1]
    assert lease.checkpoint == last.checkpoint


def test_the_batch_under_way_is_finished_first() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("slow")
    world.handler.script = lambda _: world.tasks.wait(lambda: False, world.clock.steady() + 25 * SECOND)
    world.at(SECOND, lambda: pause(world))
    world.window(lasts=10 * MINUTE)
    assert world.handler.data() == [b"slow"]
    assert world.table.lease().checkpoint == world.handler.batches[0].records[-1].checkpoint


def test_other_shards_go_on_while_one_is_paused() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    world.at(5 * SECOND, lambda: pause(world, SHARD))
    world.at(30 * SECOND, lambda: world.put("late", shard=1, of=2))
    report = world.window(lasts=MINUTE)
    assert [lease.lease_key for lease in report.leases if lease.kept] == [OTHER]
    assert world.handler.data(OTHER) == [b"late"]
    assert world.table.lease(SHARD).lease_owner is None


def test_window_ended_by_a_pause_prompts_a_tick_that_dispatches_nothing() -> None:
    world = EngineWorld(CONTINUOUS)
    world.at(5 * SECOND, lambda: pause(world))
    assert world.window(lasts=MINUTE).next is AfterWindow.PROMPT
    assert dispatched(world) == []


def test_log_names_the_operator_of_a_pause() -> None:
    world = EngineWorld(CONTINUOUS)
    world.at(5 * SECOND, lambda: pause(world))
    world.window(lasts=MINUTE)
    (line,) = [line for line in world.log.lines if line.message.startswith("lease paused")]
    assert line.fields == {"lease_key": SHARD, "order": "pause", "by": "anna@desk"}


def test_a_child_that_is_paused_does_not_begin_at_its_parent_s_end() -> None:
    world = EngineWorld(CONTINUOUS)
    worker = world.worker()
    first, second = world.shards.split(SHARD)
    pause(world, first)
    worker.watch.look()  # as the process's own tick does
    report = world.window(world.item(SHARD), worker=worker)
    assert set(outcomes(report)) == {SHARD, second}


# The reads that it costs.


@dataclass
class CountingControl:
    """A ControlStore that counts its reads, and raises `problem` if there is one."""

    real: MemoryControlStore = field(default_factory=MemoryControlStore)
    reads: int = 0
    problem: Exception | None = None

    def control(self) -> Control:
        self.reads += 1
        if self.problem is not None:
            raise self.problem
        return self.real.control()

    @property
    def answered_at(self) -> None:
        return None

    def keep_control(self, control: Control) -> bool:
        return self.real.keep_control(control)

    def replace_unreadable(self) -> None:
        raise AssertionError("no worker writes it")


def counting(world: EngineWorld) -> CountingControl:
    store = CountingControl(world.control)
    world.ports_with = {"control": store}
    return store


def test_a_window_of_some_seconds_reads_no_control() -> None:
    """The tick that sent it has just done so: another client and another call would be a part of each cold start."""
    world = EngineWorld()
    store = counting(world)
    world.put("one")
    world.window()
    assert world.handler.data() == [b"one"]
    assert store.reads == 0


def test_the_windows_of_a_process_read_it_once_in_ten_seconds_together() -> None:
    world = EngineWorld(CONTINUOUS, shards=3)
    store, worker = counting(world), world.worker()
    keys: Collection[str] = [lease.lease_key for lease in world.table.real.scan().leases]
    windows = [
        world.tasks.spawn(
            lambda key=key: worker.run_window(world.item(key, item_id=key), "one", world.clock.steady() + MINUTE, None)  # type: ignore[misc]
        )
        for key in keys
    ]
    for window in windows:
        window.result()
    assert store.reads <= 6


def test_a_tick_reads_it_once() -> None:
    world = EngineWorld(shards=3)
    store = counting(world)
    world.manager().tick()
    assert store.reads == 1


# What cannot be read.


@pytest.mark.parametrize(
    "problem", [LeaseTableUnavailable("timed out"), LeaseTableAccessDenied("not allowed on sightings table")]
)
def test_last_known_pause_holds_while_the_control_is_unreadable_with_one_warning(problem: Exception) -> None:
    world = EngineWorld(shards=2)
    store = counting(world)
    manager = LeaseManager(world.ports, world.dispatcher, world.settings, watch=(watch := ControlWatch(world.ports)))
    pause(world, SHARD)
    watch.look()
    store.problem = problem
    for _ in range(3):
        manager.tick()
    chosen = {claim.lease_key for item in world.dispatcher.take() for claim in item.claims}
    assert chosen == {OTHER}
    warnings = [line for line in world.log.lines if line.message.startswith("could not read the operator's orders")]
    assert [line.fields["paused_leases"] for line in warnings] == [1]
    store.problem = None
    watch.look()
    store.problem = problem
    watch.look()
    assert sum(message.startswith("could not read the operator") for message in world.log.messages()) == 2


def test_unreadable_control_pauses_nothing() -> None:
    """One bad item must not stop a fleet."""
    world = EngineWorld()
    pause(world)
    world.control.damage()
    assert dispatched(world) == [SHARD]


def test_a_handler_that_is_called_while_paused_keeps_its_order() -> None:
    """Resumed, the shard goes on behind the last record that was handled: nothing comes twice, nothing is left out."""
    world = EngineWorld(CONTINUOUS)
    for second in range(0, 60, 3):
        world.at(second * SECOND, lambda second=second: world.put(f"{second}"))  # type: ignore[misc]
    world.at(20 * SECOND, lambda: pause(world))
    world.window(lasts=10 * MINUTE)
    world.clock.advance(2 * MINUTE)
    resume_all(world)
    world.window(world.item(item_id="second"), lasts=MINUTE)
    assert world.handler.data() == [f"{second}".encode() for second in range(0, 60, 3)]


def test_batches_are_whole() -> None:
    """A pause ends no batch in its middle."""
    world = EngineWorld(replace(CONTINUOUS, batch_size=10))
    world.put(*map(str, range(10)))
    seen: list[int] = []

    def handle(batch: Batch) -> None:
        pause(world)
        world.tasks.wait(lambda: False, world.clock.steady() + 12 * SECOND)
        seen.append(len(batch.records))

    world.handler.script = handle
    world.window(lasts=MINUTE)
    assert seen == [10]


# What alarms see.


def ages(world: EngineWorld, after: timedelta) -> tuple[float, list[float]]:
    """The greatest unread_age of a tick, and its lags, after this long; ticks in between see that nothing moves."""
    for _ in range(4):
        world.clock.advance(after / 4)
        world.metrics = type(world.metrics)()
        world.manager().tick()
    return max(world.metrics.values(Metric.UNREAD_AGE)), world.metrics.values(Metric.MILLIS_BEHIND_LATEST, SHARD)


def test_a_paused_shard_is_not_unread_until_half_of_the_retention_is_used_up() -> None:
    world = EngineWorld()
    world.put("waits")
    pause(world)
    retention = world.shards.describe().retention
    age, lags = ages(world, retention / 2 - MINUTE)
    assert age == 0
    assert lags == []
    age, lags = ages(world, 2 * MINUTE)
    assert age >= (retention / 4) / timedelta(milliseconds=1)
    assert lags


def test_a_shard_that_is_not_paused_is_unread_at_once() -> None:
    world = EngineWorld(replace(NO_WAITING, max_leases_for_worker=1), shards=2)
    world.put("waits")
    age, _ = ages(world, 10 * MINUTE)
    assert age > 0


def test_each_tick_says_how_many_are_paused_and_by_whom() -> None:
    world = EngineWorld(shards=2)
    world.manager().tick()
    assert world.metrics.values(Metric.PAUSED_LEASES) == []
    pause(world, SHARD)
    world.manager().tick()
    assert world.metrics.values(Metric.PAUSED_LEASES) == [1]
    (line,) = [line for line in world.log.lines if line.message == "leases are paused by an operator"]
    assert line.fields == {"leases": 1, "order": "pause", "by": "anna@desk", "until": "None"}
