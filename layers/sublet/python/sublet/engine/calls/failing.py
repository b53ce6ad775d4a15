"""Which of a session's handler calls fail, for what its writes to the lease's row say of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sublet.engine.calls.guard import HandlerCall
from sublet.errors import HandlerOverdue
from sublet.protocol.checkpoint import Checkpoint
from sublet.protocol.handler_failure import HandlerFailure, error_name
from sublet.protocol.lease import Lease
from sublet.protocol.lease_row import whole_milliseconds

HOLD_UP = ("handle", "lease_acquired", "shard_ended")
"""The handler's functions without which a shard does not go on."""


class _Failing(NamedTuple):
    """`first`: the first record of the call; None of a call without records."""

    first: Checkpoint | None
    failure: HandlerFailure


@dataclass(slots=True)
class FailingCalls:
    """`opened`: the lease as the session acquired it, with the failure that the session before reported. It needs no lock: each
    caller sets and deletes its own keys, one for each function.
    """

    opened: Lease
    _under_way: dict[tuple[int, str], _Failing] = field(default_factory=dict, init=False)
    _has_got_on: bool = field(default=False, init=False)

    def failed(self, caller: int, call: HandlerCall, now: datetime, follows: Checkpoint | None) -> None:
        """`follows`: the checkpoint, if its first record is the next one; None if others that are unfinished or unwritten come
        first.
        """
        if call.is_held_up or call.finished:  # it has not failed by itself, or not with what is left
            self.got_on(caller, call.what)
            return
        if call.what not in HOLD_UP:
            return
        known = self._under_way.get((caller, call.what))
        if known is not None and known.first == call.first:
            since = known.failure.since
        else:
            before = None if follows is None else self._before(follows)
            since = whole_milliseconds(now) if before is None else before.since
        error = HandlerOverdue.__name__ if call.failure is None else error_name(call.failure)
        self._under_way[caller, call.what] = _Failing(call.first, HandlerFailure(error, call.attempt, since))

    def got_on(self, caller: int, what: str) -> None:
        """This function fails no more: it has returned, or its records were set aside."""
        self._under_way.pop((caller, what), None)

    def left_behind(self) -> None:
        """What failed in the session before is handled, or set aside."""
        self._has_got_on = True

    def at(self, checkpoint: Checkpoint) -> HandlerFailure | None:
        """The failure to report with this checkpoint. If several calls fail, the one that began to fail first. Any thread may
        ask.
        """
        if not self._under_way:  # nearly always, and this is asked for each write
            return self._before(checkpoint)
        failing = [each.failure for each in list(self._under_way.values())]
        return min(failing, key=lambda each: each.since, default=self._before(checkpoint))

    def _before(self, checkpoint: Checkpoint) -> HandlerFailure | None:
        failing = self.opened.failing
        if failing is None or self._has_got_on or checkpoint != self.opened.checkpoint:
            return None
        return failing
