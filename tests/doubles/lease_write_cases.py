"""Every kind of lease write with its effect on a row, and every clause with a row that it refuses.

Pure functions, the memory table and DynamoDB are tested with the same cases. Each write is made where it is tested.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

from sublet.protocol import lease_writes as writes
from sublet.protocol.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.finished_ahead import FinishedAhead
from sublet.protocol.lease import Lease, Position, QuietUntil
from sublet.protocol.lease_writes import LeaseWrite
from sublet.protocol.write_clauses import SEEK_LEAP
from sublet.protocol.write_notes import with_ahead
from sublet.testing.memory.clock import BEGINNING

ME, OTHER = "app-lambda-0", "app-lambda-1"
AT_56 = str(496 * 10**53)
HELD = Lease(
    "shardId-000000000000",
    Checkpoint(AT_56, 3),
    lease_counter=7,
    lease_owner=ME,
    holder="item/1",
    holder_counter=7,
    pending_checkpoint=Checkpoint(AT_56),
    start_at=BEGINNING,
    caught_up_at=BEGINNING,
    quiet=QuietUntil(BEGINNING, Position(Checkpoint(AT_56, 3))),
    owner_switches_since_checkpoint=2,
)
NEW = replace(HELD, checkpoint=LATEST, start_at=None, pending_checkpoint=None)
LATER = QuietUntil(BEGINNING + timedelta(minutes=1), HELD.position)
ELSEWHERE = QuietUntil(BEGINNING + timedelta(minutes=1), Position(TRIM_HORIZON))
FREE = replace(HELD, lease_owner=None, holder=None, holder_counter=None)
FURTHER = Checkpoint(str(int(AT_56) + 1))

AHEAD = FinishedAhead((None, Checkpoint(str(int(AT_56) + 9), 2)))


def heartbeat_noting(lease: Lease, ahead: FinishedAhead | None = AHEAD) -> LeaseWrite:
    return with_ahead(writes.heartbeat(lease), lease, ahead)


def checkpoint_noting(lease: Lease, to: Checkpoint) -> LeaseWrite:
    return with_ahead(writes.checkpoint(lease, to), lease, AHEAD)


def release_noting(lease: Lease) -> LeaseWrite:
    return with_ahead(writes.release(lease), lease, AHEAD)


NOTED = replace(HELD, noted_ahead=AHEAD, noted_ahead_counter=7)

SOUGHT = Lease(HELD.lease_key, TRIM_HORIZON, lease_counter=7 + SEEK_LEAP)

ACCEPTED: list[tuple[partial[LeaseWrite], Lease | None, Lease | None]] = [
    (partial(writes.create, FREE), None, FREE),
    (
        partial(writes.acquire, FREE.fence, ME, "item/2"),
        FREE,
        replace(FREE, lease_owner=ME, holder="item/2", lease_counter=8, holder_counter=8),
    ),
    (  # counts a switch of owner, no matter who the owner was
        partial(writes.acquire, HELD.fence, OTHER, "item/2"),
        HELD,
        replace(
            HELD,
            lease_owner=OTHER,
            holder="item/2",
            lease_counter=8,
            holder_counter=8,
            owner_switches_since_checkpoint=3,
        ),
    ),
    (
        partial(writes.acquire, HELD.fence, ME, "item/2"),
        HELD,
        replace(HELD, holder="item/2", lease_counter=8, holder_counter=8),
    ),
    (  # ends the handoff
        partial(writes.acquire, replace(HELD, checkpoint_owner=OTHER).fence, ME, "item/2"),
        replace(HELD, checkpoint_owner=OTHER),
        replace(HELD, holder="item/2", lease_counter=8, holder_counter=8),
    ),
    (partial(writes.heartbeat, HELD), HELD, replace(HELD, lease_counter=8, holder_counter=8)),
    (  # at the tip there is nothing that owners could have died of
        partial(writes.heartbeat, HELD, caught_up_at=BEGINNING + timedelta(minutes=1)),
        replace(HELD, crashes=3),
        replace(HELD, lease_counter=8, holder_counter=8, caught_up_at=BEGINNING + timedelta(minutes=1)),
    ),
    (  # the quiet time, only for its position
        partial(writes.heartbeat, HELD, quiet=LATER),
        HELD,
        replace(HELD, lease_counter=8, holder_counter=8, quiet=LATER),
    ),
    (
        partial(writes.heartbeat, HELD, quiet=ELSEWHERE),
        HELD,
        replace(HELD, lease_counter=8, holder_counter=8),
    ),
    (
        partial(writes.prepare, HELD, FURTHER, b"state"),
        HELD,
        replace(
            HELD,
            lease_counter=8,
            holder_counter=8,
            pending_checkpoint=FURTHER,
            pending_checkpoint_state=b"state",
        ),
    ),
    (  # one without a state removes the previous one
        partial(writes.prepare, HELD, FURTHER, b""),
        replace(HELD, pending_checkpoint_state=b"old"),
        replace(HELD, lease_counter=8, holder_counter=8, pending_checkpoint=FURTHER),
    ),
    (
        partial(writes.pin, NEW, BEGINNING),
        NEW,
        replace(NEW, lease_counter=8, holder_counter=8, start_at=BEGINNING, quiet=None),
    ),
    (
        partial(writes.checkpoint, HELD, FURTHER),
        HELD,
        replace(
            HELD,
            lease_counter=8,
            holder_counter=8,
            checkpoint=FURTHER,
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            start_at=None,
            quiet=None,
        ),
    ),
    (  # the records in the shard at that time are handled
        partial(writes.checkpoint, HELD, FURTHER, BEGINNING + timedelta(minutes=1)),
        HELD,
        replace(
            HELD,
            lease_counter=8,
            holder_counter=8,
            checkpoint=FURTHER,
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            start_at=None,
            quiet=None,
            caught_up_at=BEGINNING + timedelta(minutes=1),
        ),
    ),
    (
        partial(writes.late_checkpoint, HELD, FURTHER),
        HELD,
        replace(
            HELD,
            checkpoint=FURTHER,
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            start_at=None,
            quiet=None,
        ),
    ),
    (
        partial(writes.set_children, HELD, frozenset({"a", "b"})),
        HELD,
        replace(HELD, lease_counter=8, holder_counter=8, child_shard_ids=frozenset({"a", "b"})),
    ),
    (
        partial(writes.end, HELD),
        HELD,
        Lease(HELD.lease_key, SHARD_END, lease_counter=8, owner_switches_since_checkpoint=0),
    ),
    (
        partial(writes.release, HELD, BEGINNING + timedelta(minutes=1), quiet=LATER),
        replace(HELD, crashes=3),
        replace(
            HELD,
            lease_owner=None,
            holder=None,
            holder_counter=None,
            lease_counter=8,
            caught_up_at=BEGINNING + timedelta(minutes=1),
            quiet=LATER,
        ),
    ),
    (
        partial(writes.hand_over, replace(HELD, lease_owner=OTHER, checkpoint_owner=ME)),
        replace(HELD, lease_owner=OTHER, checkpoint_owner=ME),
        replace(
            HELD,
            lease_owner=OTHER,
            holder=None,
            holder_counter=None,
            lease_counter=8,
            owner_switches_since_checkpoint=3,
        ),
    ),
    (partial(writes.delete, HELD), HELD, None),
    (  # back: the owner is evicted, and nothing that was true of the old position is left
        partial(writes.seek, NOTED, Position(TRIM_HORIZON)),
        NOTED,
        SOUGHT,
    ),
    (
        partial(writes.seek, replace(HELD, checkpoint=SHARD_END), Position(FURTHER)),
        replace(HELD, checkpoint=SHARD_END),
        replace(SOUGHT, checkpoint=FURTHER),
    ),
    (
        partial(writes.seek, FREE, Position(AT_TIMESTAMP, BEGINNING)),
        FREE,
        replace(SOUGHT, checkpoint=AT_TIMESTAMP, start_at=BEGINNING),
    ),
    (
        partial(heartbeat_noting, HELD),
        HELD,
        replace(HELD, lease_counter=8, holder_counter=8, noted_ahead=AHEAD, noted_ahead_counter=8),
    ),
    (  # beside attempts, which stay the same
        partial(heartbeat_noting, replace(HELD, attempts=2)),
        replace(HELD, attempts=2),
        replace(HELD, lease_counter=8, holder_counter=8, attempts=2, noted_ahead=AHEAD, noted_ahead_counter=8),
    ),
    (  # nothing is known of it any more
        partial(heartbeat_noting, NOTED, None),
        NOTED,
        replace(HELD, lease_counter=8, holder_counter=8),
    ),
    (
        partial(checkpoint_noting, replace(NOTED, attempts=2), FURTHER),
        replace(NOTED, attempts=2),
        replace(
            HELD,
            lease_counter=8,
            holder_counter=8,
            checkpoint=FURTHER,
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            start_at=None,
            quiet=None,
            noted_ahead=AHEAD,
            noted_ahead_counter=8,
        ),
    ),
    (  # the checkpoint has passed it
        partial(checkpoint_noting, NOTED, Checkpoint(str(int(AT_56) + 9), 2)),
        NOTED,
        replace(
            HELD,
            lease_counter=8,
            holder_counter=8,
            checkpoint=Checkpoint(str(int(AT_56) + 9), 2),
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            start_at=None,
            quiet=None,
        ),
    ),
    (
        partial(release_noting, HELD),
        HELD,
        replace(
            HELD,
            lease_owner=None,
            holder=None,
            holder_counter=None,
            lease_counter=8,
            noted_ahead=AHEAD,
            noted_ahead_counter=8,
        ),
    ),
    (  # it stays, for the new owner to check
        partial(writes.acquire, NOTED.fence, OTHER, "item/2"),
        NOTED,
        replace(
            NOTED,
            lease_owner=OTHER,
            holder="item/2",
            lease_counter=8,
            holder_counter=8,
            owner_switches_since_checkpoint=3,
        ),
    ),
    (  # late, by a worker that knew it or not
        partial(writes.late_checkpoint, HELD, FURTHER),
        NOTED,
        replace(
            HELD,
            checkpoint=FURTHER,
            owner_switches_since_checkpoint=0,
            pending_checkpoint=None,
            start_at=None,
            quiet=None,
        ),
    ),
]
"""The write, the row before it (None: no such row), and after it."""
ACCEPTED_KINDS = [make.func.__name__ for make, _, _ in ACCEPTED]

MOVED = replace(HELD, lease_counter=8)
STOLEN = replace(HELD, lease_owner=OTHER)
ENDED = replace(HELD, checkpoint=SHARD_END)
BACK = replace(HELD, checkpoint=TRIM_HORIZON)
SINCE = replace(HELD, checkpoint=AT_TIMESTAMP, start_at=BEGINNING - timedelta(hours=1))

REFUSED: list[tuple[partial[LeaseWrite], Lease, str]] = [
    (partial(writes.create, FREE), FREE, "no_such_lease"),
    (partial(writes.acquire, HELD.fence, OTHER, "h"), MOVED, "counter_stands"),
    (partial(writes.acquire, FREE.fence, ME, "h"), replace(FREE, lease_owner=OTHER), "owner_stands"),
    (partial(writes.acquire, HELD.fence, OTHER, "h"), ENDED, "not_ended"),
    (partial(writes.heartbeat, HELD), MOVED, "counter_stands"),
    (partial(writes.heartbeat, HELD), replace(HELD, lease_counter=6), "counter_stands"),
    (partial(writes.heartbeat, HELD), STOLEN, "owner_stands"),
    (partial(writes.heartbeat, HELD), FREE, "owner_stands"),
    (partial(writes.heartbeat, HELD), replace(HELD, holder="another item/1"), "holder_stands"),
    (partial(writes.pin, NEW, BEGINNING), replace(NEW, lease_counter=8), "counter_stands"),
    (partial(writes.pin, NEW, BEGINNING), replace(NEW, lease_owner=OTHER), "owner_stands"),
    (partial(writes.pin, NEW, BEGINNING), HELD, "position_stands"),
    (partial(writes.checkpoint, HELD, FURTHER), MOVED, "counter_stands"),
    (partial(writes.checkpoint, HELD, FURTHER), STOLEN, "owner_stands"),
    (partial(writes.checkpoint, HELD, FURTHER), replace(HELD, checkpoint=FURTHER), "further_on"),
    (partial(writes.checkpoint, HELD, FURTHER), ENDED, "further_on"),
    (partial(writes.late_checkpoint, HELD, FURTHER), ENDED, "not_ended"),
    (partial(writes.late_checkpoint, HELD, FURTHER), replace(HELD, checkpoint=FURTHER), "further_on"),
    (partial(writes.checkpoint, HELD, FURTHER), BACK, "position_stands"),
    (
        partial(writes.checkpoint, HELD, FURTHER),
        replace(HELD, checkpoint=Checkpoint(AT_56, 1)),
        "position_stands",
    ),
    (partial(writes.checkpoint, NEW, FURTHER), replace(NEW, start_at=BEGINNING), "position_stands"),
    (partial(writes.checkpoint, SINCE, FURTHER), replace(SINCE, start_at=BEGINNING), "position_stands"),
    (partial(writes.checkpoint, SINCE, FURTHER), replace(SINCE, start_at=None), "position_stands"),
    (partial(writes.late_checkpoint, HELD, FURTHER), BACK, "position_stands"),
    (  # a seek to the very position that the loser knows
        partial(writes.late_checkpoint, HELD, FURTHER),
        replace(HELD, lease_owner=None, lease_counter=7 + SEEK_LEAP),
        "not_sought",
    ),
    (partial(writes.end, HELD), BACK, "position_stands"),
    (partial(writes.set_children, HELD, frozenset("a")), MOVED, "counter_stands"),
    (partial(writes.set_children, HELD, frozenset("a")), STOLEN, "owner_stands"),
    (partial(writes.end, HELD), MOVED, "counter_stands"),
    (partial(writes.end, HELD), STOLEN, "owner_stands"),
    (partial(writes.end, HELD), ENDED, "not_ended"),
    (partial(writes.release, HELD), MOVED, "counter_stands"),
    (partial(writes.release, HELD), STOLEN, "owner_stands"),
    (partial(writes.hand_over, replace(STOLEN, checkpoint_owner=ME)), STOLEN, "drained_by_us"),
    (
        partial(writes.hand_over, replace(STOLEN, checkpoint_owner=ME)),
        replace(HELD, checkpoint_owner=ME),
        "owner_stands",
    ),
    (partial(writes.delete, HELD), MOVED, "counter_stands"),
    (partial(writes.delete, HELD), STOLEN, "owner_stands"),
    (partial(writes.seek, HELD, Position(FURTHER)), MOVED, "counter_stands"),
    (partial(writes.seek, HELD, Position(FURTHER)), STOLEN, "owner_stands"),
    (partial(writes.seek, HELD, Position(FURTHER)), BACK, "position_stands"),
    (partial(writes.seek, HELD, Position(FURTHER)), replace(HELD, checkpoint_owner=OTHER), "not_draining"),
    (partial(heartbeat_noting, HELD), MOVED, "counter_stands"),
    (partial(heartbeat_noting, HELD), BACK, "position_stands"),
    (partial(heartbeat_noting, HELD), replace(HELD, checkpoint=FURTHER), "position_stands"),
    (partial(heartbeat_noting, HELD), replace(HELD, checkpoint=Checkpoint(AT_56, 1)), "position_stands"),
    (partial(release_noting, HELD), BACK, "position_stands"),
    (partial(release_noting, SINCE), replace(SINCE, start_at=BEGINNING), "position_stands"),
    (partial(checkpoint_noting, HELD, FURTHER), BACK, "position_stands"),
]
"""The write, the row, and a clause that does not hold."""
