"""The state machine of a held lease: the new state after each reply, as a table, and the changes that time alone
makes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.decisions.session.held_lease import (
    MAY_WRITE,
    TENURE_AFTER,
    TRANSITIONS,
    AfterWrite,
    Holding,
    NextAction,
    Tenure,
    after_failure,
    after_reading,
    after_write,
    is_covered_by,
)
from sublet.decisions.session.refused_write import Verdict
from sublet.decisions.time_and_chance import Instant
from sublet.protocol.checkpoint import LATEST, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, MalformedRow, Position
from sublet.protocol.lease_writes import WriteKind, checkpoint, end, hand_over, heartbeat, pin, release

BEGINNING = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
SECOND, FAILOVER = timedelta(seconds=1), timedelta(seconds=30)


def after(by: timedelta) -> Instant:
    return Instant(BEGINNING + by, BEGINNING + by)


NOW, LATER = after(timedelta(0)), after(timedelta(seconds=1))
LEASE = Lease("shardId-0", TRIM_HORIZON, lease_counter=7, lease_owner="me", holder="item/1", holder_counter=7)
HELD = Holding(LEASE, NOW)
BEAT = heartbeat(LEASE)
BEATEN = replace(LEASE, lease_counter=8, holder_counter=8)
ASKED = replace(LEASE, lease_owner="java", checkpoint_owner="me")
STOLEN = replace(LEASE, lease_counter=8, lease_owner="thief", holder="other/1")


def test_every_verdict_has_its_transition() -> None:
    assert set(TRANSITIONS) == set(Verdict)


def test_a_write_that_is_applied_is_a_heartbeat() -> None:
    reply = after_write(HELD, heartbeat(LEASE), BEATEN, applied=True, sent_at=LATER)
    assert reply.holding == Holding(BEATEN, LATER, Tenure.HELD)
    assert (reply.verdict, reply.is_done, reply.then) == (Verdict.APPLIED, True, NextAction.NOTHING)


@pytest.mark.parametrize(
    ("write", "tenure"),
    [(release(LEASE), Tenure.RELEASED), (end(LEASE), Tenure.RELEASED), (hand_over(ASKED), Tenure.LOST)],
)
def test_lease_is_no_longer_held_after_a_final_write(write: object, tenure: Tenure) -> None:
    reply = after_write(HELD, write, BEATEN, applied=True, sent_at=NOW)  # type: ignore[arg-type]
    assert reply.holding.tenure is tenure
    assert not reply.holding.may_write
    assert reply.is_done


def test_no_other_write_ends_the_tenure() -> None:
    leaving = {WriteKind.RELEASE, WriteKind.END, WriteKind.HAND_OVER}
    assert set(TENURE_AFTER) == leaving
    assert not MAY_WRITE.intersection(TENURE_AFTER.values())


def test_refused_by_our_own_write_whose_response_got_lost_it_is_done_and_dated() -> None:
    reply = after_write(HELD, heartbeat(LEASE), BEATEN, applied=False, sent_at=LATER)
    assert reply.holding == Holding(BEATEN, LATER)
    assert (reply.verdict, reply.is_done) == (Verdict.DONE_BEFORE, True)


def test_refused_write_is_repeated_for_a_row_that_our_own_write_moved_on() -> None:
    to_5 = checkpoint(LEASE, Checkpoint("5"))
    reply = after_write(HELD, to_5, BEATEN, applied=False, sent_at=LATER)
    assert reply.holding == Holding(BEATEN, NOW), "not dated: this write has not happened"
    assert (reply.is_done, reply.then) == (False, NextAction.WRITE_AGAIN)


@pytest.mark.parametrize("row", [replace(LEASE, checkpoint=Checkpoint("9")), replace(LEASE, checkpoint=LATEST)])
def test_a_row_that_another_has_moved_is_ours_as_it_stands_and_nothing_is_written(row: Lease) -> None:
    reply = after_write(HELD, checkpoint(LEASE, Checkpoint("5")), row, applied=False, sent_at=LATER)
    assert reply.holding == Holding(row, NOW, moves=1, moved_from=TRIM_HORIZON), "not a heartbeat"
    assert (reply.verdict, reply.is_done, reply.then) == (Verdict.MOVED, False, NextAction.NOTHING)


def test_a_heartbeat_brings_word_of_a_move() -> None:
    """Of each one: `moves` never goes back."""
    moved, again = (
        replace(BEATEN, checkpoint=Checkpoint("9")),
        replace(BEATEN, lease_counter=9, holder_counter=9),
    )
    reply = after_write(HELD, heartbeat(LEASE), moved, applied=True, sent_at=LATER)
    assert reply.holding == Holding(moved, LATER, moves=1, moved_from=TRIM_HORIZON)
    assert reply.is_done
    reply = after_write(reply.holding, heartbeat(moved), again, applied=True, sent_at=LATER)
    assert reply.holding == Holding(again, LATER, moves=2, moved_from=Checkpoint("9"))


def test_own_checkpoint_is_no_move() -> None:
    to_5, row = checkpoint(LEASE, Checkpoint("5")), replace(BEATEN, checkpoint=Checkpoint("5"))
    for applied in (True, False):
        assert after_write(HELD, to_5, row, applied, sent_at=LATER).holding == Holding(row, LATER)


def unanswered(*checkpoints: str) -> Holding:
    holding = HELD
    for sent in checkpoints:
        holding = after_failure(holding, checkpoint(LEASE, Checkpoint(sent)), True, NOW, FAILOVER)
    return holding


def test_own_unanswered_checkpoint_is_no_move() -> None:
    holding = unanswered("3", "4")
    assert holding.unanswered == {Position(Checkpoint("3")), Position(Checkpoint("4"))}
    for stored in ("3", "4"):
        row = replace(BEATEN, checkpoint=Checkpoint(stored))
        for write in (BEAT, checkpoint(LEASE, Checkpoint("5"))):
            assert after_write(holding, write, row, applied=False, sent_at=NOW).holding == Holding(row, NOW)


def test_a_checkpoint_that_one_of_ours_refused_is_made_again() -> None:
    """Its answer was lost. No other writer has moved the row: what is finished since would be handled again by the next
    owner.
    """
    row = replace(BEATEN, checkpoint=Checkpoint("4"))
    reply = after_write(unanswered("4"), checkpoint(LEASE, Checkpoint("5")), row, applied=False, sent_at=NOW)
    assert reply == AfterWrite(Holding(row, NOW), Verdict.WRITE_AGAIN, is_done=False, then=NextAction.WRITE_AGAIN)
    moved = after_write(unanswered("3"), checkpoint(LEASE, Checkpoint("5")), row, applied=False, sent_at=NOW)
    assert (moved.verdict, moved.then, moved.holding.moves) == (Verdict.MOVED, NextAction.NOTHING, 1)


def test_moved_from_is_where_the_checkpoint_may_have_been_before_the_move() -> None:
    """At what was never answered too, if the counter says that something of ours came through."""
    moved = replace(LEASE, checkpoint=Checkpoint("2"))
    for row, applied, stood in (
        (moved, False, TRIM_HORIZON),
        (replace(moved, lease_counter=8, holder_counter=8), False, Checkpoint("4")),
        (replace(moved, lease_counter=8, holder_counter=8), True, TRIM_HORIZON),
    ):
        after = after_write(unanswered("4"), BEAT, row, applied, sent_at=NOW).holding
        assert (after.moves, after.moved_from, after.unanswered) == (1, stood, frozenset())


@pytest.mark.parametrize(
    ("row", "is_true"),
    [("2", False), ("3", True), ("4", True), ("5", True), ("6", False), ("LATEST", False)],
)
def test_moved_checkpoint_is_true_within_the_finished_records(row: str, is_true: bool) -> None:
    assert is_covered_by(Checkpoint(row), Checkpoint("3"), Checkpoint("5")) is is_true
    assert not is_covered_by(LATEST, TRIM_HORIZON, Checkpoint("5"))


def test_own_pin_is_no_move() -> None:
    at, latest = datetime(2026, 1, 31, 8, 0, 0, 1999, UTC), replace(LEASE, checkpoint=LATEST)
    row = replace(latest, lease_counter=8, holder_counter=8, start_at=at.replace(microsecond=1000))
    reply = after_write(replace(HELD, lease=latest), pin(latest, at), row, applied=True, sent_at=LATER)
    assert reply.holding == Holding(row, LATER)


def test_asked_to_leave_a_row_that_has_been_moved() -> None:
    asked = replace(ASKED, checkpoint=Checkpoint("9"))
    assert after_write(HELD, heartbeat(LEASE), asked, applied=False, sent_at=NOW).holding.moves == 1


def test_requested_lease_drains_and_writes_again() -> None:
    reply = after_write(HELD, heartbeat(LEASE), ASKED, applied=False, sent_at=NOW)
    assert reply.holding == Holding(ASKED, NOW, Tenure.DRAINING)
    assert (reply.is_done, reply.then) == (False, NextAction.WRITE_AGAIN)
    assert reply.holding.may_write


def test_asked_to_leave_while_it_releases_it_hands_over_instead() -> None:
    assert after_write(HELD, release(LEASE), ASKED, applied=False, sent_at=NOW).then is NextAction.HAND_OVER


def test_a_release_that_a_write_of_ours_refused_is_made_again_for_that_row() -> None:
    """The lease is not requested, so there is no worker to hand it over to."""
    assert after_write(HELD, release(LEASE), BEATEN, applied=False, sent_at=NOW).then is NextAction.WRITE_AGAIN


@pytest.mark.parametrize("row", [STOLEN, None, MalformedRow("shardId-0", "no checkpoint")])
def test_refused_by_anything_else_it_is_lost(row: Lease | MalformedRow | None) -> None:
    reply = after_write(HELD, heartbeat(LEASE), row, applied=False, sent_at=NOW)
    assert reply.holding == Holding(LEASE, NOW, Tenure.LOST)
    assert (reply.is_done, reply.then) == (False, NextAction.NOTHING)


def test_lease_is_held_through_a_table_outage_until_failover_time() -> None:
    assert after_failure(HELD, BEAT, True, after(FAILOVER), FAILOVER) == HELD
    assert after_failure(HELD, BEAT, True, after(FAILOVER + SECOND), FAILOVER).tenure is Tenure.LOST
    assert after_failure(HELD, BEAT, False, NOW, FAILOVER).tenure is Tenure.LOST


def test_lease_read_again_goes_on_from_its_row() -> None:
    later = replace(LEASE, checkpoint=Checkpoint("9"))
    assert after_reading(HELD, later) == Holding(later, NOW)
    assert after_reading(HELD, ASKED) is HELD, "the next write is refused, and begins to drain"
    by_java = replace(LEASE, lease_owner="java")
    assert after_reading(HELD, by_java).tenure is Tenure.LOST, "it leaves our holder on the row"
    assert after_reading(HELD, None).tenure is Tenure.LOST
    assert after_reading(HELD, replace(LEASE, holder="item/2")).tenure is Tenure.LOST, "the name is shared by many"


def test_a_heartbeat_is_due_while_it_may_write() -> None:
    assert HELD.is_heartbeat_due(after(10 * SECOND), 10 * SECOND)
    assert not HELD.is_heartbeat_due(after(9 * SECOND), 10 * SECOND)
    assert not replace(HELD, tenure=Tenure.RELEASED).is_heartbeat_due(after(FAILOVER), SECOND)
    assert not HELD.is_unconfirmed(after(FAILOVER), FAILOVER)
    assert HELD.is_unconfirmed(after(FAILOVER + SECOND), FAILOVER)


@pytest.mark.parametrize(("wall", "steady"), [(FAILOVER + SECOND, SECOND), (SECOND, FAILOVER + SECOND)])
def test_lease_is_unconfirmed_if_either_clock_says_so(wall: timedelta, steady: timedelta) -> None:
    """The steady one stands still while the machine is suspended, and the other may be set back."""
    assert HELD.is_unconfirmed(Instant(BEGINNING + wall, BEGINNING + steady), FAILOVER)


def test_a_wall_clock_that_is_set_back_delays_no_heartbeat() -> None:
    assert HELD.is_heartbeat_due(Instant(BEGINNING - FAILOVER, BEGINNING + 10 * SECOND), 10 * SECOND)
