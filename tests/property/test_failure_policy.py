"""Properties of the failure policy for every batch, poison and setting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil, log2

from hypothesis import given
from hypothesis import strategies as st
from sublet.decisions.session.failure_policy import (
    Answer,
    Call,
    Done,
    SetAside,
    after_call,
    after_setting_aside,
    after_waiting,
    begin,
    next_step,
)
from sublet.settings import Settings

from tests.doubles.esm_model import RAISES, Esm

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:given-up"


def settings_with(retries: int, *, bisects: bool) -> Settings:
    return Settings(
        application="orders",
        stream="events",
        on_failure=QUEUE,
        handler_attempts=1_000,
        maximum_retry_attempts=retries,
        bisect_batch_on_function_error=bisects,
    )


def played(count: int, poison: frozenset[int], settings: Settings) -> tuple[list[range], list[range]]:
    """The calls and the records set aside, in order, for a batch whose handler raises with any poison."""
    course = begin(count, settings)
    calls: list[range] = []
    aside: list[range] = []
    while True:
        match next_step(course, lambda _: NOW, NOW, timedelta(days=1), settings):
            case Done():
                return calls, aside
            case Call(run):
                calls.append(range(run.start, run.end))
                fails = bool(poison & set(calls[-1]))
                course = after_call(course, Answer(0 if fails else run.size, fails), settings)
            case SetAside(run):
                aside.append(range(run.start, run.end))
                course = after_setting_aside(course, run)
            case _:
                course = after_waiting(course)


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, frozenset[int]]:
    count = draw(st.integers(1, 200))
    return count, frozenset(draw(st.sets(st.integers(0, count - 1), max_size=8)))


@given(batches(), st.integers(0, 4), st.booleans())
def test_every_record_is_done_or_set_aside_once_and_in_order(
    batch: tuple[int, frozenset[int]], retries: int, bisects: bool
) -> None:
    count, poison = batch
    calls, aside = played(count, poison, settings_with(retries, bisects=bisects))
    done = [record for call in calls if not poison & set(call) for record in call]
    given_up = [record for run in aside for record in run]
    assert sorted(done + given_up) == list(range(count))
    assert done == sorted(done)
    assert given_up == sorted(given_up)
    assert poison <= set(given_up)
    assert not bisects or set(given_up) == poison


@given(batches(), st.integers(0, 4), st.booleans())
def test_failure_policy_equals_the_event_source_mapping(
    batch: tuple[int, frozenset[int]], retries: int, bisects: bool
) -> None:
    count, poison = batch
    calls, aside = played(count, poison, settings_with(retries, bisects=bisects))
    esm = Esm(retries, bisects)
    esm.run(range(count), lambda called, _: RAISES if poison & set(called) else None, most_calls=10_000)
    assert [list(call) for call in calls] == esm.calls
    assert [list(run) for run in aside] == [records for records, *_ in esm.set_aside]


@given(st.data(), st.integers(1, 5_000), st.integers(0, 3))
def test_bisect_finds_one_poison_in_twice_the_logarithm_of_calls(data: st.DataObject, count: int, retries: int) -> None:
    poison = data.draw(st.integers(0, count - 1))
    calls, _ = played(count, frozenset({poison}), settings_with(retries, bisects=True))
    own = [call for call in calls if list(call) == [poison]]
    assert len(own) == retries + 1
    assert len(calls) - len(own) <= 2 * ceil(log2(count))


@given(
    st.integers(1, 20_000),
    st.integers(0, 40),
    st.integers(0, 6),
    st.booleans(),
    st.sampled_from([0, 2, -1]),
    st.integers(0, 20_000),
)
def test_a_course_begins_with_every_record_once(
    count: int, crashes: int, attempts: int, bisects: bool, retries: int, tried: int
) -> None:
    runs = begin(count, settings_with(retries, bisects=bisects), attempts, crashes, tried).runs
    assert not runs[0].attempts or runs[0].end <= max(tried, 1)
    assert not (bisects and tried) or runs[0].end <= tried, "as far as it has been narrowed down"
    assert runs[0].start == 0
    assert runs[-1].end == count
    assert all(before.end == after.start for before, after in pairwise(runs))
    assert all(run.size > 0 for run in runs)
    assert not any(run.attempts for run in runs[1:]), "what follows has not been tried"
