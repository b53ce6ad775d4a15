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
from sublet.protocol.lease import Lease, MalformedRow
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
        Verdict.FURTHER_ON: Transition(None, is_ours=True, is_done=True, then=Then.NOTHING),
        Verdict.WRITE_AGAIN: Transition(None, is_ours=True, is_done=False, then=Then.WRITE_AGAIN),
        Verdict.DRAIN: Transition(Tenure.DRAINING, is_ours=True, is_done=False, then=Then.WRITE_AGAIN),
        Verdict.LOST: Transition(Tenure.LOST, is_ours=False, is_done=False, then=Then.NOTHING),
    }
)

_WRITTEN = frozenset({Verdict.APPLIED, Verdict.DONE_BEFORE})
"""The row is as this very write left it, and so it is a heartbeat."""


@dataclass(frozen=True, slots=True)
class Holding:
    """`lease`: as our last write left its row; `written_at`: when we sent that."""

    lease: Lease
    written_at: Instant
    tenure: Tenure = Tenure.HELD

    @property
    def may_write(self) -> bool:
        return self.tenure in MAY_WRITE

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
    if verdict in _WRITTEN:
        tenure = TENURE_AFTER.get(write.kind, holding.tenure)
        return AfterWrite(Holding(row, sent_at, tenure), verdict, to.is_done, to.then)
    is_asked_for_it = to.tenure is Tenure.DRAINING and write.kind is WriteKind.RELEASE
    then = Then.HAND_OVER if is_asked_for_it else to.then
    return AfterWrite(
        replace(holding, lease=row, tenure=to.tenure or holding.tenure), verdict, to.is_done, then
    )


def after_failure(holding: Holding, is_transient: bool, now: Instant, failover_time: timedelta) -> Holding:
    """The table could not be reached, or refused for good. Out of reach for a while is no loss; for longer than
    failover_time the lease may be another's by now.
    """
    if is_transient and not holding.is_unconfirmed(now, failover_time):
        return holding
    return replace(holding, tenure=Tenure.LOST)


def after_reading(holding: Holding, row: _Row) -> Holding:
    """The row was read again: what it says is where we stand, unless it is another's.

    A Java worker that takes a lease leaves our holder on the row, so the owner counts too. One that is to be handed over
    stays as it is: the next write is refused, and begins to drain.
    """
    ours = holding.lease
    if isinstance(row, Lease) and row.holder == ours.holder:
        if row.lease_owner == ours.lease_owner:
            return replace(holding, lease=row)
        if row.checkpoint_owner == ours.lease_owner:
            return holding
    return replace(holding, tenure=Tenure.LOST)
