"""Coroutines of handlers: on one event loop of the process, in a thread of its own.

A client that a coroutine opens belongs to the loop that it was opened on, and outlives its batch: all calls share one loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import NamedTuple

from sublet.call_turn import TURN, Turn
from sublet.errors import HandlerOverdue

TURNS_WITHIN = 0.5
"""Seconds: a loop that has not come round in that time is blocked by what runs in it."""


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
        self._calls: set[asyncio.Task[_Ended]] = set()
        """Those that have begun and not ended."""

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Wait for it in the caller's thread, which must not be the loop's; its value, or the exception that it raised."""
        loop, turn = self._started(), TURN.get() or Turn()
        mine: list[asyncio.Task[_Ended]] = []
        turn.wait(partial(self._is_blocked_by_another, loop, mine))
        ended = asyncio.run_coroutine_threadsafe(self._ended(awaitable, turn, mine), loop).result()
        if ended.failure is not None:
            raise ended.failure
        return ended.value

    async def _ended(
        self, awaitable: Awaitable[object], turn: Turn, mine: list[asyncio.Task[_Ended]]
    ) -> _Ended:
        if not turn.begin():
            if isinstance(awaitable, Coroutine):
                awaitable.close()  # or Python warns that it was never awaited
            return _Ended(failure=HandlerOverdue("it was given up before the event loop came to it"))
        if (task := asyncio.current_task()) is not None:
            mine.append(task)
        self._calls.update(mine)
        try:
            return _Ended(await awaitable)
        except BaseException as failure:  # noqa: BLE001 - whatever it is, it is its caller's
            return _Ended(failure=failure)
        finally:
            self._calls.difference_update(mine)

    def _is_blocked_by_another(
        self, loop: asyncio.AbstractEventLoop, mine: list[asyncio.Task[_Ended]]
    ) -> bool:
        """Whether another call's own task keeps the loop from coming round. Which call one that it has started belongs to is not
        known."""
        has_turned = threading.Event()
        loop.call_soon_threadsafe(has_turned.set)
        if has_turned.wait(TURNS_WITHIN):
            return False
        runs = asyncio.current_task(loop)
        return runs not in mine and runs in self._calls

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


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    """A task beside the call that raises SystemExit, or one that stops the loop, would leave all others waiting for ever."""
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # the task's own awaiters have been told
            continue
