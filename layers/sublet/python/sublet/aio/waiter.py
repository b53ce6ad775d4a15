"""How an event loop is told of what happens in threads."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta


class LoopWaiter:
    """Set once, from any thread; waited for by a task of the loop that it was made on."""

    __slots__ = ("_event", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits on it
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: timedelta) -> None:  # noqa: ASYNC109 - it is no error that it passes
        """Until it is set, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout.total_seconds()):
                await self._event.wait()
