"""A handler call that hangs: its lease is released, its late result counts for nothing, and other shards continue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sublet.call_turn import TURN
from sublet.decisions.session.crash_caution import CrashCaution, caution
from sublet.decisions.session.process_end import ProcessEndReason
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.errors import HandlerOverdue
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease_writes import WriteKind

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

HOUR = 60 * MINUTE
OTHER = "shardId-000000000001"
TIMED = replace(NO_WAITING, handler_timeout=20 * SECOND)


def hanging(world: EngineWorld, *data: bytes, lasts: timedelta = HOUR) -> Callable[[Batch], None]:
    """A handler's script that takes an hour for a batch with any of these records."""

    def script(batch: Batch) -> None:
        if any(record.data in data for record in batch.records):
            world.tasks.sleep(lasts)

    return script


def hung_world(settings: object = TIMED, shards: int = 2) -> EngineWorld:
    world = EngineWorld(TIMED if settings is TIMED else settings, shards=shards)  # type: ignore[arg-type]
    world.put("poison", shard=0, of=shards)
    for shard in range(1, shards):
        world.put(f"good-{shard}", shard=shard, of=shards)
    world.handler.script = hanging(world, b"poison")
    return world


def test_hung_call_gives_up_its_lease_and_its_neighbour_goes_on() -> None:
    world = hung_world()
    assert outcomes(world.window(lasts=5 * MINUTE)) == {
        SHARD: SessionOutcome.HANDLER_HUNG,
        OTHER: SessionOutcome.CAUGHT_UP,
    }
    assert world.handler.data(OTHER) == [b"good-1"]
    assert world.seconds() < 40
    row = world.table.lease()
    assert (row.lease_owner, row.checkpoint) == (None, TRIM_HORIZON)


def test_a_call_that_takes_its_time_but_not_too_long_is_left_alone() -> None:
    world = hung_world(shards=1)
    world.handler.script = hanging(world, b"poison", lasts=19 * SECOND)
    assert only(world.window(lasts=5 * MINUTE)).outcome is SessionOutcome.CAUGHT_UP
    assert world.log.messages("error") == []


def test_a_wait_that_is_over_too_soon_gives_no_call_up() -> None:
    """The machine was suspended: its steady clock stood still, and the time that it was to wait for is over all the
    same.
    """
    world = hung_world(shards=1)
    world.handler.script = hanging(world, b"poison", lasts=19 * SECOND)
    signal = world.tasks.signal

    class Hasty:
        def __init__(self) -> None:
            self._real = signal()
            self._is_first = True

        def set(self) -> None:
            self._real.set()

        def is_set(self) -> bool:
            return self._real.is_set()

        def wait(self, timeout: timedelta) -> bool:
            self._is_first, was_first = False, self._is_first
            return self._real.wait(SECOND if was_first else timeout)

        def on_set(self, do: Callable[[], None]) -> Callable[[], None]:
            return self._real.on_set(do)

    world.tasks.signal = Hasty  # type: ignore[method-assign]
    assert only(world.window(lasts=5 * MINUTE)).outcome is SessionOutcome.CAUGHT_UP
    assert world.log.messages("error") == []


def test_hung_call_is_logged_once_with_its_place_and_duration() -> None:
    world = EngineWorld(TIMED)
    numbers = world.put("a", "poison", "b")
    world.handler.script = hanging(world, b"poison")
    report = only(world.window(lasts=5 * MINUTE))
    (line,) = [line for line in world.log.lines if line.message.startswith("handler call hangs")]
    assert line.fields == {
        "shard_id": SHARD,
        "lease_key": SHARD,
        "call": f"handle, after 0 records of 3 from {Checkpoint(numbers[0], 0)}",
        "first": str(Checkpoint(numbers[0], 0)),
        "last": str(Checkpoint(numbers[2], 0)),
        "seconds": 20.0,
    }
    assert report.problem == f"hung in {line.fields['call']}"
    assert sum(world.metrics.values(Metric.HANDLER_FAILURES)) == 1


def test_overdue_handler_keeps_its_checkpoint_and_is_refused_later_ones() -> None:
    world = EngineWorld(TIMED)
    numbers = world.put("a", "b")
    refused: list[Exception] = []

    def script(batch: Batch) -> None:
        batch.checkpoint(batch.records[0])
        world.tasks.sleep(MINUTE)
        try:
            batch.checkpoint(batch.records[1])
        except HandlerOverdue as late:
            refused.append(late)

    world.handler.script = script
    assert only(world.window(lasts=5 * MINUTE)).user_records == 1
    assert world.table.lease().checkpoint == Checkpoint(numbers[0])
    writes = len(world.table.writes)
    world.tasks.sleep(2 * MINUTE)
    assert SHARD in str(refused[0])
    assert world.table.lease().checkpoint == Checkpoint(numbers[0])
    assert len(world.table.writes) == writes, "its late end writes nothing"


def test_an_earlier_batch_of_its_lease_cannot_be_checkpointed_either() -> None:
    world = EngineWorld(replace(TIMED, batch_size=1))
    world.put("a", "poison")
    refused: list[Exception] = []

    def script(batch: Batch) -> None:
        if batch.records[0].data == b"poison":
            world.tasks.sleep(MINUTE)
            first = world.handler.batches[0]
            try:
                first.checkpoint(first.records[0])
            except HandlerOverdue as late:
                refused.append(late)

    world.handler.script = script
    world.window(lasts=5 * MINUTE)
    world.tasks.sleep(2 * MINUTE)
    assert refused


def test_hung_call_blocks_other_calls_and_gets_lease_lost_when_it_ends() -> None:
    world = hung_world(shards=1)
    world.handler.script = hanging(world, b"poison", lasts=MINUTE)
    world.window(lasts=5 * MINUTE)
    assert world.handler.calls == [("lease_acquired", SHARD), ("handle", SHARD)]
    world.tasks.sleep(2 * MINUTE)
    assert world.handler.calls[2:] == [("lease_lost", SHARD)]
    assert "abandoned handler call has ended" in world.log.messages("warning")


def test_process_does_not_acquire_the_lease_again_before_its_hung_call_ends() -> None:
    world = hung_world(shards=1)
    world.handler.script = hanging(world, b"poison", lasts=MINUTE)
    worker = world.worker()
    world.window(lasts=5 * MINUTE, worker=worker)
    acquires = world.table.kinds().count(WriteKind.ACQUIRE)
    assert only(world.window(worker=worker)).outcome is SessionOutcome.COULD_NOT_ACQUIRE
    assert world.table.kinds().count(WriteKind.ACQUIRE) == acquires
    world.tasks.sleep(2 * MINUTE)
    world.handler.script = lambda _: None
    assert only(world.window(worker=worker)).outcome is SessionOutcome.CAUGHT_UP
    assert worker.health.ends_now is None


def test_lease_of_a_hung_call_may_be_acquired_by_another_process_at_once() -> None:
    world = hung_world(shards=1)
    world.window(lasts=5 * MINUTE)
    world.handler.script = lambda _: None
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP


def test_whose_call_it_was_is_known_so_the_lease_is_tried_alone_from_then_on() -> None:
    """Its neighbours had waited for the slot: they need not wait again. Getting further clears it."""
    world = hung_world()
    world.window(lasts=5 * MINUTE)
    assert caution(world.table.lease(SHARD)) is CrashCaution.ALONE
    assert caution(world.table.lease(OTHER)) is CrashCaution.NONE
    world.window(world.item(SHARD), lasts=5 * MINUTE)
    assert caution(world.table.lease(SHARD)) is CrashCaution.PAUSES
    world.handler.script = lambda _: None
    world.window(world.item(SHARD))
    assert caution(world.table.lease(SHARD)) is CrashCaution.NONE


@pytest.mark.parametrize("what", ["acquired", "releasing", "ended"])
def test_hung_optional_function_gives_up_its_lease_too(what: str) -> None:
    world = EngineWorld(TIMED)
    world.put("a")
    if what == "ended":
        world.shards.split(SHARD)
    setattr(world.handler, f"on_{what}", lambda *_: world.tasks.sleep(HOUR))
    report = world.window(world.item(SHARD), lasts=5 * MINUTE)
    assert outcomes(report)[SHARD] is SessionOutcome.HANDLER_HUNG
    assert world.table.lease().lease_owner is None
    assert not world.table.lease().is_ended


@pytest.mark.parametrize("factor", [1, 2])
def test_hung_call_gives_up_its_lease_even_with_all_records_done(
    factor: int,
) -> None:
    """No record is left to hand over, so nothing would repeat the call."""
    world = EngineWorld(replace(CONTINUOUS, handler_timeout=20 * SECOND, parallelization_factor=factor), shards=1)
    world.put("a")

    def script(batch: Batch) -> None:
        batch.checkpoint(batch.records[-1])
        world.tasks.sleep(HOUR)

    world.handler.script = script
    assert only(world.window(lasts=5 * MINUTE)).outcome is SessionOutcome.HANDLER_HUNG
    assert world.seconds() < 40


# Calls that share a thread, as coroutines do


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("factor", [1, 2])
def test_held_up_call_counts_as_no_attempt_and_no_crash(has_begun: bool, factor: int) -> None:
    """So a handler that is well in the next window gets it, though no call of it may be repeated."""
    settings = replace(
        NO_WAITING,
        handler_timeout=20 * SECOND,
        handler_concurrency=3,
        maximum_retry_attempts=0,
        on_failure="arn:aws:sqs:eu-west-1:123456789012:given-up",
        parallelization_factor=factor,
    )
    world = EngineWorld(settings, shards=2)
    world.put("poison", shard=0, of=2)
    world.put("good", shard=1, of=2)

    def script(batch: Batch) -> None:
        turn = TURN.get()
        assert turn is not None
        if batch.shard_id == OTHER:
            turn.wait(lambda: True)
            if has_begun:
                assert turn.begin()
        world.tasks.sleep(HOUR)

    world.handler.script = script
    assert set(outcomes(world.window(lasts=5 * MINUTE)).values()) == {SessionOutcome.HANDLER_HUNG}
    assert [world.table.lease(shard).crashes for shard in (SHARD, OTHER)] == [2, 0]
    assert world.table.lease(OTHER).attempts == 0
    assert "handler call is held up by another: its lease is given up" in world.log.messages("error")
    world.handler.script = lambda _: None
    world.window()
    assert [kept.shard_id for kept in world.destination.taken] == [SHARD]
    assert world.handler.data() == [b"good"]


# When the runtime ends the process


def test_call_on_lambda_may_use_the_rest_of_the_window_and_most_of_its_margin() -> None:
    """14 minutes and 30 s: 14:20, so that 10 s are left for the releases."""
    world = hung_world(NO_WAITING)
    report = world.window(lasts=14 * MINUTE, margin=30 * SECOND)
    assert outcomes(report) == {SHARD: SessionOutcome.HANDLER_HUNG, OTHER: SessionOutcome.WINDOW_ENDED}
    assert 14 * 60 + 20 <= world.seconds() < 14 * 60 + 25
    assert world.table.lease(OTHER).lease_owner is None


def test_call_age_is_put_when_only_the_windows_end_limits_calls() -> None:
    world = hung_world(NO_WAITING, shards=1)
    world.window(lasts=3 * MINUTE, margin=30 * SECOND)
    assert world.metrics.values(Metric.HANDLER_CALL_AGE)[:2] == [60_000, 120_000]


def test_process_ends_when_no_thread_can_be_started_for_a_call() -> None:
    world = hung_world(shards=1)
    worker, spawn = world.worker(), world.tasks.spawn

    def exhausted(work: Any) -> Any:
        if isinstance(work, partial):  # a call of the handler
            raise RuntimeError("can't start new thread")
        return spawn(work)

    world.tasks.spawn = exhausted  # type: ignore[method-assign]
    report = only(world.window(lasts=5 * MINUTE, worker=worker))
    assert report.problem == "RuntimeError in lease_acquired"
    assert worker.health.ends_now is ProcessEndReason.NO_THREADS
    assert world.table.lease().lease_owner is None


def test_a_handler_timeout_does_not_outlast_the_process() -> None:
    world = hung_world(replace(NO_WAITING, handler_timeout=HOUR), shards=1)
    assert only(world.window(margin=30 * SECOND)).outcome is SessionOutcome.HANDLER_HUNG


def test_call_may_take_for_ever_without_handler_timeout_and_cut_off() -> None:
    world = hung_world(NO_WAITING, shards=1)
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.seconds() >= 3600


def test_a_flush_at_the_very_end_has_some_time_left() -> None:
    """The neighbour had waited for the slot until then: its flush comes when a call must be back already."""
    world = hung_world(NO_WAITING)
    flushed: list[str] = []

    def flush(shard_id: str) -> None:
        world.tasks.sleep(4 * SECOND)
        flushed.append(shard_id)

    world.handler.on_releasing = flush
    world.window(margin=30 * SECOND)
    assert flushed == [OTHER]


# What it means for the process


def test_a_process_that_is_replaced_at_once_keeps_no_lease_when_a_call_hangs() -> None:
    """On Lambda: the others go on to the window's end, and are released then, since it is this environment's last."""
    world = hung_world(replace(CONTINUOUS, handler_timeout=20 * SECOND), shards=3)
    worker = world.worker(replaced_at_once=True)
    report = world.window(lasts=5 * MINUTE, worker=worker)
    assert worker.health.ending is ProcessEndReason.CALL_HANGS
    assert worker.health.ends_now is None
    assert world.seconds() >= 300
    assert {lease.kept for lease in report.leases} == {None}
    assert report.next is AfterWindow.PROMPT
    assert {lease.lease_owner for lease in world.table.real.scan().leases} == {None}


def test_worker_with_a_hung_call_keeps_its_other_leases() -> None:
    world = hung_world(replace(CONTINUOUS, handler_timeout=20 * SECOND))
    worker = world.worker()
    report = world.window(lasts=5 * MINUTE, worker=worker)
    assert [lease.lease_key for lease in report.leases if lease.kept] == [OTHER]
    assert worker.health.ending is None


def test_kept_lease_is_released_when_another_leases_call_hangs() -> None:
    """Its own part of the window was over; the call hung into the margin."""
    world = hung_world(CONTINUOUS)
    world.settings = replace(world.settings, handler_concurrency=2)
    worker = world.worker(replaced_at_once=True)
    report = world.window(margin=30 * SECOND, worker=worker)
    assert outcomes(report) == {SHARD: SessionOutcome.HANDLER_HUNG, OTHER: SessionOutcome.WINDOW_ENDED}
    assert {lease.kept for lease in report.leases} == {None}
    assert world.table.lease(OTHER).lease_owner is None
    assert ("lease_releasing", OTHER) in world.handler.calls


def test_window_ends_when_calls_hang_in_all_slots_and_their_replacements() -> None:
    world = EngineWorld(replace(CONTINUOUS, handler_timeout=20 * SECOND, handler_concurrency=2), shards=6)
    for shard in range(6):
        world.put("poison" if shard < 4 else f"good-{shard}", shard=shard, of=6)
    world.handler.script = hanging(world, b"poison")
    worker = world.worker()
    report = world.window(lasts=HOUR / 2, worker=worker)
    assert worker.health.ends_now is ProcessEndReason.ALL_SLOTS_HANG
    assert world.seconds() < 120
    assert {lease.lease_owner for lease in world.table.real.scan().leases} == {None}
    assert list(outcomes(report).values()).count(SessionOutcome.HANDLER_HUNG) == 4
    assert "exiting" in world.log.messages("error")


def test_process_ends_though_its_hung_call_returns_meanwhile() -> None:
    world = hung_world(replace(CONTINUOUS, handler_timeout=20 * SECOND), shards=1)
    world.handler.script = hanging(world, b"poison", lasts=MINUTE)
    worker = world.worker()
    world.window(lasts=5 * MINUTE, worker=worker)
    worker.health.has_chosen({SHARD}, is_at_work=False)
    world.tasks.sleep(2 * MINUTE)
    assert worker.health.hung == 0
    assert worker.health.hung_calls() == ()
    assert worker.health.ends_now is ProcessEndReason.ALL_LEASES_HANG


def test_a_second_attempt_at_an_item_that_holds_nothing_any_more_does_nothing() -> None:
    """The process was ended after it had given everything back, which Step Functions sees as a crash."""
    world = hung_world(replace(CONTINUOUS, handler_timeout=20 * SECOND))
    item = world.item()
    world.window(item, lasts=5 * MINUTE, worker=world.worker(replaced_at_once=True))
    before, calls = dict(world.table.real.rows()), len(world.handler.calls)
    report = world.window(item)
    assert set(outcomes(report).values()) == {SessionOutcome.COULD_NOT_ACQUIRE}
    assert report.next is AfterWindow.DONE
    assert world.table.real.rows() == before, "no crash is counted"
    assert len(world.handler.calls) == calls
    assert world.metrics.values(Metric.LOST_LEASES) == []


def test_call_that_ends_during_the_hang_check_does_not_count_as_hung() -> None:
    """An event loop takes half a second to say which call blocks it. Meanwhile the call may end after all."""
    world = hung_world(replace(TIMED, handler_concurrency=2), shards=1)

    def asked() -> bool:
        world.tasks.sleep(2 * SECOND)
        return False

    def ends_meanwhile(_: Batch) -> None:
        turn = TURN.get()
        assert turn is not None
        turn.wait(asked)
        turn.begin()
        world.tasks.sleep(21 * SECOND)

    world.handler.script = ends_meanwhile
    worker = world.worker()
    assert only(world.window(lasts=5 * MINUTE, worker=worker)).outcome is SessionOutcome.HANDLER_HUNG
    world.tasks.sleep(MINUTE)
    assert worker.health.hung == 0
    assert world.log.messages("warning") == ["abandoned handler call has ended"]
    assert world.handler.calls[-1] == ("lease_lost", SHARD)
