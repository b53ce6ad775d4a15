"""`sublet.aio.Producer`: `sublet.Producer` on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from sublet.aio.event_loop import LoopWaiter, in_thread
from sublet.ports import Signal
from sublet.protocol.stream_info import PutRecord
from sublet.putting.producer import WAITED_AT_ONCE, LazyLoop, check_record, raise_failure

if TYPE_CHECKING:  # not loaded with it
    from sublet.decisions.putting.producer_options import ProducerOptions
    from sublet.decisions.putting.producing import Produced, SettledRecords
    from sublet.ports.account import Account
    from sublet.putting.loop import PuttingLoop


class Producer:
    """`sublet.Producer` for an event loop:

        async with sublet.aio.Producer("orders") as producer:
            for order in orders:
                await producer.put(order.customer, order.as_json())

    `await producer.put(...)` waits only while the buffer is full. It returns a future whose result says where the
    record is.
    """

    def __init__(self, stream: str, *, account: Account | None = None, **options: Unpack[ProducerOptions]) -> None:
        """See sublet.Producer."""
        self._lazy_loop = LazyLoop(stream, account, options)

    @property
    def stream(self) -> str:
        return self._lazy_loop.stream

    @property
    def produced(self) -> Produced:
        """See sublet.Producer.produced."""
        return self._lazy_loop.produced

    async def put(
        self, partition_key: str | None, data: bytes, *, explicit_hash_key: str | None = None
    ) -> asyncio.Future[PutRecord]:
        """See sublet.Producer.put. A task that is cancelled while it waits has not put the record."""
        check_record(data, partition_key, explicit_hash_key)
        loop = self._lazy_loop.loop(_tell) if self._lazy_loop.is_started else await self._begun()
        future: asyncio.Future[PutRecord] = asyncio.get_running_loop().create_future()
        while (room := loop.offer(data, partition_key, explicit_hash_key, future)) is not None:
            await _until_set_once(room)
        return future

    async def flush(self) -> None:
        """See sublet.Producer.flush. A task that is cancelled stops waiting; the records are still sent."""
        if (loop := self._lazy_loop.loop_if_used()) is not None:
            await _until_set(loop.flush())
            raise_failure(loop)

    async def close(self) -> None:
        """See sublet.Producer.close."""
        if (loop := self._lazy_loop.loop_to_close()) is not None:
            await _until_set(loop.close())
            self._lazy_loop.closed()
            raise_failure(loop)

    async def __aenter__(self) -> Self:
        await self._begun()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close the producer. If an exception ended the block, that is the one raised, and not an error of the
        close.
        """
        if kind is None:
            await self.close()
        elif (loop := self._lazy_loop.loop_to_close()) is not None:
            await _until_set(loop.close())
            self._lazy_loop.closed()

    async def _begun(self) -> PuttingLoop:
        return await in_thread(self._lazy_loop.loop, _tell)


def _tell(settled: Sequence[SettledRecords]) -> None:
    """Settle the futures of each event loop in one step there. The functions that end a flush are called after it."""
    futures = (record.ticket for some in settled for record in some.user_records)
    for event_loop in {future.get_loop() for future in futures}:  # type: ignore[attr-defined]
        with suppress(RuntimeError):  # the loop is closed, and no task waits
            event_loop.call_soon_threadsafe(_resolve, settled, event_loop)


def _resolve(settled: Sequence[SettledRecords], event_loop: asyncio.AbstractEventLoop) -> None:
    for some in settled:
        for record in some.user_records:
            future: asyncio.Future[PutRecord] = record.ticket  # type: ignore[assignment]
            if future.done() or future.get_loop() is not event_loop:
                continue  # cancelled, or another loop's
            if isinstance(some.outcome, PutRecord):
                future.set_result(some.outcome)
            else:
                future.set_exception(some.outcome)
                future.exception()  # a flush raises it too, so Python need not warn if the future is never awaited


async def _until_set_once(signal: Signal) -> None:
    waiter = LoopWaiter()
    take_back = signal.on_set(waiter.set)
    try:
        if not signal.is_set():
            await waiter.wait(WAITED_AT_ONCE)
    finally:
        take_back()


async def _until_set(signal: Signal) -> None:
    """Returns a turn later at the earliest: the futures of what was reported before the signal was set are settled in
    it.
    """
    while not signal.is_set():
        await _until_set_once(signal)
    await asyncio.sleep(0)
