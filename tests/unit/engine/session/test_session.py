"""One lease's part in a window: when it leaves, and what it does when a service fails."""

from __future__ import annotations

import errno
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.process_end import ProcessEndReason
from sublet.decisions.session.window import AfterWindow, SessionOutcome
from sublet.engine.session.page_runner import PLAIN_SLICE_BYTES, SLICE_BYTES, slice_bytes, slices
from sublet.errors import (
    AwsNotConfigured,
    LeaseTableUnavailable,
    ShardNotFound,
    StreamKeyUnavailable,
    StreamUnavailable,
)
from sublet.handler import Batch
from sublet.ports import PollRefusal
from sublet.protocol.aggregation import aggregate
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.records import Page, StreamRecord
from sublet.protocol.shard import HashKeyRange

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
IMMEDIATE = replace(CONTINUOUS, checkpoint_interval=timedelta(0))


def keep_putting(world: EngineWorld, seconds: int) -> None:
    for second in range(seconds):
        world.at(second * SECOND, lambda second=second: world.put(f"{second}"))  # type: ignore[misc]


def test_session_checkpoints_and_releases_within_the_margin_at_the_deadline() -> None:
    """A page may hold an hour's work: after the deadline no new batch is begun, so that Lambda need not kill us."""
    settings = replace(NO_WAITING, batch_size=1, checkpoint_interval=HOUR)
    world = EngineWorld(settings)
    numbers = world.put(*map(str, range(100)))
    world.handler.script = lambda _: world.tasks.sleep(7 * SECOND)
    report = world.window(lasts=MINUTE)
    assert only(report).outcome is SessionOutcome.WINDOW_ENDED
    assert world.clock.now() <= world.began + MINUTE + settings.window_margin
    assert len(world.handler.data()) == 9
    row = world.table.lease()
    assert (row.checkpoint, row.lease_owner) == (Checkpoint(numbers[8]), None)
    assert report.next is AfterWindow.PROMPT


def test_no_call_begins_in_the_very_moment_of_the_deadline() -> None:
    world = EngineWorld(replace(NO_WAITING, batch_size=1))
    world.put("a", "b", "c")
    world.handler.script = lambda _: world.tasks.sleep(7 * SECOND)
    assert only(world.window(lasts=14 * SECOND)).outcome is SessionOutcome.WINDOW_ENDED
    assert world.handler.data() == [b"a", b"b"]


def test_the_next_window_goes_on_after_the_last_finished_record() -> None:
    world = EngineWorld(replace(NO_WAITING, batch_size=1))
    world.put(*map(str, range(30)))
    world.handler.script = lambda _: world.tasks.sleep(7 * SECOND)
    while only(world.window()).outcome is SessionOutcome.WINDOW_ENDED:
        pass
    assert world.handler.data() == [str(n).encode() for n in range(30)]


def test_catch_up_leaves_at_the_first_empty_page_at_the_tip() -> None:
    world = EngineWorld(replace(NO_WAITING, linger=MINUTE))
    world.put("a")
    report = world.window()
    assert only(report).outcome is SessionOutcome.CAUGHT_UP
    assert len(world.stream.polls) == 2
    assert report.next is AfterWindow.DONE


def test_catch_up_leaves_a_shard_of_steady_records_after_its_linger() -> None:
    """Otherwise a shard with one record a second would be consumed for ever."""
    world = EngineWorld(replace(NO_WAITING, linger=2 * SECOND))
    world.put("first")
    for tenth in range(600):
        world.at(tenth * SECOND / 10, lambda tenth=tenth: world.put(f"{tenth}"))  # type: ignore[misc]
    report = world.window()
    assert only(report).outcome is SessionOutcome.CAUGHT_UP
    assert 2 <= world.seconds() <= 3.1


def test_catch_up_does_not_leave_while_it_is_behind() -> None:
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put("a", "b", "c")
    world.clock.advance(HOUR)
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [b"a", b"b", b"c"]


def test_continuous_stays_at_the_tip_and_handles_new_records() -> None:
    world = EngineWorld(CONTINUOUS)
    world.at(30 * SECOND, lambda: world.put("late"))
    assert only(world.window()).outcome is SessionOutcome.WINDOW_ENDED
    assert world.handler.data() == [b"late"]


def test_a_session_that_ends_does_not_wait_for_the_page_fetched_ahead() -> None:
    world = EngineWorld(replace(CONTINUOUS, handler_attempts=1))
    world.put("a")
    world.handler.script = raising(ValueError())
    world.stream.disturb = lambda poll: poll() if len(world.stream.polls) == 1 else PollRefusal.THROTTLED
    assert only(world.window(lasts=HOUR)).outcome is SessionOutcome.HANDLER_FAILED
    assert world.seconds() < 10


def test_session_names_a_deleted_stream_and_releases_the_lease() -> None:
    world = EngineWorld()
    world.shards.delete()
    report = only(world.window())
    assert report.outcome is SessionOutcome.SERVICE_FAILED
    assert "events" in (report.problem or "")
    assert world.table.lease().lease_owner is None


@pytest.mark.parametrize(
    "error",
    [
        StreamKeyUnavailable("key is disabled"),
        ShardNotFound("no such shard"),
        AwsNotConfigured("the token has expired"),
    ],
)
def test_session_checkpoints_and_releases_when_the_stream_refuses_in_mid_window(
    error: Exception,
) -> None:
    world = EngineWorld(replace(CONTINUOUS, checkpoint_interval=HOUR))
    (number,) = world.put("a")
    world.at(10 * SECOND, lambda: setattr(world.stream, "disturb", raising(error)))
    report = only(world.window())
    assert report.outcome is SessionOutcome.SERVICE_FAILED
    assert report.problem == str(error)
    row = world.table.lease()
    assert (row.checkpoint, row.lease_owner) == (Checkpoint(number), None)


def test_process_ends_when_descriptors_run_out_and_not_on_a_refusal() -> None:
    """The next process has them again; a refusal would come to it too."""
    exhausted = StreamUnavailable("could not connect")
    exhausted.__cause__ = OSError(errno.EMFILE, "Too many open files")
    for error, ending in ((exhausted, ProcessEndReason.NO_DESCRIPTORS), (ShardNotFound("no such shard"), None)):
        world = EngineWorld()
        worker = world.worker()
        world.stream.disturb = raising(error)
        assert only(world.window(worker=worker)).outcome is SessionOutcome.SERVICE_FAILED
        assert worker.health.ends_now is ending


def test_a_lease_table_out_of_reach_for_less_than_failover_time_changes_nothing() -> None:
    world = EngineWorld(IMMEDIATE)
    keep_putting(world, 50)
    works = world.table.disturb
    world.at(10 * SECOND, lambda: setattr(world.table, "disturb", raising(LeaseTableUnavailable("timed out"))))
    world.at(35 * SECOND, lambda: setattr(world.table, "disturb", works))
    assert only(world.window()).outcome is SessionOutcome.WINDOW_ENDED
    assert world.handler.data() == [str(n).encode() for n in range(50)]


def test_a_lease_table_out_of_reach_for_longer_loses_the_lease_and_stops_handling() -> None:
    world = EngineWorld(IMMEDIATE)
    keep_putting(world, 59)
    world.at(10 * SECOND, lambda: setattr(world.table, "disturb", raising(LeaseTableUnavailable("timed out"))))
    assert only(world.window()).outcome is SessionOutcome.LEASE_LOST
    assert 35 < len(world.handler.data()) < 45
    assert world.handler.calls[-1] == ("lease_lost", SHARD)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([0], [[0]]),
        ([5], [[5]]),
        ([5, 5], [[5, 5]]),
        ([5, 5, 1], [[5, 5], [1]]),
        ([50, 50], [[50], [50]]),
        ([9, 9, 9, 9], [[9], [9], [9], [9]]),
        ([4, 4, 4, 4, 4], [[4, 4, 4], [4, 4]]),
    ],
)
def test_slices_keep_all_records_in_order_and_are_about_as_large_as_asked(
    sizes: list[int], expected: list[list[int]]
) -> None:
    world = EngineWorld()
    records = tuple(StreamRecord(str(n), b"x" * size, "k", world.began) for n, size in enumerate(sizes))
    runs = list(slices(records, sum(sizes), 10))
    assert [[len(record.data) for record in run] for run in runs] == expected
    assert tuple(record for run in runs for record in run) == records


@pytest.mark.parametrize(
    ("first", "expected"), [(b"plain", PLAIN_SLICE_BYTES), (aggregate([("k", None, b"data")]), SLICE_BYTES)]
)
def test_plain_records_make_larger_slices_than_aggregates(first: bytes, expected: int) -> None:
    record = StreamRecord("1", first, "k", EngineWorld().began)
    assert slice_bytes(Page((record,), len(first), 0)) == expected


def test_a_page_without_records_has_no_slices() -> None:
    page = Page((), 0, 0)
    assert list(slices(page.records, page.data_bytes, slice_bytes(page))) == []


TWO_MIB = [("k", None, b"%01024d" % n) for n in range(2_100)]


def test_large_aggregate_is_handled_in_parts_and_resumes_within_after_a_failure() -> None:
    world = EngineWorld(replace(NO_WAITING, batch_size=5_000))
    number = world.shards.put("k", aggregate(TWO_MIB))
    calls: list[int] = []

    def fail_once_within_it(batch: Batch) -> None:
        calls.append(len(batch.records))
        if len(calls) == 2:
            batch.checkpoint(batch.records[99])
            raise ValueError("once")

    world.handler.script = fail_once_within_it
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.table.lease().checkpoint == Checkpoint(number, 2_099)
    assert max(calls) < 1_100
    assert calls[2] == calls[1] - 100
    assert sum(calls) - calls[1] + 100 == 2_100
    rows = [data for _, _, data in TWO_MIB]
    assert world.handler.data() == rows[: calls[0]] + rows[calls[0] + 100 :]  # of the calls that returned


def test_a_large_aggregate_as_it_was_put_is_one_record() -> None:
    world = EngineWorld(replace(NO_WAITING, deaggregate=False))
    data = aggregate(TWO_MIB)
    numbers = [world.shards.put("k", data) for _ in range(2)]
    assert only(world.window()).outcome is SessionOutcome.CAUGHT_UP
    assert world.handler.data() == [data, data]
    assert world.table.lease().checkpoint == Checkpoint(numbers[1], 2_099)


def test_report_counts_the_records_of_all_pages() -> None:
    world = EngineWorld(replace(NO_WAITING, poll_limit=1))
    world.put("a", "bc", "d")
    world.clock.advance(MINUTE)
    report = only(world.window())
    assert (report.stream_records, report.user_records, report.bytes) == (3, 3, 4)


def test_a_hash_key_range_comes_from_the_row() -> None:
    world = EngineWorld(shards=2)
    assert world.table.lease().hash_key_range == HashKeyRange(0, 2**127 - 1)
