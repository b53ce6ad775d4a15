"""A fetch, or messages that go on, as both plain Python and asyncio wait for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from sublet.consumer.delivery import LookAgain, Pull, Waiter
from sublet.consumer.membership import Hold, Membership
from sublet.consumer.turn import Delivery
from sublet.decisions.pull_events import Event
from sublet.ports import Clock

LONG = timedelta(days=1)
"""Where no moment is known at which something will change by itself."""


@dataclass(slots=True)
class Puller:
    """hold     on the membership, for this one; None inside of a `with` block, which has one
    lingers  how long it is held after this one is over, if something is still out (None: not at all)
    on_event told of events until it is closed
    """

    membership: Membership
    pull: Pull
    clock: Clock
    hold: Hold | None = None
    lingers: timedelta | None = None
    on_event: Callable[[Event], object] | None = None
    is_over: bool = False

    def __post_init__(self) -> None:
        if self.on_event is not None:
            self.membership.events.add(self.on_event)
        self.membership.buffer.begin(self.pull)
        if self.hold is not None and self.lingers is not None and self.pull.expires_at is not None:
            self.hold.until = self.pull.expires_at + self.lingers  # though nobody asks any more

    def look(self, waiter: Waiter | None = None) -> Delivery | timedelta | None:
        """The next record; or how long to wait at most, unless the waiter is told; None: it is over. Raises what ended it.

        Whoever finds a record at once has made no waiter, which costs more than to look.
        """
        try:
            found = self.membership.buffer.take(self.pull, waiter)
        except Exception:  # not KeyboardInterrupt: whoever catches that may go on
            self.finish()
            raise
        if isinstance(found, LookAgain):
            return LONG if found.at is None else max(found.at - self.clock.steady(), timedelta(0))
        if found is None or self.pull.is_over:  # with this record, too
            self.finish()
        return found

    def finish(self) -> None:
        """It is over, and holds the membership no more: as soon as something has been said of what is out, if it lingers."""
        if self.membership.is_inherited:
            return
        self.membership.buffer.end(self.pull)
        if self.is_over:
            return
        self.is_over = True
        if self.hold is not None and self.lingers is not None:
            self.membership.let_go_when_said(self.hold, self.lingers)
        elif self.hold is not None:
            self.membership.let_go(self.hold)

    # Told from wherever an object is collected, or from a signal handler: so no lock is taken here.

    def abandon(self) -> None:
        """It is over."""
        self.membership.abandoned.append(self.finish)

    def stop(self) -> None:
        """At once: nothing more comes, and what is buffered goes back."""
        self.pull.is_over = True
        self.membership.buffer.tell_at_once()
        self.abandon()

    def drain(self) -> None:
        """Nothing new: it is over when all that was buffered or out is done."""
        self.pull.is_draining = True
        self.membership.buffer.tell_at_once()

    def close(self) -> None:
        """Over now. Unless somebody else holds the membership it has ended when this returns, and what is out counts no more."""
        self.lingers = None
        self.finish()
        if self.hold is not None and not self.membership.is_inherited:
            self.membership.let_go_and_wait(self.hold)
        told, self.on_event = self.on_event, None
        if told is not None and not self.membership.is_inherited:
            self.membership.events.wait()
            self.membership.events.remove(told)
