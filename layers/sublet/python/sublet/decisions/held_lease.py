"""A lease that this process holds, and what becomes of it with each write: one state machine for every runtime.

HELD ──asked to leave (KCL 3.x graceful handoff)──> DRAINING ──handed over──> LOST
HELD, DRAINING ──released, or its shard ended──> RELEASED
HELD, DRAINING ──another's write, no such row, too long without a write of ours──> LOST

What a reply means is a table, TRANSITIONS. Time is an argument: nothing here waits or writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from sublet.decisions.instant import Instant
from sublet.decisions.refusal import Verdict, judge_refusal
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, MalformedRow, Position
from sublet.protocol.lease_writes import LeaseWrite, WriteKind

_Row = Lease | MalformedRow | None


class Tenure(StrEnum):
    """What we may still do with the lease."""

    HELD = "held"
    DRAINING = "draining"
    """Asked to leave by a KCL 3.x leader: still ours to checkpoint, then to hand over."""
    RELEASED = "released"
    """Given back by us. The next owner's fence is the counter: not even a heartbeat may follow."""
    LOST = "lost"


MAY_WRITE = frozenset({Tenure.HELD, Tenure.DRAINING})

TENURE_AFTER: Mapping[WriteKind, Tenure] = MappingProxyType(
    {WriteKind.RELEASE: Tenure.RELEASED, WriteKind.END: Tenure.RELEASED, WriteKind.HAND_OVER: Tenure.LOST}
)
"""What we are after these writes; a lease handed over is another's. After any other write nothing has changed."""


class Then(StrEnum):
    """What to do after a reply."""

    NOTHING = "nothing"
    WRITE_AGAIN = "write_again"
    """Make the same write for the row that refused it."""
    HAND_OVER = "hand_over"
    """A lease that we are asked for is not released: its next owner is named already."""


class Transition(NamedTuple):
    """tenure      what we become; None: what the write makes of it (TENURE_AFTER), if anything
    is_ours        the row that stands there is ours to go on from
    is_done        it says at least what was to be written
    """

    tenure: Tenure | None
    is_ours: bool
    is_done: bool
    then: Then


TRANSITIONS: Mapping[Verdict, Transition] = MappingProxyType(
    {
        Verdict.APPLIED: Transition(None, is_ours=True, is_done=True, then=Then.NOTHING),
        Verdict.DONE_BEFORE: Transition(None, is_ours=True, is_done=True, then=Then.NOTHING),
        Verdict.MOVED: Transition(None, is_ours=True, is_done=False, then=Then.NOTHING),
        Verdict.WRITE_AGAIN: Transition(None, is_ours=True, is_done=False, then=Then.WRITE_AGAIN),
        Verdict.DRAIN: Transition(Tenure.DRAINING, is_ours=True, is_done=False, then=Then.WRITE_AGAIN),
        Verdict.LOST: Transition(Tenure.LOST, is_ours=False, is_done=False, then=Then.NOTHING),
    }
)

_WRITTEN = frozenset({Verdict.APPLIED, Verdict.DONE_BEFORE})
"""The row is as this very write left it, and so it is a heartbeat."""


@dataclass(frozen=True, slots=True)
class Holding:
    """`lease`: as our last write left its row; `written_at`: when we sent that.

    unanswered   positions that we sent since then, and of which nobody has told whether they were written
    moves        how often another has moved the row's position meanwhile: what that means is a matter of how far the lease
                 has been handled
    moved_from   before the last of these it stood here at most
    """

    lease: Lease
    written_at: Instant
    tenure: Tenure = Tenure.HELD
    unanswered: frozenset[Position] = frozenset()
    moves: int = 0
    moved_from: Checkpoint | None = None

    @property
    def may_write(self) -> bool:
        return self.tenure in MAY_WRITE

    def is_asked_for(self, write: LeaseWrite) -> bool:
        """It is not to be released like that: its next owner is named already."""
        return self.tenure is Tenure.DRAINING and write.kind is WriteKind.RELEASE

    def is_unconfirmed(self, now: Instant, failover_time: timedelta) -> bool:
        """So long without a write of ours that another may have taken it by now: not to be acted on until one succeeds."""
        return now.at_most_since(self.written_at) > failover_time

    def is_heartbeat_due(self, now: Instant, after: timedelta) -> bool:
        """Any write of ours counts as a heartbeat."""
        return self.may_write and now.since(self.written_at) >= after


class AfterWrite(NamedTuple):
    """What a write came to: `verdict` says why."""

    holding: Holding
    verdict: Verdict
    is_done: bool
    then: Then


def after_write(
    holding: Holding, write: LeaseWrite, row: _Row, applied: bool, sent_at: Instant
) -> AfterWrite:
    """`row`: what stands there now, as our write left it if it was `applied`, and otherwise what refused it."""
    verdict = Verdict.APPLIED if applied else judge_refusal(holding.lease, write, row)
    to = TRANSITIONS[verdict]
    if not to.is_ours or not isinstance(row, Lease):
        return AfterWrite(
            replace(holding, tenure=Tenure.LOST), Verdict.LOST, is_done=False, then=Then.NOTHING
        )
    after = _at(holding, write, row, applied)
    if verdict is Verdict.MOVED and after.moves == holding.moves:  # by a write of ours, whose answer got lost
        verdict, to = Verdict.WRITE_AGAIN, TRANSITIONS[Verdict.WRITE_AGAIN]
    if verdict in _WRITTEN:
        tenure = TENURE_AFTER.get(write.kind, holding.tenure)
        return AfterWrite(replace(after, written_at=sent_at, tenure=tenure), verdict, to.is_done, to.then)
    after = replace(after, tenure=to.tenure or holding.tenure)
    return AfterWrite(after, verdict, to.is_done, Then.HAND_OVER if after.is_asked_for(write) else to.then)


def _at(holding: Holding, write: LeaseWrite, row: Lease, applied: bool) -> Holding:
    """With the row, and whether it stands where we put it. Whatever was not answered has come through by now, if the counter
    says so, or never will."""
    lease, is_ours = holding.lease, row.lease_counter == holding.lease.lease_counter + 1
    ours = {lease.position}
    if is_ours and write.moves_to:
        ours.add(write.moves_to)
    if is_ours and not applied:
        ours |= holding.unanswered
    after = replace(holding, lease=row, unanswered=frozenset())
    if row.position in ours:
        return after
    moved_from = max(position.checkpoint for position in ours)
    return replace(after, moves=holding.moves + 1, moved_from=moved_from)


def after_failure(
    holding: Holding, write: LeaseWrite, is_transient: bool, now: Instant, failover_time: timedelta
) -> Holding:
    """The table could not be reached, or refused for good. Out of reach for a while is no loss; for longer than
    failover_time the lease may be another's by now.
    """
    if is_transient and not holding.is_unconfirmed(now, failover_time):
        sent = {write.moves_to} if write.moves_to else set()
        return replace(holding, unanswered=holding.unanswered | sent)
    return replace(holding, tenure=Tenure.LOST)


def after_reading(holding: Holding, row: _Row) -> Holding:
    """The row was read again: what it says is where we stand, unless it is another's.

    A Java worker that takes a lease leaves our holder on the row, so the owner counts too. One that is to be handed over
    stays as it is: the next write is refused, and begins to drain.
    """
    ours = holding.lease
    if isinstance(row, Lease) and row.held_by == ours.holder:
        if row.lease_owner == ours.lease_owner:
            return replace(holding, lease=row)
        if row.checkpoint_owner == ours.lease_owner:
            return holding
    return replace(holding, tenure=Tenure.LOST)


def is_true_too(row: Checkpoint, known: Checkpoint, finished: Checkpoint) -> bool:
    """Whether a row that another has moved tells nothing but what we know as well: forward of where it stood, and not beyond
    what is finished. The owner before us has checkpointed late, or an operator wants to skip what is long done.
    """
    return row.is_sequence_number and known <= row <= finished
