"""What each lease write changes, and that each clause of its condition refuses it, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
from sublet.protocol import lease_writes as writes
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.conditions import broken_clauses
from sublet.protocol.lease import AttributeValue, Lease
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, apply_to

from tests.doubles.lease_write_cases import ACCEPTED, ACCEPTED_KINDS, FREE, HELD, ME, OTHER, REFUSED

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def after(write: LeaseWrite, lease: Lease | None) -> Lease | None:
    row = apply_to(write, None if lease is None else encode_row(lease))
    result = decode_row(row) if row else None
    assert result is None or isinstance(result, Lease)
    return result


@pytest.mark.parametrize(("make", "before", "expected"), ACCEPTED, ids=ACCEPTED_KINDS)
def test_an_accepted_write(make: Callable[[], LeaseWrite], before: Lease | None, expected: Lease | None) -> None:
    write = make()
    assert apply_to(write, None if before is None else encode_row(before)) is not None
    assert after(write, before) == expected


def test_accepted_writes_cover_every_kind() -> None:
    assert {make().kind for make, _, _ in ACCEPTED} == set(WriteKind)


@pytest.mark.parametrize(("make", "stands", "clause"), REFUSED)
def test_a_refused_write_names_its_clause_and_changes_nothing(
    make: Callable[[], LeaseWrite], stands: Lease, clause: str
) -> None:
    write, row = make(), encode_row(stands)
    assert apply_to(write, row) is None
    assert clause in broken_clauses(write.condition, row)


@pytest.mark.parametrize(("make", "before", "_"), ACCEPTED, ids=ACCEPTED_KINDS)
def test_no_update_makes_a_row(make: Callable[[], LeaseWrite], before: Lease | None, _: Lease | None) -> None:
    """Half a row stops every KCL."""
    write = make()
    if write.kind is not WriteKind.CREATE:
        assert apply_to(write, None) is None


BACKWARDS: list[Callable[[Lease, Checkpoint], LeaseWrite]] = [
    writes.checkpoint,
    writes.late_checkpoint,
]


@pytest.mark.parametrize("make", BACKWARDS, ids=["checkpoint", "late_checkpoint"])
@pytest.mark.parametrize(
    ("stored", "to", "accepted"),
    [
        (Checkpoint("99"), Checkpoint("100"), True),  # longer is further, though "99" > "100" as text
        (Checkpoint("100"), Checkpoint("99"), False),
        (Checkpoint("100"), Checkpoint("101"), True),
        (Checkpoint("100"), Checkpoint("100"), False),
        (Checkpoint("100", 1), Checkpoint("100", 2), True),  # stored < new: kcl-rust compares the other way
        (Checkpoint("100", 2), Checkpoint("100", 1), False),
        (
            Checkpoint("101", 1),
            Checkpoint("100", 2),
            False,
        ),  # the place within a record counts within the same one alone
        (Checkpoint("100", 9), Checkpoint("101"), True),
        (TRIM_HORIZON, Checkpoint("0"), True),  # a sentinel is longer than most short numbers
        (LATEST, Checkpoint("9" * 129), True),
        (SHARD_END, Checkpoint("9" * 129), False),
    ],
)
def test_a_checkpoint_only_goes_on(
    make: Callable[[Lease, Checkpoint], LeaseWrite], stored: Checkpoint, to: Checkpoint, accepted: bool
) -> None:
    lease = replace(HELD, checkpoint=stored)
    assert (apply_to(make(lease, to), encode_row(lease)) is not None) is accepted


@pytest.mark.parametrize("none", [{"NULL": True}, {"S": ""}])
def test_an_unowned_lease_can_be_acquired_however_that_is_written(none: dict[str, object]) -> None:
    row = encode_row(FREE) | {"leaseOwner": none}
    seen = decode_row(row)
    assert isinstance(seen, Lease)
    taken = apply_to(writes.acquire(seen.fence, ME, "h"), row)
    assert taken is not None
    assert taken["leaseOwner"] == {"S": ME}


def test_first_crash_is_counted_as_one() -> None:
    first = after(writes.acquire(FREE.fence, ME, "item/1", crashed=FREE), FREE)
    assert first is not None
    assert first.crashes == 1


def test_crashes_of_another_checkpoint_are_void() -> None:
    """KCL, an operator and version 0.1 move the checkpoint and leave our count: three crashes would mean a pause."""
    moved = encode_row(replace(FREE, crashes=3)) | {"checkpoint": {"S": "8" * 56}}
    seen = decode_row(moved)
    assert isinstance(seen, Lease)
    assert seen.crashes == 0
    taken = decode_row(apply_to(writes.acquire(seen.fence, ME, "item/1", crashed=seen), moved) or {})
    assert isinstance(taken, Lease)
    assert taken.crashes == 1


def test_a_count_of_crashes_by_version_0_2_is_not_believed() -> None:
    """It does not say of which checkpoint it is: KCL and 0.1 may have got further and left it."""
    lease = decode_row(encode_row(FREE) | {"subletCrashes": {"N": "2"}})
    assert isinstance(lease, Lease)
    assert lease.crashes == 0


def test_version_0_2_adds_to_a_count_of_ours() -> None:
    row = encode_row(replace(FREE, crashes=2))
    row["subletCrashes"] = {"N": "3"}  # its ADD, at the same checkpoint
    lease = decode_row(row)
    assert isinstance(lease, Lease)
    assert lease.crashes == 3


@pytest.mark.parametrize(
    "make",
    [
        partial(writes.checkpoint, HELD, Checkpoint("9" * 60)),
        partial(writes.late_checkpoint, HELD, Checkpoint("9" * 60)),
        partial(writes.end, HELD),
        partial(writes.heartbeat, HELD, caught_up_at=NOON),
        partial(writes.release, HELD, caught_up_at=NOON),
    ],
    ids=lambda make: make.func.__name__,
)
def test_progress_forgets_crashes(make: Callable[[], LeaseWrite]) -> None:
    wrote = after(make(), replace(HELD, crashes=3))
    assert wrote is not None
    assert wrote.crashes == 0


@pytest.mark.parametrize("make", [writes.heartbeat, writes.release], ids=["heartbeat", "release"])
def test_heartbeat_and_release_keep_the_count_of_crashes(make: Callable[[Lease], LeaseWrite]) -> None:
    wrote = after(make(HELD), replace(HELD, crashes=3))
    assert wrote is not None
    assert wrote.crashes == 3


def test_a_late_checkpoint_leaves_half_a_row_alone() -> None:
    """One without a counter is none that KCL can read, and not ours to go on with."""
    row = encode_row(HELD)
    del row["leaseCounter"]
    write = writes.late_checkpoint(HELD, Checkpoint("9" * 60))
    assert broken_clauses(write.condition, row) == ("exists", "not_sought")


@pytest.mark.parametrize("make", [writes.release, writes.end], ids=["release", "end"])
def test_a_lease_released_while_it_is_drained_has_no_owner_left(
    make: Callable[[Lease], LeaseWrite],
) -> None:
    drained = replace(HELD, checkpoint_owner=OTHER)
    left = after(make(drained), drained)
    assert left is not None
    assert (left.lease_owner, left.checkpoint_owner, left.holder) == (None, None, None)


def test_checkpoint_within_an_aggregate_applies_to_a_row_without_sub_sequence_number() -> None:
    whole = replace(HELD, checkpoint=Checkpoint(HELD.checkpoint.sequence_number))
    inside = writes.checkpoint(whole, HELD.checkpoint)
    row = encode_row(whole)
    assert apply_to(inside, row | {"checkpointSubSequenceNumber": {"NULL": True}}) is not None
    del row["checkpointSubSequenceNumber"]
    assert apply_to(inside, row) is not None


@pytest.mark.parametrize(
    "kept",
    [
        {"subletStartAt": {"N": "1769846400000"}, "checkpointSubSequenceNumber": {"N": "0"}},
        {"subletStartAt": {"NULL": True}, "checkpointSubSequenceNumber": {"N": "1769846400000"}},
        {"checkpointSubSequenceNumber": {"N": "1769846400000"}},
    ],
)
def test_a_moment_to_start_at_stands_however_it_is_kept(kept: dict[str, AttributeValue]) -> None:
    """By us, or by kcl-rust. Ours counts where there are both."""
    held = replace(HELD, checkpoint=AT_TIMESTAMP, start_at=datetime(2026, 1, 31, 8, tzinfo=UTC))
    row = {name: value for name, value in encode_row(held).items() if name != "subletStartAt"} | kept
    lease = decode_row(row)
    assert isinstance(lease, Lease)
    assert lease.position == held.position
    to = writes.checkpoint(held, Checkpoint("9" * 60))
    assert apply_to(to, row) is not None
    moved = row | {"subletStartAt": {"N": "1769846400001"}}
    assert broken_clauses(to.condition, moved) == ("position_stands",)


def test_pin_writes_the_attribute_that_kcl_rust_reads() -> None:
    at = datetime(2026, 1, 31, 8, tzinfo=UTC)
    for checkpoint, sub in ((AT_TIMESTAMP, "1769846400000"), (LATEST, "0")):
        lease = replace(HELD, checkpoint=checkpoint, start_at=None)
        row = apply_to(writes.pin(lease, at), encode_row(lease))
        assert row is not None
        assert (row["subletStartAt"], row["checkpointSubSequenceNumber"]) == (
            {"N": "1769846400000"},
            {"N": sub},
        )


def test_adding_to_a_text_attribute_is_refused_as_by_dynamodb() -> None:
    row = encode_row(HELD) | {"ownerSwitchesSinceCheckpoint": {"S": "two"}}
    assert apply_to(writes.acquire(HELD.fence, OTHER, "h"), row) is None
