"""How far a shard is behind its row's checkpoint, how fast it advances, and which reports are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.session.lag import LENGTH, HandledSpan, LastPage, ThroughputRates, lag_of, seen_after
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lag_history import LagSeen
from sublet.protocol.lag_report import LagReport

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
NOTHING = timedelta(0)


def handled(number: int, seconds_ago: int) -> HandledSpan:
    return HandledSpan(Checkpoint(str(number)), NOW - seconds_ago * SECOND, NOW - (seconds_ago - 1) * SECOND)


AT_TIP, BEHIND = LastPage(NOTHING, NOW - 5 * SECOND), LastPage(MINUTE, NOW - 5 * SECOND)


@pytest.mark.parametrize(
    ("stretches", "in_hand", "last", "at", "lag"),
    [
        ((), None, None, NOW, None),
        ((), None, LastPage(None, NOW - SECOND), NOW, None),
        ((), None, AT_TIP, NOW - 5 * SECOND, NOTHING),
        ((), None, BEHIND, NOW, 65 * SECOND),
        ((), NOW - 9 * SECOND, AT_TIP, NOW, 9 * SECOND),
        ((handled(50, 30),), None, AT_TIP, NOW - 5 * SECOND, NOTHING),
        ((handled(50, 30), handled(60, 20), handled(70, 10)), NOW - SECOND, AT_TIP, NOW, 20 * SECOND),
        ((), NOW + 9 * SECOND, AT_TIP, NOW, timedelta(milliseconds=1)),
    ],
    ids=[
        "nothing was read",
        "an empty page that lags proves nothing",
        "the tip, when it was polled",
        "a page that lags grows older",
        "a record is being handled",
        "all that is handled is checkpointed",
        "what is handled and not checkpointed lags",
        "a clock that is behind",
    ],
)
def test_the_lag_is_that_of_the_first_record_after_the_checkpoint(
    stretches: tuple[HandledSpan, ...],
    in_hand: datetime | None,
    last: LastPage | None,
    at: datetime,
    lag: timedelta | None,
) -> None:
    assert lag_of(Checkpoint("50"), stretches, in_hand, last, NOW) == (at, lag)


def test_rates_are_updated_once_an_interval_and_half_of_each_is_the_one_before() -> None:
    rates = ThroughputRates(NOW).after(300, 30, NOW + 9 * SECOND, 10 * SECOND)
    assert rates == ThroughputRates(NOW)
    first = rates.after(300, 30, NOW + 10 * SECOND, 10 * SECOND)
    assert (first.bytes_per_second, first.records_per_second) == (30, 3)
    then = first.after(500, 30, NOW + 30 * SECOND, 10 * SECOND)
    assert (then.bytes_per_second, then.records_per_second) == (20, 1.5)
    assert then.reported(NOW, None, None) == LagReport(NOW, None, None, 20, 1.5)


def test_reports_are_kept_a_minute_apart_and_no_longer_than_an_hour() -> None:
    kept: tuple[LagSeen, ...] = (LagSeen(NOW - 2 * HOUR, MINUTE, NOW),)
    for second in range(0, 1_200, 20):
        kept = seen_after(kept, LagReport(NOW + second * SECOND, second * SECOND, NOW))
    assert [seen.at for seen in kept] == [NOW + n * MINUTE for n in range(20 - LENGTH, 20)]


def test_a_record_that_waits_for_less_than_a_second_is_not_nothing() -> None:
    (seen,) = seen_after((), LagReport(NOW, timedelta(milliseconds=1), NOW))
    assert seen.lag == SECOND


def test_an_idle_shard_has_nothing_new_to_say() -> None:
    idle = (LagSeen(NOW, NOTHING, NOW),)
    assert seen_after(idle, LagReport(NOW + HOUR, NOTHING, NOW)) == idle
    for news in (LagReport(NOW + HOUR, SECOND, NOW), LagReport(NOW + HOUR, NOTHING, NOW + MINUTE)):
        assert len(seen_after(idle, news)) == 2


def test_reports_of_a_clock_that_was_ahead_do_not_stop_later_ones() -> None:
    ahead = (LagSeen(NOW + HOUR, MINUTE, NOW),)
    assert seen_after(ahead, LagReport(NOW, SECOND, NOW)) == (LagSeen(NOW, SECOND, NOW),)
