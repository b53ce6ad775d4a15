"""The failure policy beyond the scenarios of tests/scenarios/failure_policy: what is noted before a call that may kill
the process, and in which call records last failed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.session.crash_caution import CrashCaution
from sublet.decisions.session.failure_policy import (
    FOR_EVER,
    Answer,
    BatchState,
    Call,
    FailedCall,
    GiveUp,
    Run,
    Wait,
    after_answer,
    after_call,
    after_waiting,
    begin,
    is_noted_before,
    last_answer,
    next_step,
)
from sublet.settings import Settings

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
ONE, TWO = Run(0, 1), Run(0, 2)


@pytest.mark.parametrize(
    ("run", "crashes", "retries", "bisects", "is_noted"),
    [
        (TWO, CrashCaution.ALONE, 0, False, True),
        (TWO, CrashCaution.PAUSES, 3, False, True),
        (TWO, CrashCaution.CHECKPOINT_EACH_BATCH, 3, False, False),
        (TWO, CrashCaution.PAUSES, FOR_EVER, False, False),
        (TWO, CrashCaution.PAUSES, 3, True, False),
        (ONE, CrashCaution.PAUSES, 3, True, True),
    ],
    ids=["alone", "with pauses", "among others", "for ever", "to be split", "cannot be split"],
)
def test_an_attempt_is_noted_before_a_call_whose_crash_would_be_its_own(
    run: Run, crashes: int, retries: int, bisects: bool, is_noted: bool
) -> None:
    settings = replace(
        Settings(application="orders", stream="events", on_failure="arn:aws:sqs:eu-west-1:123456789012:given-up"),
        maximum_retry_attempts=retries,
        bisect_batch_on_function_error=bisects,
    )
    assert is_noted_before(run, crashes, settings) is is_noted


def test_finished_batch_has_no_attempts() -> None:
    assert BatchState(()).attempts == 0


def test_later_runs_stay_planned_after_a_partly_finished_run() -> None:
    settings = Settings(application="orders", stream="events")
    assert after_call(BatchState((Run(0, 4), Run(4, 8))), Answer(1), settings).runs == (Run(1, 4), Run(4, 8))


WHOLE, HALF, FIRST = (Answer(0, has_raised=True, failure=ValueError(text)) for text in ("whole", "half", "first"))


def test_records_have_the_answer_to_the_smallest_call_that_they_were_in() -> None:
    called: tuple[FailedCall, ...] = ()
    for run, answer in ((Run(0, 4), WHOLE), (Run(0, 2), HALF), (Run(0, 1), FIRST), (Run(0, 1, 1), FIRST)):
        called = after_answer(called, run, answer)
    found = [last_answer(called, run) for run in (Run(0, 1, 2), Run(1, 2), Run(2, 4), Run(4, 5))]
    assert found == [FIRST, HALF, WHOLE, None]
    assert len(called) == 3, "one for each size"


def test_finished_call_is_no_answer_for_the_records_left() -> None:
    called = after_answer((), Run(0, 4), WHOLE)
    called = after_answer(called, Run(0, 2), Answer(2))
    assert last_answer(called, Run(2, 4)) is WHOLE


def test_last_answer_covers_the_records_left_after_progress() -> None:
    named = Answer(1)
    assert last_answer(after_answer((), Run(0, 4), named), Run(1, 4)) is named


def test_a_wait_that_would_last_until_the_end_is_not_begun() -> None:
    settings = Settings(application="orders", stream="events", handler_backoff=timedelta(seconds=10))
    tired = BatchState((ONE,), in_a_row=1, is_tired=True)
    for left, step in ((10, GiveUp), (10.001, Wait)):
        assert isinstance(next_step(tired, lambda _: NOW, NOW, timedelta(seconds=left), settings), step)


def test_pause_goes_on_from_the_attempts_of_earlier_windows() -> None:
    """In a process, whose windows last an hour, one bad record costs two calls a minute, whoever holds its lease."""
    settings, called_at = Settings(application="orders", stream="events"), list[float]()
    seconds = attempts = 0
    while seconds < 600:
        course = begin(20, settings, attempts, tried=20)
        while not isinstance(step := next_step(course, lambda _: NOW, NOW, timedelta(hours=1), settings), GiveUp):
            if isinstance(step, Wait):
                seconds += int(step.lasts.total_seconds())
                course = after_waiting(course)
            else:
                called_at.append(seconds)
                course = after_call(course, Answer(0, has_raised=True), settings)
        seconds, attempts = seconds + 2, course.attempts  # until the lease is acquired again
    assert called_at[:8] == [0, 1, 3, 7, 15, 33, 63, 93]
    assert 20 <= len(called_at) <= 25


@pytest.mark.parametrize("failures", [5, 1_000])
def test_window_with_no_time_for_the_pause_makes_its_first_call_at_once(failures: int) -> None:
    settings = Settings(application="orders", stream="events")
    pause = min(timedelta(seconds=2 ** (failures - 1 if failures < 10 else 10)), settings.handler_backoff_max)
    course = begin(20, settings, failures, tried=20)
    for left, step in ((4 * pause, Wait), (4 * pause - timedelta(milliseconds=1), Call)):
        assert isinstance(next_step(course, lambda _: NOW, NOW, left, settings), step)
