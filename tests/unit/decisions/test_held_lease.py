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
from sublet.decisions.instant import Instant
from sublet.decisions.refusal import Verdict
from sublet.protocol.checkpoint import TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.lease_writes import WriteKind, checkpoint, end, hand_over, heartbeat, release

BEGINNING = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
SECOND, FAILOVER = timedelta(seconds=1), timedelta(seconds=30)


def after(by: timedelta) -> Instant:
    return Instant(BEGINNING + by, BEGINNING + by)


NOW, LATER = after(timedelta(0)), after(timedelta(seconds=1))
LEASE = Lease("shardId-0", TRIM_HORIZON, lease_counter=7, lease_owner="me", holder="item/1")
HELD = Holding(LEASE, NOW)
BEATEN = replace(LEASE, lease_counter=8)
ASKED = replace(LEASE, lease_owner="java", checkpoint_owner="me")
STOLEN = replace(LEASE, lease_counter=8, lease_owner="thief", holder="other/1")


def test_every_verdict_has_its_transition() -> None:
    assert set(TRANSITIONS) == set(Verdict)


def test_a_write_that_is_applied_is_a_heartbeat() -> None:
    reply = after_write(HELD, heartbeat(LEASE), BEATEN, applied=True, sent_at=LATER)
    assert reply.holding == Holding(BEATEN, LATER, Tenure.HELD)
    assert (reply.verdict, reply.is_done, reply.then) == (Verdict.APPLIED, True, Then.NOTHING)


@pytest.mark.parametrize(
    ("write", "tenure"),
    [(release(LEASE), Tenure.RELEASED), (end(LEASE), Tenure.RELEASED), (hand_over(ASKED), Tenure.LOST)],
)
def test_after_these_it_is_held_no_longer(write: object, tenure: Tenure) -> None:
    reply = after_write(HELD, write, BEATEN, applied=True, sent_at=NOW)  # type: ignore[arg-type]
    assert reply.holding.tenure is tenure
    assert not reply.holding.may_write
    assert reply.is_done


def test_those_are_all() -> None:
    leaving = {WriteKind.RELEASE, WriteKind.END, WriteKind.HAND_OVER}
    assert set(TENURE_AFTER) == leaving
    assert not MAY_WRITE.intersection(TENURE_AFTER.values())


def test_refused_by_our_own_write_whose_response_got_lost_it_is_done_and_dated() -> None:
    reply = after_write(HELD, heartbeat(LEASE), BEATEN, applied=False, sent_at=LATER)
    assert reply.holding == Holding(BEATEN, LATER)
    assert (reply.verdict, reply.is_done) == (Verdict.DONE_BEFORE, True)


def test_one_write_of_ours_further_on_than_we_knew_it_is_made_again_for_that_row() -> None:
    to_5 = checkpoint(LEASE, Checkpoint("5"))
    reply = after_write(HELD, to_5, BEATEN, applied=False, sent_at=LATER)
    assert reply.holding == Holding(BEATEN, NOW), "not dated: this write has not happened"
    assert (reply.is_done, reply.then) == (False, Then.WRITE_AGAIN)


def test_a_checkpoint_that_is_further_on_is_as_good_as_written_and_no_heartbeat() -> None:
    row = replace(LEASE, checkpoint=Checkpoint("9"))
    reply = after_write(HELD, checkpoint(LEASE, Checkpoint("5")), row, applied=False, sent_at=LATER)
    assert reply.holding == Holding(row, NOW)
    assert (reply.verdict, reply.is_done) == (Verdict.FURTHER_ON, True)


def test_asked_to_leave_it_drains_and_writes_again() -> None:
    reply = after_write(HELD, heartbeat(LEASE), ASKED, applied=False, sent_at=NOW)
    assert reply.holding == Holding(ASKED, NOW, Tenure.DRAINING)
    assert (reply.is_done, reply.then) == (False, Then.WRITE_AGAIN)
    assert reply.holding.may_write


def test_asked_to_leave_while_it_releases_it_hands_over_instead() -> None:
    assert after_write(HELD, release(LEASE), ASKED, applied=False, sent_at=NOW).then is Then.HAND_OVER


@pytest.mark.parametrize("row", [STOLEN, None, MalformedRow("shardId-0", "no checkpoint")])
def test_refused_by_anything_else_it_is_lost(row: Lease | MalformedRow | None) -> None:
    reply = after_write(HELD, heartbeat(LEASE), row, applied=False, sent_at=NOW)
    assert reply.holding == Holding(LEASE, NOW, Tenure.LOST)
    assert (reply.is_done, reply.then) == (False, Then.NOTHING)


def test_a_table_out_of_reach_is_no_loss_until_another_may_have_it() -> None:
    assert after_failure(HELD, True, after(FAILOVER), FAILOVER) is HELD
    assert after_failure(HELD, True, after(FAILOVER + SECOND), FAILOVER).tenure is Tenure.LOST
    assert after_failure(HELD, False, NOW, FAILOVER).tenure is Tenure.LOST


def test_read_again_it_goes_on_from_what_the_row_says() -> None:
    later = replace(LEASE, checkpoint=Checkpoint("9"))
    assert after_reading(HELD, later) == Holding(later, NOW)
    assert after_reading(HELD, ASKED) is HELD, "the next write is refused, and begins to drain"
    by_java = replace(LEASE, lease_owner="java")
    assert after_reading(HELD, by_java).tenure is Tenure.LOST, "it leaves our holder on the row"
    assert after_reading(HELD, None).tenure is Tenure.LOST


def test_a_heartbeat_is_due_while_it_may_write() -> None:
    assert HELD.is_heartbeat_due(after(10 * SECOND), 10 * SECOND)
    assert not HELD.is_heartbeat_due(after(9 * SECOND), 10 * SECOND)
    assert not replace(HELD, tenure=Tenure.RELEASED).is_heartbeat_due(after(FAILOVER), SECOND)
    assert not HELD.is_unconfirmed(after(FAILOVER), FAILOVER)
    assert HELD.is_unconfirmed(after(FAILOVER + SECOND), FAILOVER)


@pytest.mark.parametrize(("wall", "steady"), [(FAILOVER + SECOND, SECOND), (SECOND, FAILOVER + SECOND)])
def test_it_is_unconfirmed_if_either_clock_says_so(wall: timedelta, steady: timedelta) -> None:
    """The steady one stands still while the machine is suspended, and the other may be set back."""
    assert HELD.is_unconfirmed(Instant(BEGINNING + wall, BEGINNING + steady), FAILOVER)


def test_a_wall_clock_that_is_set_back_delays_no_heartbeat() -> None:
    assert HELD.is_heartbeat_due(Instant(BEGINNING - FAILOVER, BEGINNING + 10 * SECOND), 10 * SECOND)
