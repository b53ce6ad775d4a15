"""The small decisions within a window, and what comes after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.manager.choose_leases import ClaimReason
from sublet.decisions.manager.packing import LeaseClaim, WorkerItem
from sublet.decisions.session.window import (
    BATCH_PIECES_MAX,
    BATCH_RECORDS_MAX,
    AfterWindow,
    AtTip,
    LeaseReport,
    SessionOutcome,
    after_window,
    batch_ends,
    batches,
    handler_backoff,
    has_caught_up,
    keeps_leases,
    overdue_at,
)
from sublet.protocol.lease import LeaseFence
from sublet.protocol.records import Page, StreamRecord, UserRecord
from sublet.settings import Settings

from tests.doubles.engine_world import CONTINUOUS, SECOND, moment

NOW = moment("2026-01-31T08:00:00")
CATCH_UP = Settings(application="orders", stream="events")
RECORD = StreamRecord("1", b"", "key", NOW)
EMPTY, FULL = Page((), 0, 0), Page((RECORD,), 0, 0)
EMPTY_BEHIND, FULL_BEHIND = Page((), 0, 5000), Page((RECORD,), 0, 5000)


def test_the_tip_is_since_the_first_of_the_pages_without_lag() -> None:
    tip = AtTip().after(FULL_BEHIND, NOW)
    assert tip == AtTip(None)
    assert AtTip(NOW).after(Page((), 0, 1), NOW) == AtTip(None)
    tip = tip.after(FULL, NOW)
    assert tip.after(EMPTY, NOW + SECOND) == AtTip(NOW)
    assert tip.after(EMPTY_BEHIND, NOW + SECOND) == AtTip(None)


@pytest.mark.parametrize(
    ("because", "settings", "page", "at_tip_for", "expected"),
    [
        ("an empty page at the tip", CATCH_UP, EMPTY, 0 * SECOND, True),
        ("records at the tip: more of that millisecond may follow", CATCH_UP, FULL, 0 * SECOND, False),
        ("records at the tip for as long as linger", CATCH_UP, FULL, 2 * SECOND, True),
        ("continuous never leaves", CONTINUOUS, EMPTY, 60 * SECOND, False),
    ],
)
def test_a_shard_has_caught_up(
    because: str, settings: Settings, page: Page, at_tip_for: timedelta, expected: bool
) -> None:
    assert has_caught_up(page, AtTip(NOW), NOW + at_tip_for, settings) is expected, because


def test_an_empty_page_behind_the_tip_is_not_the_end() -> None:
    assert not has_caught_up(EMPTY_BEHIND, AtTip(None), NOW, CATCH_UP)


def test_a_handlers_backoff_doubles_up_to_its_longest_however_often_it_fails() -> None:
    assert [handler_backoff(n, CATCH_UP) / SECOND for n in (1, 2, 3, 6, 10_000)] == [1, 2, 4, 30, 30]


@pytest.mark.parametrize(
    ("handler_timeout", "cut_off", "expected"),
    [
        (None, None, None),
        (20, None, 20),
        (None, 100, 90),
        (20, 100, 20),
        (200, 100, 90),
        (None, 12, 5),
    ],
    ids=[
        "neither",
        "its own time",
        "a third of the margin is left",
        "the earlier",
        "whichever",
        "half of that at the very end",
    ],
)
def test_call_is_overdue_by_handler_timeout_and_cut_off(
    handler_timeout: int | None, cut_off: int | None, expected: int | None
) -> None:
    settings = replace(
        CATCH_UP,
        window_margin=30 * SECOND,
        handler_timeout=None if handler_timeout is None else handler_timeout * SECOND,
    )
    until = overdue_at(NOW, None if cut_off is None else NOW + cut_off * SECOND, settings)
    assert until == (None if expected is None else NOW + expected * SECOND)


def item(windows_left: int = 40) -> WorkerItem:
    return WorkerItem("item", "orders-lambda-0", (LeaseClaim("shardId-1", None, 3, ClaimReason.FREE),), windows_left)


def report(outcome: SessionOutcome, **changes: object) -> LeaseReport:
    return replace(LeaseReport("shardId-1", outcome), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "windows_left", "expected"),
    [(CONTINUOUS, 2, True), (CONTINUOUS, 1, False), (CATCH_UP, 40, False)],
)
def test_leases_are_kept_while_the_execution_may_run_another_window(
    settings: Settings, windows_left: int, expected: bool
) -> None:
    assert keeps_leases(item(windows_left), settings) is expected


def test_next_window_has_exactly_the_kept_leases() -> None:
    kept = LeaseFence("shardId-1", "orders-lambda-0", 12)
    following = after_window(item(), [report(SessionOutcome.WINDOW_ENDED, kept=kept), report(SessionOutcome.CAUGHT_UP)])
    assert following.next is AfterWindow.AGAIN
    assert following.item == WorkerItem(
        "item", "orders-lambda-0", (LeaseClaim("shardId-1", "orders-lambda-0", 12, ClaimReason.CONTINUE),), 39
    )


@pytest.mark.parametrize(
    ("because", "reports", "expected"),
    [
        ("there is more to read", [report(SessionOutcome.WINDOW_ENDED)], AfterWindow.PROMPT),
        (
            "a tick creates the other parent's lease",
            [report(SessionOutcome.SHARD_END_BLOCKED, user_records=1)],
            AfterWindow.PROMPT,
        ),
        ("the other parent may wait for long", [report(SessionOutcome.SHARD_END_BLOCKED)], AfterWindow.DONE),
        ("children found no room", [report(SessionOutcome.SHARD_ENDED, unstarted_children=1)], AfterWindow.PROMPT),
        ("all children are under way", [report(SessionOutcome.SHARD_ENDED)], AfterWindow.DONE),
        ("it is to have a worker of its own", [report(SessionOutcome.TRIED_APART)], AfterWindow.PROMPT),
        ("it rests", [report(SessionOutcome.LEFT_ALONE)], AfterWindow.DONE),
        ("nothing is left to read", [report(SessionOutcome.CAUGHT_UP)], AfterWindow.DONE),
        ("somebody else goes on", [report(SessionOutcome.LEASE_LOST)], AfterWindow.DONE),
        ("a prompt would fail again at once", [report(SessionOutcome.HANDLER_FAILED)], AfterWindow.DONE),
        ("so would this", [report(SessionOutcome.SERVICE_FAILED)], AfterWindow.DONE),
        ("its parent's worker starts it", [report(SessionOutcome.WAITS_FOR_PARENTS)], AfterWindow.DONE),
        ("another one is faster", [report(SessionOutcome.COULD_NOT_ACQUIRE)], AfterWindow.DONE),
        (
            "one of several is enough",
            [report(SessionOutcome.CAUGHT_UP), report(SessionOutcome.WINDOW_ENDED)],
            AfterWindow.PROMPT,
        ),
        ("there was nothing to do", [], AfterWindow.DONE),
    ],
)
def test_window_without_kept_leases_ends_or_prompts_by_its_outcomes(
    because: str, reports: list[LeaseReport], expected: AfterWindow
) -> None:
    assert after_window(item(), reports).next is expected, because


def of(*sizes: int) -> list[UserRecord]:
    """User records of stream records that hold so many each."""
    found = []
    for number, size in enumerate(sizes):
        whole = StreamRecord(str(number), b"", "k", NOW)
        found += [UserRecord(b"", "k", sub, whole) for sub in range(size)]
    return found


@pytest.mark.parametrize(
    ("sizes", "ends"),
    [
        ((), []),
        ((1, 1, 1), [3]),
        ((1,) * 11, [10, 11]),
        ((8, 8), [8, 16]),
        ((4, 4, 4, 4), [8, 16]),
        ((10, 10), [10, 20]),
        ((25, 3), [10, 20, 28]),  # more than a batch alone: what is left of it goes with the next ones
        ((3, 25), [3, 13, 23, 28]),
    ],
)
def test_user_records_of_one_stream_record_stay_together_up_to_the_batch_size(
    sizes: tuple[int, ...], ends: list[int]
) -> None:
    assert list(batch_ends(of(*sizes), 10)) == ends


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([SessionOutcome.CAUGHT_UP, SessionOutcome.COULD_NOT_ACQUIRE], "done"),
        ([SessionOutcome.WINDOW_ENDED], "prompted"),
        ([SessionOutcome.CAUGHT_UP, SessionOutcome.HANDLER_FAILED, SessionOutcome.CAUGHT_UP], "handler_failed"),
        ([SessionOutcome.WINDOW_ENDED, SessionOutcome.SERVICE_FAILED], "service_failed"),
        ([SessionOutcome.HANDLER_FAILED, SessionOutcome.HANDLER_HUNG], "handler_hung"),
        ([SessionOutcome.LEFT_ALONE, SessionOutcome.SERVICE_FAILED], "service_failed"),
        ([SessionOutcome.TRIED_APART, SessionOutcome.LEFT_ALONE], "left_alone"),
        ([SessionOutcome.WINDOW_ENDED, SessionOutcome.TRIED_APART], "tried_apart"),
        ([SessionOutcome.COULD_NOT_ACQUIRE, SessionOutcome.COULD_NOT_ACQUIRE], "could_not_acquire"),
        ([], "done"),
    ],
)
def test_a_window_is_called_by_the_worst_that_became_of_a_lease(outcomes: list[SessionOutcome], expected: str) -> None:
    assert after_window(item(), [report(outcome) for outcome in outcomes]).outcome == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], []),
        ([0, 0], []),
        ([3, 0, 4], [7]),
        ([8, 8], [8, 8]),
        ([10, 1], [10, 1]),
        ([4, 4, 4, 4], [8, 8]),
        ([25, 3], [10, 10, 8]),
    ],
)
def test_batches_do_not_end_where_a_part_does(parts: list[int], expected: list[int]) -> None:
    records = of(*parts)
    made = iter(records)
    in_parts = [([next(made) for _ in range(size)], 0) for size in parts]
    found = list(batches(in_parts, 10))
    assert [len(batch) for batch in found] == expected
    assert [record for batch in found for record in batch] == records


def test_pieces_of_an_aggregate_make_batches_of_the_batch_size() -> None:
    records = of(25)
    pieces = [(records[start : start + 4], 100) for start in range(0, 25, 4)]
    assert [len(batch) for batch in batches(pieces, 10)] == [10, 10, 5]
    assert [record for batch in batches(pieces, 10) for record in batch] == records


def test_a_large_aggregates_pieces_make_batches_of_a_mib_at_most() -> None:
    pieces = [(of(4), BATCH_PIECES_MAX // 2) for _ in range(5)]
    assert [len(batch) for batch in batches(pieces, 100)] == [8, 8, 4]
    assert [len(batch) for batch in batches([(of(4), BATCH_PIECES_MAX + 1)], 100)] == [4]


def test_no_batch_is_larger_than_memory_allows_whatever_the_setting_says() -> None:
    records = of(BATCH_RECORDS_MAX + 1)
    assert [len(batch) for batch in batches([(records, 0)], 1_000_000)] == [BATCH_RECORDS_MAX, 1]


def test_a_part_is_made_when_the_batches_before_it_are_handled() -> None:
    made = []

    def parts() -> Iterator[tuple[list[UserRecord], int]]:
        for number in range(4):
            made.append(number)
            yield of(*(1,) * 6), 0

    found = batches(parts(), 5)
    next(found)
    assert made == [0]
    next(found)
    assert made == [0, 1]
