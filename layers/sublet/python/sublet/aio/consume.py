"""`Consumer.consume` for asyncio: awaits a coroutine function with each record, in its own tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sublet.aio.record import Record
from sublet.aio.subscription import Records
from sublet.errors import SettingsError, SubletError
from sublet.handlers.contract import is_async, misfit
from sublet.protocol.finished_ahead import lane_of
from sublet.pull.consume import WAITS_FOR_ITSELF, CallbackCalls

Callback = Callable[[Record], Awaitable[object]]


def check_callback(callback: object) -> None:
    """Raises SettingsError for a callback that cannot be awaited, because each call would fail."""
    problem = misfit(callback, ("record",))
    if problem is None and callable(callback) and not is_async(callback):
        problem = "is not async: make it `async def`, or use sublet.Consumer"
    if problem is not None:
        raise SettingsError("callback", callback, f"it {problem}")


class Consuming:
    """Does what `sublet.pull.consume.Consuming` does, as a task on the event loop that was running when it was
    created.
    """

    def __init__(
        self,
        records: Records,
        callback: Callback,
        *,
        auto_ack: bool,
        lanes: int,
        bound: int,
    ) -> None:
        self._records = records
        self._callback = callback
        self._calls = CallbackCalls(records.session, auto_ack=auto_ack)
        self._queues: list[asyncio.Queue[Record | None]] = [asyncio.Queue() for _ in range(lanes)]
        self._room = asyncio.Semaphore(bound)
        self._lanes: list[asyncio.Task[None]] = []
        self._running = asyncio.create_task(self._run())

    @property
    def closed(self) -> bool:
        """True once the last call has returned and, outside of `async with consumer:`, the leases are released."""
        return self._running.done()

    def stop(self) -> None:
        """Start no further call, and put buffered records back. Call this on the event loop; the callback may call it
        too.
        """
        self._calls.is_stopped = True
        self._records.stop()

    def drain(self) -> None:
        """Read no new records, and end when the callback has been awaited with the buffered ones."""
        self._records.drain()

    def cancel(self) -> None:
        """Stop, and cancel the calls in progress. Call this on the event loop."""
        self.stop()
        self._running.cancel()

    async def wait(self) -> None:
        """Wait until `closed` is true. Raises the error that ended the consume, or RuntimeError if the callback calls
        this. Cancelling the wait cancels nothing else.
        """
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
        """Give records to the lanes until there are no more, then let the lanes finish theirs. Returns the error that
        ended the consumer, if there was one.
        """
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
            # False if an earlier record of the same key has failed meanwhile: it makes this one void.
            if await record.in_progress():
                await self._call(record)

    async def _call(self, record: Record) -> None:
        plain, caller = record.plain, asyncio.current_task()
        if not self._calls.begin(plain, caller):
            return
        try:
            self._calls.check(await self._callback(record))
        except (Exception, BaseExceptionGroup, SystemExit, asyncio.CancelledError) as failure:
            if isinstance(failure, asyncio.CancelledError) and _is_cancelled():
                raise
            self._calls.fail(plain, failure)
        else:
            self._calls.succeed(plain)
        finally:
            self._calls.end(caller)


def _is_cancelled() -> bool:
    """True if this task was cancelled, rather than something that the callback awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
