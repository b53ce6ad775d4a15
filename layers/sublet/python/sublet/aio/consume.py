"""`Consumer.consume`: a coroutine function awaited with each record, in tasks of its own."""

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
    """Raises SettingsError for a callback that cannot be awaited: each call would fail."""
    problem = misfit(callback, ("record",))
    if problem is None and callable(callback) and not is_async(callback):
        problem = "is not async: make it `async def`, or use sublet.Consumer"
    if problem is not None:
        raise SettingsError("callback", callback, f"it {problem}")


class Consuming:
    """Does what `sublet.pull.consume.Consuming` does, as a task of the loop that runs when it is made."""

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
        """Whether it is over: the last call has returned, and outside of `async with consumer:` the leases are released."""
        return self._running.done()

    def stop(self) -> None:
        """End at once: no further call begins, and what is buffered goes back. Call it on the loop; the callback may, too."""
        self._calls.is_stopped = True
        self._records.stop()

    def drain(self) -> None:
        """End after what is buffered: nothing new comes, and the callback is still awaited with that."""
        self._records.drain()

    def cancel(self) -> None:
        """Stop, and cancel the calls in progress. On the loop."""
        self.stop()
        self._running.cancel()

    async def wait(self) -> None:
        """Wait until it is over. Raises what has ended it; in the callback RuntimeError. Cancelling it ends nothing else."""
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
        """Give records to the lanes until they end; the lanes then finish what they have. Returns what ended the consumer, if it
        was an error.
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
            # False if an earlier record of its key failed meanwhile: this one is void.
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
    """Whether this task was cancelled, and not something that the callback awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
