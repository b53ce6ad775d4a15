"""`Records`: what a program on an event loop iterates over in a fetch or in messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from sublet.aio.event_loop import LoopWaiter, to_its_end
from sublet.aio.record import Record
from sublet.pull.prefetch import Delivery
from sublet.pull.session import GroupSession
from sublet.pull.subscription import Subscription

HOLDS_LOOP = 0.0005
"""Seconds for which buffered records are handed out before other tasks get to run. Shorter than a millisecond, the
resolution of uvloop's clock.
"""


class Records:
    """Does what `sublet.pull.subscription.Records` does, with `async for` and `async with`. Only one task at a time may
    use it; any task may call `stop` and `drain`.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._auto_ack = subscription.request.acks
        self._buffer = subscription.session.buffer
        self._last: Delivery | None = None
        self._prefetched = subscription.request.prefetched.popleft
        """Takes a record without asking the buffer (see Prefetch)."""
        self._time: Callable[[], float] = float
        """The event loop's, from the first request for a record on."""
        self._slice_ends = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """A cancelled call has taken no record, because nothing is awaited between taking a record and returning it."""
        try:
            if self._time() < self._slice_ends:
                try:
                    self._last = self._prefetched()
                except IndexError:
                    pass
                else:
                    return Record(self._buffer, self._last)
            return Record(self._buffer, await self._wait())
        except (
            BaseException
        ):  # perhaps a signal handler's, after a record was taken: asking for the next must not acknowledge it
            self._last = None
            self._buffer.end_prefetch()
            raise

    async def _wait(self) -> Delivery:
        last, self._last = self._last, None
        if self._auto_ack and last is not None:
            self._buffer.ack(last)
        self._time = asyncio.get_running_loop().time
        if self._time() >= self._slice_ends:
            await self._yield()
        found = self._subscription.look()
        while isinstance(found, timedelta):
            changed = LoopWaiter()
            try:
                found = self._subscription.look(changed)
                if isinstance(found, timedelta):
                    await changed.wait(found)
                    self._slice_ends = self._time() + HOLDS_LOOP
            finally:
                self._buffer.unsubscribe(changed)
        if found is None:
            raise StopAsyncIteration
        self._last, self._prefetched = found, self._subscription.request.prefetched.popleft
        return found

    async def _yield(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)
        self._slice_ends = self._time() + HOLDS_LOOP

    @property
    def closed(self) -> bool:
        return self._subscription.is_over

    @property
    def session(self) -> GroupSession:
        return self._subscription.session

    def stop(self) -> None:
        """End at once. Buffered records go back."""
        self._subscription.stop()
        self._slice_ends = 0.0

    def drain(self) -> None:
        """Read no new records. The buffered ones are handed out, and the iterator ends when all of them are
        acknowledged.
        """
        self._subscription.drain()

    async def aclose(self) -> None:
        """End the iterator. Outside of `async with consumer:` this returns when the leases are released, even if
        cancelled.
        """
        await to_its_end(self._subscription.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        """The program left its loop without aclose()."""
        with suppress(AttributeError):  # __init__ may have raised
            self._subscription.abandon()
