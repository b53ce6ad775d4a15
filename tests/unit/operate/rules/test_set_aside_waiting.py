"""How a failure destination's contents are described."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.operate.rules.set_aside_waiting import (
    SetAsideBatches,
    SetAsideWaiting,
    batch_lines,
    batch_text,
    set_aside_text,
)
from sublet.protocol.failure_document import Failure

from tests.contract.test_failure_destination import batch

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        (SetAsideWaiting(0), "nothing waits"),
        (SetAsideWaiting(1200), "about 1,200 batches wait"),
        (SetAsideWaiting(1), "about 1 batch waits"),
        (SetAsideWaiting(3, NOW - DAY), "about 3 batches wait; the oldest since 2026-01-30T08:00:00Z"),
        (
            SetAsideWaiting(3, NOW - DAY, NOW + 5 * DAY),
            "about 3 batches wait; the oldest since 2026-01-30T08:00:00Z",
        ),
        (
            SetAsideWaiting(3, NOW - DAY, NOW + 4 * DAY),
            "about 3 batches wait; the oldest since 2026-01-30T08:00:00Z, which its destination deletes in 96 h",
        ),
        (
            SetAsideWaiting(3, NOW - 5 * DAY, NOW - DAY),
            "about 3 batches wait; the oldest since 2026-01-26T08:00:00Z, which its destination deletes in 0 h",
        ),
    ],
)
def test_set_aside_text_tells_count_age_and_deletion(waiting: SetAsideWaiting, text: str) -> None:
    assert set_aside_text(waiting, NOW) == text


def test_batch_is_told_by_its_place_and_its_reason_without_data() -> None:
    given = replace(batch(100), failure=Failure("ValueError", "orders.py:8", "secret"), attempts=3)
    first, last = given.records[0].checkpoint, given.records[-1].checkpoint
    place, why = batch_text(given)
    assert place == f"shardId-000000000000  2 records  {first} to {last}"
    assert why.startswith("  set aside ")
    assert why.endswith(f"Z: {given.condition}, 3 attempts, ValueError")
    assert "secret" not in place + why


@pytest.mark.parametrize(
    ("found", "waiting", "ends"),
    [
        (SetAsideBatches((batch(1), batch(2))), 2, []),
        (SetAsideBatches((batch(1),), ("message 7: no JSON",)), 2, ["cannot be read: message 7: no JSON"]),
        (SetAsideBatches((batch(1),), foreign=2), 4_003, ["2 batches of other applications", "and about 4,000 more"]),
        (SetAsideBatches((batch(1),)), 0, []),
    ],
    ids=["all", "one of them unreadable", "others and more", "a count that is late"],
)
def test_batch_lines_show_each_batch_and_count_the_rest(found: SetAsideBatches, waiting: int, ends: list[str]) -> None:
    lines = [line for each in found.batches for line in batch_text(each)] + ends
    assert list(batch_lines(found, SetAsideWaiting(waiting))) == lines


def test_batches_that_may_not_be_read_have_their_reason() -> None:
    found = SetAsideBatches(problem="these credentials lack sqs:ReceiveMessage")
    (line,) = batch_lines(found, SetAsideWaiting(3))
    assert line == "they could not be looked at: these credentials lack sqs:ReceiveMessage"
