"""When a process makes way for a new one, and when that would be of no use."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest
from sublet.decisions.session.process_end import Health, ProcessEndReason, is_stuck, lacking, nothing_works
from sublet.decisions.session.window import LeaseReport, SessionOutcome
from sublet.errors import StreamUnavailable

from tests.doubles.engine_world import moment

BEGAN = moment("2026-01-31T08:00:00")
BEFORE, WITHIN = BEGAN - timedelta(minutes=1), BEGAN + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("slots", "hung", "now", "soon"),
    [
        (1, 0, None, None),
        (1, 1, None, ProcessEndReason.CALL_HANGS),
        (1, 2, ProcessEndReason.ALL_SLOTS_HANG, ProcessEndReason.ALL_SLOTS_HANG),
        (4, 7, None, ProcessEndReason.CALL_HANGS),
        (4, 8, ProcessEndReason.ALL_SLOTS_HANG, ProcessEndReason.ALL_SLOTS_HANG),
    ],
)
def test_each_slot_is_replaced_once(
    slots: int, hung: int, now: ProcessEndReason | None, soon: ProcessEndReason | None
) -> None:
    health = Health(slots, hung)
    assert (health.ends_now, health.ends_soon) == (now, soon)


@pytest.mark.parametrize(
    ("because", "chosen", "is_at_work", "expected"),
    [
        ("all that is free hangs here", {"a", "b"}, False, True),
        ("another is free as well", {"a", "c"}, False, False),
        ("healthy ones are under way", {"a"}, True, False),
        ("others have it all, or it is left alone for a while", set(), False, False),
    ],
)
def test_a_process_is_stuck_if_calls_hang_for_all_that_it_could_work_on(
    because: str, chosen: set[str], is_at_work: bool, expected: bool
) -> None:
    assert is_stuck(chosen, {"a", "b"}, is_at_work=is_at_work) is expected, because


def test_stuck_process_ends_despite_free_slots() -> None:
    assert Health(8, hung=1, is_stuck=True).ends_now is ProcessEndReason.ALL_LEASES_HANG


def test_process_ends_when_the_system_has_no_threads_left() -> None:
    assert Health(1, 0, ProcessEndReason.NO_THREADS).ends_now is ProcessEndReason.NO_THREADS


def wrapped(problem: Exception) -> Exception:
    """As a client of AWS wraps what its sockets raise, and we wrap that."""
    theirs, ours = ConnectionError("could not connect"), StreamUnavailable("no answer")
    theirs.__context__, ours.__cause__ = problem, theirs
    return ours


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (OSError(errno.EMFILE, "Too many open files"), ProcessEndReason.NO_DESCRIPTORS),
        (OSError(errno.ENFILE, "Too many open files in system"), ProcessEndReason.NO_DESCRIPTORS),
        (RuntimeError("can't start new thread"), ProcessEndReason.NO_THREADS),
        (OSError(errno.ENOENT, "No such file"), None),
        (RuntimeError("something else"), None),
        (ValueError("can't start new thread"), None),
    ],
)
def test_exhaustion_is_recognized_by_an_exception_or_its_cause(
    problem: Exception, expected: ProcessEndReason | None
) -> None:
    assert lacking(problem) is expected
    assert lacking(wrapped(problem)) is expected


def test_exceptions_that_come_from_each_other_are_looked_through_once() -> None:
    first, second = ValueError(), ValueError()
    first.__context__, second.__context__ = second, first
    assert lacking(first) is None


A, B = "shard-a", "shard-b"


@pytest.mark.parametrize(
    ("because", "outcomes", "finished_at", "expected"),
    [
        ("it worked, and now fails everywhere", {A: "failed", B: "failed"}, {A: BEFORE}, True),
        ("the other shard is quiet", {A: "failed", B: "caught_up"}, {A: BEFORE, B: BEFORE}, True),
        ("a bad deployment: it never worked", {A: "failed", B: "failed"}, {}, False),
        ("a poison record in a fresh process", {A: "failed", B: "caught_up"}, {B: BEFORE}, False),
        ("the other lease gets on", {A: "failed", B: "caught_up"}, {A: BEFORE, B: WITHIN}, False),
        ("it got on before it failed", {A: "failed"}, {A: WITHIN}, False),
        ("nothing failed", {A: "caught_up"}, {A: BEFORE}, False),
        ("nothing was acquired", {}, {A: BEFORE}, False),
    ],
)
def test_a_process_is_poisoned_where_nothing_works_that_did(
    because: str, outcomes: Mapping[str, str], finished_at: Mapping[str, datetime], expected: bool
) -> None:
    named = {"failed": SessionOutcome.HANDLER_FAILED, "caught_up": SessionOutcome.CAUGHT_UP}
    reports = [LeaseReport(key, named[outcome]) for key, outcome in outcomes.items()]
    assert nothing_works(reports, BEGAN, finished_at) is expected, because
