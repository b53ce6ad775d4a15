"""Writing down how far the handler got: not too often, never backwards, always at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from sublet.decisions.session.held_lease import Tenure
from sublet.decisions.session.window import SessionOutcome
from sublet.decisions.time_and_chance import Instant
from sublet.engine.lease.held import HeldLease
from sublet.engine.lease.progress import Progress
from sublet.engine.lease.steps import acquire_lease
from sublet.errors import LeaseTableUnavailable
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.lease import Lease, LeaseFence
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, heartbeat

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    Result,
    only,
    raising,
)

HOUR = timedelta(hours=1)


def put_one_a_second(world: EngineWorld, seconds: int) -> None:
    for second in range(seconds):
        world.at(second * SECOND, lambda second=second: world.put(f"{second}"))  # type: ignore[misc]


def checkpoints(world: EngineWorld) -> list[float]:
    """When, in seconds since the world began."""
    return [
        (write.at - world.began).total_seconds() for write in world.table.writes if write.kind is WriteKind.CHECKPOINT
    ]


def test_checkpoint_is_written_once_per_checkpoint_interval_and_at_the_end() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=20 * SECOND, idle_poll_interval=SECOND))
    put_one_a_second(world, 55)
    world.window()
    *regular, last = checkpoints(world)
    assert len(regular) == 2
    assert all(after - before >= 20 for before, after in pairwise([0, *regular]))
    assert last >= 59
    assert world.table.lease().checkpoint.is_sequence_number


def test_checkpoint_is_written_once() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    world.window()
    assert len(checkpoints(world)) == 1


def test_finished_ahead_is_written_once_when_a_heartbeat_carries_it() -> None:
    """The process stood still as records were set aside: the heartbeat that is due by then says what has been set aside
    too.
    """
    world = EngineWorld(CONTINUOUS)
    world.manager().tick()
    (item,) = world.dispatcher.take()
    since = Instant(world.clock.now(), world.clock.steady())
    row = acquire_lease(world.table, LeaseFence(SHARD, None, 0), item.worker_id, "holder")
    assert isinstance(row, Lease)
    stop = world.tasks.signal()
    held = HeldLease(row, since, world.ports, MINUTE, stop)
    progress = Progress(held, CONTINUOUS, world.clock, stop, world.ports.tasks.lock())
    (number,) = world.put("a")
    progress.follow_lanes(lambda: FinishedAhead((None, Checkpoint(number))))
    held.write(heartbeat)
    written = len(world.table.writes)
    held.note_ahead()
    assert world.table.lease().finished_ahead is not None
    assert len(world.table.writes) == written


def test_due_checkpoint_is_written_once_by_two_concurrent_threads() -> None:
    """The heartbeats' thread and the session, while the table is slow to answer."""
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=timedelta(0)))
    world.manager().tick()
    (item,) = world.dispatcher.take()
    (number,) = world.put("a")
    since = Instant(world.clock.now(), world.clock.steady())
    row = acquire_lease(world.table, LeaseFence(SHARD, None, 0), item.worker_id, "holder")
    assert isinstance(row, Lease)
    stop = world.tasks.signal()
    held = HeldLease(row, since, world.ports, CONTINUOUS.failover_time, stop)
    progress = Progress(held, CONTINUOUS, world.clock, stop, world.ports.tasks.lock())
    progress.finish(Checkpoint(number))

    def slowly(_: LeaseWrite, apply: Callable[[], Result]) -> Result:
        world.tasks.sleep(SECOND)
        return apply()

    world.table.disturb = slowly
    writers = [world.tasks.spawn(progress.write) for _ in range(2)]
    for writer in writers:
        writer.result()
    assert held.tenure is Tenure.HELD
    assert len(checkpoints(world)) == 1
    assert progress.written == Checkpoint(number)


def test_the_last_checkpoint_is_written_also_when_its_interval_is_far_from_over() -> None:
    world = EngineWorld(replace(NO_WAITING, checkpoint_interval=HOUR))
    (number,) = world.put("a")
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.table.lease().checkpoint == Checkpoint(number)


def test_a_checkpoint_that_could_not_be_written_is_written_later() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=timedelta(0)))
    works = world.table.disturb
    put_one_a_second(world, 30)
    world.at(2 * SECOND, lambda: setattr(world.table, "disturb", raising(LeaseTableUnavailable("timed out"))))
    world.at(20 * SECOND, lambda: setattr(world.table, "disturb", works))
    world.window()
    assert world.handler.data()[-1] == b"29"
    last = world.handler.batches[-1].records[-1].checkpoint
    assert world.table.lease().checkpoint == last


def test_records_finished_during_a_table_outage_are_delivered_again() -> None:
    world = EngineWorld()
    world.put("a")
    works = world.table.disturb
    world.handler.script = lambda _: setattr(world.table, "disturb", raising(LeaseTableUnavailable("timed out")))
    world.window()
    world.table.disturb = works
    world.handler.script = lambda _: None
    assert world.table.lease().checkpoint == TRIM_HORIZON
    world.window()
    assert world.handler.data() == [b"a", b"a"]


def test_a_long_window_with_a_busy_shard_moves_its_checkpoint_all_along() -> None:
    """A crash at any moment repeats at most checkpoint_interval and the call under way."""
    world = EngineWorld(replace(CONTINUOUS, idle_poll_interval=SECOND))
    put_one_a_second(world, 175)
    world.window(lasts=3 * MINUTE)
    moments = checkpoints(world)
    assert max(after - before for before, after in pairwise([0, *moments])) <= 12
