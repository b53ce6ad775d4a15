"""Whether a seek may still be carried out: not on positions that somebody has moved since it was planned. Pure.

The fleet's own progress changes nothing: what the plan shows as repeated or skipped only gets a little more or less.
But a lease that has gone back was moved by an operator, and a plan made before that may skip all the records that this
one wanted again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sublet.decisions.counted import counted
from sublet.operate.rules.seek import LeaseMove
from sublet.protocol.lease import Lease, Position
from sublet.protocol.snapshot import Snapshot
from sublet.protocol.write_clauses import SEEK_LEAP

NAMED = 10
"""How many leases a refusal names at most."""


def went_back(planned: Position, now: Position) -> bool:
    """Whether no fleet can have come from one position to the other. False in doubt: sentinels that a plan was made on
    are not compared, because only a reader knows where they begin.
    """
    return planned.checkpoint.is_sequence_number and now.checkpoint < planned.checkpoint


def why_not(move: LeaseMove, row: Lease | None, checked: Lease | None, *, only_from_there: bool) -> str:
    """Returns why the move may not be made on this row, as a sentence about its lease; empty: it may.

    row              as it is now; None: there is none, or it cannot be read
    checked          as it was when the whole plan was last checked; None: it is being checked now
    only_from_there  refuse progress too
    """
    assert move.lease is not None
    if row is None:
        return "is gone, or its row cannot be read"
    if row.is_ended != move.lease.is_ended:
        return "has ended, or begun, since this was planned"
    if only_from_there and row.position != move.before:
        return "has moved on since this was planned"
    return "" if row.position == move.then else _moved_by_another(move, row, checked)


def _moved_by_another(move: LeaseMove, row: Lease, checked: Lease | None) -> str:
    if went_back(move.before, row.position):
        return "was moved back since this was planned"
    if checked is not None and row.lease_counter >= checked.lease_counter + SEEK_LEAP:
        return "has just been moved by somebody else"
    return ""


def newer_seeks(kept: Iterable[Snapshot], known: Collection[str], moves: Sequence[LeaseMove]) -> tuple[Snapshot, ...]:
    """Returns the snapshots of seeks that have moved leases of this plan since it was made.

    kept   the snapshots that there are
    known  the names of those that there were when the plan was made
    """
    keys = {move.lease_key for move in moves}
    return tuple(each for each in kept if each.name not in known and not keys.isdisjoint(each.moved))


def moved_already(keys: Sequence[str]) -> str:
    """Lists what a seek had moved before it was refused."""
    if not keys:
        return "Nothing was moved."
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    moved = counted(len(keys), "lease was moved", "leases were moved")
    return f"{moved} already: {', '.join(keys[:NAMED])}{more}. `sublet undo` moves them back."
