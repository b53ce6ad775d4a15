"""The course of a failing batch: each call, wait and checkpoint, and what is set aside.

In `given`: how many `records`; `handler`, by its name below; and, unless zero, the `attempts` and `crashes` known of
the first record (`attempts` of the first `tried`, if these are more), `ages` of records when the batch begins, how
often the destination refuses, and the `time_left`.

Every story is also compared with ESM's own rules (tests/doubles/esm_model.py), unless ESM has none for it (`"esm":
false`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sublet.decisions.session.failure_policy import (
    Answer,
    BatchState,
    Call,
    Condition,
    Done,
    GiveUp,
    Run,
    SetAside,
    Wait,
    after_call,
    after_refusal,
    after_setting_aside,
    after_waiting,
    begin,
    next_step,
)
from sublet.settings import Settings, duration_text, parse_duration

from tests.doubles.esm_model import RAISES, Esm, EsmAnswer
from tests.scenarios.story import NOW, Json, Story, settings

MOST_CALLS = 60
"""For a story with retries for ever: enough to see what it does."""

Function = Callable[[Sequence[int], int], EsmAnswer]


def poison(*records: int) -> Function:
    """Raises with any of these."""
    return lambda batch, _: RAISES if set(records) & set(batch) else None


def fails_first(count: int) -> Function:
    """Raises this many times, and then never again: an outage."""
    return lambda _, number: RAISES if number < count else None


def names(*records: int) -> Function:
    """Reports those of these as failed that it was given."""
    return lambda batch, _: [record for record in records if record in batch]


def names_in_turn(*records: int) -> Function:
    """Reports one per call, if it was given that: it gets a little further each time."""

    def function(batch: Sequence[int], number: int) -> EsmAnswer:
        named = records[min(number, len(records) - 1)]
        return [named] if named in batch else None

    return function


def malformed(*_: int) -> Function:
    """Reports records that are not in the batch."""
    return lambda *_: [-1]


HANDLERS: Mapping[str, Callable[..., Function]] = {
    "poison": poison,
    "fails_first": fails_first,
    "names": names,
    "names_in_turn": names_in_turn,
    "malformed": malformed,
}


@dataclass
class Played:
    """One batch to its end, or until it is given up."""

    settings: Settings
    function: Function
    ages: Mapping[int, timedelta]
    refusals: int
    time_left: timedelta
    lines: list[str] = field(default_factory=list)
    calls: list[list[int]] = field(default_factory=list)
    set_aside: list[tuple[list[int], int, str]] = field(default_factory=list)
    waited: timedelta = timedelta(0)

    def play(self, records: int, course: BatchState) -> None:
        arrivals = [NOW - self.ages.get(place, timedelta(0)) for place in range(records)]
        while len(self.calls) < MOST_CALLS:
            step = next_step(
                course, arrivals.__getitem__, NOW + self.waited, self.time_left - self.waited, self.settings
            )
            match step:
                case Done():
                    return
                case GiveUp(why):
                    self.lines.append(f"give up with {course.attempts} attempts: {why}")
                    return
                case Wait(lasts):
                    self.lines.append(f"wait {duration_text(lasts)}")
                    self.waited += lasts
                    course = after_waiting(course)
                case SetAside(run, condition):
                    course = self._set_aside(course, run, condition)
                case Call(run):
                    course = self._call(course, run)
        self.lines.append("and so on")

    def _call(self, course: BatchState, run: Run) -> BatchState:
        batch = list(range(run.start, run.end))
        answer = self.function(batch, len(self.calls))
        self.calls.append(batch)
        if not answer:
            self._say(f"call {span(run)}", run.end)
            return after_call(course, Answer(run.size), self.settings)
        if answer == RAISES or not all(named in batch for named in answer):
            self.lines.append(f"call {span(run)}: {'raises' if answer == RAISES else 'malformed'}")
            return after_call(course, Answer(0, has_raised=answer == RAISES), self.settings)
        lowest = min(int(named) for named in answer)
        self._say(f"call {span(run)}: names {lowest}", lowest if lowest > run.start else 0)
        return after_call(course, Answer(lowest - run.start), self.settings)

    def _set_aside(self, course: BatchState, run: Run, condition: Condition) -> BatchState:
        if self.refusals:
            self.refusals -= 1
            self.lines.append(f"set aside {span(run)}: refused")
            return after_refusal(course)
        self.set_aside.append((list(range(run.start, run.end)), run.attempts, condition.value))
        self._say(f"set aside {span(run)}: {condition} after {run.attempts}", run.end)
        return after_setting_aside(course, run)

    def _say(self, what: str, done_before: int) -> None:
        self.lines.append(f"{what}; checkpoint {done_before - 1}" if done_before else what)


def span(run: Run) -> str:
    return f"{run.start}" if run.size == 1 else f"{run.start}-{run.end - 1}"


def durations(given: Mapping[str, Json]) -> dict[int, timedelta]:
    return {int(place): parse_duration("ages", text) for place, text in given.items()}


def test_failure_policy(story: Story) -> None:
    given = story.given
    ((name, arguments),) = given["handler"].items()
    function, policy = HANDLERS[name](*arguments), settings(given)
    played = Played(
        policy,
        function,
        durations(given.get("ages", {})),
        given.get("destination_refuses", 0),
        parse_duration("time_left", given.get("time_left", "1h")),
    )
    count = given["records"]
    known = given.get("attempts", 0), given.get("crashes", 0), given.get("tried", 0)
    played.play(count, begin(count, policy, *known))
    story.check(played.lines)
    if given.get("esm", True):
        check_with_esm(played, count, function, policy)


def check_with_esm(played: Played, count: int, function: Function, policy: Settings) -> None:
    esm = Esm(policy.maximum_retry_attempts, policy.bisect_batch_on_function_error)
    gave_up = played.lines[-1].startswith("give up")  # ESM does not: the next window goes on
    most_calls = len(played.calls) if gave_up else MOST_CALLS
    esm.run(range(count), function, _too_old(played, policy), most_calls)
    assert played.calls == esm.calls
    assert played.set_aside == esm.set_aside


def _too_old(played: Played, policy: Settings) -> Any:
    """As old as they are when the batch begins: no story of ESM's waits until one becomes too old."""
    age = policy.maximum_record_age
    return lambda record, _: age is not None and played.ages.get(record, timedelta(0)) > age
