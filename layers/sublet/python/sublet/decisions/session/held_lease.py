"""A lease that this process holds, and its state after each write: one state machine for every runtime.

  HELD ──asked to leave (KCL 3.x graceful handoff)──> DRAINING ──handed over──> LOST
  HELD, DRAINING ──released, or its shard ended──> RELEASED
  HELD, DRAINING ──another's write, no such row, too long without a write of ours──> LOST

The table TRANSITIONS says what a reply means. Time is an argument: nothing here waits or writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from sublet.decisions.session.refused_write import Verdict, judge_refusal
from sublet.decisions.time_and_chance import Instant
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.lease import Lease, MalformedRow, Position
from sublet.protocol.lease_writes import LeaseWrite, WriteKind

_Row = Lease | MalformedRow | None


class Tenure(StrEnum):
    """What we may still do with the lease."""

    HELD = "held"
    DRAINING = "draining"
    """A KCL 3.x leader has asked for the lease: we may still checkpoint it, and then hand it over."""
    RELEASED = "released"
    """We have released it. The counter is the next owner's fence, so not even a heartbeat may follow."""
    LOST = "lost"


MAY_WRITE = frozenset({Tenure.HELD, Tenure.DRAINING})

TENURE_AFTER: Mapping[WriteKind, Tenure] = MappingProxyType(
    {WriteKind.RELEASE: Tenure.RELEASED, WriteKind.END: Tenure.RELEASED, WriteKind.HAND_OVER: Tenure.LOST}
)
"""The tenure after these writes; a lease handed over belongs to another worker. Other writes do not change it."""


class NextAction(StrEnum):
    """What to do after a reply."""

    NOTHING = "nothing"
    WRITE_AGAIN = "write_again"
    """Repeat the write for the row that refused it."""
    HAND_OVER = "hand_over"
    """A requested lease is not released, since its next owner is named already."""


class Transition(NamedTuple):
    """The effect of one verdict.

    tenure   the new tenure; None: as the write says (TENURE_AFTER), if it does
    is_ours  whether we go on from the row as it is now
    is_done  whether the row holds at least what was to be written
    then     what to do next
    """

    tenure: Tenure | None
    is_ours: bool
    is_done: bool
    then: NextAction


TRANSITIONS: Mapping[Verdict, Transition] = MappingProxyType(
    {
        Verdict.APPLIED: Transition(None, is_ours=True, is_done=True, then=NextAction.NOTHING),
        Verdict.DONE_BEFORE: Transition(None, is_ours=True, is_done=True, then=NextAction.NOTHING),
        Verdict.MOVED: Transition(None, is_ours=True, is_done=False, then=NextAction.NOTHING),
        Verdict.WRITE_AGAIN: Transition(None, is_ours=True, is_done=False, then=NextAction.WRITE_AGAIN),
        Verdict.DRAIN: Transition(Tenure.DRAINING, is_ours=True, is_done=False, then=NextAction.WRITE_AGAIN),
        Verdict.LOST: Transition(Tenure.LOST, is_ours=False, is_done=False, then=NextAction.NOTHING),
    }
)

_WRITTEN = frozenset({Verdict.APPLIED, Verdict.DONE_BEFORE})
"""The row is as this very write left it, so it counts as a heartbeat."""


@dataclass(frozen=True, slots=True)
class Holding:
    """`lease`: as our last write left its row; `written_at`: when we sent that write.

    unanswered  positions that we have sent since then without a reply
    moves       how often another writer has moved the row's position; how far the lease is handled decides what that
                means
    moved_from  the highest position that the row can have had before the last such move
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

    def would_release_requested_lease(self, write: LeaseWrite) -> bool:
        """Whether this write would release a lease whose next owner is named already."""
        return self.tenure is Tenure.DRAINING and write.kind is WriteKind.RELEASE

    def is_unconfirmed(self, now: Instant, failover_time: timedelta) -> bool:
        """Whether our last write is so long ago that another worker may have taken it: do not act on it until a write
        succeeds.
        """
        return now.at_most_since(self.written_at) > failover_time

    def is_heartbeat_due(self, now: Instant, after: timedelta) -> bool:
        """Any write of ours counts as a heartbeat."""
        return self.may_write and now.since(self.written_at) >= after


class AfterWrite(NamedTuple):
    """The result of a write: `verdict` says why."""

    holding: Holding
    verdict: Verdict
    is_done: bool
    then: NextAction


def after_write(holding: Holding, write: LeaseWrite, row: _Row, applied: bool, sent_at: Instant) -> AfterWrite:
    """`row`: the row as it is now. If the write was `applied`, as it left it; otherwise the row that refused it."""
    verdict = Verdict.APPLIED if applied else judge_refusal(holding.lease, write, row)
    to = TRANSITIONS[verdict]
    if not to.is_ours or not isinstance(row, Lease):
        return AfterWrite(replace(holding, tenure=Tenure.LOST), Verdict.LOST, is_done=False, then=NextAction.NOTHING)
    moves, moved_from = _moves_after(holding, write, row, applied)
    if verdict is Verdict.MOVED and moves == holding.moves:  # by a write of ours, whose answer got lost
        verdict, to = Verdict.WRITE_AGAIN, TRANSITIONS[Verdict.WRITE_AGAIN]
    is_written = verdict in _WRITTEN
    tenure = TENURE_AFTER.get(write.kind) if is_written else to.tenure
    written_at = sent_at if is_written else holding.written_at
    after = Holding(row, written_at, tenure or holding.tenure, moves=moves, moved_from=moved_from)
    asks = not is_written and after.would_release_requested_lease(write)
    return AfterWrite(after, verdict, to.is_done, NextAction.HAND_OVER if asks else to.then)


def _moves_after(holding: Holding, write: LeaseWrite, row: Lease, applied: bool) -> tuple[int, Checkpoint | None]:
    """`moves` and `moved_from` of the new row, by whether its position is one of ours. An unanswered write has been
    applied by now, if the counter says so, or never will be.
    """
    lease, is_ours = holding.lease, row.lease_counter == holding.lease.lease_counter + 1
    ours = {lease.position}
    if is_ours and write.moves_to:
        ours.add(write.moves_to)
    if is_ours and not applied:
        ours |= holding.unanswered
    if row.position in ours:
        return holding.moves, holding.moved_from
    return holding.moves + 1, max(position.checkpoint for position in ours)


def after_failure(
    holding: Holding, write: LeaseWrite, may_pass: bool, now: Instant, failover_time: timedelta
) -> Holding:
    """The table was out of reach, or refused for good. A short outage is no loss; after more than failover_time another
    worker may have the lease.
    """
    if may_pass and not holding.is_unconfirmed(now, failover_time):
        sent = {write.moves_to} if write.moves_to else set()
        return replace(holding, unanswered=holding.unanswered | sent)
    return replace(holding, tenure=Tenure.LOST)


def after_reading(holding: Holding, row: _Row) -> Holding:
    """The row was read again: it is our new state, unless it belongs to another worker.

    A Java worker that takes a lease leaves our holder on the row, so the owner counts too. If the lease is to be handed
    over, the state stays as it is: the next write is refused, and that begins the drain.
    """
    ours = holding.lease
    if isinstance(row, Lease) and row.held_by == ours.holder:
        if row.lease_owner == ours.lease_owner:
            return replace(holding, lease=row)
        if row.checkpoint_owner == ours.lease_owner:
            return holding
    return replace(holding, tenure=Tenure.LOST)


def is_covered_by(row: Checkpoint, known: Checkpoint, finished: Checkpoint) -> bool:
    """Whether a position that another writer has set holds nothing new: it is ahead of `known` and not beyond
    `finished`. Either the previous owner has checkpointed late, or an operator skips what is long done.
    """
    return row.is_sequence_number and known <= row <= finished
