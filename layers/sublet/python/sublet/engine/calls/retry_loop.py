"""The retry loop: does what decisions.failure_policy says next, until a batch is finished or given up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from sublet.decisions.session.failure_policy import (
    Answer,
    ArrivedAt,
    BatchState,
    Call,
    FailedCall,
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


class BatchActions(Protocol):
    """What the loop needs from the runtime that the batch belongs to."""

    def time_left(self) -> timedelta:
        """How long calls may still begin."""

    def call(self, run: Run) -> Answer | None:
        """Call the handler with these records. None: no more calls may be made."""

    def set_aside(self, step: SetAside, last: Answer | None) -> bool | None:
        """True if the destination has accepted the records and the checkpoint is past them. None: this cannot be done
        now.

        `last`: the handler's answer to the last call with these records; None if this window made no such call.
        """

    def wait(self, lasts: timedelta) -> bool:
        """True if the loop goes on afterwards."""

    def give_up(self, why: str) -> None:
        """Leave the rest to a later window, or fail the task."""


def run_retry_loop(
    course: BatchState, acts: BatchActions, arrived: ArrivedAt, now: Callable[[], datetime], settings: Settings
) -> BatchState:
    """Returns the unfinished rest of the batch: empty unless the batch was given up or calls had to stop."""
    called: tuple[FailedCall, ...] = ()
    while course.runs:
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
    return course
