"""`sublet.aio.Producer`: `sublet.Producer` on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from sublet.aio.event_loop import LoopWaiter, in_thread
from sublet.ports import Signal
from sublet.producer import WAITED_AT_ONCE, LoopParts, check_record
from sublet.protocol.stream_info import PutRecord

if TYPE_CHECKING:  # not loaded with it
    from sublet.account import Account
    from sublet.decisions.producer_options import ProducerOptions
    from sublet.decisions.producing import Produced, Settled
    from sublet.putting.loop import PuttingLoop


class Producer:
    """As `sublet.Producer`, on the loop that first puts a record:

        async with sublet.aio.Producer("orders") as producer:
            for order in orders:
                await producer.put(order.customer, order.as_json())

    `await producer.put(...)` waits only while the buffer is full, and returns a future of where the record is stored.
    """

    def __init__(
        self, stream: str, *, account: Account | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        """See sublet.Producer."""
        self._parts = LoopParts(stream, account, options)
        self._loop: PuttingLoop | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._making = asyncio.Lock()

    @property
    def stream(self) -> str:
        return self._parts.stream

    @property
    def produced(self) -> Produced | None:
        """Counts of what it has done so far; None before the first put."""
        return None if self._loop is None else self._loop.produced

    async def put(
        self, partition_key: str | None, data: bytes, *, explicit_hash_key: str | None = None
    ) -> asyncio.Future[PutRecord]:
        """See sublet.Producer.put. A task that is cancelled while it waits has not put the record."""
        check_record(data, partition_key, explicit_hash_key)
        loop = self._loop or await self._running()
        self._parts.check_process()
        future: asyncio.Future[PutRecord] = asyncio.get_running_loop().create_future()
        while (room := loop.offer(data, partition_key, explicit_hash_key, future)) is not None:
            await _until_set_once(room)
        return future

    async def flush(self) -> None:
        """See sublet.Producer.flush. A task that is cancelled stops waiting; the records are still sent."""
        loop = await self._running()
        await self._wait(loop, loop.flush())

    async def close(self) -> None:
        """See sublet.Producer.close."""
        loop = await self._running()
        await self._wait(loop, loop.close())

    async def __aenter__(self) -> Self:
        await self._running()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close. An exception that ends the block stays the one that is raised."""
        loop = await self._running()
        if kind is None:
            await self.close()
        else:
            await _until_set(loop.close())

    async def _running(self) -> PuttingLoop:
        async with self._making:
            if self._loop is None:
                self._event_loop = asyncio.get_running_loop()
                self._loop = await in_thread(self._parts.loop, self._tell)
            return self._loop

    async def _wait(self, loop: PuttingLoop, done: Signal) -> None:
        await _until_set(done)
        if (failure := loop.failure()) is not None:
            raise failure

    def _tell(self, settled: Sequence[Settled]) -> None:
        """One step on the loop for all of them. What ends a flush is called there afterwards."""
        assert self._event_loop is not None
        with suppress(RuntimeError):  # the loop is closed, and no task waits
            self._event_loop.call_soon_threadsafe(_resolve, settled)


def _resolve(settled: Sequence[Settled]) -> None:
    for some in settled:
        for record in some.user_records:
            future: asyncio.Future[PutRecord] = record.ticket  # type: ignore[assignment]
            if future.done():
                continue  # cancelled
            if isinstance(some.outcome, PutRecord):
                future.set_result(some.outcome)
            else:
                future.set_exception(some.outcome)
                future.exception()  # a flush raises it too, so it is no fault if only that is looked at


async def _until_set_once(signal: Signal) -> None:
    waiter = LoopWaiter()
    take_back = signal.on_set(waiter.set)
    try:
        if not signal.is_set():
            await waiter.wait(WAITED_AT_ONCE)
    finally:
        take_back()


async def _until_set(signal: Signal) -> None:
    while not signal.is_set():
        await _until_set_once(signal)
