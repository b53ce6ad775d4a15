"""How often CloudWatch is asked for the last hour, and what is shown if it refuses."""

from __future__ import annotations

from datetime import timedelta

from sublet.errors import CheckRefused
from sublet.operate.last_hour_metrics import PACE, SLOW_PACE, HourRecorder
from sublet.operate.rules.last_hour import LastHour, RecordedHour
from sublet.testing.memory import FakeClock

SECOND = timedelta(seconds=1)


class CloudWatch:
    """Counts the questions."""

    def __init__(self, clock: FakeClock) -> None:
        self.asked, self._at = 0, clock.now()
        self.lag: float | None = 5.0
        self.problem = ""

    def last_hour(self) -> RecordedHour:
        self.asked += 1
        if self.problem:
            raise CheckRefused(self.problem)
        return RecordedHour() if self.lag is None else RecordedHour({self._at: self.lag})


def test_cloudwatch_is_asked_once_a_minute() -> None:
    clock = FakeClock()
    cloudwatch = CloudWatch(clock)
    recorder, began = HourRecorder(cloudwatch.last_hour, clock), clock.now()
    for _ in range(61):
        hour = recorder.added_to(LastHour(at=clock.now()))
        assert hour.lags[began] == 5.0
        clock.advance(10 * SECOND)
    assert cloudwatch.asked == 11
    assert timedelta(minutes=1) == PACE


def test_an_application_without_metrics_is_asked_about_now_and_then() -> None:
    clock = FakeClock()
    cloudwatch = CloudWatch(clock)
    cloudwatch.lag = None
    recorder = HourRecorder(cloudwatch.last_hour, clock)
    for _ in range(30):
        assert recorder.added_to(LastHour(at=clock.now())) == LastHour(at=clock.now())
        clock.advance(PACE)
    assert cloudwatch.asked == 30 * PACE // SLOW_PACE == 2


def test_a_refusal_hides_nothing_and_says_why_until_the_next_answer() -> None:
    clock = FakeClock()
    cloudwatch = CloudWatch(clock)
    cloudwatch.problem = "these credentials lack cloudwatch:GetMetricData"
    recorder, seen = HourRecorder(cloudwatch.last_hour, clock), LastHour(at=clock.now())
    assert recorder.added_to(seen) == seen
    assert recorder.problem == cloudwatch.problem
    cloudwatch.problem = ""
    clock.advance(SLOW_PACE)
    assert recorder.added_to(seen) != seen
    assert not recorder.problem
