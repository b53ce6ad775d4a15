"""The retry loop: does what decisions.failure_policy says next, until nothing of a batch is left or it is given up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from sublet.decisions.failure_policy import (
    Answer,
    ArrivedAt,
    Call,
    Called,
    Course,
    Done,
    GiveUp,
    Run,
    SetAside,
    Wait,
    after_answer,
    after_call,
    after_refusal,
    after_setting_aside,
    after_waiting,
    last_answer,
    next_step,
)
from sublet.settings import Settings


class Acts(Protocol):
    """What the loop asks of the runtime whose batch it is."""

    def time_left(self) -> timedelta:
        """How long calls may still begin."""

    def call(self, run: Run) -> Answer | None:
        """Hand these records over; None: no call may be made any more."""

    def set_aside(self, step: SetAside, last: Answer | None) -> bool | None:
        """True if the destination has accepted the records, which are then checkpointed past. None: this cannot be done now.

        `last`: the handler's answer to the last call that these records were in; None if this window made no such call.
        """

    def wait(self, lasts: timedelta) -> bool:
        """True if the loop goes on afterwards."""

    def give_up(self, why: str) -> None:
        """What is left stays for a later window, or fails the task."""


def run_retry_loop(
    course: Course, acts: Acts, arrived: ArrivedAt, now: Callable[[], datetime], settings: Settings
) -> Course:
    """Returns what is left of the batch: nothing, or what was given up or no longer called."""
    called: tuple[Called, ...] = ()
    while True:
        match next_step(course, arrived, now(), acts.time_left(), settings):
            case Call(run):
                answer = acts.call(run)
                if answer is None:
                    return course
                called = after_answer(called, run, answer)
                course = after_call(course, answer, settings)
            case SetAside(run) as step:
                is_taken = acts.set_aside(step, last_answer(called, run))
                if is_taken is None:
                    return course
                course = after_setting_aside(course, run) if is_taken else after_refusal(course)
            case Wait(lasts):
                if not acts.wait(lasts):
                    return course
                course = after_waiting(course)
            case GiveUp(why):
                acts.give_up(why)
                return course
            case Done():
                return course
