"""Which of a session's handler calls fail, so that its writes to the lease's row can say it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sublet.engine.calls.call_limits import HandlerCall
from sublet.errors import HandlerOverdue
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.handler_failure import HandlerFailure, error_name
from sublet.protocol.lease import Lease
from sublet.protocol.lease_attributes import whole_milliseconds

REQUIRED = ("handle", "lease_acquired", "shard_ended")
"""The handler's functions that must return before a shard goes on."""


class _FailingCall(NamedTuple):
    """`first`: the first record of the call; None of a call without records."""

    first: Checkpoint | None
    failure: HandlerFailure


@dataclass(slots=True)
class FailingCalls:
    """What fails now, by caller and function. This needs no lock: each caller sets and deletes its own keys.

    `opened`: the lease as the session acquired it, with the failure that the session before reported.
    """

    opened: Lease
    _failing: dict[tuple[int, str], _FailingCall] = field(default_factory=dict, init=False)
    _earlier_is_handled: bool = field(default=False, init=False)

    def failed(self, caller: int, call: HandlerCall, now: datetime, follows: Checkpoint | None) -> None:
        """The call has failed. `follows`: the checkpoint, if the call's first record is the next one after it; None if
        unfinished or unwritten records come first.
        """
        if call.is_held_up or call.finished:  # it has not failed by itself, or not with what is left
            self.succeeded(caller, call.what)
            return
        if call.what not in REQUIRED:
            return
        known = self._failing.get((caller, call.what))
        if known is not None and known.first == call.first:
            since = known.failure.since
        else:
            before = None if follows is None else self._earlier(follows)
            since = whole_milliseconds(now) if before is None else before.since
        error = HandlerOverdue.__name__ if call.failure is None else error_name(call.failure)
        self._failing[caller, call.what] = _FailingCall(call.first, HandlerFailure(error, call.attempt, since))

    def succeeded(self, caller: int, what: str) -> None:
        """The function no longer fails: it has returned, or its records were set aside."""
        self._failing.pop((caller, what), None)

    def earlier_is_handled(self) -> None:
        """The records that failed in the session before are handled, or set aside."""
        self._earlier_is_handled = True

    def at(self, checkpoint: Checkpoint) -> HandlerFailure | None:
        """The failure to report with this checkpoint. If several calls fail, the one that began to fail first. Any
        thread may ask.
        """
        if not self._failing:  # nearly always, and this is asked for each write
            return self._earlier(checkpoint)
        failing = [each.failure for each in list(self._failing.values())]
        return min(failing, key=lambda each: each.since, default=self._earlier(checkpoint))

    def _earlier(self, checkpoint: Checkpoint) -> HandlerFailure | None:
        failing = self.opened.failing
        if failing is None or self._earlier_is_handled or checkpoint != self.opened.checkpoint:
            return None
        return failing
