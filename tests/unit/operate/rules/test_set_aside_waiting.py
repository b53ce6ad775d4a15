"""How a failure destination's contents are described."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sublet.operate.rules.set_aside_waiting import SetAsideWaiting, set_aside_text

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
