"""A lease comes from another owner and goes to another, and neither of the two loses a record or disturbs the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.protocol.checkpoint import SHARD_END, Checkpoint
from sublet.protocol.lease_attributes import ATTEMPTS
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, late_checkpoint

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    Result,
    only,
    outcomes,
    raising,
)

HOUR = timedelta(hours=1)
IMMEDIATE = replace(CONTINUOUS, checkpoint_interval=timedelta(0))


def keep_putting(world: EngineWorld, seconds: int) -> None:
    for second in range(seconds):
        world.at(second * SECOND, lambda second=second: world.put(f"{second}"))  # type: ignore[misc]


def test_thief_waits_for_a_late_checkpoint_of_the_victim_and_starts_there() -> None:
    """Without the wait and the second look its last records would be handled twice."""
    world = EngineWorld(CONTINUOUS)
    first, second, _ = world.put("a", "b", "c")
    world.change_lease(lease_owner="java-1", lease_counter=7, checkpoint=Checkpoint(first))
    world.at(4 * SECOND, lambda: world.table.real.apply(late_checkpoint(world.table.lease(), Checkpoint(second))))
    world.window(world.item(why=ClaimReason.STEAL))
    assert world.handler.data() == [b"c"]
    assert (world.stream.polls[0][0] - world.began) == CONTINUOUS.handover_wait


def test_the_wait_after_stealing_ends_with_the_window() -> None:
    """On Lambda it would be killed in it, each time."""
    world = EngineWorld(replace(CONTINUOUS, handover_wait=5 * MINUTE))
    world.window(world.item(why=ClaimReason.STEAL), lasts=MINUTE)
    assert world.clock.now() - world.began <= MINUTE + SECOND


def test_session_of_an_expired_lease_polls_at_once() -> None:
    world = EngineWorld(CONTINUOUS)
    world.window(world.item(why=ClaimReason.EXPIRED))
    assert world.stream.polls[0][0] == world.began


def test_thief_that_is_stolen_from_while_it_waits_handles_nothing() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    world.change_lease(lease_owner="java-1", lease_counter=7)
    world.at(4 * SECOND, world.steal)
    assert only(world.window(world.item(why=ClaimReason.STEAL))).outcome is SessionOutcome.LEASE_LOST
    assert world.handler.data() == []


def test_session_stops_polling_and_calls_lease_lost_when_the_lease_is_stolen() -> None:
    world = EngineWorld(IMMEDIATE)
    keep_putting(world, 40)
    world.at(20.5 * SECOND, world.steal)
    report = world.window()
    assert only(report).outcome is SessionOutcome.LEASE_LOST
    assert report.next is AfterWindow.DONE
    assert world.handler.calls[-1] == ("lease_lost", SHARD)
    found_out_at = next(write.at for write in world.table.writes if not write.applied)
    assert [at for at, _ in world.stream.polls if at > found_out_at] == []
    assert world.metrics.values(Metric.LOST_LEASES) == [1]
    (line,) = [line for line in world.log.lines if line.message == "lease lost"]
    assert str(line.fields["row"]).startswith("owner thief, counter ")


def test_late_checkpoint_is_written_after_the_loss_if_it_is_forward() -> None:
    """Saves the new owner the repetition. Its counter is left alone, so that its own fence holds."""
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    (last,) = world.put("a")
    world.at(5 * SECOND, world.steal)
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    row = world.table.lease()
    assert row.checkpoint == Checkpoint(last)
    assert (row.lease_owner, row.holder, row.lease_counter) == ("thief", "other/1", 2)
    assert world.metrics.values(Metric.LATE_CHECKPOINTS) == [1]


def test_a_late_checkpoint_never_goes_back() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    world.put("a")
    beyond = Checkpoint("9" * 60)

    def thief_is_further_on() -> None:
        world.steal()
        world.change_lease(checkpoint=beyond)

    world.at(5 * SECOND, thief_is_further_on)
    world.window()
    assert world.table.lease().checkpoint == beyond
    assert world.metrics.values(Metric.LATE_CHECKPOINTS) == []


def test_a_late_checkpoint_does_not_reopen_an_ended_shard() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    world.put("a")

    def thief_ends_it() -> None:
        world.steal()
        world.change_lease(checkpoint=SHARD_END, lease_owner=None, holder=None)

    world.at(5 * SECOND, thief_ends_it)
    world.window()
    assert world.table.lease().is_ended


def test_a_kcl_3_handoff_stops_reading_checkpoints_as_owner_and_hands_over() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    (last,) = world.put("a")
    world.at(5 * SECOND, lambda: world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0"))
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    row = world.table.lease()
    assert (row.lease_owner, row.checkpoint_owner, row.checkpoint) == ("java-2", None, Checkpoint(last))
    assert world.table.kinds()[-2:] == [WriteKind.CHECKPOINT, WriteKind.HAND_OVER]
    assert ("lease_lost", SHARD) in world.handler.calls
    (line,) = [line for line in world.log.lines if line.message == "another worker asks for the lease"]
    assert line.fields["to"] == "java-2"
    assert "lease lost" not in world.log.messages("warning")


def test_lease_requested_while_attempts_are_written_is_handed_over() -> None:
    """A release would be refused, and a lease that is kept would never be handed over."""
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    world.put("bad")
    world.handler.script = raising(RuntimeError("not now"))
    works = world.table.disturb

    def asked_for(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if ATTEMPTS in write.sets and world.table.lease().checkpoint_owner is None:
            world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0")
        return works(write, apply)

    world.table.disturb = asked_for
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    row = world.table.lease()
    assert (row.lease_owner, row.checkpoint_owner) == ("java-2", None)
    assert WriteKind.RELEASE not in [write.kind for write in world.table.writes], "not even refused"


def test_a_slow_lease_lost_does_not_write_to_the_lease_of_the_new_owner() -> None:
    world = EngineWorld(CONTINUOUS)
    world.handler.on_lost = lambda _: world.tasks.sleep(2 * MINUTE)
    world.at(5 * SECOND, lambda: world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0"))
    world.window()
    assert world.table.kinds()[-1] is WriteKind.HAND_OVER


def test_a_lease_lost_that_fails_is_called_once_and_changes_nothing() -> None:
    world = EngineWorld(CONTINUOUS)
    world.handler.on_lost = raising(ValueError())
    world.at(SECOND, world.steal)
    report = world.window()
    assert only(report).outcome is SessionOutcome.LEASE_LOST
    assert world.handler.calls.count(("lease_lost", SHARD)) == 1


def test_a_process_that_was_paused_confirms_its_lease_before_the_next_handler_call() -> None:
    """A frozen Lambda wakes up an hour later in the middle of a page, with the lease long in other hands."""
    world = EngineWorld(replace(NO_WAITING, batch_size=1, checkpoint_interval=timedelta(days=1)))
    world.put("a", "b", "c")

    def freeze(_: Batch) -> None:
        world.clock.advance(HOUR)
        world.steal()

    world.handler.script = freeze
    report = world.window(lasts=2 * HOUR)
    assert only(report).outcome is SessionOutcome.LEASE_LOST
    assert world.handler.data() == [b"a"]


def test_paused_process_hands_over_a_requested_lease_without_another_call() -> None:
    """It is still its own, as the table confirms; who asked waits for as long as a call takes."""
    world = EngineWorld(replace(NO_WAITING, batch_size=1, checkpoint_interval=timedelta(days=1)))
    world.put("a", "b", "c")

    def freeze(_: Batch) -> None:
        world.clock.advance(HOUR)
        world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0")

    world.handler.script = freeze
    world.window(lasts=2 * HOUR)
    assert world.handler.data() == [b"a"]
    assert world.table.kinds()[-1] is WriteKind.HAND_OVER


def test_paused_process_skips_records_that_an_operator_moved_past() -> None:
    world = EngineWorld(replace(NO_WAITING, batch_size=1, checkpoint_interval=timedelta(days=1)))
    first, second, _ = world.put("a", "b", "c")

    def freeze(batch: Batch) -> None:
        if batch.records[0].data == b"a":
            world.clock.advance(HOUR)
            world.change_lease(checkpoint=Checkpoint(second))

    world.handler.script = freeze
    world.window(lasts=2 * HOUR)
    assert world.handler.data() == [b"a", b"c"]
    (line,) = [line for line in world.log.lines if "another writer has moved the checkpoint" in line.message]
    assert (line.fields["checkpoint"], line.fields["finished"]) == (second, first)


def test_a_paused_process_continues_if_its_lease_was_not_taken() -> None:
    world = EngineWorld(replace(NO_WAITING, batch_size=1))
    world.put("a", "b")
    world.handler.script = lambda _: (world.clock.advance(HOUR), None)[1]
    assert only(world.window(lasts=3 * HOUR)).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [b"a", b"b"]


# Kept from window to window


def test_a_kept_lease_is_heartbeaten_until_the_whole_window_is_over() -> None:
    """Another lease's handler may take long past the end of this one's part."""
    world = EngineWorld(CONTINUOUS, shards=2)
    world.put("slow", shard=1, of=2)
    slow, kept = "shardId-000000000001", SHARD
    world.handler.script = lambda _: world.tasks.sleep(3 * MINUTE)
    report = world.window(lasts=MINUTE)
    assert outcomes(report) == {kept: SessionOutcome.WINDOW_ENDED, slow: SessionOutcome.WINDOW_ENDED}
    moments = [write.at for write in world.table.writes if write.lease_key == kept]
    assert max(after - before for before, after in pairwise(moments)) < world.settings.failover_time
    following = world.window(report.item, lasts=10 * SECOND)
    assert outcomes(following) == {kept: SessionOutcome.WINDOW_ENDED, slow: SessionOutcome.WINDOW_ENDED}, (
        "as it stands now"
    )


def test_a_kept_lease_that_is_taken_before_the_window_is_over_is_reported_lost() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    world.put("slow", shard=1, of=2)

    def slowly(_: Batch) -> None:
        world.tasks.sleep(2 * MINUTE)
        world.steal(SHARD)
        world.tasks.sleep(MINUTE)

    world.handler.script = slowly
    report = world.window(lasts=MINUTE)
    assert outcomes(report)[SHARD] is SessionOutcome.LEASE_LOST
    assert ("lease_lost", SHARD) in world.handler.calls
    assert [claim.lease_key for claim in report.item.claims] == ["shardId-000000000001"]


def test_a_kept_lease_that_is_taken_between_two_windows_is_reported_lost() -> None:
    world = EngineWorld(CONTINUOUS)
    report = world.window(lasts=10 * SECOND)
    world.steal()
    assert only(world.window(report.item)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert world.handler.calls[-1] == ("lease_lost", SHARD)
    assert world.metrics.values(Metric.LOST_LEASES) == [1]


def test_shard_gets_one_call_at_a_time_from_two_windows_of_a_process() -> None:
    """The lease was lost in mid-call, and could be had again: two calls for one shard at once would be two owners in
    one.
    """
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    under_way = most = 0

    def slowly(_: Batch) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        world.tasks.sleep(2 * MINUTE)
        under_way -= 1

    world.handler.script = slowly
    worker = world.worker()

    def again() -> None:
        world.change_lease(lease_owner=None, holder=None, lease_counter=50)
        worker.run_window(world.item(item_id="second"), "second", world.clock.steady() + 30 * SECOND)

    world.at(30 * SECOND, again)
    worker.run_window(world.item(), "first", world.clock.steady() + MINUTE)
    assert most == 1
