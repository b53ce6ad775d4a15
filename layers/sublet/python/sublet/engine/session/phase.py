"""The phases of a lease session: what each may call of the handler, and what follows which.

The session's own thread moves it from phase to phase. Any thread may recall it, and so may a signal handler, so a
recall takes no lock: it is noted once, and `PhaseRow.recalled` says what each phase becomes by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class Phase(StrEnum):
    """Where a session stands with the handler, and whether the lease may be kept for the next window."""

    OPENING = "the handler does not know of the lease yet"
    RUNNING = "the handler has the lease, and is given its records"
    LEAVING = "lease_releasing was called"
    KEPT_UNHEARD = "over, the lease is kept: from OPENING"
    KEPT = "over, the lease is kept: from RUNNING"
    KEPT_LEFT = "over, the lease is kept: from LEAVING"
    RECALLED_UNHEARD = "to end, and to keep nothing: from OPENING"
    RECALLED = "to end, and to keep nothing: from RUNNING"
    RECALLED_LEFT = "to end, and to keep nothing: from LEAVING"
    OVER = "the lease is no longer ours, or is no longer kept"


class PhaseEvent(StrEnum):
    ACQUIRED = "lease_acquired has returned"
    RELEASING = "lease_releasing is called"
    KEPT = "the session is over, and the lease is kept"
    GIVEN_UP = "a kept lease is released after all"
    GOES_ON = "another session goes on with the lease"
    ENDED = "the session is over, and with it the lease"


class PhaseRow(NamedTuple):
    """What a phase allows.

    calls      the handler's functions that may be called
    counts     checkpoints that the handler makes count
    keeps      the lease may be kept for the next window
    recalled   the phase that it becomes by a recall
    """

    calls: frozenset[str]
    counts: bool
    keeps: bool
    recalled: Phase


_ACQUIRE = frozenset({"lease_acquired"})
_RECORDS = frozenset({"handle", "shard_ended"})
_RELEASE = frozenset({"lease_releasing"})
_LOST = frozenset({"lease_lost"})
"""Allowed in every phase: a lease may be lost at any time, and then the handler has to know."""

ALLOWED: Mapping[Phase, PhaseRow] = MappingProxyType(
    {
        # phase                 calls of the handler                          counts  keeps   by a recall
        Phase.OPENING: PhaseRow(_ACQUIRE | _LOST, True, True, Phase.RECALLED_UNHEARD),
        Phase.RUNNING: PhaseRow(_ACQUIRE | _RECORDS | _RELEASE | _LOST, True, True, Phase.RECALLED),
        Phase.LEAVING: PhaseRow(_LOST, True, True, Phase.RECALLED_LEFT),
        Phase.KEPT_UNHEARD: PhaseRow(_LOST, False, True, Phase.OVER),
        Phase.KEPT: PhaseRow(_LOST, False, True, Phase.OVER),
        Phase.KEPT_LEFT: PhaseRow(_LOST, False, True, Phase.OVER),
        Phase.RECALLED_UNHEARD: PhaseRow(_LOST, True, False, Phase.RECALLED_UNHEARD),
        Phase.RECALLED: PhaseRow(_RELEASE | _LOST, True, False, Phase.RECALLED),
        Phase.RECALLED_LEFT: PhaseRow(_LOST, True, False, Phase.RECALLED_LEFT),
        Phase.OVER: PhaseRow(_LOST, False, False, Phase.OVER),
    }
)

FOLLOWING: Mapping[tuple[Phase, PhaseEvent], Phase] = MappingProxyType(
    {
        (Phase.OPENING, PhaseEvent.ACQUIRED): Phase.RUNNING,
        (Phase.OPENING, PhaseEvent.KEPT): Phase.KEPT_UNHEARD,
        (Phase.RUNNING, PhaseEvent.ACQUIRED): Phase.RUNNING,  # reading begins again: lease_acquired says from where
        (Phase.RUNNING, PhaseEvent.RELEASING): Phase.LEAVING,
        (Phase.RUNNING, PhaseEvent.KEPT): Phase.KEPT,
        (Phase.LEAVING, PhaseEvent.KEPT): Phase.KEPT_LEFT,
        (Phase.KEPT_UNHEARD, PhaseEvent.GIVEN_UP): Phase.OPENING,
        (Phase.KEPT, PhaseEvent.GIVEN_UP): Phase.RUNNING,
        (Phase.KEPT_UNHEARD, PhaseEvent.GOES_ON): Phase.OPENING,
        (Phase.KEPT, PhaseEvent.GOES_ON): Phase.RUNNING,
        (Phase.KEPT_LEFT, PhaseEvent.GOES_ON): Phase.RUNNING,
        **{(phase, PhaseEvent.ENDED): Phase.OVER for phase in Phase},
    }
)


@dataclass(slots=True)
class PhaseTracker:
    """The phase of one session. `keeps`: the mode keeps leases from window to window."""

    keeps: bool
    so_far: Phase = Phase.OPENING
    """The phase without a recall. Only the session's own thread changes it."""
    is_recalled: bool = False
    """Any thread may set it, once."""

    @property
    def now(self) -> Phase:
        return ALLOWED[self.so_far].recalled if self.is_recalled else self.so_far

    @property
    def counts(self) -> bool:
        return ALLOWED[self.now].counts

    @property
    def allows_keeping(self) -> bool:
        return self.keeps and ALLOWED[self.now].keeps

    def allows(self, function: str) -> bool:
        """Whether this function of the handler may be called now."""
        return function in ALLOWED[self.now].calls

    def move(self, event: PhaseEvent) -> None:
        self.so_far = after(self.so_far, event)

    def following(self) -> PhaseTracker:
        """Returns the phases of a session that goes on with the lease after this one."""
        return PhaseTracker(self.keeps, after(self.so_far, PhaseEvent.GOES_ON))


def after(phase: Phase, event: PhaseEvent) -> Phase:
    """The phase that follows. An event that means nothing in a phase leaves it as it is."""
    return FOLLOWING.get((phase, event), phase)
