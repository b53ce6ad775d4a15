"""One lease's part in a window: where it starts, how it is lost, and what it leaves to whoever comes next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.choose_leases import Why
from sublet.decisions.resume import IteratorType
from sublet.decisions.window import Next, Outcome
from sublet.engine.lease_session import slices
from sublet.errors import LeaseTableUnavailable, ShardNotFound, StreamKeyUnavailable
from sublet.ports import Batch
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import AttributeValue
from sublet.protocol.lease_row import CHECKPOINT, LEASE_COUNTER, encode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, late_checkpoint
from sublet.protocol.records import StreamRecord
from sublet.protocol.shard import HashKeyRange
from sublet.settings import HashRangeFilter, StartKind, StartPosition

from tests.unit.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    Result,
    lease_of,
    only,
    raising,
)

HOUR = timedelta(hours=1)
IMMEDIATE = replace(CONTINUOUS, checkpoint_interval=timedelta(0))


def put_aggregate(world: EngineWorld, *texts: str, hash_key: int = 0) -> str:
    """One KPL aggregate into the shard of `hash_key`; its user records say that they belong there."""
    data = aggregate([(f"key-{text}", str(hash_key), text.encode()) for text in texts])
    return world.shards.put("key", data, hash_key)


# Stealing


def test_after_stealing_the_owner_before_has_time_for_a_late_checkpoint_and_we_start_from_it() -> None:
    """Without the wait and the second look its last records would be handled twice."""
    world = EngineWorld(CONTINUOUS)
    first, second, _ = world.put("a", "b", "c")
    world.change_lease(lease_owner="java-1", lease_counter=7, checkpoint=Checkpoint(first))
    world.at(4 * SECOND, lambda: world.table.real.apply(late_checkpoint(SHARD, Checkpoint(second))))
    world.window(world.item(why=Why.STEAL))
    assert world.handler.data() == [b"c"]
    assert (world.stream.polls[0][0] - world.began) == CONTINUOUS.handover_wait


def test_what_is_not_stolen_does_not_wait() -> None:
    world = EngineWorld(CONTINUOUS)
    world.window(world.item(why=Why.EXPIRED))
    assert world.stream.polls[0][0] == world.began


def test_a_stolen_lease_that_is_stolen_again_meanwhile_is_lost_before_the_first_record() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    world.change_lease(lease_owner="java-1", lease_counter=7)
    world.at(4 * SECOND, world.steal)
    assert only(world.window(world.item(why=Why.STEAL))).outcome is Outcome.LEASE_LOST
    assert world.handler.data() == []


# Losing


def keep_putting(world: EngineWorld, seconds: int) -> None:
    for second in range(seconds):
        world.at(second * SECOND, lambda second=second: world.put(f"{second}"))  # type: ignore[misc]


def test_a_lease_lost_in_mid_window_stops_within_one_poll_of_finding_out_and_tells_the_handler() -> None:
    world = EngineWorld(IMMEDIATE)
    keep_putting(world, 40)
    world.at(20.5 * SECOND, world.steal)
    report = world.window()
    assert only(report).outcome is Outcome.LEASE_LOST
    assert report.next is Next.DONE
    assert world.handler.calls[-1] == ("lease_lost", SHARD)
    found_out_at = next(write.at for write in world.table.writes if not write.applied)
    assert [at for at, _ in world.stream.polls if at > found_out_at] == []
    assert world.metrics.values("lost_leases") == [1]


def test_what_was_finished_before_the_loss_is_checkpointed_late_if_that_is_forward() -> None:
    """Saves the new owner the repetition. Its counter is left alone, so that its own fence holds."""
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    (last,) = world.put("a")
    world.at(5 * SECOND, world.steal)
    assert only(world.window()).outcome is Outcome.LEASE_LOST
    row = world.table.lease()
    assert row.checkpoint == Checkpoint(last)
    assert (row.lease_owner, row.holder, row.lease_counter) == ("thief", "other/1", 2)
    assert world.metrics.values("late_checkpoints") == [1]


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
    assert world.metrics.values("late_checkpoints") == []


def test_a_late_checkpoint_does_not_reopen_an_ended_shard() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    world.put("a")

    def thief_ends_it() -> None:
        world.steal()
        world.change_lease(checkpoint=SHARD_END, lease_owner=None, holder=None)

    world.at(5 * SECOND, thief_ends_it)
    world.window()
    assert world.table.lease().is_ended


def test_a_deleted_row_is_a_lost_lease_and_stays_deleted() -> None:
    world = EngineWorld(IMMEDIATE)
    keep_putting(world, 10)
    world.at(3.5 * SECOND, world.table.real._rows.clear)
    assert only(world.window()).outcome is Outcome.LEASE_LOST
    assert world.table.real.rows() == {}
    assert world.handler.calls[-1] == ("lease_lost", SHARD)


@pytest.mark.parametrize("broken_column", [{CHECKPOINT: {"S": "yesterday"}}, {LEASE_COUNTER: None}])
def test_a_row_that_turns_malformed_in_mid_window_is_a_lost_lease_and_left_untouched(
    broken_column: dict[str, AttributeValue | None],
) -> None:
    world = EngineWorld(IMMEDIATE)
    keep_putting(world, 10)
    broken: list[object] = []

    def break_row() -> None:
        columns = {**encode_row(world.table.lease()), **broken_column}
        row = {name: value for name, value in columns.items() if value is not None}
        world.table.real.put_row(row)
        broken.append(row)

    world.at(3.5 * SECOND, break_row)
    assert only(world.window()).outcome is Outcome.LEASE_LOST
    assert [world.table.real.rows()[SHARD]] == broken


def test_a_kcl_3_handoff_stops_reading_checkpoints_as_owner_and_hands_over() -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    (last,) = world.put("a")
    world.at(5 * SECOND, lambda: world.change_lease(lease_owner="java-2", checkpoint_owner="orders-lambda-0"))
    assert only(world.window()).outcome is Outcome.LEASE_LOST
    row = world.table.lease()
    assert (row.lease_owner, row.checkpoint_owner, row.checkpoint) == ("java-2", None, Checkpoint(last))
    assert world.table.kinds()[-2:] == [WriteKind.CHECKPOINT, WriteKind.HAND_OVER]
    assert ("lease_lost", SHARD) in world.handler.calls


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
    assert only(report).outcome is Outcome.LEASE_LOST
    assert world.handler.calls.count(("lease_lost", SHARD)) == 1


def test_a_process_that_was_paused_confirms_its_lease_before_the_next_handler_call() -> None:
    """A frozen Lambda wakes up an hour later in the middle of a page, with the lease long in other hands."""
    world = EngineWorld(replace(NO_WAITING, max_batch_records=1))
    world.put("a", "b", "c")

    def freeze(_: Batch) -> None:
        world.clock.advance(HOUR)
        world.steal()

    world.handler.script = freeze
    report = world.window(lasts=2 * HOUR)
    assert only(report).outcome is Outcome.LEASE_LOST
    assert world.handler.data() == [b"a"]


def test_a_process_that_was_paused_goes_on_if_nobody_took_its_lease() -> None:
    world = EngineWorld(replace(NO_WAITING, max_batch_records=1))
    world.put("a", "b")
    world.handler.script = lambda _: (world.clock.advance(HOUR), None)[1]
    assert only(world.window(lasts=3 * HOUR)).outcome is Outcome.CAUGHT_UP
    assert world.handler.data() == [b"a", b"b"]


# Time


def test_at_the_deadline_the_last_checkpoint_and_the_release_happen_within_the_margin() -> None:
    """A page may hold an hour's work: after the deadline no new batch is begun, so that Lambda need not kill us."""
    settings = replace(NO_WAITING, max_batch_records=1, checkpoint_interval=HOUR)
    world = EngineWorld(settings)
    numbers = world.put(*map(str, range(100)))
    world.handler.script = lambda _: world.tasks.sleep(7 * SECOND)
    report = world.window(lasts=MINUTE)
    assert only(report).outcome is Outcome.WINDOW_ENDED
    assert world.clock.now() <= world.began + MINUTE + settings.window_margin
    assert len(world.handler.data()) == 9
    row = world.table.lease()
    assert (row.checkpoint, row.lease_owner) == (Checkpoint(numbers[8]), None)
    assert report.next is Next.PROMPT


def test_the_next_window_goes_on_after_the_last_finished_record() -> None:
    world = EngineWorld(replace(NO_WAITING, max_batch_records=1))
    world.put(*map(str, range(30)))
    world.handler.script = lambda _: world.tasks.sleep(7 * SECOND)
    while only(world.window()).outcome is Outcome.WINDOW_ENDED:
        pass
    assert world.handler.data() == [str(n).encode() for n in range(30)]


def test_catch_up_leaves_at_the_first_empty_page_at_the_tip() -> None:
    world = EngineWorld(replace(NO_WAITING, linger=MINUTE))
    world.put("a")
    report = world.window()
    assert only(report).outcome is Outcome.CAUGHT_UP
    assert len(world.stream.polls) == 2
    assert report.next is Next.DONE


def test_catch_up_leaves_a_shard_that_always_has_a_few_records_after_lingering_at_its_tip() -> None:
    """Otherwise a shard with one record a second would be consumed for ever."""
    world = EngineWorld(replace(NO_WAITING, linger=2 * SECOND))
    world.put("first")
    for tenth in range(600):
        world.at(tenth * SECOND / 10, lambda tenth=tenth: world.put(f"{tenth}"))  # type: ignore[misc]
    report = world.window()
    assert only(report).outcome is Outcome.CAUGHT_UP
    assert 2 <= world.seconds() <= 3.1


def test_catch_up_does_not_leave_while_it_is_behind() -> None:
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put("a", "b", "c")
    world.clock.advance(HOUR)
    assert only(world.window()).outcome is Outcome.CAUGHT_UP
    assert world.handler.data() == [b"a", b"b", b"c"]


def test_continuous_stays_at_the_tip_and_handles_what_comes() -> None:
    world = EngineWorld(CONTINUOUS)
    world.at(30 * SECOND, lambda: world.put("late"))
    assert only(world.window()).outcome is Outcome.WINDOW_ENDED
    assert world.handler.data() == [b"late"]


# Where it starts


def test_a_latest_lease_is_pinned_before_it_is_opened_and_the_next_window_misses_nothing() -> None:
    """Opening LATEST again would lose what came between the windows."""
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.LATEST)))
    world.change_lease(checkpoint=LATEST)
    world.put("before")
    world.clock.advance(SECOND)
    kinds_at_open: list[WriteKind] = []
    world.stream.disturb_open = lambda _: kinds_at_open.extend(world.table.kinds())
    pinned_at = world.clock.now()
    world.window()
    assert kinds_at_open == [WriteKind.ACQUIRE, WriteKind.PIN]
    assert world.table.lease().start_at == pinned_at
    assert world.handler.data() == []
    world.clock.advance(HOUR)
    world.put("between")
    world.clock.advance(HOUR)
    world.window()
    assert world.handler.data() == [b"between"]
    assert world.table.lease().start_at is None, "the first real checkpoint is the better start"


def test_a_latest_lease_that_cannot_be_pinned_is_not_opened() -> None:
    """Neither LATEST, which would lose records, nor the horizon, which would bring days of them."""
    world = EngineWorld(replace(NO_WAITING, start_position=StartPosition(StartKind.LATEST)))
    world.change_lease(checkpoint=LATEST)
    world.put("before")

    def no_pin(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        if write.kind is WriteKind.PIN:
            raise LeaseTableUnavailable("timed out")
        return apply()

    world.table.disturb = no_pin
    world.window()
    assert world.stream.opened == []
    assert world.handler.data() == []
    assert world.table.lease().lease_owner is None


def test_an_at_timestamp_lease_starts_at_its_moment() -> None:
    world = EngineWorld()
    world.put("before")
    world.clock.advance(HOUR)
    world.change_lease(checkpoint=AT_TIMESTAMP, start_at=world.clock.now())
    world.put("after")
    world.window()
    assert world.handler.data() == [b"after"]


def test_a_java_workers_at_timestamp_lease_starts_at_our_own_setting() -> None:
    """Java keeps the moment in its configuration, not in the row."""
    world = EngineWorld()
    world.put("before")
    world.clock.advance(HOUR)
    world.settings = replace(
        NO_WAITING, start_position=StartPosition(StartKind.AT_TIMESTAMP, world.clock.now())
    )
    world.change_lease(checkpoint=AT_TIMESTAMP)
    world.put("after")
    world.window()
    assert world.handler.data() == [b"after"]


def test_a_checkpoint_in_the_middle_of_an_aggregate_is_resumed_there() -> None:
    """KCL's rule: open AT the stream record, and drop what is not after (sequence number, sub-sequence number)."""
    world = EngineWorld()
    number = put_aggregate(world, "a", "b", "c")
    world.put("d")
    world.change_lease(checkpoint=Checkpoint(number, 1))
    world.window()
    assert world.handler.data() == [b"c", b"d"]
    assert world.stream.opened[0].type is IteratorType.AT_SEQUENCE_NUMBER


def test_a_finished_record_does_not_come_again() -> None:
    world = EngineWorld()
    put_aggregate(world, "a", "b")
    world.window()
    world.window()
    assert world.handler.data() == [b"a", b"b"]
    assert len(world.handler.batches) == 1


def test_an_aggregate_out_of_the_shards_hash_range_is_dropped_and_counted_and_the_checkpoint_moves_on() -> (
    None
):
    """KCL's rule: after a reshard the KPL sends it again. A checkpoint that stays would drop it for ever, and count for ever."""
    world = EngineWorld(shards=2)
    number = world.shards.put("k", aggregate([("key", str(2**128 - 1), b"elsewhere")]), 0)
    report = only(world.window(world.item(SHARD)))
    assert world.handler.data() == []
    assert report.dropped_out_of_range == 1
    assert world.metrics.values("records_dropped_out_of_range") == [1]
    assert world.table.lease().checkpoint == Checkpoint(number)


def test_without_the_filter_an_aggregate_out_of_range_is_delivered() -> None:
    world = EngineWorld(replace(NO_WAITING, hash_range_filter=HashRangeFilter.OFF), shards=2)
    world.shards.put("k", aggregate([("key", str(2**128 - 1), b"elsewhere")]), 0)
    assert only(world.window(world.item(SHARD))).dropped_out_of_range == 0
    assert world.handler.data() == [b"elsewhere"]


def test_a_row_without_a_hash_range_is_not_filtered() -> None:
    """kcl-rust and old Java rows have none: dropping by a range that we do not know would lose records."""
    world = EngineWorld(shards=2)
    world.change_lease(hash_key_range=None)
    world.shards.put("k", aggregate([("key", str(2**128 - 1), b"x")]), 0)
    world.window(world.item(SHARD))
    assert world.handler.data() == [b"x"]


# Gaps


def consume_then_trim(world: EngineWorld, unread: int, idle: timedelta) -> None:
    """One record is handled, `unread` arrive and are trimmed unread, and one is left to read."""
    world.put("read")
    world.window()
    world.clock.advance(idle)
    world.put(*(f"unread {n}" for n in range(unread)))
    world.clock.advance(25 * HOUR)
    world.shards.trim(before=world.clock.now())
    world.put("new")
    world.window()


def test_records_trimmed_unread_are_a_loud_gap_and_the_lease_goes_on_from_the_horizon() -> None:
    world = EngineWorld()
    consume_then_trim(world, unread=3, idle=HOUR)
    assert world.handler.data() == [b"read", b"new"]
    assert world.metrics.values("data_gap") == [1]
    assert any("data gap" in message for message in world.log.messages("error"))


def test_a_quiet_shard_that_was_looked_at_every_day_has_no_gap() -> None:
    """Its last record is past retention, but nothing came after it: windows found it caught up, again and again."""
    world = EngineWorld()
    world.put("read")
    for _ in range(5):
        world.window()
        world.clock.advance(20 * HOUR)
    world.shards.trim(before=world.clock.now())
    world.put("new")
    world.window()
    assert world.handler.data() == [b"read", b"new"]
    assert world.metrics.values("data_gap") == []


def test_caught_up_at_is_the_last_look_at_the_tip_not_the_end_of_a_long_handler_call() -> None:
    """What arrived during the call was not seen: it must not count as seen."""
    world = EngineWorld(replace(NO_WAITING, checkpoint_interval=HOUR))
    world.put("a")
    world.handler.script = lambda _: world.tasks.sleep(10 * MINUTE)
    assert only(world.window(lasts=HOUR)).outcome is Outcome.CAUGHT_UP
    assert world.table.lease().caught_up_at == world.began


def test_continuous_tells_at_its_last_window_that_it_was_caught_up() -> None:
    """A shard with a record a week would otherwise look like one with a gap each time."""
    world = EngineWorld(CONTINUOUS)
    world.window(world.item(windows_left=1))
    caught_up_at = world.table.lease().caught_up_at
    assert caught_up_at is not None
    assert world.clock.now() - caught_up_at <= CONTINUOUS.idle_poll_interval


def test_a_window_that_ends_behind_the_tip_does_not_claim_to_have_caught_up() -> None:
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put(*map(str, range(100)))
    world.clock.advance(HOUR)
    world.handler.script = lambda _: world.tasks.sleep(SECOND)
    world.window(lasts=10 * SECOND)
    assert world.table.lease().caught_up_at is None


# The end of a shard


def test_at_a_shards_end_its_childrens_leases_come_first_then_their_names_then_the_end() -> None:
    """Whoever crashes in between leaves a parent that is not ended; an ended one without children's leases is a hole for ever."""
    world = EngineWorld()
    world.put("last")
    children = world.shards.split(SHARD)
    world.window(world.item(SHARD))
    kinds = world.table.kinds()
    assert kinds.index(WriteKind.CHECKPOINT) < kinds.index(WriteKind.CREATE)
    end = kinds.index(WriteKind.END)
    assert kinds[end - 3 : end] == [WriteKind.CREATE, WriteKind.CREATE, WriteKind.SET_CHILDREN]
    row = world.table.lease()
    assert row.is_ended
    assert row.lease_owner is None, "an owner who never heartbeats again looks like a dead worker"
    assert row.child_shard_ids == frozenset(children)
    calls = world.handler.calls
    assert calls.index(("handle", SHARD)) < calls.index(("shard_ended", SHARD))


def test_children_of_a_shard_start_at_the_horizon_with_range_and_parents() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)
    world.settings = replace(NO_WAITING, leases_per_worker=1)
    world.window(world.item(SHARD))
    shards = {shard.shard_id: shard for shard in world.shards.list_shards()}
    child = world.table.lease("shardId-000000000002")
    assert child == lease_of(shards[child.shard_id], TRIM_HORIZON)


@pytest.mark.parametrize("kind", [WriteKind.SET_CHILDREN, WriteKind.END, WriteKind.CREATE])
def test_a_shards_end_whose_response_gets_lost_is_an_end(kind: WriteKind) -> None:
    world = EngineWorld()
    children = world.shards.split(SHARD)
    world.table.lose_response_of(kind)
    assert world.window(world.item(SHARD)).leases[0].outcome is Outcome.SHARD_ENDED
    row = world.table.lease()
    assert row.is_ended
    assert row.child_shard_ids == frozenset(children)


def test_a_shards_end_after_a_heartbeat_that_timed_out_but_happened_still_names_the_children() -> None:
    """The cleanup goes by these names once the service has forgotten the shard."""
    world = EngineWorld()
    children = world.shards.split(SHARD)

    def heartbeat_in_between(_: str) -> None:
        world.tasks.sleep(11 * SECOND)

    def time_out(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        result = apply()
        if write.kind is WriteKind.HEARTBEAT:
            raise LeaseTableUnavailable("timed out")
        return result

    world.handler.on_ended, world.table.disturb = heartbeat_in_between, time_out
    assert world.window(world.item(SHARD)).leases[0].outcome is Outcome.SHARD_ENDED
    assert world.table.lease().child_shard_ids == frozenset(children)


def test_a_handler_that_refuses_the_end_keeps_the_shard_from_being_ended() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)
    world.handler.on_ended = raising(ValueError("not yet"))
    report = world.window(world.item(SHARD))
    assert only(report).outcome is Outcome.HANDLER_FAILED
    assert not world.table.lease().is_ended
    assert WriteKind.CREATE not in world.table.kinds()


def test_a_merge_whose_other_parent_has_no_lease_yet_waits_for_it() -> None:
    """Ended now, the child would begin without the other parent's records (KCL blocks too). The next tick creates that lease."""
    world = EngineWorld(shards=2, leases=False)
    world.put_lease(lease_of(world.shards.list_shards()[0]))
    child = world.shards.merge(SHARD, "shardId-000000000001")
    report = world.window()
    assert only(report).outcome is Outcome.SHARD_END_BLOCKED
    assert report.next is Next.PROMPT
    row = world.table.lease()
    assert not row.is_ended
    assert row.lease_owner is None
    assert world.table.get(child) is None


def test_a_merge_whose_other_parent_is_past_retention_does_not_wait_for_it() -> None:
    world = EngineWorld(shards=2, leases=False)
    world.put_lease(lease_of(world.shards.list_shards()[0]))
    world.shards.merge(SHARD, "shardId-000000000001")
    del world.shards._logs["shardId-000000000001"]
    assert world.window().leases[0].outcome is Outcome.SHARD_ENDED


def test_a_merge_whose_other_parents_row_is_malformed_ends_but_its_child_waits() -> None:
    world = EngineWorld(shards=2)
    child = world.shards.merge(SHARD, "shardId-000000000001")
    item = world.item(SHARD)
    world.table.real.put_row({"leaseKey": {"S": "shardId-000000000001"}})
    report = world.window(item)
    assert only(report).outcome is Outcome.SHARD_ENDED
    assert world.table.lease(child).lease_counter == 0


def test_a_shard_lost_just_before_its_end_is_not_ended() -> None:
    world = EngineWorld()
    world.put("last")
    world.shards.split(SHARD)
    world.handler.on_ended = lambda _: world.steal()
    report = world.window(world.item(SHARD))
    assert only(report).outcome is Outcome.LEASE_LOST
    assert not world.table.lease().is_ended


# When a service fails


def test_a_deleted_stream_is_an_outcome_that_names_it_and_the_lease_is_given_back() -> None:
    world = EngineWorld()
    world.shards.delete()
    report = only(world.window())
    assert report.outcome is Outcome.SERVICE_FAILED
    assert "events" in (report.problem or "")
    assert world.table.lease().lease_owner is None


@pytest.mark.parametrize("error", [StreamKeyUnavailable("key is disabled"), ShardNotFound("no such shard")])
def test_what_the_stream_refuses_in_mid_window_is_an_outcome_and_what_was_finished_is_checkpointed(
    error: Exception,
) -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    (number,) = world.put("a")
    world.at(10 * SECOND, lambda: setattr(world.stream, "disturb", raising(error)))
    report = only(world.window())
    assert report.outcome is Outcome.SERVICE_FAILED
    assert report.problem == str(error)
    row = world.table.lease()
    assert (row.checkpoint, row.lease_owner) == (Checkpoint(number), None)


def test_a_lease_table_out_of_reach_for_less_than_failover_time_changes_nothing() -> None:
    world = EngineWorld(IMMEDIATE)
    keep_putting(world, 50)
    works = world.table.disturb
    world.at(
        10 * SECOND, lambda: setattr(world.table, "disturb", raising(LeaseTableUnavailable("timed out")))
    )
    world.at(35 * SECOND, lambda: setattr(world.table, "disturb", works))
    assert only(world.window()).outcome is Outcome.WINDOW_ENDED
    assert world.handler.data() == [str(n).encode() for n in range(50)]


def test_a_lease_table_out_of_reach_for_longer_loses_the_lease_and_stops_handling() -> None:
    world = EngineWorld(IMMEDIATE)
    keep_putting(world, 59)
    world.at(
        10 * SECOND, lambda: setattr(world.table, "disturb", raising(LeaseTableUnavailable("timed out")))
    )
    assert only(world.window()).outcome is Outcome.LEASE_LOST
    assert 35 < len(world.handler.data()) < 45
    assert world.handler.calls[-1] == ("lease_lost", SHARD)


# Pieces


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([5], [[5]]),
        ([5, 5, 1], [[5, 5], [1]]),
        ([50, 1, 50], [[50], [1], [50]]),
        ([0, 0, 10, 1], [[0, 0, 10], [1]]),
    ],
)
def test_slices_keep_all_records_in_order_within_the_limit_or_alone(
    sizes: list[int], expected: list[list[int]]
) -> None:
    world = EngineWorld()
    records = tuple(StreamRecord(str(n), b"x" * size, "k", world.began) for n, size in enumerate(sizes))
    runs = list(slices(records, 10))
    assert [[len(record.data) for record in run] for run in runs] == expected
    assert tuple(record for run in runs for record in run) == records


def test_a_hash_key_range_comes_from_the_row() -> None:
    world = EngineWorld(shards=2)
    assert world.table.lease().hash_key_range == HashKeyRange(0, 2**127 - 1)
