"""A held lease: what the worker does after each reply of the lease table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

import pytest
from sublet.decisions.session.held_lease import Tenure
from sublet.engine.lease.held import HeldLease, instant
from sublet.errors import (
    AwsNotConfigured,
    LeaseTableAccessDenied,
    LeaseTableError,
    LeaseTableNotFound,
    LeaseTableUnavailable,
)
from sublet.ports import Applied, Signal
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_attributes import CHECKPOINT, LEASE_COUNTER
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import (
    LeaseWrite,
    WriteKind,
    acquire,
    checkpoint,
    end,
    hand_over,
    heartbeat,
    late_checkpoint,
    pin,
    release,
    set_children,
)

from tests.doubles.engine_world import SECOND, EngineWorld, Result, raising

FAILOVER = timedelta(seconds=30)
INTERVAL = timedelta(seconds=10)
TO_100 = partial(checkpoint, to=Checkpoint("100"))
CHILDREN = partial(set_children, child_shard_ids=frozenset({"shardId-000000000001"}))


def hold(world: EngineWorld) -> tuple[HeldLease, Signal]:
    """Acquire the first shard's lease, and hold it."""
    acquired = world.table.apply(acquire(world.table.lease().fence, "orders-lambda-0", "item/1"))
    assert isinstance(acquired, Applied)
    stop = world.tasks.signal()
    return HeldLease(acquired.lease, instant(world.clock), world.ports, FAILOVER, stop), stop


def unavailable_once(applied: bool) -> Callable[[LeaseWrite, Callable[[], Result]], Result]:
    """The next write fails, although it was `applied`, or before it was; all others work."""
    failures = 1

    def disturb(_: LeaseWrite, apply: Callable[[], Result]) -> Result:
        nonlocal failures
        if not failures:
            return apply()
        failures = 0
        if applied:
            apply()
        raise LeaseTableUnavailable("timed out")

    return disturb


def test_writes_follow_each_other_each_fenced_by_the_one_before() -> None:
    world = EngineWorld()
    held, stop = hold(world)
    assert all(held.write(make) for make in (heartbeat, TO_100, heartbeat, CHILDREN, release))
    assert world.table.lease().lease_counter == 6
    assert not stop.is_set()


@pytest.mark.parametrize("make", [heartbeat, TO_100, CHILDREN, end, release])
def test_a_write_that_was_applied_but_whose_response_got_lost_is_done(
    make: Callable[[Lease], LeaseWrite],
) -> None:
    """botocore repeats it, and the repetition is refused by the first: KCL's spurious failure, which costs no lease."""
    world = EngineWorld()
    held, stop = hold(world)
    world.table.lose_response_of(make(held.lease).kind)
    assert held.write(make)
    assert not stop.is_set()
    assert not held.is_lost
    assert world.table.lease() == held.lease


def test_a_pin_whose_response_got_lost_is_done() -> None:
    world = EngineWorld()
    held, _ = hold(world)
    world.table.lose_response_of(WriteKind.PIN)
    assert held.write(partial(pin, at=world.clock.now()))
    assert held.lease.start_at == world.clock.now()


@pytest.mark.parametrize("make", [TO_100, CHILDREN, end, release])
def test_a_write_after_one_that_timed_out_but_was_applied_is_made_again(
    make: Callable[[Lease], LeaseWrite],
) -> None:
    """The row's counter is one further, by our own heartbeat: that is no proof that this other write happened as
    well.
    """
    world = EngineWorld()
    held, stop = hold(world)
    world.table.disturb = unavailable_once(applied=True)
    assert not held.write(heartbeat)
    assert held.write(make)
    assert not stop.is_set()
    row = world.table.lease()
    assert row == held.lease
    wanted = {
        TO_100: row.checkpoint == Checkpoint("100"),
        CHILDREN: bool(row.child_shard_ids),
        end: row.is_ended,
    }
    assert wanted.get(make, row.lease_owner is None)


@pytest.mark.parametrize("applied", [True, False])
def test_a_heartbeat_after_one_that_timed_out_keeps_the_lease(applied: bool) -> None:
    world = EngineWorld()
    held, _ = hold(world)
    world.table.disturb = unavailable_once(applied)
    assert not held.write(heartbeat)
    assert held.write(heartbeat)
    assert world.table.lease() == held.lease


def broken_row(world: EngineWorld, broken: Mapping[str, AttributeValue | None]) -> None:
    columns = {**encode_row(world.table.lease()), **broken}
    world.table.real.put_row({name: value for name, value in columns.items() if value is not None})


@pytest.mark.parametrize(
    "another",
    [
        pytest.param(EngineWorld.steal, id="another owner"),
        pytest.param(
            partial(EngineWorld.steal, worker_id="orders-lambda-0", holder="item/2"),
            id="another attempt under our worker id: only the holder tells them apart",
        ),
        pytest.param(
            partial(EngineWorld.change_lease, lease_owner="java-1", lease_counter=2),
            id="KCL, whose takeLease leaves subletHolder at us",
        ),
        pytest.param(
            lambda world: world.table.real._rows.clear(),
            id="no row: an update would create half of one, which stops every Java lease taker",
        ),
        pytest.param(
            partial(broken_row, broken={CHECKPOINT: {"S": "a mistake"}, LEASE_COUNTER: {"N": "77"}}),
            id="malformed",
        ),
        pytest.param(partial(broken_row, broken={LEASE_COUNTER: None}), id="no counter"),
    ],
)
@pytest.mark.parametrize("make", [heartbeat, TO_100])
def test_a_row_that_is_not_ours_any_more_is_lost_and_left_as_it_is(
    another: Callable[[EngineWorld], object], make: Callable[[Lease], LeaseWrite]
) -> None:
    world = EngineWorld()
    held, stop = hold(world)
    another(world)
    rows = world.table.real.rows()
    assert not held.write(make)
    assert held.is_lost
    assert stop.is_set()
    assert not held.write(heartbeat)
    assert world.table.real.rows() == rows


def test_a_late_checkpoint_of_the_owner_before_is_no_loss() -> None:
    """Its write leaves the counter alone, so that we keep the lease; ours is refused, and nothing is overwritten."""
    world = EngineWorld()
    held, stop = hold(world)
    assert isinstance(world.table.apply(late_checkpoint(held.lease, Checkpoint("200"))), Applied)
    assert not held.write(TO_100)
    assert not held.is_lost
    assert not stop.is_set(), "what it means is for who knows how far the lease is handled"
    assert (held.lease.checkpoint, held.moves) == (Checkpoint("200"), 1)
    assert held.write(heartbeat)


def test_a_write_that_is_refused_by_one_of_ours_each_time_is_not_done() -> None:
    world = EngineWorld()
    held, _ = hold(world)

    def beaten_to_it(_: LeaseWrite, apply: Callable[[], Result]) -> Result:
        world.table.real.apply(heartbeat(world.table.lease()))
        return apply()

    world.table.disturb = beaten_to_it
    assert not held.write(TO_100)
    assert not held.is_lost


def test_checkpoint_is_not_written_after_the_position_was_moved() -> None:
    world = EngineWorld()
    held, _ = hold(world)
    world.change_lease(checkpoint=Checkpoint("50"))
    assert held.write(heartbeat)
    assert not held.write(TO_100, unmoved_since=0)
    assert world.table.lease().checkpoint == Checkpoint("50")
    assert held.write(TO_100, unmoved_since=1)


def test_a_kcl_3_handoff_drains_checkpoints_and_hands_over() -> None:
    """The leader names the new owner and leaves the counter; the old one is checkpointOwner until it says that it has
    drained.
    """
    world = EngineWorld()
    held, stop = hold(world)
    world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0")
    assert held.write(heartbeat), "it is still ours to heartbeat"
    assert held.tenure is Tenure.DRAINING
    assert stop.is_set()
    assert held.write(TO_100), "and to checkpoint"
    assert held.write(hand_over)
    row = world.table.lease()
    assert (row.lease_owner, row.checkpoint_owner, row.holder) == ("java-2", None, None)
    assert row.checkpoint == Checkpoint("100")


def test_a_release_during_a_handoff_becomes_the_hand_over() -> None:
    """Releasing would take the lease from the new owner that the leader has chosen."""
    world = EngineWorld()
    held, _ = hold(world)
    world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0")
    assert held.write(release)
    row = world.table.lease()
    assert (row.lease_owner, row.checkpoint_owner) == ("java-2", None)


def test_requested_lease_is_handed_over_without_a_release() -> None:
    """A release that waited for the answer that told so."""
    world = EngineWorld()
    held, _ = hold(world)
    world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0")
    assert held.write(heartbeat)
    before = len(world.table.writes)
    assert held.write(release)
    assert [write.kind for write in world.table.writes[before:]] == [WriteKind.HAND_OVER]


@pytest.mark.parametrize("leave", [release, end])
def test_released_lease_is_not_heartbeat(leave: Callable[[Lease], LeaseWrite]) -> None:
    """The next owner's fence is the counter: one more heartbeat of ours, sent for our last state, would break it."""
    world = EngineWorld()
    held, _ = hold(world)
    assert held.write(leave)
    left = world.table.lease()
    world.clock.advance(INTERVAL * 2)
    held.heartbeat_if_due(INTERVAL)
    assert world.table.lease() == left


def test_a_lease_handed_over_is_not_heartbeat_any_more() -> None:
    world = EngineWorld()
    held, _ = hold(world)
    world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0")
    assert held.write(heartbeat)
    assert held.write(hand_over)
    left = world.table.lease()
    world.clock.advance(INTERVAL * 2)
    held.heartbeat_if_due(INTERVAL)
    assert world.table.lease() == left


def test_a_heartbeat_is_due_after_its_interval_and_any_write_counts_as_one() -> None:
    world = EngineWorld()
    held, _ = hold(world)
    world.clock.advance(INTERVAL - SECOND)
    assert held.write(TO_100)
    world.clock.advance(INTERVAL - SECOND)
    held.heartbeat_if_due(INTERVAL)
    assert world.table.kinds() == [WriteKind.ACQUIRE, WriteKind.CHECKPOINT]
    world.clock.advance(SECOND)
    held.heartbeat_if_due(INTERVAL)
    assert world.table.kinds()[-1] is WriteKind.HEARTBEAT


def test_confirming_asks_the_table_only_after_a_pause_longer_than_failover_time() -> None:
    world = EngineWorld()
    held, _ = hold(world)
    world.clock.advance(FAILOVER)
    assert held.confirm()
    assert world.table.kinds() == [WriteKind.ACQUIRE]
    world.clock.advance(SECOND)
    assert held.confirm()
    assert world.table.kinds() == [WriteKind.ACQUIRE, WriteKind.HEARTBEAT]


def test_heartbeat_is_written_once_by_waiting_threads() -> None:
    """After a pause the heartbeats' thread and the session find at once that the lease is unconfirmed."""
    world = EngineWorld()
    held, _ = hold(world)
    world.clock.advance(FAILOVER + SECOND)

    def slowly(_: LeaseWrite, apply: Callable[[], Result]) -> Result:
        world.tasks.sleep(SECOND)
        return apply()

    world.table.disturb = slowly
    confirming = [world.tasks.spawn(held.confirm) for _ in range(2)]
    due = world.tasks.spawn(partial(held.heartbeat_if_due, INTERVAL))
    assert all(each.result() for each in confirming)
    due.result()
    assert world.table.kinds() == [WriteKind.ACQUIRE, WriteKind.HEARTBEAT]


def test_confirming_after_a_pause_finds_that_another_has_taken_over() -> None:
    world = EngineWorld()
    held, stop = hold(world)
    world.clock.advance(FAILOVER * 2)
    world.steal()
    assert not held.confirm()
    assert held.is_lost
    assert stop.is_set()


def test_lease_is_lost_when_unconfirmed_after_a_pause() -> None:
    world = EngineWorld()
    held, stop = hold(world)
    world.clock.advance(FAILOVER * 2)
    world.table.disturb = raising(LeaseTableUnavailable("timed out"))
    assert not held.confirm()
    assert held.is_lost
    assert stop.is_set()


def test_reloading_brings_the_late_checkpoint_of_the_owner_before() -> None:
    world = EngineWorld()
    held, _ = hold(world)
    world.table.apply(late_checkpoint(held.lease, Checkpoint("300")))
    held.read_again()
    assert held.lease.checkpoint == Checkpoint("300")


def test_reloading_finds_that_another_has_taken_over() -> None:
    world = EngineWorld()
    held, stop = hold(world)
    world.steal()
    held.read_again()
    assert held.is_lost
    assert stop.is_set()


def test_a_deleted_table_is_a_lost_lease_and_the_log_names_the_table() -> None:
    """Not an exception: it would end the one task that heartbeats all the other leases."""
    world = EngineWorld()
    held, stop = hold(world)
    world.table.disturb = raising(LeaseTableNotFound("table orders does not exist"))
    assert not held.write(heartbeat)
    assert held.is_lost
    assert stop.is_set()
    assert "orders" in str(world.log.lines[-1].fields)


@pytest.mark.parametrize(
    "refused",
    [
        LeaseTableAccessDenied("not authorized to perform dynamodb:UpdateItem"),
        LeaseTableError("DynamoDB's error: ReplicatedWriteConflictException"),
        AwsNotConfigured("AWS does not accept these credentials"),
        ValueError("unexpected"),
    ],
)
def test_a_refused_write_costs_the_lease_only_once_it_lasts_for_failover_time(refused: Exception) -> None:
    world = EngineWorld()
    held, stop = hold(world)
    world.table.disturb = raising(refused)
    assert not held.write(heartbeat)
    assert not stop.is_set()
    world.table.disturb = lambda _, apply: apply()
    assert held.write(heartbeat)
    world.table.disturb = raising(refused)
    world.clock.advance(world.settings.failover_time + timedelta(seconds=1))
    assert not held.write(heartbeat)
    assert held.is_lost
    assert stop.is_set()


def test_an_ended_lease_stays_ended() -> None:
    world = EngineWorld()
    held, _ = hold(world)
    world.change_lease(checkpoint=SHARD_END, lease_owner=None, holder=None, lease_counter=held.lease.lease_counter + 5)
    assert not held.write(TO_100)
    assert world.table.lease().is_ended
