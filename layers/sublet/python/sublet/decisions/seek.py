"""Where each lease goes in a seek: the whole plan, before anything is written. Pure.

The records of a shard's children come after its own, so a seek is a plan for families of shards. If a shard that has ended is to
be read again, its lease opens again, and its children's leases return to their beginning and wait for it, as after any reshard.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from sublet.errors import SeekRefused
from sublet.protocol.checkpoint import LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from sublet.protocol.lease import Lease, LeaseScan, Position, lease_key_of
from sublet.protocol.shard import Shard, creation_order

BEGINNING = Position(TRIM_HORIZON)
UNOPENED = Position(LATEST)
"""Where a reader first opens the shard, whenever that is: a lease that was opened has its pin, or a sequence number."""
END = Position(SHARD_END)


class Effect(StrEnum):
    """What a move does to a shard's records."""

    STAYS = "stays"
    REPEATS = "repeats"
    """The lease goes back: handled records come again. It is taken from its owner even if its row is at the position already;
    then the records that the owner has handled since its checkpoint come again.
    """
    SKIPS = "skips"
    """The lease goes forward: some unhandled records never come."""
    REOPENS = "reopens"
    """The shard had ended, and is read again."""
    BEGINS = "begins"
    """The shard has no lease yet, and gets one because its parents have ended or end with this seek."""


class Found(NamedTuple):
    """A time's place in a shard.

    before     the last record before the first one that arrived at that time or later; None if there is none
    has_later  whether a record arrived at that time or later, or may still: an open shard always has
    """

    before: Checkpoint | None
    has_later: bool


@dataclass(frozen=True, slots=True)
class Move:
    """One lease's part of the plan.

    lease   as it was read; None: it is to be created
    before  what undoes the move
    """

    shard: Shard
    lease: Lease | None
    before: Position
    then: Position
    effect: Effect

    @property
    def lease_key(self) -> str:
        return lease_key_of(self.shard.shard_id)


@dataclass(frozen=True, slots=True)
class SeekPlan:
    """`moves`: in the order in which they are made. Parents come before their children, so that no child is read too early.
    Shards that end come last, and their children before them: a parent that has ended while its children have no leases looks
    like a crash before these were created.
    """

    moves: tuple[Move, ...]
    stay: tuple[Move, ...] = ()

    @property
    def skips(self) -> tuple[Move, ...]:
        """The moves after which some records never come, including moves of shards that start after their beginning."""
        return tuple(
            move
            for move in self.moves
            if move.effect is Effect.SKIPS or (move.effect is Effect.BEGINS and move.then != BEGINNING)
        )


def positions_at(shards: Sequence[Shard], found: Mapping[str, Found]) -> dict[str, Position]:
    """Where reading from a time begins in each shard, by shard id. `found`: the time's place in every shard."""
    return {shard.shard_id: _place(shard, found[shard.shard_id]) for shard in shards}


def _place(shard: Shard, found: Found) -> Position:
    if not shard.is_open and not found.has_later:
        return END
    return BEGINNING if found.before is None else Position(found.before)


def check_parents(shards: Sequence[Shard], found: Mapping[str, Found], only: Collection[str]) -> None:
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
    """Returns, by shard id, the positions of a snapshot or of another application, which may lack leases. A shard without one
    has not begun if a parent has not ended; otherwise it was handled to its end, if a later shard has begun.
    """
    children: dict[str, list[str]] = {}
    for shard in shards:
        for parent in shard.parent_shard_ids:
            children.setdefault(parent, []).append(shard.shard_id)

    def has_begun_later(shard_id: str) -> bool:
        return any(child in known or has_begun_later(child) for child in children.get(shard_id, ()))

    found: dict[str, Position] = {}
    for shard in sorted(shards, key=creation_order):
        waits = any(found.get(parent, END) != END for parent in shard.parent_shard_ids)
        guessed = END if not waits and has_begun_later(shard.shard_id) else BEGINNING
        found[shard.shard_id] = known.get(shard.shard_id, guessed)
    return found


def never_opened(shards: Sequence[Shard], known: Mapping[str, Position]) -> list[Shard]:
    """The shards that no reader has opened yet and that will start wherever a reader first opens them. A shard whose parents have
    positions too is not one of them: it is read from its beginning. `known`: by shard id.
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

    wanted  by shard id, of every shard to be moved. A shard whose parents are still to be read goes to its beginning whatever is
            wanted: at a sequence number it would be read at the same time as they are
    only    shard ids; empty: all. Descendants of a shard that opens again come along
    moment  the time to seek, if the seek is to a time: leases that have not begun have a time and no sequence number
    """
    listed = sorted(shards, key=creation_order)
    leases = {lease.shard_id: lease for lease in scan.leases}
    targets = _targets(listed, leases, wanted, only)
    _check(scan, targets)
    moves: list[Move] = []
    unfinished = {shard_id for shard_id, lease in leases.items() if not lease.is_ended}
    ends: set[str] = set()
    for shard in listed:
        shard_id, parents = shard.shard_id, shard.parent_shard_ids
        if shard_id not in targets:
            continue
        waits = not unfinished.isdisjoint(parents)
        move = _move(
            shard,
            leases.get(shard_id),
            BEGINNING if waits else targets[shard_id],
            waits=waits,
            is_skipped=not ends.isdisjoint(parents),
            moment=moment,
        )
        if move is None:
            continue
        moves.append(move)
        if move.then != END:
            unfinished.add(shard_id)
        elif move.effect is Effect.SKIPS:
            unfinished.discard(shard_id)
            ends.add(shard_id)
    made = [move for move in moves if move.effect is not Effect.STAYS]
    return SeekPlan(
        (
            *(move for move in made if move.then != END),
            *(move for move in reversed(made) if move.then == END),
        ),
        tuple(move for move in moves if move.effect is Effect.STAYS),
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
            raise SeekRefused(
                f"the row of lease {row.lease_key} cannot be read: {row.problem}. Repair it first"
            )
    for lease in scan.leases:
        if lease.lease_key in keys and lease.checkpoint_owner is not None:
            raise SeekRefused(
                f"lease {lease.lease_key} is being handed over from {lease.checkpoint_owner} to {lease.lease_owner}: try again "
                "in some seconds"
            )


def _move(
    shard: Shard,
    lease: Lease | None,
    then: Position,
    *,
    waits: bool,
    is_skipped: bool,
    moment: datetime | None,
) -> Move | None:
    """How the lease moves; None if there is nothing to do.

    waits       a parent has a lease that has not ended
    is_skipped  a parent ends by this plan, before its end was read
    """
    if lease is None:
        if then == END:
            return Move(shard, None, BEGINNING, END, Effect.SKIPS) if is_skipped else None
        if waits:
            return None  # its parent's end creates it at its beginning
        if is_skipped or shard.is_open:
            return Move(shard, None, BEGINNING, then, Effect.BEGINS)
        return Move(shard, None, END, then, Effect.REOPENS)
    if lease.position == then and (lease.is_ended or lease.actual_owner is None):
        effect = Effect.STAYS
    elif lease.is_ended:
        effect = Effect.REOPENS
    else:
        effect = Effect.SKIPS if _is_forward(lease.position, then, moment) else Effect.REPEATS
    return Move(shard, lease, lease.position, then, effect)


def _is_forward(before: Position, then: Position, moment: datetime | None) -> bool:
    """Whether the move goes forward. True in doubt: records may be skipped, so the command asks the operator."""
    if then in (BEGINNING, END) or before == UNOPENED:
        return then == END
    wanted = then.start_at or moment
    if before.start_at is not None and wanted is not None:
        return wanted > before.start_at
    return then == UNOPENED or then.checkpoint > before.checkpoint
