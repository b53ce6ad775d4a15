"""Coroutines of handlers: on one event loop of the process, in a thread of its own.

A client that a coroutine opens belongs to the loop that it was opened on, and outlives its batch: all calls share one loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable
from typing import NamedTuple


class _Ended(NamedTuple):
    """How an awaitable ended. As a value: CancelledError, SystemExit and KeyboardInterrupt would end more than the one call."""

    value: object = None
    failure: BaseException | None = None


class EventLoop:
    """A loop that runs for as long as the process does, from the first coroutine on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Wait for it in the caller's thread, which must not be the loop's; its value, or the exception that it raised."""
        ended = asyncio.run_coroutine_threadsafe(_ended(awaitable), self._started()).result()
        if ended.failure is not None:
            raise ended.failure
        return ended.value

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():  # forked: the thread is the parent's
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                threading.Thread(
                    target=_run_for_ever, args=(self._loop,), daemon=True, name="sublet-event-loop"
                ).start()
            return self._loop


LOOP = EventLoop()
"""The process' one."""


async def _ended(awaitable: Awaitable[object]) -> _Ended:
    try:
        return _Ended(await awaitable)
    except BaseException as failure:  # noqa: BLE001 - whatever it is, it is its caller's
        return _Ended(failure=failure)


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    """A task beside the call that raises SystemExit, or one that stops the loop, would leave all others waiting for ever."""
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # the task's own awaiters have been told
            continue
