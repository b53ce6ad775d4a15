"""An operator moves a checkpoint in the table while its lease is held: the row counts, and the lease is not lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.session.window import SessionOutcome
from sublet.errors import LeaseTableUnavailable
from sublet.handler import Batch
from sublet.ports import Applied
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, late_checkpoint
from sublet.settings import Settings

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    Result,
    only,
)

AT_ONCE = replace(CONTINUOUS, checkpoint_interval=timedelta(0), batch_size=1)
SELDOM = replace(CONTINUOUS, checkpoint_interval=timedelta(hours=1), batch_size=1)


def told(world: EngineWorld) -> list[str]:
    """Of the lease, but for its batches."""
    return [call for call, _ in world.handler.calls if call != "handle"]


def test_checkpoint_moved_back_is_read_from_again_by_the_same_owner() -> None:
    world = EngineWorld(AT_ONCE)
    first, _, third = world.put("a", "b", "c")
    acquired: list[Checkpoint] = []
    world.handler.on_acquired = lambda _, checkpoint: acquired.append(checkpoint)
    world.at(20 * SECOND, lambda: world.change_lease(checkpoint=Checkpoint(first)))
    report = only(world.window())
    assert world.handler.data() == [b"a", b"b", b"c", b"b", b"c"]
    assert told(world) == ["lease_acquired", "lease_acquired"], "and nothing of a loss"
    assert acquired == [TRIM_HORIZON, Checkpoint(first)]
    assert (report.outcome, report.kept) == (SessionOutcome.WINDOW_ENDED, world.table.lease().fence)
    assert world.table.lease().checkpoint == Checkpoint(third)
    assert WriteKind.RELEASE not in world.table.kinds()


def test_a_session_that_reads_again_after_a_move_notices_a_lost_lease() -> None:
    world = EngineWorld(AT_ONCE)
    (first, *_) = world.put("a", "b")
    world.at(20 * SECOND, lambda: world.change_lease(checkpoint=Checkpoint(first)))
    world.at(3 * MINUTE, world.steal)
    assert only(world.window(lasts=10 * MINUTE)).outcome is SessionOutcome.LEASE_LOST
    assert told(world)[:2] == ["lease_acquired", "lease_acquired"]
    assert world.seconds() < 4 * 60


@pytest.mark.parametrize(
    ("settings", "moved_to", "again"),
    [
        (AT_ONCE, TRIM_HORIZON, [b"a", b"b", b"c"]),
        (SELDOM, LATEST, []),
        (SELDOM, AT_TIMESTAMP, [b"c"]),
        (AT_ONCE, AT_TIMESTAMP, [b"c"]),
    ],
)
def test_checkpoint_moved_to_a_start_sentinel_is_read_from_again(
    settings: Settings, moved_to: Checkpoint, again: list[bytes]
) -> None:
    """Also where nothing has been written yet, and the row stood at the shard's beginning."""
    world = EngineWorld(settings)
    world.put("a", "b")
    since = world.began + 5 * SECOND
    world.at(5 * SECOND, lambda: world.put("c"))
    start_at = since if moved_to == AT_TIMESTAMP else None
    world.at(20 * SECOND, lambda: world.change_lease(checkpoint=moved_to, start_at=start_at))
    world.window()
    assert world.handler.data() == [b"a", b"b", b"c", *again]


def test_checkpoint_moved_forward_skips_the_records_between() -> None:
    world = EngineWorld(replace(AT_ONCE, poll_limit=1))
    numbers = world.put("a", "b", "c", "d")

    def skip(batch: Batch) -> None:
        if batch.records[0].data == b"a":
            world.change_lease(checkpoint=Checkpoint(numbers[2]))

    world.handler.script = skip
    world.window()
    assert world.handler.data() == [b"a", b"d"]
    assert world.table.lease().checkpoint == Checkpoint(numbers[3])


def test_checkpoint_moved_into_the_batch_under_way_repeats_nothing() -> None:
    world = EngineWorld(replace(AT_ONCE, batch_size=3))
    numbers = world.put("a", "b", "c")

    def skip(batch: Batch) -> None:
        if batch.records[0].data == b"a":
            world.change_lease(checkpoint=Checkpoint(numbers[1]))
            world.tasks.sleep(MINUTE)  # heartbeats find it out meanwhile

    world.handler.script = skip
    world.at(2 * MINUTE, lambda: world.put("d"))
    world.window(lasts=3 * MINUTE)
    assert world.handler.data() == [b"a", b"b", b"c", b"d"]
    assert told(world) == ["lease_acquired"]


def test_checkpoint_moved_forward_to_handled_records_repeats_nothing() -> None:
    world = EngineWorld(SELDOM)
    numbers = world.put("a", "b", "c")
    world.at(20 * SECOND, lambda: world.change_lease(checkpoint=Checkpoint(numbers[1])))
    world.window()
    assert world.handler.data() == [b"a", b"b", b"c"]
    assert told(world) == ["lease_acquired"]
    assert world.table.lease().checkpoint == Checkpoint(numbers[2])


def test_a_late_checkpoint_of_the_owner_before_costs_no_repetition() -> None:
    world = EngineWorld(SELDOM)
    numbers = world.put("a", "b", "c")
    world.change_lease(lease_owner="java-1", lease_counter=7)
    before = world.table.lease()
    world.at(20 * SECOND, lambda: world.table.real.apply(late_checkpoint(before, Checkpoint(numbers[0]))))
    world.window(world.item(why=ClaimReason.STEAL))
    assert world.handler.data() == [b"a", b"b", b"c"]
    assert world.table.lease().checkpoint == Checkpoint(numbers[2])


def test_late_checkpoint_within_the_batch_under_way_loses_no_lease() -> None:
    """Beyond what is finished just then, and not when the call has ended: simulation seed 407720000."""
    world = EngineWorld(replace(AT_ONCE, batch_size=3))
    numbers = world.put("a", "b", "c")
    before = world.table.lease()

    def slowly(batch: Batch) -> None:
        world.table.real.apply(late_checkpoint(before, Checkpoint(numbers[1])))
        batch.checkpoint(batch.records[0])
        world.tasks.sleep(20 * SECOND)

    world.handler.script = slowly
    report = only(world.window())
    assert world.handler.data() == [b"a", b"b", b"c"]
    assert report.outcome is SessionOutcome.WINDOW_ENDED
    assert told(world) == ["lease_acquired"]
    assert world.table.lease().checkpoint == Checkpoint(numbers[2])


def test_late_checkpoint_within_a_failing_batch_is_resumed_from() -> None:
    world = EngineWorld(replace(AT_ONCE, batch_size=3))
    numbers = world.put("a", "b", "c")
    before = world.table.lease()

    def fails_once(_batch: Batch) -> None:
        if len(world.handler.batches) == 1:
            world.table.real.apply(late_checkpoint(before, Checkpoint(numbers[1])))
            world.tasks.sleep(20 * SECOND)
            raise ValueError("once")

    world.handler.script = fails_once
    world.window()
    assert [len(batch.records) for batch in world.handler.batches] == [3, 1]
    assert world.handler.data() == [b"c"]
    assert world.table.lease().checkpoint == Checkpoint(numbers[2])


def test_a_call_that_was_under_way_then_is_not_written() -> None:
    """Nor is what it says to be done while it lasts; the records after the new position come again."""
    world = EngineWorld(replace(AT_ONCE, batch_size=3))
    numbers = world.put("a", "b", "c")

    def slowly(batch: Batch) -> None:
        if len(world.handler.batches) == 1:
            world.change_lease(checkpoint=AT_TIMESTAMP, start_at=world.began)
            world.tasks.sleep(20 * SECOND)
            batch.checkpoint(batch.records[1])
            assert world.table.lease().checkpoint == AT_TIMESTAMP

    world.handler.script = slowly
    world.window()
    assert [len(batch.records) for batch in world.handler.batches] == [3, 3]
    assert world.table.lease().checkpoint == Checkpoint(numbers[2])


def test_checkpoint_moved_back_and_forth_to_ours_delivers_the_rest_again() -> None:
    """The row looks as we left it, but an operator wants what was handled beyond it again."""
    world = EngineWorld(AT_ONCE)
    first, *_ = world.put("a", "b", "c")

    def slowly(batch: Batch) -> None:
        if len(world.handler.batches) == 2:
            for position in (TRIM_HORIZON, Checkpoint(first)):
                world.change_lease(checkpoint=position)
                world.tasks.sleep(MINUTE)  # a heartbeat sees it

    world.handler.script = slowly
    world.window(lasts=5 * MINUTE)
    assert world.handler.data() == [b"a", b"b", b"b", b"c"]


def test_former_owner_overwrites_no_moved_checkpoint() -> None:
    world = EngineWorld(SELDOM)
    first, *_ = world.put("a", "b")

    def take_and_move() -> None:
        world.steal()
        world.change_lease(checkpoint=Checkpoint(first))

    world.at(20 * SECOND, take_and_move)
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    assert world.table.lease().checkpoint == Checkpoint(first)


def test_a_kcl_3_handoff_after_a_move_checkpoints_nothing() -> None:
    world = EngineWorld(SELDOM)
    world.put("a", "b")

    def move_and_ask() -> None:
        world.change_lease(checkpoint=AT_TIMESTAMP, start_at=world.began)
        world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0")

    world.at(20 * SECOND, move_and_ask)
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    row = world.table.lease()
    assert (row.lease_owner, row.checkpoint_owner, row.checkpoint) == ("java-2", None, AT_TIMESTAMP)
    assert told(world)[-1] == "lease_lost"


@pytest.mark.parametrize("call", ["handle", "shard_ended"])
def test_a_shard_does_not_end_over_a_move(call: str) -> None:
    world = EngineWorld(AT_ONCE)
    world.put("a", "b")
    world.shards.split(SHARD)
    moves: list[Callable[[], None]] = [lambda: world.change_lease(checkpoint=TRIM_HORIZON)]

    def move(batch: object) -> None:
        if moves and not (isinstance(batch, Batch) and batch.records[0].data == b"a"):
            moves.pop()()

    world.handler.script = move if call == "handle" else world.handler.script
    world.handler.on_ended = move if call == "shard_ended" else world.handler.on_ended
    report = world.window()
    assert world.handler.data(SHARD) == [b"a", b"b", b"a", b"b"]
    assert report.leases[0].outcome is SessionOutcome.SHARD_ENDED
    assert world.table.lease().is_ended


def test_checkpoint_moved_to_shard_end_releases_the_lease() -> None:
    """Whose children it has is the lease manager's to find out."""
    world = EngineWorld(AT_ONCE)
    world.put("a")
    world.at(20 * SECOND, lambda: world.change_lease(checkpoint=SHARD_END))
    report = only(world.window())
    row = world.table.lease()
    assert (row.is_ended, row.lease_owner) == (True, None)
    assert report.kept is None
    assert world.handler.data() == [b"a"]


def test_the_moment_of_being_caught_up_is_not_that_of_another_checkpoint() -> None:
    world = EngineWorld(NO_WAITING)
    world.put("a")
    world.handler.on_releasing = lambda _: world.change_lease(checkpoint=LATEST)
    world.window()
    row = world.table.lease()
    assert (row.checkpoint, row.caught_up_at, row.lease_owner) == (LATEST, None, None)


def test_own_unanswered_checkpoint_is_no_move() -> None:
    """It was applied, its answer got lost, and the repetition did not get through."""
    world = EngineWorld(replace(AT_ONCE, batch_size=1000))
    world.put("a")
    world.at(20 * SECOND, lambda: world.put("b"))
    lost: list[LeaseWrite] = []

    def lose_one(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        result = apply()
        if write.kind is WriteKind.CHECKPOINT and not lost:
            lost.append(write)
            assert isinstance(result, Applied)
            raise LeaseTableUnavailable("no answer")
        return result

    world.table.disturb = lose_one
    world.window()
    assert world.handler.data() == [b"a", b"b"]
    assert told(world) == ["lease_acquired"]
    assert world.table.lease().checkpoint == world.handler.batches[-1].records[-1].checkpoint


def test_move_back_behind_an_unanswered_checkpoint_is_read_again() -> None:
    world = EngineWorld(replace(AT_ONCE, batch_size=1000))
    first, _ = world.put("a", "b")

    def lose_all(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        result = apply()
        if write.kind is not WriteKind.CHECKPOINT or world.seconds() > 30:
            return result
        raise LeaseTableUnavailable("no answer")

    world.table.disturb = lose_all
    world.at(5 * SECOND, lambda: world.change_lease(checkpoint=Checkpoint(first)))
    world.window()
    assert world.handler.data() == [b"a", b"b", b"b"]


def test_a_window_that_is_stopped_then_gives_the_lease_back_where_it_was_moved_to() -> None:
    world = EngineWorld(AT_ONCE)
    first, _ = world.put("a", "b")
    stop = world.tasks.signal()

    def stop_before_the_first_batch(_: str, checkpoint: Checkpoint) -> None:
        if checkpoint == Checkpoint(first):
            stop.set()
            world.tasks.sleep(SECOND)

    world.handler.on_acquired = stop_before_the_first_batch
    world.at(20 * SECOND, lambda: world.change_lease(checkpoint=Checkpoint(first)))
    report = only(world.window(stop=stop, lasts=MINUTE))
    row = world.table.lease()
    assert (report.kept, row.lease_owner, row.checkpoint) == (None, None, Checkpoint(first))
    assert told(world) == ["lease_acquired", "lease_acquired", "lease_releasing"]
    assert world.handler.data() == [b"a", b"b"]
