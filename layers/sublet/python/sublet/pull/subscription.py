"""`Records`, over which a program iterates in a fetch or in messages, and what it shares with asyncio."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from sublet.decisions.pull.pull_events import Event
from sublet.ports import Clock, Tasks
from sublet.pull.buffer import Waiter
from sublet.pull.prefetch import PREFETCH_LASTS, Delivery
from sublet.pull.pull_state import LookAgain, PullRequest
from sublet.pull.record import Record
from sublet.pull.session import GroupSession, SessionHold

LONG = timedelta(days=1)
"""The timeout of a wait that only a waiter should end."""


@dataclass(slots=True)
class Subscription:
    """One pull in progress.

    ref      keeps the session going; None inside a `with` block, which has its own
    lingers  how long to keep the session after the end while a record is out; None: not at all
    on_event called with events until this is closed
    """

    session: GroupSession
    request: PullRequest
    clock: Clock
    ref: SessionHold | None = None
    lingers: timedelta | None = None
    on_event: Callable[[Event], object] | None = None
    is_over: bool = False

    def __post_init__(self) -> None:
        if self.on_event is not None:
            self.session.events.add(self.on_event)
        self.session.buffer.begin(self.request)
        if self.ref is not None and self.lingers is not None and self.request.expires_at is not None:
            self.ref.until = self.request.expires_at + self.lingers  # even if the program never asks again

    def look(self, waiter: Waiter | None = None) -> Delivery | timedelta | None:
        """Returns the next record, or how long to wait unless the waiter is set before, or None at the end. Raises the
        error that ended the session.

        Ask without a waiter first: creating one costs more than asking.
        """
        try:
            found = self.session.buffer.take(self.request, waiter)
        except Exception:  # not KeyboardInterrupt: a program that catches that may go on
            self.finish()
            raise
        if isinstance(found, LookAgain):
            return LONG if found.at is None else max(found.at - self.clock.steady(), timedelta(0))
        if found is None or self.request.is_over:  # this record may be the last
            self.finish()
        return found

    def finish(self) -> None:
        """End the subscription. Drops its Ref at once or, if it lingers, when no record is out."""
        if self.session.is_inherited:
            return
        self.session.buffer.end(self.request)
        if self.is_over:
            return
        self.is_over = True
        if self.ref is not None and self.lingers is not None:
            self.session.drop_ref_when_acknowledged(self.ref, self.lingers)
        elif self.ref is not None:
            self.session.drop_ref(self.ref)

    # The next three take no lock: garbage collection and signal handlers call them.

    def abandon(self) -> None:
        """Have another thread finish this, because the program dropped the iterator."""
        self.session.abandoned.append(self.finish)

    def stop(self) -> None:
        """End at once. Buffered records go back."""
        self.request.is_over = True
        self.session.buffer.wake_all()
        self.abandon()

    def drain(self) -> None:
        """Read no new records. The subscription ends when everything that was buffered or out is done."""
        self.request.is_draining = True
        self.session.buffer.wake_all()

    def close(self) -> None:
        """End now. If this ends the session, return when it has ended; acks of records that are out then no longer
        count.
        """
        self.lingers = None
        self.finish()
        if self.ref is not None and not self.session.is_inherited:
            self.session.drop_ref_and_wait(self.ref)
        listener, self.on_event = self.on_event, None
        if listener is not None and not self.session.is_inherited:
            self.session.events.wait()
            self.session.events.remove(listener)


class Records:
    """An iterator over records as they come: in order within a shard, taking turns across shards. One thread at a time
    may use it; any thread may call `stop` and `drain`.
    """

    def __init__(self, subscription: Subscription, tasks: Tasks) -> None:
        self._subscription = subscription
        self._tasks = tasks
        self._auto_ack = subscription.request.acks
        self._buffer = subscription.session.buffer
        self._steady = subscription.clock.steady
        self._last: Delivery | None = None
        self._prefetched = subscription.request.prefetched.popleft
        """Takes a record without asking the buffer (see Prefetch)."""
        self._prefetch_ends: datetime = self._steady()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        """Waits for the next record. Raises the error that ended the consumer, such as LeaseTableNotFound or
        StreamNotFound.

        An exception from a signal handler, such as KeyboardInterrupt, may lose the record on its way to the caller. It
        then comes again after `ack_wait`.
        """
        try:
            if self._steady() < self._prefetch_ends:
                try:
                    self._last = self._prefetched()
                except IndexError:
                    pass
                else:
                    return Record(self._buffer, self._last)
            return Record(self._buffer, self._wait())
        except BaseException:  # perhaps after a record was taken: asking for the next one must not acknowledge it
            self._last = None
            self._buffer.end_prefetch()
            raise

    def _wait(self) -> Delivery:
        last, self._last = self._last, None
        if self._auto_ack and last is not None:
            self._buffer.ack(last)
        found = self._subscription.look()
        while isinstance(found, timedelta):
            changed = self._tasks.signal()
            try:
                found = self._subscription.look(changed)
                if isinstance(found, timedelta):
                    changed.wait(found)
            finally:
                self._buffer.unsubscribe(changed)
        if found is None:
            raise StopIteration
        self._last, self._prefetch_ends = found, self._steady() + PREFETCH_LASTS
        self._prefetched = self._subscription.request.prefetched.popleft
        return found

    @property
    def closed(self) -> bool:
        return self._subscription.is_over

    @property
    def session(self) -> GroupSession:
        return self._subscription.session

    def stop(self) -> None:
        """End at once. Buffered records go back. A signal handler may call this."""
        self._subscription.stop()
        self._prefetch_ends = self._steady()

    def drain(self) -> None:
        """Read no new records. The buffered ones are handed out, and the iterator ends when all of them are
        acknowledged. A signal handler may call this.
        """
        self._subscription.drain()

    def close(self) -> None:
        """End the iterator. Outside `with consumer:`, return when the leases are released; records that are out come
        again.
        """
        self._subscription.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        """The program left its loop without close()."""
        with suppress(AttributeError):  # __init__ may have raised
            self._subscription.abandon()
