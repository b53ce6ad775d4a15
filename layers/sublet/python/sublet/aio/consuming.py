"""A coroutine function awaited with each record, in tasks of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sublet.aio.record import Record
from sublet.aio.records import Records
from sublet.consumer.consuming import WAITS_FOR_ITSELF, come_again
from sublet.errors import SettingsError, SubletError
from sublet.handlers.contract import check_ran, is_async, misfit
from sublet.protocol.finished_ahead import lane_of
from sublet.settings import Settings

Callback = Callable[[Record], Awaitable[object]]


def check_callback(callback: object) -> None:
    """Raises SettingsError for one that cannot be awaited: it would be called, and called again."""
    problem = misfit(callback, ("record",))
    if problem is None and callable(callback) and not is_async(callback):
        problem = "is not async: make it `async def`, or use sublet.Consumer"
    if problem is not None:
        raise SettingsError("callback", callback, f"it {problem}")


class Consuming:
    """As `sublet.consumer.consuming.Consuming`. Made on a running loop, whose task it is."""

    def __init__(
        self,
        records: Records,
        callback: Callback,
        *,
        settings: Settings,
        auto_ack: bool,
        lanes: int,
        bound: int,
    ) -> None:
        self._records = records
        self._callback = callback
        self._settings = settings
        self._auto_ack = auto_ack
        self._is_stopped = False
        self._queues: list[asyncio.Queue[Record | None]] = [asyncio.Queue() for _ in range(lanes)]
        self._room = asyncio.Semaphore(bound)
        self._lanes: list[asyncio.Task[None]] = []
        self._running = asyncio.create_task(self._run())

    @property
    def closed(self) -> bool:
        """Whether it is over: the last call has returned, and outside of `async with consumer:` the leases are released."""
        return self._running.done()

    def stop(self) -> None:
        """At once: no call begins any more, and what is buffered goes back. On the loop; from the callback too."""
        self._is_stopped = True
        self._records.stop()

    def drain(self) -> None:
        """Nothing new comes: the callback is awaited with what is buffered, then it is over."""
        self._records.drain()

    def cancel(self) -> None:
        """Cancel the calls that are under way, too. On the loop."""
        self.stop()
        self._running.cancel()

    async def wait(self) -> None:
        """Until it is over. Raises what has ended it; in the callback RuntimeError. To cancel the waiting leaves it going on."""
        if asyncio.current_task() in self._lanes:
            raise RuntimeError(WAITS_FOR_ITSELF)
        await asyncio.shield(self._running)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as lanes:
                self._lanes += [lanes.create_task(self._lane(queue)) for queue in self._queues]
                fault = await self._hand_out()
            if fault is not None:
                raise fault
        finally:
            await self._records.aclose()

    async def _hand_out(self) -> SubletError | None:
        """To the lanes, which end what they have then. What has ended the consumer, if anything."""
        try:
            async for record in self._records:
                await self._room.acquire()
                self._queues[lane_of(record.user_record.order_key, len(self._queues))].put_nowait(record)
        except SubletError as fault:
            return fault
        finally:
            for queue in self._queues:
                queue.put_nowait(None)
        return None

    async def _lane(self, queue: asyncio.Queue[Record | None]) -> None:
        while (record := await queue.get()) is not None:
            self._room.release()
            # It is void if an earlier one of its key failed while it waited here.
            if await record.in_progress():
                await self._call(record)

    async def _call(self, record: Record) -> None:
        membership, caller = self._records.membership, asyncio.current_task()
        if self._is_stopped or not membership.begin_call(caller):
            await record.nak()
            return
        try:
            returned = await self._callback(record)
            if self._auto_ack:
                check_ran(returned)
        except (Exception, BaseExceptionGroup, SystemExit, asyncio.CancelledError) as failure:
            if isinstance(failure, asyncio.CancelledError) and _is_cancelled():
                raise
            come_again(record.plain, failure, self._settings, membership)
        else:
            if self._auto_ack:
                await record.ack()
        finally:
            membership.end_call(caller)


def _is_cancelled() -> bool:
    """Whether this task is; else something that the callback awaited was."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
