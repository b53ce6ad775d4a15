"""Iterators over records, for an event loop: a fetch that ends, and messages that go on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from sublet.aio.record import Record
from sublet.aio.waiter import LoopWaiter
from sublet.consumer.puller import Puller
from sublet.consumer.record import Record as PlainRecord
from sublet.decisions.pull_events import Event

HOLDS_LOOP = 0.001
"""Seconds: records that are there already are handed out for so long before other tasks have their turn."""


class Records:
    """As `sublet.consumer.pulling.Records`, with `async for` and `async with`. For one task at a time but for `stop`, `drain`."""

    def __init__(self, puller: Puller, *, auto_ack: bool = False) -> None:
        self._puller = puller
        self._auto_ack = auto_ack
        self._last: PlainRecord | None = None
        self._yielded_at = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """Cancelled at any moment it has taken nothing: between a record's taking and its return nothing is awaited."""
        last, self._last = self._last, None
        if self._auto_ack and last is not None:
            last.ack()
        loop = asyncio.get_running_loop()
        if loop.time() - self._yielded_at > HOLDS_LOOP:
            await asyncio.sleep(0)
            self._yielded_at = loop.time()
        found = self._puller.look()
        while isinstance(found, timedelta):
            changed = LoopWaiter()
            found = self._puller.look(changed)
            if isinstance(found, timedelta):
                await changed.wait(found)
                self._yielded_at = loop.time()
        if found is None:
            raise StopAsyncIteration
        self._last = PlainRecord(self._puller.membership.buffer, found)
        return Record(self._last)

    @property
    def closed(self) -> bool:
        return self._puller.is_over

    def tell(self, event: Event) -> None:
        """To who listens to events."""
        self._puller.membership.tell(event)

    def stop(self) -> None:
        """At once: nothing more comes, and what is buffered goes back."""
        self._puller.stop()

    def drain(self) -> None:
        """Nothing new comes: what is buffered is handed out, and it is over when all of that is acknowledged."""
        self._puller.drain()

    async def aclose(self) -> None:
        """Over. Outside of `async with consumer:` the leases are released when this returns, or soon after it is cancelled."""
        await asyncio.to_thread(self._puller.close)

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
