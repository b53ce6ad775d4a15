"""Calls that block, beside an event loop: in threads of sublet's own, since the program's may keep the loop's executor busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from sublet.system.threads import ThreadTasks

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = ThreadTasks()


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the call returns. It runs to its end even if the caller is cancelled, who goes on at once."""
    return await _begin(partial(call, *args, **kwargs))


async def to_its_end(call: Callable[[], T]) -> T:
    """As `in_thread`, but a caller that is cancelled, however often, goes on only when the call has ended."""
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
    """Whoever cancels this future does not cancel the call: asyncio.to_thread would drop one that no thread has begun yet."""
    ended: Future[T] = Future()
    ended.set_running_or_notify_cancel()

    def run() -> None:
        try:
            ended.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - it belongs to the caller
            ended.set_exception(failure)

    _THREADS.spawn(partial(copy_context().run, run))
    return asyncio.wrap_future(ended)
