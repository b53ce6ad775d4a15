"""The lease worker's window as a whole: which leases it takes, keeps, adopts and gives back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import WorkerItem
from sublet.decisions.session.pace import Pace, records_to_ask_for
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.engine.session.pages import POLL_REPLY_MAX
from sublet.errors import LeaseTableAccessDenied, LeaseTableNotFound, LeaseTableUnavailable, StreamUnavailable
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.ports import Refusal, Task
from sublet.protocol.checkpoint import SHARD_END
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, delete
from sublet.protocol.records import GetRecordsReply
from sublet.settings import Settings

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    Result,
    lease_of,
    only,
    outcomes,
    raising,
)

CHILD_1, CHILD_2 = "shardId-000000000001", "shardId-000000000002"


def test_window_handles_the_waiting_records_and_releases_the_lease() -> None:
    world = EngineWorld()
    sequence_numbers = world.put("a", "b", "c")
    report = world.window()
    assert only(report).outcome is SessionOutcome.CAUGHT_UP
    assert report.next is AfterWindow.DONE
    assert world.handler.data() == [b"a", b"b", b"c"]
    assert world.handler.calls[0] == ("lease_acquired", SHARD)
    assert world.table.lease().checkpoint.sequence_number == sequence_numbers[-1]
    assert world.table.lease().lease_owner is None


def test_lease_that_moved_since_the_tick_is_neither_acquired_nor_read() -> None:
    world = EngineWorld()
    world.put("a")
    item = world.item()
    world.steal()
    assert only(world.window(item)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert world.handler.calls == []
    assert world.stream.polls == []


def test_an_acquire_whose_response_got_lost_is_an_acquire() -> None:
    """botocore's repetition is refused by our own first one; giving up here would leave the lease to expire."""
    world = EngineWorld()
    world.put("a")
    world.table.lose_response_of(WriteKind.ACQUIRE)
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [b"a"]


def test_second_attempt_takes_over_the_leases_of_the_crashed_first() -> None:
    """No waiting for an expiry: the state machine runs the same item again at once, and the holder proves whose it
    was.
    """
    world = EngineWorld()
    world.put("a")
    item = world.item()
    world.steal(worker_id=item.worker_id, holder=f"{item.item_id}/crashed")
    assert only(world.window(item)).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [b"a"]


def test_taking_over_survives_a_lost_response_too() -> None:
    world = EngineWorld()
    world.put("a")
    item = world.item()
    world.steal(worker_id=item.worker_id, holder=f"{item.item_id}/crashed")
    world.table.lose_response_of(WriteKind.ACQUIRE)
    assert only(world.window(item)).outcome is SessionOutcome.CAUGHT_UP


@pytest.mark.parametrize("holder", ["another/1", "item-2/1", "item"])
def test_lease_held_by_another_item_of_the_worker_id_is_not_acquired(holder: str) -> None:
    world = EngineWorld()
    item = world.item()
    world.steal(worker_id=item.worker_id, holder=holder)
    before = world.table.lease()
    assert only(world.window(item)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert world.table.lease() == before


def test_later_of_two_concurrent_attempts_goes_on_and_fences_the_first() -> None:
    """Step Functions may start an item twice: the second takes over, the first finds out by its next heartbeat."""
    world = EngineWorld(CONTINUOUS)
    item = world.item()
    first = world.tasks.spawn(lambda: world.window(item, invocation="first"))
    world.at(20 * SECOND, lambda: world.put("a"))
    world.tasks.sleep(3 * SECOND)
    second = world.window(item, invocation="second")
    assert only(first.result()).outcome is SessionOutcome.LEASE_LOST
    assert only(second).outcome is SessionOutcome.WINDOW_ENDED
    assert world.handler.data() == [b"a"]


def test_second_attempt_takes_over_children_and_grandchildren_of_the_crashed_first() -> None:
    """The item names the parent alone; what came after it is found through the rows."""
    world = EngineWorld()
    child, other = world.shards.split(SHARD)
    grandchildren = world.shards.split(child)
    shards = {shard.shard_id: shard for shard in world.shards.list_shards()}
    item = world.item(SHARD)
    world.change_lease(checkpoint=SHARD_END, child_shard_ids=frozenset({child, other}), lease_counter=9)
    for shard_id in (child, other, *grandchildren):
        world.put_lease(lease_of(shards[shard_id]))
    world.change_lease(child, checkpoint=SHARD_END, child_shard_ids=frozenset(grandchildren), lease_counter=9)
    for shard_id in (other, *grandchildren):
        world.steal(shard_id, item.worker_id, f"{item.item_id}/crashed")
    world.shards.put("k", b"kept", 0)
    world.window(item)
    assert world.handler.data() == [b"kept"]
    held = {shard_id for call, shard_id in world.handler.calls if call == "lease_acquired"}
    assert held == {other, *grandchildren}
    assert all(world.table.lease(shard_id).lease_owner is None for shard_id in held)


def test_second_attempt_takes_over_children_whose_parents_row_was_deleted() -> None:
    """It goes as soon as they are under way. Without the row they would wait for an expiry: one tick or two."""
    world = EngineWorld()
    child, other = world.shards.split(SHARD)
    grandchild, free = world.shards.split(child)
    shards = {shard.shard_id: shard for shard in world.shards.list_shards()}
    item = world.item(SHARD)
    for shard_id in (other, grandchild, free):
        world.put_lease(lease_of(shards[shard_id]))
    world.table.real.apply(delete(world.table.lease(SHARD)))
    world.steal(other, "java-1", "")
    world.steal(grandchild, item.worker_id, f"{item.item_id}/crashed")
    world.window(item)
    held = {shard_id for call, shard_id in world.handler.calls if call == "lease_acquired"}
    assert held == {grandchild}, "another's is left to them, and a free one to the next tick"


def test_a_lease_whose_row_and_stream_are_out_of_reach_is_an_outcome() -> None:
    world = EngineWorld()
    item = world.item()
    world.table.real.apply(delete(world.table.lease()))
    world.stream.disturb_listing = raising(StreamUnavailable("timed out"))
    assert only(world.window(item)).outcome is SessionOutcome.COULD_NOT_ACQUIRE


def test_the_same_lease_twice_in_an_item_is_consumed_once() -> None:
    world = EngineWorld()
    world.put("a")
    item = world.item(SHARD, SHARD)
    assert len(world.window(item).leases) == 1
    assert world.handler.data() == [b"a"]


def test_a_lease_table_out_of_reach_for_a_while_at_the_start_costs_no_tick() -> None:
    world = EngineWorld()
    world.put("a")
    in_reach = world.table.disturb
    world.table.disturb = raising(LeaseTableUnavailable("timed out"))
    world.at(20 * SECOND, lambda: setattr(world.table, "disturb", in_reach))
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [b"a"]


def test_a_stopping_worker_does_not_wait_for_the_lease_table() -> None:
    world = EngineWorld()
    world.table.disturb = raising(LeaseTableUnavailable("timed out"))
    stop = world.tasks.signal()
    world.at(2 * SECOND, stop.set)
    world.stream.disturb_listing = raising(AssertionError("its row is not known to be gone, so nothing is below it"))
    assert only(world.window(stop=stop)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert world.seconds() < 3


def test_a_refusal_while_children_are_looked_for_costs_the_other_leases_nothing() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    world.shards.split(SHARD)
    world.table.disturb_get = raising(LeaseTableAccessDenied("denied"))
    found = outcomes(world.window(lasts=5 * SECOND))
    assert found == {SHARD: SessionOutcome.SHARD_ENDED, "shardId-000000000001": SessionOutcome.WINDOW_ENDED}


def test_a_lease_table_that_refuses_fails_the_lease_and_is_no_refusal_to_read() -> None:
    world = EngineWorld(shards=2)
    world.shards.merge(SHARD, CHILD_1)
    world.table.disturb_get = raising(LeaseTableAccessDenied("denied"))
    assert only(world.window(world.item(SHARD))).outcome is SessionOutcome.SERVICE_FAILED
    assert sum(world.metrics.values(Metric.LEASES_FAILED)) == 1
    assert sum(world.metrics.values(Metric.READS_REFUSED)) == 0


def test_a_lease_table_that_does_not_exist_is_an_error_with_its_name() -> None:
    """An unplanned error: the invocation fails, and says why."""
    world = EngineWorld()
    world.table.disturb = raising(LeaseTableNotFound("table orders does not exist"))
    with pytest.raises(LeaseTableNotFound, match="orders"):
        world.window()


def most_at_once(world: EngineWorld) -> Callable[[], int]:
    """Let each handler call take three seconds; the most of them that went on at the same time."""
    now = most = 0

    def work(_: Batch) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        world.tasks.sleep(3 * SECOND)
        now -= 1

    world.handler.script = work
    return lambda: most


@pytest.mark.parametrize("concurrency", [1, 2])
def test_handler_calls_at_once_never_exceed_handler_concurrency(concurrency: int) -> None:
    """With one, the default, a handler need not be safe for threads though a worker has many leases."""
    world = EngineWorld(replace(NO_WAITING, handler_concurrency=concurrency), shards=5)
    most = most_at_once(world)
    for shard in range(5):
        world.put(f"{shard}", shard=shard, of=5)
    world.window()
    assert most() == concurrency
    assert sorted(world.handler.data()) == [b"0", b"1", b"2", b"3", b"4"]


def observe_memory(world: EngineWorld) -> list[tuple[int, int]]:
    """(bytes, records) fetched and not yet handled, after each poll; a poll under way counts as one full reply."""
    most, observed = records_to_ask_for(Pace(), world.settings), []
    held = [0, 0]

    def poll(really: Callable[[], GetRecordsReply | Refusal]) -> GetRecordsReply | Refusal:
        held[0] += POLL_REPLY_MAX
        held[1] += most
        observed.append((held[0], held[1]))
        world.tasks.sleep(SECOND / 10)
        reply = really()
        assert isinstance(reply, GetRecordsReply)
        page = reply.page
        held[0] += sum(len(record.data) for record in page.records) - POLL_REPLY_MAX
        held[1] += len(page.records) - most
        observed.append((held[0], held[1]))
        return reply

    def handled(batch: Batch) -> None:
        world.tasks.sleep(SECOND / 10)
        held[0] -= sum(len(record.data) for record in batch.records)
        held[1] -= len(batch.records)

    world.stream.disturb, world.handler.script = poll, handled
    return observed


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("bytes_max", "records_max"), [(20 * 2**20, 400_000), (2**30, 10_000)])
def test_fifty_leases_share_a_small_memory(bytes_max: int, records_max: int) -> None:
    """Bytes and records fetched and not yet handled stay within the settings, whatever the number of leases."""
    small = replace(NO_WAITING, max_bytes_in_flight=bytes_max, max_records_in_flight=records_max, poll_limit=10_000)
    world = EngineWorld(small, shards=50)
    payload = "x" * 2**20
    for shard in range(50):
        world.put(f"{shard}-{payload}", shard=shard, of=50)
    observed = observe_memory(world)
    report = world.window(lasts=10 * MINUTE)
    assert set(outcomes(report).values()) == {SessionOutcome.CAUGHT_UP}
    assert len(world.handler.data()) == 50
    assert max(size for size, _ in observed) <= bytes_max
    assert max(count for _, count in observed) <= records_max


def test_continuous_keeps_its_leases_from_window_to_window_through_the_returned_item() -> None:
    world = EngineWorld(CONTINUOUS, shards=2)
    world.put("a")
    first = world.window(world.item(windows_left=3))
    assert first.next is AfterWindow.AGAIN
    assert first.item.windows_left == 2
    assert [claim.why for claim in first.item.claims] == [ClaimReason.CONTINUE, ClaimReason.CONTINUE]
    for claim in first.item.claims:
        assert world.table.lease(claim.lease_key).fence == (
            claim.lease_key,
            claim.lease_owner,
            claim.lease_counter,
        )
    assert world.table.lease().lease_owner == "orders-lambda-0"
    world.put("b")
    second = world.window(first.item)
    assert set(outcomes(second).values()) == {SessionOutcome.WINDOW_ENDED}
    assert world.handler.data() == [b"a", b"b"]


def test_the_last_window_of_an_execution_releases_and_prompts_the_lease_manager() -> None:
    world = EngineWorld(CONTINUOUS)
    report = world.window(world.item(windows_left=1))
    assert report.next is AfterWindow.PROMPT
    assert report.item.claims == ()
    assert world.table.lease().lease_owner is None


def test_a_shards_children_start_in_the_same_window() -> None:
    world = EngineWorld()
    world.put("parent")
    world.shards.split(SHARD)
    world.shards.put("k", b"child", 0)
    report = world.window()
    assert outcomes(report) == {
        SHARD: SessionOutcome.SHARD_ENDED,
        CHILD_1: SessionOutcome.CAUGHT_UP,
        CHILD_2: SessionOutcome.CAUGHT_UP,
    }
    assert world.handler.data() == [b"parent", b"child"]
    assert report.next is AfterWindow.DONE
    assert (world.clock.now() - world.began) < 2 * SECOND


def test_children_for_whom_there_is_no_room_are_left_to_a_prompted_tick() -> None:
    """leases_per_worker holds for children too: each lease needs its share of memory and of the handler."""
    world = EngineWorld(replace(NO_WAITING, leases_per_worker=1))
    world.shards.split(SHARD)
    report = world.window()
    assert outcomes(report) == {SHARD: SessionOutcome.SHARD_ENDED, CHILD_1: SessionOutcome.CAUGHT_UP}
    assert report.leases[0].unstarted_children == 1
    assert report.next is AfterWindow.PROMPT
    assert world.table.lease(CHILD_2).lease_counter == 0


def test_children_are_not_started_after_the_deadline() -> None:
    world = EngineWorld()
    world.put("a")
    world.shards.split(SHARD)
    world.handler.script = lambda _: world.tasks.sleep(MINUTE)
    report = world.window(lasts=MINUTE / 2)
    assert outcomes(report) == {SHARD: SessionOutcome.SHARD_ENDED}
    assert report.leases[0].unstarted_children == 2
    assert report.next is AfterWindow.PROMPT


def test_a_stopping_process_starts_no_children() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)
    stop = world.tasks.signal()
    world.handler.on_ended = lambda _: stop.set()
    report = world.window(stop=stop)
    assert outcomes(report) == {SHARD: SessionOutcome.SHARD_ENDED}
    assert report.leases[0].unstarted_children == 2
    assert report.next is AfterWindow.PROMPT


def test_a_process_with_a_stop_signal_that_is_not_set_starts_children() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)
    assert len(world.window(stop=world.tasks.signal()).leases) == 3


def test_window_goes_without_a_lease_whose_call_still_runs_in_an_earlier_window() -> None:
    """The earlier has lost it, and is in a call of its handler: two calls at once for a shard, in one process, are
    never made.
    """
    world = EngineWorld(replace(NO_WAITING, leases_per_worker=1), shards=2)
    world.put("slow", of=2)
    children, worker = world.shards.split(CHILD_1), world.worker()
    world.handler.script = lambda _: world.tasks.sleep(MINUTE)
    first = world.tasks.spawn(lambda: world.window(world.item(SHARD), worker=worker))
    world.tasks.sleep(SECOND)
    world.change_lease(lease_owner=None, holder=None, lease_counter=9)
    report = world.window(world.item(SHARD, CHILD_1), worker=worker)
    assert outcomes(report)[SHARD] is SessionOutcome.COULD_NOT_ACQUIRE
    assert "lease not acquired: a handler call of an earlier window still runs for it" in world.log.messages("warning")
    assert world.handler.calls.count(("handle", SHARD)) == 1
    assert world.table.lease().lease_counter == 9
    assert outcomes(report)[children[0]] is SessionOutcome.CAUGHT_UP, "what it goes without takes no room"
    first.result()


def test_children_are_left_to_a_prompted_tick_when_the_table_is_unavailable() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)

    def unreachable_after_the_end(_: str) -> None:
        if WriteKind.END in world.table.kinds():
            raise LeaseTableUnavailable("timed out")

    world.table.disturb_get = unreachable_after_the_end
    report = world.window()
    assert outcomes(report) == {SHARD: SessionOutcome.SHARD_ENDED}
    assert report.next is AfterWindow.PROMPT


def test_a_child_of_a_merge_waits_for_the_other_parent() -> None:
    world = EngineWorld(shards=2)
    child = world.shards.merge(SHARD, CHILD_1)
    report = world.window(world.item(SHARD))
    assert outcomes(report) == {SHARD: SessionOutcome.SHARD_ENDED}
    assert world.table.lease(child).lease_counter == 0
    report = world.window(world.item(CHILD_1))
    assert outcomes(report) == {CHILD_1: SessionOutcome.SHARD_ENDED, child: SessionOutcome.CAUGHT_UP}


def test_a_merge_in_one_window_starts_its_child_once() -> None:
    world = EngineWorld(shards=2)
    world.put("left", shard=0, of=2)
    world.put("right", shard=1, of=2)
    child = world.shards.merge(SHARD, CHILD_1)
    world.put("merged")
    report = world.window()
    assert outcomes(report) == {
        SHARD: SessionOutcome.SHARD_ENDED,
        CHILD_1: SessionOutcome.SHARD_ENDED,
        child: SessionOutcome.CAUGHT_UP,
    }
    assert sorted(world.handler.data()[:2]) == [b"left", b"right"]
    assert world.handler.data()[2:] == [b"merged"]


def test_a_child_that_another_worker_owns_is_left_to_it() -> None:
    world = EngineWorld()
    world.shards.split(SHARD)

    def java_is_faster(write: LeaseWrite, apply: Callable[[], Result]) -> Result:
        result = apply()
        if write.kind is WriteKind.END:
            world.steal(CHILD_1, "java-1", "")
        return result

    world.table.disturb = java_is_faster
    report = world.window()
    assert outcomes(report) == {SHARD: SessionOutcome.SHARD_ENDED, CHILD_2: SessionOutcome.CAUGHT_UP}
    assert report.next is AfterWindow.DONE


@pytest.mark.parametrize("settings", [NO_WAITING, CONTINUOUS])
def test_a_stop_ends_the_window_early_and_releases_everything(settings: Settings) -> None:
    """Also in continuous mode: a process that is stopped will not come back for another window."""
    world = EngineWorld(settings, shards=3)
    stop = world.tasks.signal()
    world.handler.script = lambda _: world.tasks.sleep(SECOND)
    for shard in range(3):
        world.put("a", "b", shard=shard, of=3)
    world.at(SECOND * 1.5, stop.set)
    report = world.window(lasts=10 * MINUTE, stop=stop)
    assert world.seconds() < 5
    assert report.item.claims == ()
    assert all(world.table.lease(one.lease_key).lease_owner is None for one in report.leases)
    handled = {shard_id for shard_id, _ in world.handler.finished}
    assert all(world.table.lease(shard_id).checkpoint.is_sequence_number for shard_id in handled)


@pytest.mark.parametrize("settings", [NO_WAITING, CONTINUOUS], ids=["catch_up", "continuous"])
def test_an_unexpected_fault_is_raised_after_every_lease_is_released(
    settings: Settings,
) -> None:
    """Those too that were to be kept: the next window does not hear of them."""
    world = EngineWorld(settings, shards=3)
    world.put("a", shard=1, of=3)
    world.stream.disturb_open = lambda shard_id: raising(ZeroDivisionError())() if shard_id == SHARD else None
    with pytest.raises(ZeroDivisionError):
        world.window()
    assert world.handler.data() == [b"a"]
    assert all(lease.lease_owner is None for lease in world.table.scan().leases)


def test_a_thread_that_cannot_be_started_ends_the_window_with_every_lease_released() -> None:
    """Sessions left running past their invocation would call the handler without heartbeats."""
    world = EngineWorld(CONTINUOUS, shards=3)
    spawn, calls = world.tasks.spawn, iter(range(100))

    def spawn_two(work: Callable[[], object]) -> Task[object]:
        if next(calls) >= 2:
            raise RuntimeError("can't start new thread")
        return spawn(work)

    world.tasks.spawn = spawn_two  # type: ignore[method-assign, assignment]
    with pytest.raises(RuntimeError, match="new thread"):
        world.window(lasts=10 * MINUTE)
    assert world.seconds() < 5
    assert all(lease.lease_owner is None for lease in world.table.scan().leases)


@pytest.mark.parametrize("failure", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_handler_that_raises_a_base_exception_has_failed(
    failure: type[BaseException],
) -> None:
    """Its siblings go on, and are heartbeaten."""
    world = EngineWorld(shards=2)
    world.put("bad", shard=0, of=2)
    world.put("good", shard=1, of=2)

    def script(batch: Batch) -> None:
        if batch.records[0].data == b"bad":
            raise failure

    world.handler.script = script
    report = world.window()
    assert outcomes(report) == {SHARD: SessionOutcome.HANDLER_FAILED, CHILD_1: SessionOutcome.CAUGHT_UP}
    assert world.handler.data() == [b"good"]
    assert sum(world.metrics.values(Metric.HANDLER_FAILURES)) == world.settings.handler_attempts


def test_metrics_are_flushed_and_worker_leases_counted_each_minute_of_a_long_window() -> None:
    """The alarm for workers that are gone looks at worker_leases a minute: a window of 14 may not look like silence."""
    world = EngineWorld(CONTINUOUS, shards=2)
    world.window(lasts=5 * MINUTE)
    assert world.metrics.flushes >= 5
    assert world.metrics.values(Metric.WORKER_LEASES) == [2] * 5, "each lease once a minute"


def test_a_window_shorter_than_a_minute_shows_its_leases_once() -> None:
    world = EngineWorld(shards=3)
    world.window()
    assert world.metrics.values(Metric.WORKER_LEASES) == [3]


def test_an_item_without_claims_is_a_window_without_leases() -> None:
    world = EngineWorld()
    report = world.window(WorkerItem("item", "orders-lambda-0", (), 1))
    assert report.leases == ()
    assert report.next is AfterWindow.DONE


def test_a_lease_worker_asks_for_no_more_time_than_it_needs() -> None:
    """catch_up with nothing there: one poll, and gone; nothing is written between windows."""
    world = EngineWorld()
    world.window()
    assert world.seconds() < 1.1, "one more look by the task that heartbeats"
    assert len(world.stream.polls) == 1
    assert world.table.kinds() == [WriteKind.ACQUIRE, WriteKind.RELEASE]
    world.clock.advance(timedelta(hours=1))
    assert len(world.table.writes) == 2
