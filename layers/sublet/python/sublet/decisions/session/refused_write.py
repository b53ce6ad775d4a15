"""What a refused write means to the worker that made it, judged by the row that refused it.

A refusal is not always a loss: botocore repeats a write whose response got lost, and the first write then refuses the
second. KCL calls this a spurious failure. The row's holder tells our own write from another's, since many invocations
share a worker id.
"""

from __future__ import annotations

from enum import StrEnum

from sublet.protocol.lease import Lease, MalformedRow
from sublet.protocol.lease_row import encode_row
from sublet.protocol.lease_writes import LeaseWrite, WriteKind


class Verdict(StrEnum):
    """What a reply to a write means. APPLIED is not a refusal; held_lease says what follows from each."""

    APPLIED = "applied"
    DONE_BEFORE = "done_before"
    """Our own write was applied and its response lost: the row is as we wanted it."""
    WRITE_AGAIN = "write_again"
    """Our own earlier write, which seemed to fail, was applied: repeat this one for the new row."""
    MOVED = "moved"
    """We still hold the lease, and another writer has changed its position: an operator, or the previous owner,
    late.
    """
    DRAIN = "drain"
    """A KCL 3.x leader asks for the lease (graceful handoff): finish, checkpoint, hand over."""
    LOST = "lost"
    """Another owner has it, or none, or the row is gone or unreadable."""


def judge_refusal(held: Lease, write: LeaseWrite, row: Lease | MalformedRow | None) -> Verdict:
    """`held`: the lease as our last write left it; `row`: the row that refused this one."""
    if not isinstance(row, Lease):
        return Verdict.LOST
    if write.kind is WriteKind.RELEASE and row.lease_owner is None:
        return Verdict.DONE_BEFORE
    if write.kind is WriteKind.END and row.is_ended:
        return Verdict.DONE_BEFORE
    if row.holder != held.holder:
        return Verdict.LOST
    is_moved = row.position != held.position
    owners = (held.holder, held.lease_owner, held.checkpoint_owner)
    if (row.held_by, row.lease_owner, row.checkpoint_owner) == owners:
        if row.lease_counter == held.lease_counter + 1:
            if _says(row, write):
                return Verdict.DONE_BEFORE
            return Verdict.MOVED if is_moved and write.moves_to else Verdict.WRITE_AGAIN
        if row.lease_counter == held.lease_counter and is_moved:
            return Verdict.MOVED if write.moves_to else Verdict.WRITE_AGAIN
    if row.checkpoint_owner is not None and row.checkpoint_owner == held.actual_owner:
        return Verdict.DRAIN
    return Verdict.LOST


def _says(row: Lease, write: LeaseWrite) -> bool:
    """Whether the row has every value that the write would have set."""
    stands = encode_row(row)
    return all(stands.get(name) == value for name, value in write.sets.items()) and stands.keys().isdisjoint(
        write.removes
    )
