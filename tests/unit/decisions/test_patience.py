"""How long a process goes on while AWS refuses its calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sublet import errors
from sublet.decisions.patience import NOTHING_YET, WORKED, may_pass

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
NOW = datetime(2026, 1, 31, tzinfo=UTC)
REFUSED = errors.StreamAccessDenied("not allowed to list")

NEVER = {
    errors.StreamNotAdopted,
    errors.StreamRecreated,
    errors.StreamExists,
    errors.ShardNotFound,
    errors.CheckpointNotInStream,
    errors.RecordRefused,
    errors.RecordsNotPut,
    errors.DataGap,
    errors.LeaseTableNotFound,
    errors.LeaseTableKeyUnexpected,
}
"""The errors of calls for which waiting does not help."""


def every(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind}.union(*map(every, kind.__subclasses__()))


def test_every_error_of_a_call_may_pass_but_these() -> None:
    calls = {kind for kind in every(errors.CallFailed) if kind.__module__ == errors.__name__}
    assert {kind for kind in calls if not may_pass(kind("said"))} == NEVER
    assert {errors.AwsNotConfigured, errors.StreamError, errors.LeaseTableError} <= calls
    assert not any(may_pass(odd) for odd in (KeyError("a fault"), errors.ProcessSpent("spent")))


def test_patience_ends_at_once_before_the_first_success() -> None:
    assert NOTHING_YET.after(REFUSED, NOW).is_over(REFUSED, NOW, 10 * MINUTE)


def test_a_refusal_later_ends_it_only_if_it_lasts() -> None:
    first = WORKED.after(REFUSED, NOW)
    assert not first.is_over(REFUSED, NOW, 10 * MINUTE)
    later = first.after(REFUSED, NOW + 9 * MINUTE)
    assert not later.is_over(REFUSED, NOW + 9 * MINUTE, 10 * MINUTE)
    assert later.after(REFUSED, NOW + 10 * MINUTE).is_over(REFUSED, NOW + 10 * MINUTE, 10 * MINUTE)


def test_patience_ends_at_once_for_an_error_that_does_not_pass() -> None:
    gone = errors.LeaseTableNotFound("no table orders")
    assert WORKED.after(gone, NOW).is_over(gone, NOW, 10 * MINUTE)


@pytest.mark.parametrize("state", [NOTHING_YET, WORKED])
def test_an_outage_ends_nothing_however_long_it_lasts(state: object) -> None:
    outage = errors.LeaseTableUnavailable("no reply")
    before = WORKED if state is WORKED else NOTHING_YET
    for hours in range(48):
        before = before.after(outage, NOW + hours * timedelta(hours=1))
        assert not before.is_over(outage, NOW + hours * timedelta(hours=1), 10 * MINUTE)


def test_the_pause_grows_up_to_the_usual_interval() -> None:
    refusals, pauses = WORKED, []
    for _ in range(60):
        refusals = refusals.after(REFUSED, NOW)
        pauses.append(refusals.pause(20 * SECOND).total_seconds())
    assert pauses[:6] == [1, 2, 4, 8, 16, 20]
    assert set(pauses[6:]) == {20}
