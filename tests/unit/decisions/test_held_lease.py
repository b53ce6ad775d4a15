"""The state machine of a held lease: what each reply makes of it, as a table, and what time alone does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.held_lease import (
    MAY_WRITE,
    TENURE_AFTER,
    TRANSITIONS,
    Holding,
    Tenure,
    Then,
    after_failure,
    after_reading,
    after_write,
)
from sublet.decisions.refusal import Verdict
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.lease_writes import WriteKind, checkpoint, end, hand_over, heartbeat, release

NOW = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
SECOND, FAILOVER = timedelta(seconds=1), timedelta(seconds=30)
LEASE = Lease("shardId-0", TRIM_HORIZON, lease_counter=7, lease_owner="me", holder="item/1")
HELD = Holding(LEASE, NOW)
BEATEN = replace(LEASE, lease_counter=8)
ASKED = replace(LEASE, lease_owner="java", checkpoint_owner="me")
STOLEN = replace(LEASE, lease_counter=8, lease_owner="thief", holder="other/1")


def test_every_verdict_has_its_transition() -> None:
    assert set(TRANSITIONS) == set(Verdict)


def test_a_write_that_is_applied_is_a_heartbeat() -> None:
    after = after_write(HELD, heartbeat(LEASE), BEATEN, applied=True, sent_at=NOW + SECOND)
    assert after.holding == Holding(BEATEN, NOW + SECOND, Tenure.HELD)
    assert (after.verdict, after.is_done, after.then) == (Verdict.APPLIED, True, Then.NOTHING)


@pytest.mark.parametrize(
    ("write", "tenure"),
    [(release(LEASE), Tenure.RELEASED), (end(LEASE), Tenure.RELEASED), (hand_over(ASKED), Tenure.LOST)],
)
def test_after_these_it_is_held_no_longer(write: object, tenure: Tenure) -> None:
    after = after_write(HELD, write, BEATEN, applied=True, sent_at=NOW)  # type: ignore[arg-type]
    assert after.holding.tenure is tenure
    assert not after.holding.may_write
    assert after.is_done


def test_those_are_all() -> None:
    leaving = {WriteKind.RELEASE, WriteKind.END, WriteKind.HAND_OVER}
    assert set(TENURE_AFTER) == leaving
    assert not MAY_WRITE.intersection(TENURE_AFTER.values())


def test_refused_by_our_own_write_whose_response_got_lost_it_is_done_and_dated() -> None:
    after = after_write(HELD, heartbeat(LEASE), BEATEN, applied=False, sent_at=NOW + SECOND)
    assert after.holding == Holding(BEATEN, NOW + SECOND)
    assert (after.verdict, after.is_done) == (Verdict.DONE_BEFORE, True)


def test_one_write_of_ours_further_on_than_we_knew_it_is_made_again_for_that_row() -> None:
    to_5 = checkpoint(LEASE, Checkpoint("5"))
    after = after_write(HELD, to_5, BEATEN, applied=False, sent_at=NOW + SECOND)
    assert after.holding == Holding(BEATEN, NOW), "not dated: this write has not happened"
    assert (after.is_done, after.then) == (False, Then.WRITE_AGAIN)


def test_a_checkpoint_that_is_further_on_is_as_good_as_written_and_no_heartbeat() -> None:
    row = replace(LEASE, checkpoint=Checkpoint("9"))
    after = after_write(HELD, checkpoint(LEASE, Checkpoint("5")), row, applied=False, sent_at=NOW + SECOND)
    assert after.holding == Holding(row, NOW)
    assert (after.verdict, after.is_done) == (Verdict.FURTHER_ON, True)


def test_asked_to_leave_it_drains_and_writes_again() -> None:
    after = after_write(HELD, heartbeat(LEASE), ASKED, applied=False, sent_at=NOW)
    assert after.holding == Holding(ASKED, NOW, Tenure.DRAINING)
    assert (after.is_done, after.then) == (False, Then.WRITE_AGAIN)
    assert after.holding.may_write


def test_asked_to_leave_while_it_releases_it_hands_over_instead() -> None:
    assert after_write(HELD, release(LEASE), ASKED, applied=False, sent_at=NOW).then is Then.HAND_OVER


@pytest.mark.parametrize("row", [STOLEN, None, MalformedRow("shardId-0", "no checkpoint")])
def test_refused_by_anything_else_it_is_lost(row: Lease | MalformedRow | None) -> None:
    after = after_write(HELD, heartbeat(LEASE), row, applied=False, sent_at=NOW)
    assert after.holding == Holding(LEASE, NOW, Tenure.LOST)
    assert (after.is_done, after.then) == (False, Then.NOTHING)


def test_a_table_out_of_reach_is_no_loss_until_another_may_have_it() -> None:
    assert after_failure(HELD, True, NOW + FAILOVER, FAILOVER) is HELD
    assert after_failure(HELD, True, NOW + FAILOVER + SECOND, FAILOVER).tenure is Tenure.LOST
    assert after_failure(HELD, False, NOW, FAILOVER).tenure is Tenure.LOST


def test_read_again_it_goes_on_from_what_the_row_says() -> None:
    later = replace(LEASE, checkpoint=Checkpoint("9"))
    assert after_reading(HELD, later) == Holding(later, NOW)
    assert after_reading(HELD, ASKED) is HELD, "the next write is refused, and begins to drain"
    by_java = replace(LEASE, lease_owner="java")
    assert after_reading(HELD, by_java).tenure is Tenure.LOST, "it leaves our holder on the row"
    assert after_reading(HELD, None).tenure is Tenure.LOST


def test_a_heartbeat_is_due_while_it_may_write() -> None:
    assert HELD.is_heartbeat_due(NOW + 10 * SECOND, 10 * SECOND)
    assert not HELD.is_heartbeat_due(NOW + 9 * SECOND, 10 * SECOND)
    assert not replace(HELD, tenure=Tenure.RELEASED).is_heartbeat_due(NOW + FAILOVER, SECOND)
    assert not HELD.is_unconfirmed(NOW + FAILOVER, FAILOVER)
    assert HELD.is_unconfirmed(NOW + FAILOVER + SECOND, FAILOVER)
