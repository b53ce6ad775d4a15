"""Bridges an event loop and threads: makes blocking calls outside the loop, and lets a task on the loop wait for a
thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from typing import ParamSpec, TypeVar

from sublet.system.threads import ThreadTasks

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = ThreadTasks()
"""Our own pool, because the program may keep the loop's executor busy."""


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns what the call returns. A cancelled caller continues at once, while the call runs to its end."""
    return await _begin(partial(call, *args, **kwargs))


async def to_its_end(call: Callable[[], T]) -> T:
    """Like `in_thread`, but a cancelled caller continues only when the call has ended, however often it is
    cancelled.
    """
    call_ends = _begin(call)
    cancelled: asyncio.CancelledError | None = None
    while not call_ends.done():
        try:
            await asyncio.wait([call_ends])
        except asyncio.CancelledError as why:
            cancelled = why
    if cancelled is not None:
        raise cancelled from call_ends.exception()
    return call_ends.result()


def _begin(call: Callable[[], T]) -> asyncio.Future[T]:
    """Start the call. Cancelling the future does not cancel it; asyncio.to_thread would drop a call that no thread has
    begun.
    """
    ended: Future[T] = Future()
    ended.set_running_or_notify_cancel()

    def run() -> None:
        try:
            ended.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - raised in the caller
            ended.set_exception(failure)

    _THREADS.spawn(partial(copy_context().run, run))
    return asyncio.wrap_future(ended)


class LoopWaiter:
    """A signal that any thread can set, once. A task waits for it on the event loop that created it."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: timedelta) -> None:  # noqa: ASYNC109 - the timeout is no error
        """Returns when the signal is set, or after the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout.total_seconds()):
                await self._event.wait()
