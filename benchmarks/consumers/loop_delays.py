"""Pulls from sublet on an event loop, beside a task that records how late its timer is. `LOOP=uvloop`: on that loop.
`BESIDE=nothing`: the timer alone. `POLL_BYTES=0`: pages as large as Kinesis returns.

If the system allows it, this process has priority over all others, and the loop's thread over its other threads, so
that delays come from this process and not from the rest of the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import suppress
from typing import Any

import uvloop
from sublet.aio import Consumer

from benchmarks.consumers.tally import Order

EACH = 0.002
"""Seconds between two looks at the clock."""

LASTS = 8.0
"""Seconds that the timer runs alone."""


def come_first(priority: int) -> None:
    """Use real-time scheduling for this thread and those that it starts from now on (Linux, with the permission for
    it)."""
    if hasattr(os, "sched_setscheduler"):
        with suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


async def delays(found: list[float]) -> None:
    while True:
        due = time.perf_counter() + EACH
        await asyncio.sleep(EACH)
        found.append(time.perf_counter() - due)


async def main(order: Order) -> None:
    found: list[float] = []
    if os.environ.get("BESIDE") == "nothing":
        timing = asyncio.create_task(delays(found))
        await asyncio.sleep(LASTS)
    else:
        settings: dict[str, Any] = {"poll_bytes": None} if os.environ.get("POLL_BYTES") == "0" else {}
        async with Consumer(order.application, order.stream, **settings) as consumer:
            messages = consumer.messages(auto_ack=True)
            await anext(messages)
            come_first(2)
            timing = asyncio.create_task(delays(found))
            for _ in range(order.expected):
                await anext(messages)
    timing.cancel()
    print(json.dumps(sorted(found)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    come_first(1)
    loop_factory = uvloop.new_event_loop if os.environ.get("LOOP") == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main(Order.from_command_line()))
