"""Where each lease goes in a seek: the whole plan, before anything is written. Pure.

The records of a shard's children come after its own, so a seek is a plan for families of shards. If a shard that has
ended is to be read again, its lease opens again, and its descendants' leases return to their beginning and wait for it,
as after any reshard. A shard waits only for parents that have rows, so every generation in between gets one, even if
its own was cleaned up long ago.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from sublet.decisions.manager.shard_sync import leads_to
from sublet.decisions.unfinished_shards import still_to_read
from sublet.errors import SeekRefused
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan, Position, lease_key_of, shard_id_of
from sublet.protocol.shard import Shard, children_by_parent, creation_order

BEGINNING = Position(TRIM_HORIZON)
UNOPENED = Position(LATEST)
"""Where a reader first opens the shard, whenever that is: a lease that was opened has its pin, or a sequence number."""
END = Position(SHARD_END)


class MoveEffect(StrEnum):
    """What a move does to a shard's records."""

    STAYS = "stays"
    REPEATS = "repeats"
    """The lease goes back: handled records come again. It is taken from its owner even if its row is at the position
    already; then the records that the owner has handled since its checkpoint come again.
    """
    SKIPS = "skips"
    """The lease goes forward: some unhandled records never come."""
    REOPENS = "reopens"
    """The shard had ended, and is read again."""
    BEGINS = "begins"
    """The shard has no lease yet, and gets one because its parents have ended or end with this seek, or because shards
    that come after it wait for it.
    """


class FoundPosition(NamedTuple):
    """A time's place in a shard.

    before     the last record before the first one that arrived at that time or later; None if there is none
    has_later  whether a record arrived at that time or later, or may still: an open shard always has
    """

    before: Checkpoint | None
    has_later: bool


@dataclass(frozen=True, slots=True)
class LeaseMove:
    """One lease's part of the plan.

    lease   as it was read; None: it is to be created
    before  what undoes the move
    """

    shard: Shard
    lease: Lease | None
    before: Position
    then: Position
    effect: MoveEffect

    @property
    def lease_key(self) -> str:
        return lease_key_of(self.shard.shard_id)


@dataclass(frozen=True, slots=True)
class SeekPlan:
    """`moves`: in the order in which they are made. Parents come before their children, so that no child is read too
    early. Shards that end come last, and their children before them: a parent that has ended while its children have no
    leases looks like a crash before these were created.

    stay     leases that are there already
    waiting  those of them whose parents move: a worker that begins one before its parent is open again loses it
    ended    rows to create at SHARD_END before anything moves, of shards that stay handled to their end: what moves
             would otherwise depend on their having no row. They repeat and skip nothing, so an undo leaves them to the
             cleanup
    """

    moves: tuple[LeaseMove, ...]
    stay: tuple[LeaseMove, ...] = ()
    ended: tuple[LeaseMove, ...] = ()
    waiting: tuple[LeaseMove, ...] = ()

    @property
    def skips(self) -> tuple[LeaseMove, ...]:
        """The moves after which some records never come, including moves of shards that start after their beginning."""
        return tuple(
            move
            for move in self.moves
            if move.effect is MoveEffect.SKIPS or (move.effect is MoveEffect.BEGINS and move.then != BEGINNING)
        )


def positions_at(shards: Sequence[Shard], found: Mapping[str, FoundPosition]) -> dict[str, Position]:
    """Where reading from a time begins in each shard, by shard id. `found`: the time's place in every shard."""
    return {shard.shard_id: _place(shard, found[shard.shard_id]) for shard in shards}


def _place(shard: Shard, found: FoundPosition) -> Position:
    if not shard.is_open and not found.has_later:
        return END
    return BEGINNING if found.before is None else Position(found.before)


def check_parents(shards: Sequence[Shard], found: Mapping[str, FoundPosition], only: Collection[str]) -> None:
    """Raises SeekRefused if records since the time are in a parent that is not to be moved. `found`: of `only` and
    their parents.
    """
    for shard in shards:
        if shard.shard_id not in only or found[shard.shard_id].before is not None:
            continue
        parents = sorted(p for p in shard.parent_shard_ids - set(only) if p in found and found[p].has_later)
        if parents:
            raise SeekRefused(
                f"shard {shard.shard_id} began after that time, and records since then are in {', '.join(parents)}: "
                "name these with --shard too, or leave --shard out"
            )


def positions_like(shards: Sequence[Shard], known: Mapping[str, Position]) -> dict[str, Position]:
    """Returns, by shard id, the positions of a snapshot or of another application, which may lack leases. A shard
    without one has not begun if a parent has not ended; otherwise it was handled to its end, if a later shard has
    begun.

    A loop: a stream that is resharded every hour has thousands of generations.
    """
    listed = sorted(shards, key=creation_order)
    led_to_begun = _led_to(known.keys(), listed)
    found: dict[str, Position] = {}
    for shard in listed:
        waits = any(found.get(parent, END) != END for parent in shard.parent_shard_ids)
        guessed = END if not waits and shard.shard_id in led_to_begun else BEGINNING
        found[shard.shard_id] = known.get(shard.shard_id, guessed)
    return found


def never_opened(shards: Sequence[Shard], known: Mapping[str, Position]) -> list[Shard]:
    """The shards that no reader has opened yet and that will start wherever a reader first opens them. A shard whose
    parents have positions too is not one of them: it is read from its beginning. `known`: by shard id.
    """
    return [
        shard
        for shard in shards
        if known.get(shard.shard_id) == UNOPENED and known.keys().isdisjoint(shard.parent_shard_ids)
    ]


def plan_seek(
    scan: LeaseScan,
    shards: Sequence[Shard],
    wanted: Mapping[str, Position],
    only: Collection[str] = (),
    moment: datetime | None = None,
) -> SeekPlan:
    """Plan a seek. Raises SeekRefused.

    wanted  by shard id, of every shard to be moved. A shard whose parents are still to be read goes to its beginning
            whatever is wanted: at a sequence number it would be read at the same time as they are
    only    shard ids; empty: all. Descendants of a shard that opens again come along
    moment  the time to seek, if the seek is to a time: leases that have not begun have a time and no sequence number
    """
    listed = sorted(shards, key=creation_order)
    leases = {lease.shard_id: lease for lease in scan.leases}
    unreadable = frozenset(shard_id_of(row.lease_key) for row in scan.malformed)
    targets = _targets(listed, leases, wanted, only)
    _check(scan, targets)
    _check_listing(scan.leases, listed, targets)
    unread = still_to_read(scan.leases, unreadable, listed)
    then = _positions_after(listed, leases.keys() | unreadable, unread, targets)
    moves = [
        _move(shard, leases.get(shard.shard_id), then[shard.shard_id], shard.shard_id in unread, moment)
        for shard in listed
        if shard.shard_id in then
    ]
    made = [move for move in moves if move.effect is not MoveEffect.STAYS]
    return SeekPlan(
        (
            *(move for move in made if move.then != END),
            *(move for move in reversed(made) if move.then == END),
        ),
        tuple(move for move in moves if move.effect is MoveEffect.STAYS and move.lease is not None),
        tuple(move for move in reversed(moves) if move.effect is MoveEffect.STAYS and move.lease is None),
        _waiting(moves, {move.shard.shard_id for move in made if move.then != END}),
    )


def _waiting(moves: Sequence[LeaseMove], opened: AbstractSet[str]) -> tuple[LeaseMove, ...]:
    return tuple(
        move
        for move in moves
        if move.effect is MoveEffect.STAYS and move.then == BEGINNING
        if not opened.isdisjoint(move.shard.parent_shard_ids)
    )


def _targets(
    listed: Sequence[Shard],
    leases: Mapping[str, Lease],
    wanted: Mapping[str, Position],
    only: Collection[str],
) -> dict[str, Position]:
    if not only:
        return {shard.shard_id: wanted[shard.shard_id] for shard in listed if shard.shard_id in wanted}
    if unknown := sorted(set(only) - {shard.shard_id for shard in listed}):
        raise SeekRefused(f"the stream has no shard {', '.join(unknown)}")
    targets: dict[str, Position] = {}
    opens: set[str] = set()
    for shard in listed:
        shard_id = shard.shard_id
        if not opens.isdisjoint(shard.parent_shard_ids):
            targets[shard_id] = BEGINNING
            opens.add(shard_id)
        elif shard_id in only:
            targets[shard_id] = wanted[shard_id]
            lease = leases.get(shard_id)
            if wanted[shard_id] != END and (lease is None or lease.is_ended):
                opens.add(shard_id)
    return targets


def _check(scan: LeaseScan, targets: Mapping[str, Position]) -> None:
    keys = {lease_key_of(shard_id) for shard_id in targets}
    for row in scan.malformed:
        if row.lease_key in keys:
            raise SeekRefused(f"the row of lease {row.lease_key} cannot be read: {row.problem}. Repair it first")
    for lease in scan.leases:
        if lease.lease_key in keys and lease.checkpoint_owner is not None:
            raise SeekRefused(
                f"lease {lease.lease_key} is being handed over from {lease.checkpoint_owner} to {lease.lease_owner}: "
                "try again in some seconds"
            )


def _check_listing(leases: Sequence[Lease], listed: Sequence[Shard], targets: Mapping[str, Position]) -> None:
    """Raises SeekRefused if the listing is older than a reshard whose children, or later descendants, have leases: they
    would go on beside their ancestors.
    """
    ids, moved = (
        {shard.shard_id for shard in listed},
        [shard for shard in listed if shard.shard_id in targets],
    )
    for lease in leases:
        if lease.shard_id in ids:
            continue
        if targets.keys() & lease.parent_shard_ids or any(leads_to(shard, lease) for shard in moved):
            raise SeekRefused(
                f"the list of shards is older than shard {lease.shard_id}, which has a lease: try again in some seconds"
            )


def _positions_after(
    listed: Sequence[Shard], rows: AbstractSet[str], unread: AbstractSet[str], targets: Mapping[str, Position]
) -> Mapping[str, Position]:
    """The positions of all rows that the plan moves, creates or leaves where they should be, by shard id.

    The oldest shards come first, since a shard whose parent is to be read goes to its beginning. Then the youngest:
    which shards without a row need one, so that those that come after them wait for them.
    """
    unread_then, then = set(unread), dict[str, Position]()
    led_to_rows = _led_to(rows, listed)
    for shard in listed:
        shard_id, parents = shard.shard_id, shard.parent_shard_ids
        waits = not unread_then.isdisjoint(parents)
        if shard_id in targets:
            then[shard_id] = BEGINNING if waits else targets[shard_id]
        elif shard_id not in rows and any(then.get(p) == END and p in unread for p in parents) and not waits:
            # Its parent ends by this plan, and not by a worker that would create it. If shards after it have rows, it
            # was handled and cleaned up: what opened its parent has been cut short.
            then[shard_id] = END if shard_id in led_to_rows else BEGINNING
        if then.get(shard_id) == END:
            unread_then.discard(shard_id)
        elif shard_id in then or (waits and shard_id not in rows):
            unread_then.add(shard_id)
    return _with_their_lineage(listed, rows, unread, unread_then, then)


def _led_to(begun: AbstractSet[str], listed: Sequence[Shard]) -> AbstractSet[str]:
    """The ids of all listed ancestors of these shards. A loop: a stream may have thousands of generations."""
    found: set[str] = set()
    for shard in reversed(listed):
        if shard.shard_id in begun or shard.shard_id in found:
            found |= shard.parent_shard_ids
    return found


def _with_their_lineage(
    listed: Sequence[Shard],
    rows: AbstractSet[str],
    unread: AbstractSet[str],
    unread_then: AbstractSet[str],
    then: Mapping[str, Position],
) -> Mapping[str, Position]:
    """`then` without the shards that need no row, and with those that others need.

    A shard that waits needs a row if a shard after it gets or has one: a parent without a row counts as ended. If none
    does, the end of its parent creates it. A shard that is done with needs its row, at SHARD_END, beside the other
    parent of a merge: that one would not end without it, and a shard sync would create it, to be read again.
    """
    children = children_by_parent(listed)
    parents = {shard.shard_id: shard.parent_shard_ids for shard in listed}
    needed: dict[str, Position] = {}

    def is_of_a_merge(shard_id: str) -> bool:
        merged = (child for child in children.get(shard_id, ()) if then.get(child) == BEGINNING)
        others = frozenset[str]().union(*(parents[child] for child in merged)) - {shard_id}
        return not others.isdisjoint(rows | unread_then)

    for shard in reversed(listed):
        shard_id = shard.shard_id
        wanted = then.get(shard_id)
        if shard_id in rows:
            is_needed = wanted is not None
        elif shard_id not in unread_then:
            is_needed, wanted = (wanted == END and shard_id in unread) or is_of_a_merge(shard_id), END
        elif unread_then.isdisjoint(shard.parent_shard_ids):
            is_needed = wanted is not None
        else:
            is_needed, wanted = not needed.keys().isdisjoint(children.get(shard_id, ())), BEGINNING
        if is_needed and wanted is not None:
            needed[shard_id] = wanted
    return needed


def _move(shard: Shard, lease: Lease | None, then: Position, is_unread: bool, moment: datetime | None) -> LeaseMove:
    """How the lease moves. `is_unread`: the shard is still to be read, now."""
    if lease is None and then == END:
        before, effect = (BEGINNING, MoveEffect.SKIPS) if is_unread else (END, MoveEffect.STAYS)
    elif lease is None:
        before, effect = (BEGINNING, MoveEffect.BEGINS) if is_unread else (END, MoveEffect.REOPENS)
    elif lease.position == then and (lease.is_ended or lease.actual_owner is None):
        before, effect = lease.position, MoveEffect.STAYS
    elif lease.is_ended:
        before, effect = END, MoveEffect.REOPENS
    else:
        before = lease.position
        effect = MoveEffect.SKIPS if _is_forward(before, then, moment) else MoveEffect.REPEATS
    return LeaseMove(shard, lease, before, then, effect)


def _is_forward(before: Position, then: Position, moment: datetime | None) -> bool:
    """Whether the move goes forward. True in doubt: records may be skipped, so the command asks the operator."""
    if then in (BEGINNING, END) or before == UNOPENED:
        return then == END
    wanted = then.start_at or moment
    if before.start_at is not None and wanted is not None:
        return wanted > before.start_at
    return then == UNOPENED or then.checkpoint > before.checkpoint
