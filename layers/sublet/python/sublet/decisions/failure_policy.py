"""What becomes of a batch while its handler fails: called again, split, set aside, waited for, or left to a later window.

The rules and their names are those of Lambda's event source mapping. One differs: records that the destination has not taken are
never gone past.

A batch's `Course` is a value. Whoever carries it out asks `next_step`, does what it says, and tells what came of it
(`after_call`, `after_setting_aside`, `after_refusal`, `after_waiting`), which makes the course that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from sublet.decisions.crash_caution import Caution
from sublet.decisions.window import handler_backoff
from sublet.settings import Settings

FOR_EVER = -1
"""Of maximum_retry_attempts, as ESM has it."""

NARROWED_BY = 4
"""With bisect, each crash divides by 2 to the power of this what is called next: a process that died cannot say which half it
was in, and each crash costs a failover."""


class Condition(StrEnum):
    """Why records are set aside, in ESM's words."""

    RETRY_ATTEMPTS_EXHAUSTED = "RetryAttemptsExhausted"
    RECORD_AGE_EXCEEDED = "RecordAgeExceeded"
    TERMINATED = "Terminated"
    """Ours: whoever pulled the record said so (`record.term`)."""


class Run(NamedTuple):
    """Records of a batch that are handed over together, by their places in it.

    attempts   how often this run has been tried in vain, in windows before this one too
    """

    start: int
    end: int
    attempts: int = 0

    @property
    def size(self) -> int:
        return self.end - self.start


class Answer(NamedTuple):
    """What the handler made of a run.

    done       records, from the run's first, that are finished: all of them when it succeeded
    has_raised it raised, or was cut off. Otherwise it returned, and named what it could not do
    failure    what it raised, for whoever is told of the records
    """

    done: int
    has_raised: bool = False
    failure: BaseException | None = None


class Call(NamedTuple):
    """Call the handler with these records."""

    run: Run


class SetAside(NamedTuple):
    """Give these records to the destination; then, and only then, go past them."""

    run: Run
    condition: Condition
    why: str


class Called(NamedTuple):
    """A call that did not do all of its run."""

    run: Run
    answer: Answer


def after_answer(called: Sequence[Called], run: Run, answer: Answer) -> tuple[Called, ...]:
    """Of the calls so far the one that each of the records left was in last: a run is called whole, and split into runs of its
    own, so the last of those that it lies in."""
    around = (each for each in called if each.run.end > run.end)
    return (*around, Called(run, answer)) if answer.done < run.size else tuple(around)


def last_answer(called: Sequence[Called], run: Run) -> Answer | None:
    """None: these records have been in no call in this window."""
    return next(
        (each.answer for each in reversed(called) if each.run.start <= run.start < each.run.end), None
    )


class Wait(NamedTuple):
    """Then ask again."""

    lasts: timedelta
    why: str


class GiveUp(NamedTuple):
    """Leave what is not finished to a later window, with the attempts so far."""

    why: str


class Done(NamedTuple):
    """Every record is finished or set aside."""


ArrivedAt = Callable[[int], datetime]
"""When a record of the batch, by its place, arrived in the stream."""

Step = Call | SetAside | Wait | GiveUp | Done


@dataclass(frozen=True, slots=True)
class Course:
    """One batch under way.

    runs       what is left, in order. Together they are the batch's end, without a gap
    in_a_row   failed calls and refusals of the destination in this window since anything was finished
    is_tired   the last call failed, or the last refusal came, and nobody has waited since
    is_refused the destination has refused what is to be set aside first
    is_narrowed a call with more than what is left to be called first has failed, and been split
    """

    runs: tuple[Run, ...]
    in_a_row: int = 0
    is_tired: bool = False
    is_refused: bool = False
    is_narrowed: bool = False

    @property
    def attempts(self) -> int:
        """Of the first record that is left."""
        return self.runs[0].attempts if self.runs else 0


def begin(count: int, settings: Settings, attempts: int = 0, crashes: int = 0, tried: int = 0) -> Course:
    """A batch of `count` records. `attempts` and `crashes` are what is known of its first record from before, and `attempts` of
    the first `tried` (0: nobody knows of more than the first): what has joined them since is called after them, with all its own.
    With bisect, and no attempt yet, `tried` is how far a window before this one had narrowed the batch down.

    Crashes may have been a neighbour's, so they are no attempts by themselves: see `is_noted_before`.
    """
    if not settings.bisect_batch_on_function_error:
        known = min(max(tried, 1), count) if attempts else count
        joined = (Run(known, count),) if known < count else ()
        return Course((Run(0, known, attempts), *joined))
    if attempts:
        return Course(_from_first(count, 1, attempts))
    size = max(1, count >> NARROWED_BY * crashes)
    is_narrowed = 0 < tried <= size
    return Course(_from_first(count, tried if is_narrowed else size, 0), is_narrowed=is_narrowed)


def is_noted_before(run: Run, crashes: int, settings: Settings) -> bool:
    """Whether the attempt is to stand in the lease's row before the call that may end the process: the lease is tried in a worker
    of its own by now, so that a crash is this call's; and it would be an attempt, and not a step of narrowing down.
    """
    may_count = run.size == 1 or not settings.bisect_batch_on_function_error
    return settings.maximum_retry_attempts != FOR_EVER and crashes >= Caution.ALONE and may_count


def _from_first(count: int, size: int, attempts: int) -> tuple[Run, ...]:
    """The first run of this size. After one that is known to fail comes the rest; where all that is known is that something near
    kills, the following ones are ever larger.
    """
    runs, start = [Run(0, min(size, count), attempts)], min(size, count)
    while start < count:
        end = min(2 * start, count) if attempts == 0 else count
        runs.append(Run(start, end))
        start = end
    return tuple(runs)


def next_step(
    course: Course, arrived: ArrivedAt, now: datetime, time_left: timedelta, settings: Settings
) -> Step:
    """What to do now. `now` is a wall clock's moment; `time_left` is how long handler calls may still begin."""
    if not course.runs:
        return Done()
    first = course.runs[0]
    aside = _to_set_aside(first, arrived, now, settings)
    if course.is_tired and (aside is None or course.is_refused):
        return _rest(course, time_left, settings)
    if aside is not None:
        return aside
    return Call(first)


def _to_set_aside(first: Run, arrived: ArrivedAt, now: datetime, settings: Settings) -> SetAside | None:
    age, most = settings.maximum_record_age, settings.maximum_retry_attempts
    if age is not None:
        old = first.start
        while old < first.end and now - arrived(old) > age:
            old += 1
        if old > first.start:
            why = f"older than maximum_record_age ({age})"
            return SetAside(Run(first.start, old, first.attempts), Condition.RECORD_AGE_EXCEEDED, why)
    if most != FOR_EVER and first.attempts > most:
        why = f"tried {first.attempts} times, of which maximum_retry_attempts ({most}) again"
        return SetAside(first, Condition.RETRY_ATTEMPTS_EXHAUSTED, why)
    return None


def _rest(course: Course, time_left: timedelta, settings: Settings) -> Wait | GiveUp:
    what = "refused by the destination" if course.is_refused else "failed"
    said = f"{what} {course.in_a_row} times in a row"
    backoff = handler_backoff(course.in_a_row, settings)
    if course.in_a_row >= settings.handler_attempts:
        return GiveUp(f"{said}: handler_attempts")
    if backoff >= time_left:
        return GiveUp(f"{said}, and no time is left for another")
    return Wait(backoff, said)


def after_call(course: Course, answer: Answer, settings: Settings) -> Course:
    """What is left of the first run, after the handler's answer to it.

    Splitting is no attempt and waits for nothing: it comes to an end by itself. What follows on progress has all its retries
    again. Both are ESM's rules.
    """
    first, following = course.runs[0], course.runs[1:]
    narrowed = course.is_narrowed
    if answer.done >= first.size:
        return Course(following, is_narrowed=narrowed)
    if answer.done > 0:
        rest = Run(first.start + answer.done, first.end)
        return Course((rest, *following), in_a_row=1, is_tired=True, is_narrowed=narrowed)
    if settings.bisect_batch_on_function_error and answer.has_raised and first.size > 1:
        middle = first.start + first.size // 2
        halves = Run(first.start, middle), Run(middle, first.end)
        return Course((*halves, *following), course.in_a_row, is_narrowed=True)
    again = first._replace(attempts=first.attempts + 1)
    return Course((again, *following), course.in_a_row + 1, is_tired=True, is_narrowed=narrowed)


def after_setting_aside(course: Course, run: Run) -> Course:
    """The destination has them. `run` is the first one left, or its beginning."""
    first, following = course.runs[0], course.runs[1:]
    rest = (first._replace(start=run.end),) if run.end < first.end else ()
    return Course((*rest, *following), is_narrowed=course.is_narrowed)


def after_refusal(course: Course) -> Course:
    return replace(course, in_a_row=course.in_a_row + 1, is_tired=True, is_refused=True)


def after_waiting(course: Course) -> Course:
    return replace(course, is_tired=False)
