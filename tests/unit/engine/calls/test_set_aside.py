"""Records that are given up: the destination has them before the checkpoint goes past them, and nothing else is
lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from sublet.decisions.session.window import SessionOutcome
from sublet.engine.calls.handler_caller import BatchProgress
from sublet.engine.calls.lease_batch import Attempts
from sublet.engine.lease.held import HeldLease, instant
from sublet.errors import BatchItemsFailed, HandlerContractBroken
from sublet.handler import Batch
from sublet.metric_names import Metric
from sublet.ports import Applied
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.failure_document import SetAsideBatch
from sublet.protocol.lease import AttemptedRecords
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, acquire, heartbeat
from sublet.settings import FailureDetails

from tests.doubles.engine_world import MINUTE, NO_WAITING, SECOND, EngineWorld, Result, only

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"
RETRY_TWICE = replace(NO_WAITING, on_failure=QUEUE, maximum_retry_attempts=2)
BISECT = replace(RETRY_TWICE, bisect_batch_on_function_error=True)
FOR_EVER = replace(NO_WAITING, handler_attempts=1)


def raising_with(*poison: bytes) -> Any:
    def script(batch: Batch) -> None:
        for record in batch.records:
            if record.data in poison:
                raise ValueError(f"cannot read {record.data.decode()}")

    return script


def data_of(batch: SetAsideBatch) -> list[bytes]:
    return [record.data for record in batch.records]


def world_with(settings: Any, *data: str, poison: str = "bad") -> tuple[EngineWorld, list[str]]:
    world = EngineWorld(settings)
    numbers = world.put(*data)
    world.handler.script = raising_with(poison.encode())
    return world, numbers


def test_a_batch_that_fails_for_good_is_set_aside_and_the_shard_goes_on() -> None:
    world, numbers = world_with(replace(RETRY_TWICE, batch_size=2), "a", "bad", "c", "d")
    report = only(world.window())
    assert report.outcome is SessionOutcome.CAUGHT_UP
    (kept,) = world.destination.taken
    assert data_of(kept) == [b"a", b"bad"]
    assert (kept.attempts, kept.has_raised) == (3, True)
    assert kept.condition == "RetryAttemptsExhausted"
    assert world.handler.data() == [b"c", b"d"]
    assert world.table.lease().checkpoint.sequence_number == numbers[-1]
    assert world.metrics.values(Metric.RECORDS_SET_ASIDE) == [2]
    assert world.metrics.values(Metric.HANDLER_ATTEMPTS) == [1, 2, 3]


def test_bisect_sets_the_poison_aside_alone() -> None:
    world, _ = world_with(BISECT, "a", "b", "bad", "c", "d")
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert [data_of(kept) for kept in world.destination.taken] == [[b"bad"]]
    assert world.handler.data() == [b"a", b"b", b"c", b"d"]


def test_an_operator_finds_the_position_in_one_log_line() -> None:
    world, numbers = world_with(BISECT, "a", "bad")
    world.window()
    (line,) = [line for line in world.log.lines if line.message == "records set aside"]
    assert line.fields["shard_id"] == world.table.lease().shard_id
    assert line.fields["first"] == line.fields["last"] == numbers[1]
    assert line.fields["condition"] == "RetryAttemptsExhausted"


def test_destination_has_a_batch_before_the_checkpoint_passes_it() -> None:
    world, numbers = world_with(BISECT, "a", "bad", "b")
    seen: list[str] = []
    put = world.destination.put

    def watched(batch: SetAsideBatch) -> None:
        seen.append(world.table.lease().checkpoint.sequence_number)
        put(batch)

    world.destination.put = watched  # type: ignore[method-assign]
    world.window()
    assert seen
    assert all(checkpoint != numbers[1] for checkpoint in seen)
    assert all(checkpoint in ("TRIM_HORIZON", numbers[0]) for checkpoint in seen)


class Killed(BaseException):
    """As kill -9: nothing of the process runs after it."""


def test_crash_between_destination_and_checkpoint_sets_aside_twice_and_loses_nothing() -> None:
    world, numbers = world_with(replace(BISECT, checkpoint_interval=timedelta(0)), "a", "bad", "b")

    def dying(write: LeaseWrite, apply: Any) -> Result:
        if world.destination.taken and write.kind is not WriteKind.ACQUIRE:
            raise Killed
        return apply()  # type: ignore[no-any-return]

    world.table.disturb = dying
    with pytest.raises(Killed):
        world.window()
    assert world.table.lease().checkpoint.sequence_number == numbers[0]
    world.table.disturb = lambda _, apply: apply()
    world.window(world.item())
    assert [data_of(kept) for kept in world.destination.taken] == [[b"bad"], [b"bad"]]
    assert len(list(world.destination.kept("orders"))) == 1, "which a bucket has once"
    assert world.handler.data().count(b"b") == 1


def test_checkpoint_stays_while_the_destination_refuses() -> None:
    world, numbers = world_with(replace(BISECT, handler_attempts=3), "a", "bad", "b")
    world.destination.refusals = 100
    report = only(world.window())
    assert report.outcome is SessionOutcome.HANDLER_FAILED
    assert world.table.lease().checkpoint.sequence_number == numbers[0]
    assert b"b" not in world.handler.data()
    assert len(world.metrics.values(Metric.DESTINATION_REFUSALS)) >= 1
    assert world.metrics.values(Metric.RECORDS_SET_ASIDE) == []


def test_a_later_window_asks_the_destination_first_and_goes_on() -> None:
    world, numbers = world_with(replace(BISECT, handler_attempts=3), "a", "bad", "b")
    world.destination.refusals = 100
    for _ in range(4):
        world.window()
    world.destination.refusals = 0
    world.handler.batches.clear()
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert [data_of(kept) for kept in world.destination.taken] == [[b"bad"]]
    assert [record.data for batch in world.handler.batches for record in batch.records] == [b"b"]
    assert world.table.lease().checkpoint.sequence_number == numbers[-1]


def test_attempts_outlive_a_window() -> None:
    """One call in each window: the third is the last."""
    world, _ = world_with(replace(RETRY_TWICE, handler_attempts=1), "bad")
    for attempts in (1, 2):
        assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
        assert world.table.lease().attempts == attempts
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert [batch.attempt for batch in world.handler.batches] == [1, 2, 3]
    assert [kept.attempts for kept in world.destination.taken] == [3]
    assert world.table.lease().attempts == 0, "progress forgets them"


@pytest.mark.parametrize("lanes", [1, 7])
def test_as_many_attempts_of_records_that_have_gone_are_not_these_records(lanes: int) -> None:
    """Those were past retention, say, before their last attempt. Otherwise one attempt would be the first for ever."""
    world, numbers = world_with(replace(RETRY_TWICE, handler_attempts=1), "bad", "bad")
    gone = Checkpoint(str(int(numbers[0]) - 1))
    world.change_lease(attempts=1, tried=AttemptedRecords(gone, lanes))
    for attempts in (1, 2):
        world.window()
        assert world.table.lease().attempts == attempts
        assert world.table.lease().tried == AttemptedRecords(Checkpoint(numbers[-1]))
    world.window()
    assert [kept.attempts for kept in world.destination.taken] == [3]


def test_attempts_are_not_noted_at_a_position_that_another_writer_has_moved() -> None:
    """The records that follow it there were not in the call: they would be set aside after too few attempts. The last
    checkpoint shows that the position was moved.
    """
    settings = replace(RETRY_TWICE, handler_attempts=1, batch_size=1, checkpoint_interval=MINUTE)
    world, numbers = world_with(settings, "a", "b", "c", "bad")
    world.change_lease(checkpoint=Checkpoint(numbers[1]))

    def script(batch: Batch) -> None:
        if batch.records[0].data == b"bad":
            world.change_lease(checkpoint=Checkpoint(numbers[0]))
            raise ValueError("cannot read bad")

    world.handler.script = script
    world.window()
    assert world.handler.data() == [b"c"]
    lease = world.table.lease()
    assert (lease.checkpoint, lease.attempts, lease.lease_owner) == (Checkpoint(numbers[0]), 0, None)


def test_attempts_are_not_noted_if_the_position_moves_after_the_look() -> None:
    """Another thread's write learns of the move between this one's look at the progress and its write."""
    world = EngineWorld()
    acquired = world.table.apply(acquire(world.table.lease().fence, "orders-lambda-0", "item/1"))
    assert isinstance(acquired, Applied)
    held = HeldLease(acquired.lease, instant(world.clock), world.ports, 3 * SECOND, world.tasks.signal())

    class MovedMeanwhile:
        follows_checkpoint = True

        def has_been_moved(self) -> bool:
            world.change_lease(checkpoint=Checkpoint("50"))
            return not held.write(heartbeat)

    Attempts(2).note(held, cast("BatchProgress", MovedMeanwhile()))
    lease = world.table.lease()
    assert (lease.checkpoint, lease.attempts) == (Checkpoint("50"), 0)


def test_attempts_are_counted_and_nothing_is_set_aside_without_a_limit() -> None:
    world, _ = world_with(FOR_EVER, "bad")
    for _ in range(7):
        world.window()
    assert world.table.lease().attempts == 7
    assert max(world.metrics.values(Metric.HANDLER_ATTEMPTS)) == 7
    assert world.destination.taken == []


def test_attempts_of_another_checkpoint_are_not_these_records() -> None:
    """A Java owner, which knows nothing of them, got further in between."""
    world, numbers = world_with(replace(RETRY_TWICE, handler_attempts=1), "bad", "bad")
    world.window()
    world.window()
    row: dict[str, Any] = {**(world.table.real.row(world.table.lease().lease_key) or {})}
    row["checkpoint"] = {"S": numbers[0]}
    world.table.real.put_row(row)
    assert world.table.lease().attempts == 0
    world.window()
    assert world.destination.taken == []


def test_new_records_behind_a_batch_awaiting_set_aside_are_handled() -> None:
    world, _ = world_with(RETRY_TWICE, "bad")
    world.destination.refusals = 5
    world.window()
    assert world.table.lease().attempts == 3
    world.put("c", "d")
    world.window()
    assert [data_of(kept) for kept in world.destination.taken] == [[b"bad"]]
    assert world.handler.data() == [b"c", b"d"]


def test_each_record_has_all_its_attempts_while_others_join() -> None:
    world, _ = world_with(replace(RETRY_TWICE, handler_attempts=1), "bad")
    for _ in range(6):
        world.window()
        world.put("bad", "bad")
    calls = Counter(record.sequence_number for batch in world.handler.batches for record in batch.records)
    aside = [record.sequence_number for kept in world.destination.taken for record in kept.records]
    assert len(aside) >= 3
    assert {calls[number] for number in aside} == {3}


def test_attempts_of_an_earlier_version_are_those_of_the_first_record() -> None:
    world, _ = world_with(RETRY_TWICE, "bad", "b")
    row: dict[str, Any] = {**(world.table.real.row(world.table.lease().lease_key) or {})}
    row["subletAttempts"] = {"S": "3@TRIM_HORIZON"}
    world.table.real.put_row(row)
    world.window()
    assert [data_of(kept) for kept in world.destination.taken] == [[b"bad"]]
    assert world.handler.data() == [b"b"]


def test_attempts_in_the_row_apply_to_the_batch_after_its_checkpoint_only() -> None:
    """Though the first batch's checkpoint is not written yet."""
    settings = replace(RETRY_TWICE, batch_size=1, checkpoint_interval=60 * MINUTE)
    world, _ = world_with(settings, "a", "bad")
    row: dict[str, Any] = {**(world.table.real.row(world.table.lease().lease_key) or {})}
    row["subletAttempts"] = {"S": "2@TRIM_HORIZON"}
    world.table.real.put_row(row)
    world.window()
    assert [batch.attempt for batch in world.handler.batches] == [3, 1, 2, 3]


def test_attempts_of_trimmed_records_do_not_count_for_later_ones() -> None:
    """Trimmed, or no longer wanted by a filter."""
    world, numbers = world_with(RETRY_TWICE, "bad")
    row: dict[str, Any] = {**(world.table.real.row(world.table.lease().lease_key) or {})}
    row["subletAttempts"] = {"S": f"3@TRIM_HORIZON..{int(numbers[0]) - 1}"}
    world.table.real.put_row(row)
    world.window()
    assert [batch.attempt for batch in world.handler.batches] == [1, 2, 3]


def test_a_lease_that_is_found_lost_as_an_attempt_is_noted_has_no_call() -> None:
    world, _ = world_with(RETRY_TWICE, "bad")
    world.change_lease(crashes=2)

    def stolen(write: LeaseWrite, apply: Any) -> Result:
        if "subletAttempts" in write.sets:
            world.steal()
        return apply()  # type: ignore[no-any-return]

    world.table.disturb = stolen
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    assert world.handler.batches == []


def test_record_beyond_maximum_age_is_set_aside_without_a_call() -> None:
    world, _ = world_with(replace(NO_WAITING, on_failure=QUEUE, maximum_record_age=timedelta(hours=1)), "old")
    world.clock.advance(timedelta(hours=2))
    world.put("new")
    world.window()
    assert world.handler.data() == [b"new"]
    (kept,) = world.destination.taken
    assert (data_of(kept), kept.condition, kept.has_raised) == ([b"old"], "RecordAgeExceeded", False)


def test_set_aside_batch_bears_the_failure_of_its_own_last_call() -> None:
    """The first record alone is called until the others behind it are too old: they were in larger calls."""
    settings = replace(
        NO_WAITING,
        on_failure=QUEUE,
        on_failure_details=FailureDetails.FULL,
        bisect_batch_on_function_error=True,
        maximum_record_age=timedelta(hours=1),
        handler_attempts=1_000,
        handler_backoff_max=MINUTE,
    )
    world = EngineWorld(settings)
    world.put("1", "2", "3", "4")

    def script(batch: Batch) -> None:
        raise ValueError(f"{len(batch.records)} records")

    world.handler.script = script
    world.window(lasts=3 * 60 * MINUTE)
    told = [(data_of(kept), kept.failure and kept.failure.text, kept.attempts) for kept in world.destination.taken]
    assert [data for data, *_ in told] == [[b"1"], [b"2"], [b"3", b"4"]]
    assert ["ValueError: 1 records" in str(told[0][1]), "ValueError: 2 records" in str(told[1][1])] == [
        True,
        True,
    ]
    assert "ValueError: 4 records" in str(told[2][1])
    assert [attempts for *_, attempts in told][1:] == [1, 1]


def test_no_text_of_an_exception_reaches_the_destination_unless_asked_for() -> None:
    for details in FailureDetails:
        world, _ = world_with(replace(RETRY_TWICE, on_failure_details=details), "bad")
        world.window()
        (kept,) = world.destination.taken
        assert kept.failure is not None
        assert kept.failure.type == "ValueError"
        assert "test_set_aside.py" in kept.failure.frames
        assert ("cannot read" in (kept.failure.text or "")) is (details is FailureDetails.FULL)


def test_progress_within_a_call_gives_the_rest_all_its_attempts() -> None:
    world, _ = world_with(RETRY_TWICE, "a", "bad")

    def script(batch: Batch) -> None:
        if batch.records[0].data == b"a":
            batch.checkpoint(batch.records[0])
        raise HandlerContractBroken("bad")

    world.handler.script = script
    world.window()
    assert [batch.attempt for batch in world.handler.batches] == [1, 1, 2, 3]
    assert [data_of(kept) for kept in world.destination.taken] == [[b"bad"]]


def test_a_handler_that_mends_in_time_loses_nothing() -> None:
    world, _ = world_with(replace(RETRY_TWICE, handler_attempts=1), "bad")
    world.window()
    world.window()
    world.handler.script = lambda _: None
    world.window()
    assert world.handler.data() == [b"bad"]
    assert world.destination.taken == []


def test_a_record_that_ends_each_process_is_narrowed_down_and_set_aside() -> None:
    """Its handler sends the process SIGTERM: each ends in good order, so that no crash tells of it, and 172 of them had
    not got past it.
    """
    world = EngineWorld(replace(BISECT, handler_attempts=5))
    world.put(*(f"{n}" for n in range(200)))
    starts = 0

    def script(batch: Batch) -> None:
        if any(record.data == b"123" for record in batch.records):
            stop.set()
            raise ValueError("ends")

    world.handler.script = script
    while not world.destination.taken:
        stop, starts = world.tasks.signal(), starts + 1
        world.window(stop=stop)
    stop = world.tasks.signal()
    world.window(stop=stop)
    assert [data_of(kept) for kept in world.destination.taken] == [[b"123"]]
    assert world.destination.taken[0].attempts == 3
    assert Counter(world.handler.data()) == {f"{n}".encode(): 1 for n in range(200) if n != 123}
    assert starts <= 12


@pytest.mark.parametrize("factor", [1, 3])
def test_a_window_that_ends_while_a_batch_is_narrowed_down_leaves_that_to_the_next(factor: int) -> None:
    world = EngineWorld(replace(BISECT, parallelization_factor=factor))
    world.put(*(f"{n}" for n in range(64)))

    def script(batch: Batch) -> None:
        world.tasks.sleep(30 * SECOND)
        if any(record.data == b"40" for record in batch.records):
            raise ValueError("poison")

    world.handler.script = script
    for _ in range(12):
        world.window(lasts=MINUTE)
    assert [data_of(kept) for kept in world.destination.taken] == [[b"40"]]
    assert len(world.handler.data()) == 63


def test_a_stop_while_a_batch_fails_keeps_its_attempts() -> None:
    world, _ = world_with(replace(RETRY_TWICE, handler_backoff=MINUTE, handler_backoff_max=MINUTE), "bad")
    stop = world.tasks.signal()
    world.at(5 * SECOND, stop.set)
    world.window(stop=stop, lasts=5 * MINUTE)
    assert world.table.lease().attempts == 1


def test_set_aside_batch_names_its_holder_and_an_earlier_windows_failure() -> None:
    """The destination's refusals outlast a window: the next one asks it first, with no call of its own to tell of."""
    world, _ = world_with(RETRY_TWICE, "bad")
    world.destination.refusals = 5
    world.window()
    world.window()
    (kept,) = world.destination.taken
    assert (kept.has_raised, kept.failure, kept.holder) == (True, None, "item/invocation-2")


def test_set_aside_of_reported_item_failures_has_not_raised() -> None:
    world, _ = world_with(RETRY_TWICE, "bad")

    def name_it(batch: Batch) -> None:
        raise BatchItemsFailed("one record", [])

    world.handler.script = name_it
    world.window()
    (kept,) = world.destination.taken
    assert not kept.has_raised


def test_attempt_is_written_before_a_call_that_may_kill() -> None:
    world, _ = world_with(RETRY_TWICE, "bad")
    world.change_lease(crashes=2)
    noted: list[int] = []
    world.handler.script = lambda _: noted.append(world.table.lease().attempts)
    world.window()
    assert noted == [1]


def test_a_part_of_a_batch_that_is_done_is_checkpointed_before_the_next_is_called() -> None:
    world, numbers = world_with(replace(BISECT, checkpoint_interval=timedelta(0)), "a", "bad")
    stored: list[str] = []
    fails = world.handler.script

    def script(batch: Batch) -> None:
        stored.append(str(world.table.lease().checkpoint))
        fails(batch)

    world.handler.script = script
    world.window()
    assert stored[:3] == ["TRIM_HORIZON", "TRIM_HORIZON", numbers[0]]


def test_records_wait_without_a_destination_and_the_log_says_why() -> None:
    world, _ = world_with(RETRY_TWICE, "bad")
    world.destination = None  # type: ignore[assignment]
    assert only(world.window()).outcome is SessionOutcome.HANDLER_FAILED
    refused = [line.fields for line in world.log.lines if "failure destination refused" in line.message]
    assert {str(line["problem"]) for line in refused} == {
        "there is no failure destination: give the setting on_failure"
    }
    assert "tried 3 times" in str(refused[0]["why"])
