"""Requests whose browser does not wait any more: what reads Kinesis for one stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from sublet.ports import Signal
from sublet.system.threads import ThreadTasks


def noticing_leaves(show: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that calls `show` in a thread. `left` of the request is set if the connection is closed meanwhile."""

    async def endpoint(request: Request) -> Response:
        request.state.left = left = ThreadTasks().signal()

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            left.set()

        watching = asyncio.create_task(watch())  # no task group: it would wrap what `show` raises
        try:
            return await run_in_threadpool(show, request)
        finally:
            watching.cancel()

    return endpoint


def left(request: Request) -> Signal:
    """Set once nobody waits for the request's answer."""
    found: Signal = request.state.left
    return found
