"""The consumer's definition, which all its programs follow."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sublet.decisions.pull.consumer_definition import (
    MAX_ACK_PENDING,
    PullSettings,
    by_definition,
    checked_terms,
    given_options,
    options_of,
    updated,
)
from sublet.errors import SettingsError, SettingsInConflict
from sublet.settings import Settings

MINUTE = timedelta(minutes=1)


def terms(**given: Any) -> PullSettings:
    return checked_terms(
        Settings(application="audit", stream="orders", **{n: v for n, v in given.items() if n != "ack_wait"}),
        given.get("ack_wait"),
        None,
    )


def test_a_program_that_was_given_nothing_goes_by_the_definition() -> None:
    defined = options_of(
        terms(
            failover_time=MINUTE,
            filter_criteria='{"Filters": [{"Pattern": {"data": {"a": [1]}}}]}',
            ack_wait=MINUTE,
        )
    )
    by = by_definition(terms(), {}, defined)
    assert (by.settings.failover_time, by.ack_wait, by.max_ack_pending) == (MINUTE, MINUTE, MAX_ACK_PENDING)
    assert by.settings.filter_criteria == '{"Filters": [{"Pattern": {"data": {"a": [1]}}}]}'
    assert by.settings.on_failure is None
    assert by_definition(terms(), {}, options_of(by._replace(max_ack_pending=7))).max_ack_pending == 7


def test_own_options_stand_without_a_definition() -> None:
    mine = terms(failover_time=MINUTE)
    assert by_definition(mine, given_options({"failover_time": MINUTE}), None) is mine


def test_option_equal_to_the_definition_is_no_conflict() -> None:
    mine = terms(failover_time=MINUTE)
    assert by_definition(mine, given_options({"failover_time": MINUTE, "batch_size": 7}), options_of(mine)) == mine


@pytest.mark.parametrize(
    ("given", "there"),
    [({"failover_time": MINUTE}, "30s"), ({"max_ack_pending": 7}, "1000"), ({"on_failure": "arn"}, "none")],
)
def test_an_option_that_differs_from_the_definition_is_refused_with_both_values(
    given: dict[str, Any], there: str
) -> None:
    with pytest.raises(SettingsInConflict, match=f"{next(iter(given))}.*{there}, as consumer audit is defined"):
        by_definition(terms(), given_options(given), options_of(terms()))


def test_given_options_leave_out_options_of_the_definition_that_are_none() -> None:
    assert given_options({"ack_wait": None, "failover_time": MINUTE, "batch_size": 7}) == {"failover_time": "1m"}


def test_an_option_of_a_later_version_is_not_passed_over() -> None:
    with pytest.raises(SettingsInConflict, match="later version"):
        by_definition(terms(), {}, {**options_of(terms()), "reads_backwards": "true"})


def test_update_changes_the_given_options_alone() -> None:
    defined = options_of(terms(failover_time=MINUTE))
    after = updated(defined, terms(), given_options({"ack_wait": MINUTE}))
    assert after == {**defined, "ack_wait": "1m"}


def test_an_update_does_not_move_the_start_nor_contradict_itself() -> None:
    defined = options_of(terms())
    with pytest.raises(SettingsError, match="cannot be updated"):
        updated(defined, terms(), {"start_position": "LATEST"})
    assert updated(defined, terms(), {"start_position": defined["start_position"]}) == defined
    with pytest.raises(SettingsError, match="heartbeat_interval"):
        updated(defined, terms(), {"heartbeat_interval": "1h"})


@pytest.mark.parametrize(
    ("ack_wait", "max_ack_pending"),
    [
        (0, None),
        ("5s", None),
        (timedelta(days=3_650_000), None),
        *((None, pending) for pending in (0, True, 1.5, "7", 10**13)),
    ],
)
def test_ack_wait_and_max_ack_pending_are_refused_when_invalid(ack_wait: Any, max_ack_pending: Any) -> None:
    with pytest.raises(SettingsError):
        checked_terms(Settings(application="audit", stream="orders"), ack_wait, max_ack_pending)


def test_max_ack_pending_may_be_one() -> None:
    assert checked_terms(Settings(application="audit", stream="orders"), None, 1).max_ack_pending == 1
