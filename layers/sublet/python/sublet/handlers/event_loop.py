"""Runs coroutines of handlers on one event loop of the process, in a thread of its own.

A client that a coroutine opens belongs to its loop and outlives the batch, so all calls share one loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import NamedTuple

from sublet.call_turn import TURN, CallTurn
from sublet.errors import HandlerOverdue

TURNS_WITHIN = 0.5
"""A loop that has run no callback for this many seconds counts as blocked by the code that it runs."""


class _AwaitableOutcome(NamedTuple):
    """How an awaitable ended. As a value: CancelledError, SystemExit and KeyboardInterrupt would end more than the one
    call.
    """

    value: object = None
    failure: BaseException | None = None


class EventLoop:
    """A loop that runs from the first coroutine until the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards `_loop` and `_process`. Only the loop's own thread changes `_calls`."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = os.getpid()
        self._calls: set[asyncio.Task[_AwaitableOutcome]] = set()
        """The calls that have begun and not ended."""

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Wait for it in the caller's thread, which must not be the loop's. Returns its value, or raises its
        exception.
        """
        loop, turn = self._started(), TURN.get() or CallTurn()
        mine: list[asyncio.Task[_AwaitableOutcome]] = []
        turn.wait(partial(self._is_blocked_by_another, loop, mine))
        ended = asyncio.run_coroutine_threadsafe(self._ended(awaitable, turn, mine), loop).result()
        if ended.failure is not None:
            raise ended.failure
        return ended.value

    async def _ended(
        self, awaitable: Awaitable[object], turn: CallTurn, mine: list[asyncio.Task[_AwaitableOutcome]]
    ) -> _AwaitableOutcome:
        if not turn.begin():
            if isinstance(awaitable, Coroutine):
                awaitable.close()  # or Python warns that it was never awaited
            return _AwaitableOutcome(failure=HandlerOverdue("it was abandoned before the event loop started it"))
        if (task := asyncio.current_task()) is not None:
            mine.append(task)
        self._calls.update(mine)
        try:
            return _AwaitableOutcome(await awaitable)
        except BaseException as failure:  # noqa: BLE001 - the caller gets it, whatever it is
            return _AwaitableOutcome(failure=failure)
        finally:
            self._calls.difference_update(mine)

    def _is_blocked_by_another(
        self, loop: asyncio.AbstractEventLoop, mine: list[asyncio.Task[_AwaitableOutcome]]
    ) -> bool:
        """Whether another call's own task blocks the loop. A task that a call started cannot be traced to its call."""
        has_turned = threading.Event()
        loop.call_soon_threadsafe(has_turned.set)
        if has_turned.wait(TURNS_WITHIN):
            return False
        runs = asyncio.current_task(loop)
        return runs not in mine and runs in self._calls

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():  # after a fork the thread is the parent's
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                threading.Thread(
                    target=_run_for_ever, args=(self._loop,), daemon=True, name="sublet-event-loop"
                ).start()
            return self._loop


LOOP = EventLoop()
"""The only event loop of the process for handlers."""


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    """Restarts the loop after SystemExit in a task, or after a task has stopped it: otherwise all other calls would
    wait for ever.
    """
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # the code that awaits the task gets it too
            continue
