"""Calling the handler: in order, again after a failure, never past a record that it did not finish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.handler import Batch
from sublet.handlers.load import handler_of
from sublet.metric_names import Metric
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.records import StreamRecord, UserRecord
from sublet.settings import HandlerContract, LogExceptions

from tests.doubles.engine_world import (
    CONTINUOUS,
    MINUTE,
    NO_WAITING,
    SECOND,
    SHARD,
    EngineWorld,
    only,
    raising,
)

HOUR = timedelta(hours=1)


def failing(times: int, fault: BaseException | None = None) -> Callable[[Batch], None]:
    """A handler's script that raises in its first calls."""

    def script(_: Batch) -> None:
        nonlocal times
        times -= 1
        if times >= 0:
            raise fault or ValueError("not now")

    return script


def seen(world: EngineWorld) -> list[list[bytes]]:
    return [[record.data for record in batch.records] for batch in world.handler.batches]


def test_a_batch_tells_stream_shard_records_and_lag() -> None:
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put("a", "b")
    world.clock.advance(5 * SECOND)
    world.window()
    first = world.handler.batches[0]
    assert (first.stream, first.shard_id, first.millis_behind_latest) == ("events", SHARD, 5000)
    assert [(record.data, record.partition_key, record.sub_sequence_number) for record in first.records] == [
        (b"a", "key-a", 0)
    ]


def test_a_batch_tells_where_its_stream_is_if_the_settings_do() -> None:
    world = EngineWorld(replace(NO_WAITING, stream_arn="arn:aws:kinesis:eu-west-1:123456789012:stream/events"))
    world.put("a")
    world.window()
    (batch,) = world.handler.batches
    assert batch.stream_arn == world.settings.stream_arn
    assert (batch.region, batch.account) == ("eu-west-1", "123456789012")


def test_a_batch_of_a_stream_without_an_arn_does_not_guess() -> None:
    world = EngineWorld()
    world.put("a")
    world.window()
    (batch,) = world.handler.batches
    assert (batch.stream_arn, batch.region, batch.account) == (None, None, None)


def test_a_batch_tells_how_long_the_window_still_lasts() -> None:
    world = EngineWorld()
    world.put("a")
    told: list[int] = []

    def script(batch: Batch) -> None:
        told.append(batch.remaining_time_in_millis())
        world.tasks.sleep(7 * SECOND)
        told.append(batch.remaining_time_in_millis())
        world.tasks.sleep(MINUTE)
        told.append(batch.remaining_time_in_millis())

    world.handler.script = script
    world.window(lasts=20 * SECOND)
    assert told == [20_000, 13_000, 0]


def test_a_batch_tells_how_long_its_own_call_may_still_take() -> None:
    """Each call has the whole of handler_timeout, and none more than its window."""
    world = EngineWorld(replace(NO_WAITING, handler_timeout=10 * SECOND, batch_size=1))
    world.put("a", "b")
    told: list[int] = []

    def script(batch: Batch) -> None:
        told.append(batch.remaining_time_in_millis())
        world.tasks.sleep(7 * SECOND)
        told.append(batch.remaining_time_in_millis())

    world.handler.script = script
    world.window(lasts=15 * SECOND)
    assert told == [10_000, 3_000, 8_000, 1_000]


@pytest.mark.parametrize("factor", [1, 4])
def test_a_handler_that_stops_in_time_is_not_given_up(factor: int) -> None:
    """As AWS teaches it: stop before the time is over, and hand back the rest."""
    settings = replace(
        NO_WAITING,
        handler_contract=HandlerContract.LAMBDA_EVENT,
        handler_timeout=3 * SECOND,
        parallelization_factor=factor,
    )
    world = EngineWorld(settings)
    world.put(*map(str, range(20)))
    handled: list[str] = []

    def function(event: Any, context: Any) -> Any:
        for record in event["Records"]:
            if context.get_remaining_time_in_millis() < 1000:
                return {"batchItemFailures": [{"itemIdentifier": record["kinesis"]["sequenceNumber"]}]}
            world.tasks.sleep(SECOND / 2)
            handled.append(record["kinesis"]["data"])
        return None

    world.handler = handler_of(function, settings)  # type: ignore[assignment] # as a handler
    world.window()
    assert len(handled) == len(set(handled)) == 20


def test_a_worker_that_is_told_to_stop_leaves_a_batch_no_time() -> None:
    world = EngineWorld()
    world.put("a")
    stop = world.tasks.signal()
    told: list[int] = []

    def script(batch: Batch) -> None:
        stop.set()
        told.append(batch.remaining_time_in_millis())

    world.handler.script = script
    world.window(stop=stop)
    assert told == [0]


def test_attempt_counts_calls_of_earlier_windows() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_attempts=2))
    world.put("a")
    world.handler.script = raising(ValueError("not now"))
    for _ in range(3):
        world.window()
    assert [batch.attempt for batch in world.handler.batches] == [1, 2, 3, 4, 5, 6]


def test_a_batch_tells_how_often_it_has_come() -> None:
    world = EngineWorld()
    world.put("a", "b")
    world.handler.script = failing(3)
    world.window()
    assert [batch.attempt for batch in world.handler.batches] == [1, 2, 3, 4]


def test_attempt_restarts_at_one_after_partial_progress() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_attempts=2))
    world.put("a", "b", "c")
    fail, checkpoint = failing(1), checkpoint_then_fail(0, times=1)

    def script(batch: Batch) -> None:
        fail(batch)
        checkpoint(batch)

    world.handler.script = script
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert seen(world) == [[b"a", b"b", b"c"], [b"a", b"b", b"c"], [b"b", b"c"]]
    assert [batch.attempt for batch in world.handler.batches] == [1, 2, 1]


def test_failing_handler_gets_the_same_batch_again_and_skips_nothing() -> None:
    """KCL logs 'skipping over the following data records' and moves on; we never do."""
    world = EngineWorld()
    world.put("a", "b")
    world.handler.script = failing(3)
    report = only(world.window())
    assert report.outcome is SessionOutcome.CAUGHT_UP
    assert report.handler_failures == 3
    assert seen(world) == [[b"a", b"b"]] * 4
    assert sum(world.metrics.values(Metric.HANDLER_FAILURES, SHARD)) == 3


def test_backoff_doubles_up_to_handler_backoff_max() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_attempts=6, handler_backoff=SECOND, handler_backoff_max=5 * SECOND))
    world.put("a")
    called_at: list[float] = []
    fail = failing(5)

    def script(batch: Batch) -> None:
        called_at.append(world.seconds())
        fail(batch)

    world.handler.script = script
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert called_at == [0, 1, 3, 7, 12, 17]


def test_lease_is_released_at_the_last_finished_record_when_the_handler_fails() -> None:
    world = EngineWorld(replace(NO_WAITING, batch_size=1))
    (good, *_) = world.put("good", "bad", "never")
    world.handler.script = lambda batch: raising(ValueError())() if batch.records[0].data == b"bad" else None
    report = world.window()
    assert only(report).outcome is SessionOutcome.HANDLER_FAILED
    assert "ValueError" in (only(report).problem or "")
    assert report.next is AfterWindow.DONE, "the next tick decides"
    row = world.table.lease()
    assert (row.checkpoint, row.lease_owner) == (Checkpoint(good), None)
    assert seen(world) == [[b"good"], *[[b"bad"]] * 5]


def test_handler_that_fails_ten_times_over_two_windows_loses_nothing() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_backoff_max=SECOND))
    world.put("a", "b", "c")
    world.handler.script = failing(10)
    assert [only(world.window()).outcome for _ in range(3)] == [
        SessionOutcome.HANDLER_FAILED,
        SessionOutcome.HANDLER_FAILED,
        SessionOutcome.CAUGHT_UP,
    ]
    assert world.handler.data() == [b"a", b"b", b"c"]


def test_a_failing_handler_in_continuous_mode_does_not_keep_its_lease() -> None:
    world = EngineWorld(CONTINUOUS)
    world.put("a")
    world.handler.script = failing(99)
    report = world.window()
    assert only(report).outcome is SessionOutcome.HANDLER_FAILED
    assert world.table.lease().lease_owner is None


def test_no_call_is_made_again_after_the_deadline() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_backoff=10 * SECOND))
    world.put("a")
    world.handler.script = failing(99)
    assert only(world.window(lasts=15 * SECOND)).outcome is SessionOutcome.HANDLER_FAILED
    assert world.seconds() < 16
    assert len(world.handler.batches) == 2


def test_a_long_backoff_is_cut_short_when_the_lease_is_lost() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_backoff=2 * MINUTE))
    world.put("a")
    world.handler.script = failing(99)
    world.at(5 * SECOND, world.steal)
    assert only(world.window(lasts=HOUR)).outcome is SessionOutcome.LEASE_LOST
    assert world.seconds() < 15


def test_other_leases_are_handled_while_one_backs_off() -> None:
    """The slot is given back between calls, though only one call may go on at a time."""
    world = EngineWorld(replace(NO_WAITING, handler_backoff=10 * SECOND), shards=2)
    world.put("bad", shard=0, of=2)
    world.put("good", shard=1, of=2)
    done_at: list[float] = []

    def script(batch: Batch) -> None:
        if batch.records[0].data == b"bad":
            raise ValueError
        done_at.append(world.seconds())

    world.handler.script = script
    world.window()
    assert done_at
    assert done_at[0] < 10


def test_failure_text_is_in_the_log_alone() -> None:
    """A message may hold a customer's data: Step Functions shows reports to everyone who may see executions."""
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    world.put("a")
    world.handler.script = failing(1, ValueError("no such customer"))
    report = world.window()
    (line,) = [line for line in world.log.lines if line.message == "handler failed"]
    told = str(line.fields["traceback"])
    assert told.startswith("Traceback (most recent call last):")
    assert told.endswith("ValueError: no such customer\n")
    assert 'raise fault or ValueError("not now")' in told
    assert "test_runner.py" in str(line.fields["frames"])
    assert line.fields["error"] == "ValueError"
    assert "customer" not in f"{report} {world.metrics.measurements}"


def test_failure_is_logged_as_type_and_frames_without_its_text() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1, log_exceptions=LogExceptions.FRAMES))
    world.put("a")
    world.handler.script = failing(1, ValueError("no such customer"))
    world.window()
    (line,) = [line for line in world.log.lines if line.message == "handler failed"]
    assert line.fields["error"] == "ValueError"
    assert "test_runner.py" in str(line.fields["frames"])
    assert "customer" not in str(world.log.lines)


# batch.checkpoint


def checkpoint_then_fail(index: int, times: int = 99) -> Callable[[Batch], None]:
    """Say that the records up to `index` are done, then raise."""

    def script(batch: Batch) -> None:
        nonlocal times
        times -= 1
        if times >= 0:
            batch.checkpoint(batch.records[min(index, len(batch.records) - 1)])
            raise ValueError

    return script


def test_failing_handler_gets_no_record_again_that_it_checkpointed() -> None:
    world = EngineWorld()
    world.put("a", "b", "c", "d")
    world.handler.script = checkpoint_then_fail(1, times=1)
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert seen(world) == [[b"a", b"b", b"c", b"d"], [b"c", b"d"]]


def test_a_checkpoint_by_the_handler_counts_also_if_its_window_ends_there() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    numbers = world.put("a", "b", "c")
    calls = 0

    def script(batch: Batch) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            batch.checkpoint(batch.records[1])
        raise ValueError

    world.handler.script = script
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    assert world.table.lease().checkpoint == Checkpoint(numbers[1])


def test_a_checkpoint_in_the_middle_of_an_aggregate_is_kept_as_such() -> None:
    """(sequence number, sub-sequence number): the rest of the aggregate comes again, and no more."""
    world = EngineWorld()
    number = world.shards.put("k", aggregate([("k", None, text) for text in (b"a", b"b", b"c")]))
    world.handler.script = checkpoint_then_fail(0, times=1)
    world.settings = replace(world.settings, handler_backoff=30 * SECOND)
    assert only(world.window(lasts=20 * SECOND)).outcome is SessionOutcome.HANDLER_FAILED
    assert world.table.lease().checkpoint == Checkpoint(number, 0)
    world.window()
    assert seen(world) == [[b"a", b"b", b"c"], [b"b", b"c"]]


def test_progress_within_a_batch_restarts_the_attempts() -> None:
    """A handler that finishes one record in each call gets there, however many records the batch has."""
    world = EngineWorld(replace(NO_WAITING, handler_attempts=2))
    world.put(*map(str, range(20)))
    world.handler.script = lambda batch: checkpoint_then_fail(0)(batch) if len(batch.records) > 1 else None
    assert only(world.window(lasts=HOUR)).outcome is SessionOutcome.CAUGHT_UP
    assert [records[0] for records in seen(world)] == [str(n).encode() for n in range(20)]


def test_a_record_of_another_batch_is_refused_and_moves_nothing() -> None:
    """Taken at its status, it would skip what lies in between."""
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    world.put("a")
    foreign = UserRecord(b"x", "k", 0, StreamRecord("9" * 56, b"x", "k", world.began))
    refusals: list[str] = []

    def script(batch: Batch) -> None:
        try:
            batch.checkpoint(foreign)
        except ValueError as refused:
            refusals.append(str(refused))
            raise

    world.handler.script = script
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    assert world.table.lease().checkpoint == TRIM_HORIZON
    assert "not one of this batch's records" in refusals[0]


def test_checkpointing_an_earlier_record_after_a_later_one_does_not_go_back() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    numbers = world.put("a", "b", "c")
    calls = 0

    def script(batch: Batch) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            batch.checkpoint(batch.records[2])
            batch.checkpoint(batch.records[0])
        raise ValueError

    world.handler.script = script
    world.window()
    assert world.table.lease().checkpoint == Checkpoint(numbers[2])
    assert calls == 1, "all three are done, although the call failed"


def test_a_long_call_that_checkpoints_is_written_down_while_it_goes_on() -> None:
    """A handler that takes an hour for a batch need not start from its beginning after a crash."""
    world = EngineWorld()
    numbers = world.put(*map(str, range(10)))
    stored: list[Checkpoint] = []

    def script(batch: Batch) -> None:
        for record in batch.records:
            world.tasks.sleep(15 * SECOND)
            batch.checkpoint(record)
            stored.append(world.table.lease().checkpoint)

    world.handler.script = script
    world.window(lasts=HOUR)
    assert stored[4] >= Checkpoint(numbers[3])


def test_record_popped_by_a_failing_handler_is_not_skipped() -> None:
    """`while records: work(records.pop(0))`, and then a failure: what is gone from a list would be gone for good."""
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    world.put("a", "b")

    def script(batch: Batch) -> None:
        batch.records.clear()  # type: ignore[attr-defined]

    world.handler.script = script
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    world.handler.script = lambda _: None
    world.window()
    assert world.handler.data() == [b"a", b"b"]


# The optional functions


def test_lease_acquired_comes_before_the_first_batch_and_knows_the_checkpoint() -> None:
    world = EngineWorld()
    (number,) = world.put("a")
    told: list[Checkpoint] = []
    world.handler.on_acquired = lambda _, checkpoint: told.append(checkpoint)
    world.window()
    world.window()
    assert world.handler.calls[:2] == [("lease_acquired", SHARD), ("handle", SHARD)]
    assert told == [TRIM_HORIZON, Checkpoint(number)]


def test_a_lease_acquired_that_fails_is_waited_for_like_handle() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_backoff=SECOND, handler_backoff_max=5 * SECOND))
    called_at: list[float] = []

    def fail_twice(*_: object) -> None:
        called_at.append(world.seconds())
        if len(called_at) < 3:
            raise ValueError

    world.handler.on_acquired = fail_twice
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert called_at == [0, 1, 3]


@pytest.mark.parametrize(("failures", "outcome"), [(4, SessionOutcome.CAUGHT_UP), (5, SessionOutcome.HANDLER_FAILED)])
def test_a_lease_acquired_that_fails_is_called_again_like_handle(failures: int, outcome: SessionOutcome) -> None:
    """State that could not be loaded is no ground to handle records without it."""
    world = EngineWorld()
    world.put("a")
    left = [True] * failures

    def fail(*_: object) -> None:
        if left and left.pop():
            raise ValueError

    world.handler.on_acquired = fail
    assert only(world.window()).outcome is outcome
    assert world.handler.data() == ([b"a"] if outcome is SessionOutcome.CAUGHT_UP else [])


def test_a_lease_acquired_that_fails_is_not_called_again_after_the_deadline() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_backoff=10 * SECOND))
    world.handler.on_acquired = raising(ValueError())
    assert only(world.window(lasts=15 * SECOND)).outcome is SessionOutcome.HANDLER_FAILED
    assert world.handler.calls == [("lease_acquired", SHARD)] * 2
    assert world.seconds() == 10


def test_records_checkpointed_before_a_failure_count_as_handled() -> None:
    world = EngineWorld(replace(NO_WAITING, handler_attempts=1))
    world.put(*"abcde")

    def script(batch: Batch) -> None:
        batch.checkpoint(batch.records[2])
        raise ValueError

    world.handler.script = script
    assert only(world.window()).user_records == 3
