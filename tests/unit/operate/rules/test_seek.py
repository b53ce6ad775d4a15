"""Where a seek moves each lease, beside reshards and across them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sublet.errors import SeekRefused
from sublet.operate.rules.seek import (
    BEGINNING,
    END,
    FoundPosition,
    MoveEffect,
    SeekPlan,
    check_parents,
    plan_seek,
    positions_at,
    positions_like,
)
from sublet.operate.rules.seek_estimate import SeekEvidence, estimate_of
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan, MalformedRow, Position
from sublet.protocol.shard import FULL_RANGE, HashKeyRange, Shard

NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)
LOW, HIGH = HashKeyRange(0, 9), HashKeyRange(10, 19)
PARENT = Shard("p", FULL_RANGE, starting_sequence_number="1", is_open=False)
LEFT = Shard("l", LOW, "p", starting_sequence_number="20")
RIGHT = Shard("r", HIGH, "p", starting_sequence_number="21")
SPLIT = (RIGHT, PARENT, LEFT)
"""In any order, as a listing may be."""


def at(number: int) -> Position:
    return Position(Checkpoint(str(number)))


def lease(shard: Shard, position: Position, owner: str | None = None) -> Lease:
    return Lease(shard.shard_id, position.checkpoint, lease_owner=owner, parent_shard_ids=shard.parent_shard_ids)


def planned(*leases: Lease, wanted: dict[str, Position], only: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    plan = plan_seek(LeaseScan(leases), SPLIT, wanted, only)
    return [(move.shard.shard_id, move.effect.value, str(move.then.checkpoint)) for move in plan.moves]


READ_ON = lease(PARENT, END), lease(LEFT, at(30)), lease(RIGHT, at(31))


def test_within_a_shard_it_goes_back_or_on_and_nothing_else_moves() -> None:
    assert planned(*READ_ON, wanted={"p": END, "l": at(25), "r": at(35)}) == [
        ("l", "repeats", "25"),
        ("r", "skips", "35"),
    ]


def test_seek_of_an_unbegun_lease_repeats_or_skips_by_its_start() -> None:
    """LATEST is before every number in KCL's order, but its reader reads nothing that is there already."""
    hour = timedelta(hours=1)
    pinned, asked = Position(LATEST, NOW), Position(AT_TIMESTAMP, NOW)

    def effect(before: Position, then: Position, moment: datetime | None = None) -> str:
        held = replace(lease(PARENT, before), start_at=before.start_at)
        return plan_seek(LeaseScan((held,)), (PARENT,), {"p": then}, (), moment).moves[0].effect.value

    assert effect(Position(LATEST), at(5)) == "repeats"
    assert effect(Position(LATEST), BEGINNING) == "repeats"
    assert effect(Position(LATEST), END) == "skips"
    assert effect(at(5), Position(LATEST)) == "skips"
    for before in (pinned, asked):
        assert effect(before, at(5), NOW - hour) == "repeats"
        assert effect(before, at(5), NOW + hour) == "skips"
        assert effect(before, at(5)) == "skips", "in doubt the operator is asked"
        assert effect(before, BEGINNING) == "repeats"


def test_seek_before_a_reshard_reopens_the_parent_and_rewinds_its_children() -> None:
    assert planned(*READ_ON, wanted={"p": at(10), "l": BEGINNING, "r": BEGINNING}) == [
        ("p", "reopens", "10"),
        ("l", "repeats", "TRIM_HORIZON"),
        ("r", "repeats", "TRIM_HORIZON"),
    ]


def test_undo_of_an_interrupted_seek_ends_a_shard_whose_row_was_deleted() -> None:
    """The seek had opened the parent, and not yet come to its child, whose own child is being read."""
    child = replace(LEFT, is_open=False)
    grandchild = Shard("m", LOW, "l", starting_sequence_number="40")
    leases = lease(PARENT, BEGINNING), lease(RIGHT, at(31)), lease(grandchild, at(50), "w")
    plan = plan_seek(LeaseScan(leases), (PARENT, child, RIGHT, grandchild), {"p": END}, ())
    assert {move.shard.shard_id: move.then for move in plan.moves} == {"p": END, "l": END}
    assert [move.shard.shard_id for move in plan.moves] == ["l", "p"]


def test_a_parent_whose_row_was_cleaned_up_gets_a_row() -> None:
    plan = plan_seek(LeaseScan(READ_ON[1:]), SPLIT, {"p": at(10), "l": BEGINNING, "r": BEGINNING})
    first = plan.moves[0]
    assert (first.lease, first.effect, first.before) == (None, MoveEffect.REOPENS, END)
    assert first.lease_key == "p"


def test_seek_to_the_earliest_reopens_a_shard_whose_row_was_deleted() -> None:
    wanted = {"p": BEGINNING, "l": BEGINNING, "r": BEGINNING}
    assert planned(*READ_ON[1:], wanted=wanted) == [
        ("p", "reopens", "TRIM_HORIZON"),
        ("l", "repeats", "TRIM_HORIZON"),
        ("r", "repeats", "TRIM_HORIZON"),
    ]


@pytest.mark.parametrize("child", [(), (lease(LEFT, at(30)),)], ids=["no row", "a row"])
def test_a_child_whose_parent_is_still_to_be_read_never_begins_further_on(child: tuple[Lease, ...]) -> None:
    """At a sequence number it counts as begun, and would be read at the same time as its parent."""
    found = planned(lease(PARENT, at(5)), *child, wanted={"p": at(5), "l": at(25), "r": BEGINNING})
    assert found == ([("l", "repeats", "TRIM_HORIZON")] if child else [])


def test_seek_of_one_shard_moves_its_descendants() -> None:
    grandchild = Shard("g", LOW, "l", starting_sequence_number="40")
    shards = (*SPLIT, grandchild)
    leases = (*READ_ON[:1], lease(LEFT, END), *READ_ON[2:], lease(grandchild, at(50)))
    plan = plan_seek(LeaseScan(leases), shards, {"p": at(10)}, ("p",))
    assert [(move.shard.shard_id, move.then) for move in plan.moves] == [
        ("p", at(10)),
        ("l", BEGINNING),
        ("r", BEGINNING),
        ("g", BEGINNING),
    ]


OLD = Shard("o", FULL_RANGE, starting_sequence_number="0", is_open=False)
"""The parent of p, which is the only child here, as after a merge whose other parent is past retention."""
MIDDLE = replace(PARENT, parent_shard_id="o")
GENERATIONS = (*SPLIT[::2], OLD, MIDDLE)


def effects(plan: SeekPlan) -> list[tuple[str, str, str]]:
    return [(move.shard.shard_id, move.effect.value, str(move.then.checkpoint)) for move in plan.moves]


def test_seek_gives_each_generation_between_opened_and_waiting_shards_a_row() -> None:
    """Without p's row, its children would be read at once, beside their grandparent."""
    plan = plan_seek(LeaseScan(READ_ON[1:]), GENERATIONS, dict.fromkeys("oplr", BEGINNING))
    assert effects(plan) == [
        ("o", "reopens", "TRIM_HORIZON"),
        ("p", "reopens", "TRIM_HORIZON"),
        ("l", "repeats", "TRIM_HORIZON"),
        ("r", "repeats", "TRIM_HORIZON"),
    ]
    assert [move.before for move in plan.moves[:2]] == [END, END]


def test_seek_leaves_unbegun_descendants_to_their_parents_end() -> None:
    """Nothing was handled yet: the seek changes nothing, and skips nothing."""
    plan = plan_seek(LeaseScan((lease(OLD, BEGINNING),)), GENERATIONS, dict.fromkeys("oplr", BEGINNING))
    assert (plan.moves, plan.skips, plan.ended) == ((), (), ())


def test_seek_creates_the_missing_row_between_a_shard_and_its_grandparent() -> None:
    """An earlier version's seek left out the row in between."""
    plan = plan_seek(
        LeaseScan((lease(OLD, at(5)), *READ_ON[1:])),
        GENERATIONS,
        {"o": at(5), "p": END, "l": at(25), "r": at(31)},
    )
    assert effects(plan) == [
        ("p", "begins", "TRIM_HORIZON"),
        ("l", "repeats", "TRIM_HORIZON"),
        ("r", "repeats", "TRIM_HORIZON"),
    ]
    assert plan.skips == ()


def test_a_shard_that_stays_ended_gets_a_row_beside_the_other_parent_of_its_merge() -> None:
    """Otherwise the end of that parent waits for it, and a shard sync creates it, to be read again."""
    left, right = replace(LEFT, is_open=False), replace(RIGHT, is_open=False)
    merged = Shard("m", FULL_RANGE, "l", "r", starting_sequence_number="40")
    scan, shards = LeaseScan((lease(merged, at(50)),)), (PARENT, left, right, merged)
    plan = plan_seek(scan, shards, {"p": END, "l": END, "r": at(30), "m": BEGINNING})
    assert effects(plan) == [("r", "reopens", "30"), ("m", "repeats", "TRIM_HORIZON")]
    assert [(move.shard.shard_id, move.then) for move in plan.ended] == [("l", END)]
    assert plan.stay == ()


def test_the_child_of_one_shard_that_is_moved_to_its_end_begins() -> None:
    """No worker ends that shard, and Java creates no lease for a child of an ended one."""
    assert planned(lease(PARENT, at(5)), wanted={"p": END}, only=("p",)) == [
        ("l", "begins", "TRIM_HORIZON"),
        ("r", "begins", "TRIM_HORIZON"),
        ("p", "skips", "SHARD_END"),
    ]


def test_a_child_that_has_not_begun_is_watched_while_its_parent_opens_again() -> None:
    waiting = lease(LEFT, BEGINNING)
    plan = plan_seek(LeaseScan((READ_ON[0], waiting)), SPLIT, dict.fromkeys("plr", BEGINNING))
    assert [(move.lease, move.effect) for move in plan.waiting] == [(waiting, MoveEffect.STAYS)]


def test_a_listing_that_is_older_than_the_leases_is_refused() -> None:
    """The child would not be moved, and would go on beside its parent."""
    with pytest.raises(SeekRefused, match="older than shard l, which has a lease"):
        plan_seek(LeaseScan(READ_ON), (PARENT,), {"p": BEGINNING})


def test_a_listing_from_before_two_reshards_is_refused() -> None:
    """No row of the generation in between says that the shard is an ancestor: its hash keys and its number do."""
    from_then = Shard("shard-1", HashKeyRange(0, 20), starting_sequence_number="1")
    grandchild = Lease(
        "shard-5",
        Checkpoint("50"),
        lease_owner="w",
        parent_shard_ids=frozenset({"shard-3"}),
        hash_key_range=HashKeyRange(10, 20),
    )
    with pytest.raises(SeekRefused, match="older than shard shard-5, which has a lease"):
        plan_seek(LeaseScan((grandchild,)), (from_then,), {"shard-1": BEGINNING})


def test_a_thousand_generations_are_planned_without_recursion() -> None:
    chain = [
        Shard(f"{n:04}", FULL_RANGE, f"{n - 1:04}" if n else None, None, str(n), is_open=n == 2999) for n in range(3000)
    ]
    wanted = positions_like(chain, {"2999": at(5000)})
    assert set(wanted.values()) == {END, at(5000)}
    plan = plan_seek(LeaseScan((lease(chain[-1], at(5001)),)), chain, positions_like(chain, {"0000": at(1)}))
    assert len(plan.moves) == 3000
    estimate = estimate_of(plan, chain, SeekEvidence(NOW, NOW - timedelta(days=1)))
    assert estimate.repeats.shards == 3000


def test_seek_of_an_unfinished_shard_moves_it_alone() -> None:
    unfinished = lease(PARENT, at(15)), lease(LEFT, BEGINNING)
    assert planned(*unfinished, wanted={"p": at(10)}, only=("p",)) == [("p", "repeats", "10")]


def test_seek_forward_across_a_reshard_creates_children_before_the_parents_end() -> None:
    """A parent's end without them looks like a crash, and they would be read from their beginning."""
    wanted = {"p": END, "l": at(25), "r": BEGINNING}
    assert planned(lease(PARENT, at(5)), wanted=wanted) == [
        ("l", "begins", "25"),
        ("r", "begins", "TRIM_HORIZON"),
        ("p", "skips", "SHARD_END"),
    ]
    plan = plan_seek(LeaseScan((lease(PARENT, at(5)),)), SPLIT, wanted)
    assert [move.shard.shard_id for move in plan.skips] == ["l", "p"], "nothing of the other child is left out"


def test_seek_forward_across_two_reshards_ends_the_shards_between() -> None:
    left = replace(LEFT, is_open=False)
    grandchild = Shard("g", LOW, "l", starting_sequence_number="40")
    wanted = {"p": END, "l": END, "r": at(26), "g": at(45)}
    plan = plan_seek(LeaseScan((lease(PARENT, at(5)),)), (PARENT, left, RIGHT, grandchild), wanted)
    assert [(m.shard.shard_id, m.then) for m in plan.moves] == [
        ("r", at(26)),
        ("g", at(45)),
        ("l", END),
        ("p", END),
    ]


def test_seek_creates_no_lease_that_a_parents_end_creates() -> None:
    assert planned(lease(PARENT, at(5)), wanted={"p": at(3), "l": BEGINNING, "r": BEGINNING}) == [("p", "repeats", "3")]


def test_seek_moves_nothing_that_already_stands_there() -> None:
    plan = plan_seek(LeaseScan(READ_ON), SPLIT, {"p": END, "l": at(30), "r": at(31)})
    assert plan.moves == ()
    assert len(plan.stay) == 3


@pytest.mark.parametrize(
    ("scan", "only", "says"),
    [
        (
            LeaseScan((replace(READ_ON[1], checkpoint_owner="java-1", lease_owner="java-2"),)),
            (),
            "handed over from java-1",
        ),
        (LeaseScan((), (MalformedRow("l", "its counter is text"),)), (), "row of lease l cannot be read"),
        (LeaseScan(READ_ON), ("x",), "has no shard x"),
    ],
    ids=["handoff", "malformed", "unknown shard"],
)
def test_seek_is_refused_by_name_when_a_lease_cannot_move(scan: LeaseScan, only: tuple[str, ...], says: str) -> None:
    with pytest.raises(SeekRefused, match=says):
        plan_seek(scan, SPLIT, {"p": END, "l": at(1), "r": at(1)}, only)


def test_a_handoff_elsewhere_does_not_prevent_a_seek() -> None:
    leases = READ_ON[0], READ_ON[1], replace(READ_ON[2], checkpoint_owner="java-1")
    assert planned(*leases, wanted={"l": at(25)}, only=("l",)) == [("l", "repeats", "25")]


def test_a_time_in_a_closed_shard_that_held_nothing_more_is_its_end() -> None:
    found = {
        "p": FoundPosition(Checkpoint("9"), False),
        "l": FoundPosition(None, True),
        "r": FoundPosition(Checkpoint("22", 3), True),
    }
    assert positions_at(SPLIT, found) == {"p": END, "l": BEGINNING, "r": Position(Checkpoint("22", 3))}


def test_seek_of_one_shard_to_a_time_in_its_parent_is_refused() -> None:
    found = {"p": FoundPosition(Checkpoint("9"), True), "l": FoundPosition(None, True), "r": FoundPosition(None, True)}
    with pytest.raises(SeekRefused, match="shard l began after that time, and records since then are in p"):
        check_parents(SPLIT, found, {"l"})
    check_parents(SPLIT, found, {"p", "l", "r"})
    check_parents(SPLIT, {**found, "p": FoundPosition(Checkpoint("9"), False)}, {"l"})
    check_parents(SPLIT, {**found, "l": FoundPosition(Checkpoint("22"), True)}, {"l"})


def test_positions_of_another_time_begin_children_and_end_parents_without_a_row() -> None:
    before_the_split = positions_like(SPLIT, {"p": at(5)})
    assert before_the_split == {"p": at(5), "l": BEGINNING, "r": BEGINNING}
    cleaned_up = positions_like(SPLIT, {"l": at(25), "r": at(26)})
    assert cleaned_up == {"p": END, "l": at(25), "r": at(26)}
    one_child = positions_like(SPLIT, {"p": END, "l": at(25)})
    assert one_child == {"p": END, "l": at(25), "r": BEGINNING}


def test_back_to_a_snapshot_of_before_a_reshard() -> None:
    """What `undo` and `--to-snapshot` do."""
    assert planned(*READ_ON, wanted=positions_like(SPLIT, {"p": at(5)})) == [
        ("p", "reopens", "5"),
        ("l", "repeats", "TRIM_HORIZON"),
        ("r", "repeats", "TRIM_HORIZON"),
    ]


def test_a_shard_end_is_no_skip_twice() -> None:
    ended = Lease("p", SHARD_END), lease(LEFT, Position(TRIM_HORIZON)), lease(RIGHT, Position(TRIM_HORIZON))
    assert planned(*ended, wanted={"p": END, "l": BEGINNING, "r": BEGINNING}) == []
