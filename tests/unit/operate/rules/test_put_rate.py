"""Lines are put at a rate, evenly, and without a burst after a pause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sublet.operate.rules.put_rate import PutRate, RatePacing

START = datetime(2026, 11, 22, 8, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "rate"), [("100/s", (100, SECOND)), ("30/m", (30, 60 * SECOND)), ("5/h", (5, 3600 * SECOND))]
)
def test_a_rate_is_read(text: str, rate: tuple[int, timedelta]) -> None:
    assert PutRate.parse(text) == rate


@pytest.mark.parametrize("text", ["100", "0/s", "-1/s", "1.5/s", "100/d", "100 / s", "1000000/s", "٢/s", ""])
def test_text_that_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate such as 100/s"):
        PutRate.parse(text)


def put_at(rate: str, count: int, pauses: dict[int, timedelta] | None = None) -> list[timedelta]:
    """When each record is put, after the first. `pauses`: what else takes time, before the record of this number."""
    pacing, now, found = RatePacing(PutRate.parse(rate)), START, []
    for number in range(count):
        now += (pauses or {}).get(number, timedelta(0))
        now += pacing.wait(now)
        found.append(now - START)
    return found


def test_records_are_spread_evenly() -> None:
    assert put_at("4/s", 9) == [number * SECOND / 4 for number in range(9)]
    assert put_at("30/m", 4) == [number * 2 * SECOND for number in range(4)]
    assert put_at("3/s", 3001)[-1] == 1000 * SECOND, "thirds do not add up to a drift"


def test_a_short_pause_is_made_up_for() -> None:
    assert put_at("4/s", 9, {3: SECOND / 2})[-1] == 2 * SECOND


def test_a_long_pause_is_followed_by_no_burst() -> None:
    found = put_at("100/s", 1000, {500: 60 * SECOND})
    for begin in found:
        assert sum(begin <= each < begin + SECOND for each in found) <= 200, "a second's worth is caught up at most"
    assert found[-1] >= 69 * SECOND
