"""The reason of a refused write, judged from the row that is there instead."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sublet.decisions.session.refused_write import Verdict, judge_refusal
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.lease_writes import (
    LeaseWrite,
    checkpoint,
    end,
    hand_over,
    heartbeat,
    pin,
    release,
    set_children,
)

from tests.doubles.engine_world import moment

HELD = Lease("shardId-000000000000", Checkpoint("100"), 7, "app-lambda-0", holder="item/1", holder_counter=7)
CHILDREN = frozenset({"shardId-000000000001"})
TO_200 = checkpoint(HELD, Checkpoint("200"))


@pytest.mark.parametrize(
    ("because", "write", "row", "verdict"),
    [
        (
            "our heartbeat's response got lost",
            heartbeat(HELD),
            replace(HELD, lease_counter=8, holder_counter=8),
            Verdict.DONE_BEFORE,
        ),
        (
            "our checkpoint's response got lost",
            TO_200,
            replace(HELD, lease_counter=8, holder_counter=8, checkpoint=Checkpoint("200")),
            Verdict.DONE_BEFORE,
        ),
        (
            "another write of ours came through before",
            TO_200,
            replace(HELD, lease_counter=8, holder_counter=8),
            Verdict.WRITE_AGAIN,
        ),
        (
            "a release is not done while we are the owner",
            release(HELD),
            replace(HELD, lease_counter=8, holder_counter=8),
            Verdict.WRITE_AGAIN,
        ),
        (
            "the children are not named yet",
            set_children(HELD, CHILDREN),
            replace(HELD, lease_counter=8, holder_counter=8),
            Verdict.WRITE_AGAIN,
        ),
        (
            "the children are named",
            set_children(HELD, CHILDREN),
            replace(HELD, lease_counter=8, holder_counter=8, child_shard_ids=CHILDREN),
            Verdict.DONE_BEFORE,
        ),
        (
            "a release wants an unowned lease",
            release(HELD),
            replace(HELD, lease_owner=None),
            Verdict.DONE_BEFORE,
        ),
        ("ended is what an end wants", end(HELD), replace(HELD, checkpoint=SHARD_END), Verdict.DONE_BEFORE),
        (
            "the owner before us checkpointed late, further on",
            TO_200,
            replace(HELD, checkpoint=Checkpoint("300")),
            Verdict.MOVED,
        ),
        (
            "an operator has put the checkpoint back",
            TO_200,
            replace(HELD, checkpoint=Checkpoint("50")),
            Verdict.MOVED,
        ),
        (
            "an operator has put the checkpoint on a moment",
            TO_200,
            replace(HELD, checkpoint=AT_TIMESTAMP, start_at=moment("2026-01-31T08:00:00")),
            Verdict.MOVED,
        ),
        (
            "not the end: an operator wants more of the shard read again",
            end(HELD),
            replace(HELD, checkpoint=TRIM_HORIZON),
            Verdict.MOVED,
        ),
        (
            "a heartbeat of ours came through whose response got lost, and then an operator",
            TO_200,
            replace(HELD, lease_counter=8, holder_counter=8, checkpoint=Checkpoint("150")),
            Verdict.MOVED,
        ),
        (
            "the children are named wherever the checkpoint is",
            set_children(HELD, CHILDREN),
            replace(HELD, lease_counter=8, holder_counter=8, checkpoint=Checkpoint("50")),
            Verdict.WRITE_AGAIN,
        ),
        (
            "refused by what is just as we knew it: nothing that we understand",
            TO_200,
            HELD,
            Verdict.LOST,
        ),
        (
            "KCL 3's leader asks us to leave, and leaves the counter alone",
            heartbeat(HELD),
            replace(HELD, lease_owner="java", checkpoint_owner="app-lambda-0"),
            Verdict.DRAIN,
        ),
        (
            "somebody else is being asked to leave",
            heartbeat(HELD),
            replace(HELD, lease_owner="java", checkpoint_owner="other"),
            Verdict.LOST,
        ),
        (
            "a Java worker took it: the counter rose, and our holder column is not its business",
            heartbeat(HELD),
            replace(HELD, lease_owner="java", lease_counter=8),
            Verdict.LOST,
        ),
        (
            "KCL 3's leader gave it to another and back to our worker id: a tick is to take it up, not we",
            heartbeat(HELD),
            replace(HELD, lease_counter=8),
            Verdict.LOST,
        ),
        (
            "another invocation under our worker id took it",
            heartbeat(HELD),
            replace(HELD, holder="item/2", lease_counter=8, holder_counter=8),
            Verdict.LOST,
        ),
        (
            "a counter two further is not our one write",
            heartbeat(HELD),
            replace(HELD, lease_counter=9),
            Verdict.LOST,
        ),
        (
            "nor is it, with a position that another has moved, an operator's edit of our lease",
            heartbeat(HELD),
            replace(HELD, lease_counter=9, holder_counter=9, checkpoint=Checkpoint("50")),
            Verdict.LOST,
        ),
        (
            "a counter went back: kcl-rust's reset",
            heartbeat(HELD),
            replace(HELD, lease_counter=0),
            Verdict.LOST,
        ),
        (
            "asked to leave before the next owner is named, and our position is further on there",
            TO_200,
            replace(HELD, checkpoint_owner="app-lambda-0", checkpoint=Checkpoint("300")),
            Verdict.DRAIN,
        ),
        (
            "an end is not done because it is refused: another has the lease",
            end(HELD),
            replace(HELD, holder="item/2", lease_counter=8, holder_counter=8),
            Verdict.LOST,
        ),
        (
            "a checkpoint was not made because the shard is ended",
            TO_200,
            replace(HELD, checkpoint=SHARD_END, lease_owner=None, holder=None, lease_counter=8),
            Verdict.LOST,
        ),
        (
            "a heartbeat was not written because the lease is unowned",
            heartbeat(HELD),
            replace(HELD, lease_owner=None, holder=None, lease_counter=8),
            Verdict.LOST,
        ),
        (
            "a checkpoint further on, but another life's: its counter is neither ours nor the next",
            TO_200,
            replace(HELD, lease_counter=3, checkpoint=Checkpoint("300")),
            Verdict.LOST,
        ),
        ("the row is gone", heartbeat(HELD), None, Verdict.LOST),
        ("the row cannot be read", heartbeat(HELD), MalformedRow(HELD.lease_key, "no counter"), Verdict.LOST),
    ],
)
def test_a_refusal(because: str, write: LeaseWrite, row: Lease | MalformedRow | None, verdict: Verdict) -> None:
    assert judge_refusal(HELD, write, row) is verdict, because


def test_a_lease_that_is_being_drained_is_still_ours_to_write_to() -> None:
    draining = replace(HELD, lease_owner="java", checkpoint_owner="app-lambda-0")
    done = replace(draining, lease_counter=8, holder_counter=8, checkpoint=Checkpoint("200"))
    assert judge_refusal(draining, checkpoint(draining, Checkpoint("200")), done) is Verdict.DONE_BEFORE
    handed_over = replace(draining, checkpoint_owner=None, holder=None, lease_counter=8)
    assert judge_refusal(draining, hand_over(draining), handed_over) is Verdict.LOST, "what it wanted to be"


def test_a_pin_that_remains_shows_that_the_checkpoint_was_not_written() -> None:
    pinned = replace(HELD, checkpoint=TRIM_HORIZON, start_at=moment("2026-01-31T08:00:00"))
    write = checkpoint(pinned, Checkpoint("200"))
    assert judge_refusal(pinned, write, replace(pinned, lease_counter=8, holder_counter=8)) is Verdict.WRITE_AGAIN


def test_a_pin_is_not_for_where_the_owner_before_us_has_checkpointed_late() -> None:
    unpinned = replace(HELD, checkpoint=LATEST)
    write = pin(unpinned, moment("2026-01-31T08:00:00"))
    assert judge_refusal(unpinned, write, replace(HELD, checkpoint=Checkpoint("300"))) is Verdict.MOVED
