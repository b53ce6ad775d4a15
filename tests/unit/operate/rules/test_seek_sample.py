"""How many records a span has, by a page at each end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sublet.operate.rules.seek_estimate import WINDOW, Sample, records_in, second_start

SINCE = datetime(2026, 11, 22, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
UNTIL = SINCE + HOUR
PAGE = 1000


def page(start: datetime, rate: float, tip: datetime = UNTIL) -> Sample:
    """The first records from a time on, which arrive evenly up to the tip."""
    arrivals = [start + timedelta(seconds=number / rate) for number in range(PAGE)] if rate else []
    there = tuple(at for at in arrivals if at < tip)
    return Sample(start, there, is_all=len(there) < PAGE)


@pytest.mark.parametrize("rate", [1, 5, 50])
def test_an_even_stream_is_counted_by_its_ends(rate: float) -> None:
    second = page(second_start(SINCE, UNTIL), rate)
    assert records_in(SINCE, UNTIL, page(SINCE, rate), second) == pytest.approx(3600 * rate, rel=0.01)


def test_a_page_that_has_them_all_counts_exactly() -> None:
    assert records_in(SINCE, UNTIL, page(SINCE, 0.1), None) == 359
    assert records_in(SINCE, SINCE + HOUR / 2, page(SINCE, 0.1), None) == 180
    assert records_in(SINCE, UNTIL, page(SINCE, 0), None) == 0


@pytest.mark.parametrize(("at_start", "at_end"), [(10, 1), (1, 10), (5, 0)])
def test_estimate_is_unknown_when_both_samples_disagree(at_start: float, at_end: float) -> None:
    second = page(second_start(SINCE, UNTIL), at_end)
    assert records_in(SINCE, UNTIL, page(SINCE, at_start), second) is None


def test_estimate_is_unknown_without_both_samples() -> None:
    assert records_in(SINCE, UNTIL, None, None) is None
    assert records_in(SINCE, UNTIL, page(SINCE, 5), None) is None


def test_a_span_that_is_short_has_its_second_page_from_its_middle() -> None:
    assert second_start(SINCE, SINCE + WINDOW) == SINCE + WINDOW / 2
    assert second_start(SINCE, UNTIL) == UNTIL - WINDOW
