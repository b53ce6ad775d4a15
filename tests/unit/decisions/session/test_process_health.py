"""Whether a process must be replaced, and whether it takes its share, by its own looks and calls rather than AWS's
faults.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.decisions.session.process_end import ProcessEndReason
from sublet.decisions.session.process_health import ProcessState, ShardReport, process_report
from sublet.settings import Settings
from sublet.testing.memory.clock import BEGINNING

SETTINGS = Settings(application="orders", stream="events", worker_id="me")
NOW = BEGINNING + timedelta(hours=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
WELL = ProcessState(NOW - SECOND, NOW - SECOND, False, None, ())
BUSY = ShardReport("shardId-0", timedelta(0), "handle", SECOND, 0)


def verdict(state: ProcessState, settings: Settings = SETTINGS) -> tuple[bool, bool, str]:
    report = process_report(state, NOW, settings)
    return report.is_live, report.is_ready, report.because


def test_scanning_process_is_live_and_ready() -> None:
    assert verdict(WELL) == (True, True, "it scans the leases")


def test_process_is_live_and_not_ready_before_its_first_scan() -> None:
    assert verdict(WELL._replace(looked_at=None)) == (True, False, "it has not scanned the leases yet")


def test_an_outage_of_aws_is_no_reason_to_replace_the_process() -> None:
    """A look that failed has come back all the same."""
    assert verdict(WELL._replace(looked_at=NOW - timedelta(hours=1)))[:2] == (True, True)


def test_process_whose_scan_hangs_is_neither_live_nor_ready() -> None:
    assert verdict(WELL._replace(tried_at=NOW - 5 * MINUTE))[:2] == (True, True)
    hangs = WELL._replace(tried_at=NOW - 5 * MINUTE - SECOND)
    assert verdict(hangs) == (False, False, "its scan of the leases hangs")


def test_hanging_scan_is_allowed_longer_where_ticks_are_rare() -> None:
    rare = replace(SETTINGS, failover_time=timedelta(hours=1))
    assert verdict(WELL._replace(tried_at=NOW - 119 * MINUTE), rare)[:2] == (True, True)
    assert verdict(WELL._replace(tried_at=NOW - 121 * MINUTE), rare)[:2] == (False, False)


def test_unanswered_shards_are_named_and_leave_the_process_live_and_ready() -> None:
    silent = BUSY._replace(unanswered="Could not connect", unanswered_for=MINUTE)
    report = process_report(WELL._replace(shards=(BUSY, silent)), NOW, SETTINGS)
    assert (report.is_live, report.is_ready, report.unread) == (True, True, (silent,))


def test_leaving_process_is_live_and_not_ready() -> None:
    assert verdict(WELL._replace(is_leaving=True))[:2] == (True, False)


def test_ending_process_is_neither_live_nor_ready() -> None:
    assert verdict(WELL._replace(ending=ProcessEndReason.ALL_SLOTS_HANG)) == (
        False,
        False,
        "calls of the handler hang in all of its slots",
    )


@pytest.mark.parametrize(
    "stalled", [BUSY._replace(call_lasts=5 * MINUTE), BUSY._replace(stands_still=5 * MINUTE, call=None)]
)
def test_a_shard_that_stalls_is_named_and_no_reason_to_replace_the_process(stalled: ShardReport) -> None:
    other = BUSY._replace(shard_id="shardId-1")
    report = process_report(WELL._replace(shards=(other, stalled)), NOW, SETTINGS)
    assert (report.shards, report.stalls) == (2, (stalled,))
    assert report.is_live
    assert report.is_ready


def test_given_up_call_is_named_as_a_stall_while_it_hangs() -> None:
    hung = BUSY._replace(shard_id="shardId-1")
    report = process_report(WELL._replace(shards=(BUSY,), hung=(hung,)), NOW, SETTINGS)
    assert (report.shards, report.stalls) == (1, (hung,))
    assert report.is_live
