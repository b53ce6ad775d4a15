"""What happens to a batch while its handler fails: retry, split, set aside, wait, or leave it to a later window.

The rules and names are those of Lambda's event source mapping, with one difference: records are never skipped before
the failure destination has accepted them.

A batch's `BatchState` is a value. The caller asks for the `next_step`, carries it out, and reports the result with
`after_call`, `after_setting_aside`, `after_refusal` or `after_waiting`, each of which returns the next course.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from sublet.decisions.plurals import counted
from sublet.decisions.session.crash_caution import CrashCaution
from sublet.decisions.session.window import handler_backoff
from sublet.settings import Settings

FOR_EVER = -1
"""The value of maximum_retry_attempts that sets no limit, as in ESM."""

NARROWED_BY = 4
"""With bisect, each crash divides the size of the next call by 2 to the power of this: a process that died cannot say
which half failed, and each crash costs a failover.
"""

SHARE_OF_WINDOW = 4
"""A window waits before its first call if the pause is at most one part of this many of the time that is left."""


class Condition(StrEnum):
    """Why records are set aside, in ESM's words."""

    RETRY_ATTEMPTS_EXHAUSTED = "RetryAttemptsExhausted"
    RECORD_AGE_EXCEEDED = "RecordAgeExceeded"
    TERMINATED = "Terminated"
    """The program that pulled the record called `record.term`. ESM has no such condition."""
    SKIPPED = "Skipped"
    """An operator skipped the record. ESM has no such condition."""


class Run(NamedTuple):
    """Consecutive records of a batch that are passed to the handler together, by their indexes in the batch.

    start, end  the range [start, end)
    attempts    failed attempts of this run, earlier windows included
    """

    start: int
    end: int
    attempts: int = 0

    @property
    def size(self) -> int:
        return self.end - self.start


class Answer(NamedTuple):
    """The handler's answer to a run.

    done        how many records are finished, from the run's first on; all of them on success
    has_raised  whether the handler raised or was cut off; otherwise it returned, perhaps with item failures
    failure     the exception, for the failure record
    """

    done: int
    has_raised: bool = False
    failure: BaseException | None = None


class Call(NamedTuple):
    """Call the handler with these records."""

    run: Run


class SetAside(NamedTuple):
    """Give these records to the failure destination, and skip them only once it has accepted them."""

    run: Run
    condition: Condition
    why: str


class FailedCall(NamedTuple):
    """A call that did not finish all of its run."""

    run: Run
    answer: Answer


def after_answer(called: Sequence[FailedCall], run: Run, answer: Answer) -> tuple[FailedCall, ...]:
    """Returns, for each record left, the last failed call that included it. A run is called whole and then split, so
    that is the last call whose run contains the record.
    """
    around = (each for each in called if each.run.end > run.end)
    return (*around, FailedCall(run, answer)) if answer.done < run.size else tuple(around)


def last_answer(called: Sequence[FailedCall], run: Run) -> Answer | None:
    """None if these records have not been in a call in this window."""
    return next((each.answer for each in reversed(called) if each.run.start <= run.start < each.run.end), None)


class Wait(NamedTuple):
    """Wait this long, then ask for the next step again."""

    lasts: timedelta
    why: str


class GiveUp(NamedTuple):
    """Leave the unfinished records to a later window, with the attempts so far."""

    why: str


class Done(NamedTuple):
    """Every record is finished or set aside."""


ArrivedAt = Callable[[int], datetime]
"""Maps a record's index in the batch to its arrival time in the stream."""

Step = Call | SetAside | Wait | GiveUp | Done


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of one batch.

    runs         the unfinished records, in order: the batch's tail, without gaps
    in_a_row     failed calls and refusals by the destination in this window since the last progress
    is_tired     the last call failed, in an earlier window too, or the destination refused, and there has been no wait
                 since
    is_refused   the destination has refused the records that have to be set aside first
    is_narrowed  a failed call that held more than the first run has been split
    """

    runs: tuple[Run, ...]
    in_a_row: int = 0
    is_tired: bool = False
    is_refused: bool = False
    is_narrowed: bool = False

    @property
    def attempts(self) -> int:
        """The attempts of the first record that is left."""
        return self.runs[0].attempts if self.runs else 0


def begin(count: int, settings: Settings, attempts: int = 0, crashes: int = 0, tried: int = 0) -> BatchState:
    """A batch of `count` records. `attempts` and `crashes` are known of its first record from earlier windows, and
    `attempts` holds for the first `tried` records (0: only for the first). Records that came later are called after
    those, with attempts of their own.

    Records that failed in earlier windows wait before their first call here, as they would after a failure in this one:
    otherwise each new owner of the lease would begin again with the shortest pause.

    With bisect and no attempts yet, `tried` is how far an earlier window had narrowed the batch down. A crash may have
    been caused by another lease, so crashes are not attempts by themselves: see `is_noted_before`.
    """
    if not settings.bisect_batch_on_function_error:
        known = min(max(tried, 1), count) if attempts else count
        joined = (Run(known, count),) if known < count else ()
        return BatchState((Run(0, known, attempts), *joined), is_tired=attempts > 0)
    if attempts:
        return BatchState(_from_first(count, 1, attempts), is_tired=True)
    size = max(1, count >> NARROWED_BY * crashes)
    is_narrowed = 0 < tried <= size
    return BatchState(_from_first(count, tried if is_narrowed else size, 0), is_narrowed=is_narrowed)


def is_noted_before(run: Run, crashes: int, settings: Settings) -> bool:
    """Whether to write the attempt to the lease's row before the call, because the call may end the process. True if
    the lease is tried in a worker of its own, so that a crash is this call's, and if the call is an attempt rather than
    a step of narrowing down.
    """
    may_count = run.size == 1 or not settings.bisect_batch_on_function_error
    return settings.maximum_retry_attempts != FOR_EVER and crashes >= CrashCaution.ALONE and may_count


def _from_first(count: int, size: int, attempts: int) -> tuple[Run, ...]:
    """The first run has this size. If it is known to fail, the rest is the second run. If only a crash nearby is known,
    the following runs double in size.
    """
    runs, start = [Run(0, min(size, count), attempts)], min(size, count)
    while start < count:
        end = min(2 * start, count) if attempts == 0 else count
        runs.append(Run(start, end))
        start = end
    return tuple(runs)


def next_step(course: BatchState, arrived: ArrivedAt, now: datetime, time_left: timedelta, settings: Settings) -> Step:
    """What to do now. `now` is a wall clock's time; `time_left` is how long handler calls may still begin."""
    if not course.runs:
        return Done()
    first = course.runs[0]
    aside = _to_set_aside(first, arrived, now, settings)
    if course.is_tired and (aside is None or course.is_refused):
        return _rest(course, time_left, settings) if course.in_a_row else _rest_at_first(first, time_left, settings)
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
        why = f"tried {counted(first.attempts, 'time')}; maximum_retry_attempts is {most}"
        return SetAside(first, Condition.RETRY_ATTEMPTS_EXHAUSTED, why)
    return None


def _rest(course: BatchState, time_left: timedelta, settings: Settings) -> Wait | GiveUp:
    what = "refused by the destination" if course.is_refused else "failed"
    said = f"{what} {counted(course.in_a_row, 'time')} in a row"
    backoff = handler_backoff(course.in_a_row if course.is_refused else max(course.in_a_row, course.attempts), settings)
    if course.in_a_row >= settings.handler_attempts:
        return GiveUp(f"{said}: handler_attempts")
    if backoff >= time_left:
        return GiveUp(f"{said}, and no time is left for another attempt")
    return Wait(backoff, said)


def _rest_at_first(first: Run, time_left: timedelta, settings: Settings) -> Wait | Call:
    """The pause before a window's first call with records that failed in earlier windows. A window that would spend
    much of its time on the pause makes the call at once: the time between two windows is a pause too.
    """
    backoff = handler_backoff(first.attempts, settings)
    if backoff * SHARE_OF_WINDOW > time_left:
        return Call(first)
    return Wait(backoff, f"failed {counted(first.attempts, 'time')} in earlier windows")


def after_call(course: BatchState, answer: Answer, settings: Settings) -> BatchState:
    """What is left after the handler's answer to the first run.

    A split is not an attempt and needs no wait, since splitting ends by itself. After progress, the records that are
    left have all their retries again. Both are ESM's rules.
    """
    first, following = course.runs[0], course.runs[1:]
    narrowed = course.is_narrowed
    if answer.done >= first.size:
        return BatchState(following, is_narrowed=narrowed)
    if answer.done > 0:
        rest = Run(first.start + answer.done, first.end)
        return BatchState((rest, *following), in_a_row=1, is_tired=True, is_narrowed=narrowed)
    if settings.bisect_batch_on_function_error and answer.has_raised and first.size > 1:
        middle = first.start + first.size // 2
        halves = Run(first.start, middle), Run(middle, first.end)
        return BatchState((*halves, *following), course.in_a_row, is_narrowed=True)
    again = first._replace(attempts=first.attempts + 1)
    return BatchState((again, *following), course.in_a_row + 1, is_tired=True, is_narrowed=narrowed)


def after_setting_aside(course: BatchState, run: Run) -> BatchState:
    """The destination has accepted `run`, which is the first run or its beginning."""
    first, following = course.runs[0], course.runs[1:]
    rest = (first._replace(start=run.end),) if run.end < first.end else ()
    return BatchState((*rest, *following), is_narrowed=course.is_narrowed)


def after_refusal(course: BatchState) -> BatchState:
    return replace(course, in_a_row=course.in_a_row + 1, is_tired=True, is_refused=True)


def after_waiting(course: BatchState) -> BatchState:
    return replace(course, is_tired=False)
