"""Each lease write: what it changes, and that each clause of its condition refuses it, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sublet.memory.clock import BEGINNING
from sublet.protocol import lease_writes as writes
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.conditions import broken_clauses
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import decode_row, encode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind, apply_to

ME, OTHER = "app-lambda-0", "app-lambda-1"
AT_56 = str(496 * 10**53)
HELD = Lease(
    "shardId-000000000000",
    Checkpoint(AT_56, 3),
    lease_counter=7,
    lease_owner=ME,
    holder="item/1",
    pending_checkpoint=Checkpoint(AT_56),
    start_at=BEGINNING,
    caught_up_at=BEGINNING,
    owner_switches_since_checkpoint=2,
)
NEW = replace(HELD, checkpoint=LATEST, start_at=None, pending_checkpoint=None)
FREE = replace(HELD, lease_owner=None, holder=None)
FURTHER = Checkpoint(str(int(AT_56) + 1))


def after(write: LeaseWrite, lease: Lease | None) -> Lease | None:
    row = apply_to(write, None if lease is None else encode_row(lease))
    result = decode_row(row) if row else None
    assert result is None or isinstance(result, Lease)
    return result


ACCEPTED: list[tuple[LeaseWrite, Lease | None, Lease | None]] = [
    (writes.create(FREE), None, FREE),
    (
        writes.acquire(FREE, ME, "item/2"),
        FREE,
        replace(FREE, lease_owner=ME, holder="item/2", lease_counter=8),
    ),
    (  # a switch of owner is counted, whoever was the owner
        writes.acquire(HELD, OTHER, "item/2"),
        HELD,
        replace(HELD, lease_owner=OTHER, holder="item/2", lease_counter=8, owner_switches_since_checkpoint=3),
    ),
    (writes.acquire(HELD, ME, "item/2"), HELD, replace(HELD, holder="item/2", lease_counter=8)),
    (  # the handoff that was under way is over
        writes.acquire(replace(HELD, checkpoint_owner=OTHER), ME, "item/2"),
        replace(HELD, checkpoint_owner=OTHER),
        replace(HELD, holder="item/2", lease_counter=8),
    ),
    (writes.heartbeat(HELD), HELD, replace(HELD, lease_counter=8)),
    (writes.pin(NEW, BEGINNING), NEW, replace(NEW, lease_counter=8, start_at=BEGINNING)),
    (
        writes.checkpoint(HELD, FURTHER),
        HELD,
        replace(
            HELD,
            lease_counter=8,
            checkpoint=FURTHER,
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            start_at=None,
        ),
    ),
    (
        writes.late_checkpoint(HELD.lease_key, FURTHER),
        HELD,
        replace(
            HELD,
            checkpoint=FURTHER,
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            start_at=None,
        ),
    ),
    (
        writes.set_children(HELD, frozenset({"a", "b"})),
        HELD,
        replace(HELD, lease_counter=8, child_shard_ids=frozenset({"a", "b"})),
    ),
    (
        writes.end(HELD),
        HELD,
        Lease(HELD.lease_key, SHARD_END, lease_counter=8, owner_switches_since_checkpoint=0),
    ),
    (
        writes.release(HELD, BEGINNING + timedelta(minutes=1)),
        HELD,
        replace(
            HELD,
            lease_owner=None,
            holder=None,
            lease_counter=8,
            caught_up_at=BEGINNING + timedelta(minutes=1),
        ),
    ),
    (
        writes.hand_over(replace(HELD, lease_owner=OTHER, checkpoint_owner=ME)),
        replace(HELD, lease_owner=OTHER, checkpoint_owner=ME),
        replace(HELD, lease_owner=OTHER, holder=None, lease_counter=8, owner_switches_since_checkpoint=3),
    ),
    (writes.delete(HELD), HELD, None),
]


@pytest.mark.parametrize(
    ("write", "before", "expected"), ACCEPTED, ids=[case[0].kind.value for case in ACCEPTED]
)
def test_an_accepted_write(write: LeaseWrite, before: Lease | None, expected: Lease | None) -> None:
    assert apply_to(write, None if before is None else encode_row(before)) is not None
    assert after(write, before) == expected


def test_every_kind_of_write_is_shown_above() -> None:
    assert {write.kind for write, _, _ in ACCEPTED} == set(WriteKind)


MOVED = replace(HELD, lease_counter=8)
STOLEN = replace(HELD, lease_owner=OTHER)
ENDED = replace(HELD, checkpoint=SHARD_END)


@pytest.mark.parametrize(
    ("write", "stands", "clause"),
    [
        (writes.create(FREE), FREE, "no_such_lease"),
        (writes.acquire(HELD, OTHER, "h"), MOVED, "counter_stands"),
        (writes.acquire(FREE, ME, "h"), replace(FREE, lease_owner=OTHER), "owner_stands"),
        (writes.acquire(HELD, OTHER, "h"), ENDED, "not_ended"),
        (writes.heartbeat(HELD), MOVED, "counter_stands"),
        (writes.heartbeat(HELD), replace(HELD, lease_counter=6), "counter_stands"),
        (writes.heartbeat(HELD), STOLEN, "owner_stands"),
        (writes.heartbeat(HELD), FREE, "owner_stands"),
        (writes.pin(NEW, BEGINNING), replace(NEW, lease_counter=8), "counter_stands"),
        (writes.pin(NEW, BEGINNING), replace(NEW, lease_owner=OTHER), "owner_stands"),
        (writes.pin(NEW, BEGINNING), HELD, "not_started"),
        (writes.checkpoint(HELD, FURTHER), MOVED, "counter_stands"),
        (writes.checkpoint(HELD, FURTHER), STOLEN, "owner_stands"),
        (writes.checkpoint(HELD, FURTHER), replace(HELD, checkpoint=FURTHER), "further_on"),
        (writes.checkpoint(HELD, FURTHER), ENDED, "further_on"),
        (writes.late_checkpoint(HELD.lease_key, FURTHER), ENDED, "not_ended"),
        (writes.late_checkpoint(HELD.lease_key, FURTHER), replace(HELD, checkpoint=FURTHER), "further_on"),
        (writes.set_children(HELD, frozenset("a")), MOVED, "counter_stands"),
        (writes.set_children(HELD, frozenset("a")), STOLEN, "owner_stands"),
        (writes.end(HELD), MOVED, "counter_stands"),
        (writes.end(HELD), STOLEN, "owner_stands"),
        (writes.end(HELD), ENDED, "not_ended"),
        (writes.release(HELD), MOVED, "counter_stands"),
        (writes.release(HELD), STOLEN, "owner_stands"),
        (writes.hand_over(replace(STOLEN, checkpoint_owner=ME)), STOLEN, "drained_by_us"),
        (
            writes.hand_over(replace(STOLEN, checkpoint_owner=ME)),
            replace(HELD, checkpoint_owner=ME),
            "owner_stands",
        ),
        (writes.delete(HELD), MOVED, "counter_stands"),
        (writes.delete(HELD), STOLEN, "owner_stands"),
    ],
)
def test_a_refused_write_names_its_clause_and_changes_nothing(
    write: LeaseWrite, stands: Lease, clause: str
) -> None:
    row = encode_row(stands)
    assert apply_to(write, row) is None
    assert clause in broken_clauses(write.condition, row)


@pytest.mark.parametrize(("write", "before", "_"), ACCEPTED, ids=[case[0].kind.value for case in ACCEPTED])
def test_no_update_makes_a_row(write: LeaseWrite, before: Lease | None, _: Lease | None) -> None:
    """Half a row stops every KCL."""
    if write.kind is not WriteKind.CREATE:
        assert apply_to(write, None) is None


BACKWARDS: list[Callable[[Lease, Checkpoint], LeaseWrite]] = [
    writes.checkpoint,
    lambda lease, to: writes.late_checkpoint(lease.lease_key, to),
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


@pytest.mark.parametrize("nobody", [{"NULL": True}, {"S": ""}])
def test_a_lease_of_nobody_can_be_acquired_however_nobody_is_written(nobody: dict[str, object]) -> None:
    row = encode_row(FREE) | {"leaseOwner": nobody}
    seen = decode_row(row)
    assert isinstance(seen, Lease)
    taken = apply_to(writes.acquire(seen, ME, "h"), row)
    assert taken is not None
    assert taken["leaseOwner"] == {"S": ME}


def test_adding_to_what_is_no_number_is_refused_as_dynamodb_does() -> None:
    row = encode_row(HELD) | {"ownerSwitchesSinceCheckpoint": {"S": "two"}}
    assert apply_to(writes.acquire(HELD, OTHER, "h"), row) is None
