"""Iterators over records, for an event loop: a fetch that ends, and messages that go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from sublet.aio.record import Record
from sublet.aio.threads import to_its_end
from sublet.aio.waiter import LoopWaiter
from sublet.consumer.membership import Membership
from sublet.consumer.puller import Puller
from sublet.consumer.turn import Delivery

HOLDS_LOOP = 0.0005
"""Seconds: records that are there already are handed out for so long before other tasks have their turn. Less than a millisecond:
uvloop's clock has whole ones."""


class Records:
    """As `sublet.consumer.pulling.Records`, with `async for` and `async with`. For one task at a time but for `stop`, `drain`."""

    def __init__(self, puller: Puller, *, auto_ack: bool = False) -> None:
        self._puller = puller
        self._auto_ack = auto_ack
        self._buffer = puller.membership.buffer
        self._last: Delivery | None = None
        self._taken = puller.pull.ahead.popleft
        """The next of the turn, out of what the buffer has left to be taken (see Turn)."""
        self._time: Callable[[], float] = float
        """The loop's, once there is one."""
        self._turn_ends = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """Cancelled at any moment it has taken nothing: between a record's taking and its return nothing is awaited."""
        try:
            if self._time() < self._turn_ends:
                try:
                    self._last = self._taken()
                except IndexError:
                    pass
                else:
                    return Record(self._buffer, self._last)
            return Record(self._buffer, await self._wait())
        except (
            BaseException
        ):  # a signal handler's exception may have come between a record's taking and its return
            self._last = None
            self._buffer.end_turn()
            raise

    async def _wait(self) -> Delivery:
        last, self._last = self._last, None
        if self._auto_ack and last is not None:
            self._buffer.ack(last)
        self._time = asyncio.get_running_loop().time
        if self._time() >= self._turn_ends:
            await self._yield()
        found = self._puller.look()
        while isinstance(found, timedelta):
            changed = LoopWaiter()
            try:
                found = self._puller.look(changed)
                if isinstance(found, timedelta):
                    await changed.wait(found)
                    self._turn_ends = self._time() + HOLDS_LOOP
            finally:
                self._buffer.leave(changed)
        if found is None:
            raise StopAsyncIteration
        self._last, self._taken = found, self._puller.pull.ahead.popleft
        return found

    async def _yield(self) -> None:
        """Let other tasks have their turn."""
        await asyncio.sleep(0)
        self._turn_ends = self._time() + HOLDS_LOOP

    @property
    def closed(self) -> bool:
        return self._puller.is_over

    @property
    def membership(self) -> Membership:
        return self._puller.membership

    def stop(self) -> None:
        """At once: nothing more comes, and what is buffered goes back."""
        self._puller.stop()
        self._turn_ends = 0.0

    def drain(self) -> None:
        """Nothing new comes: what is buffered is handed out, and it is over when all of that is acknowledged."""
        self._puller.drain()

    async def aclose(self) -> None:
        """Over. Outside of `async with consumer:` the leases are released when this returns, whatever is cancelled."""
        await to_its_end(self._puller.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        """Nobody will ask for more: a loop was left."""
        with suppress(AttributeError):  # not made whole
            self._puller.abandon()
