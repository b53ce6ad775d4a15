"""Many slow requests at once, such as aiohttp's, each record acknowledged when its own is answered.

The order is that of the answers; where each key's matters: `consumer.consume(send, auto_ack=True, partition_by_key=20)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sublet.aio import Consumer, Record

AT_ONCE = 20


async def forward(consumer: Consumer, send: Callable[[bytes], Awaitable[object]]) -> None:
    """Until it is cancelled: then what is not answered comes again, here or elsewhere."""

    async def forward_one(record: Record) -> None:
        try:
            await send(record.data)
        except OSError:
            await record.nak(delay=5)
        else:
            await record.ack()
        finally:
            free.release()

    free = asyncio.Semaphore(AT_ONCE)
    async with consumer, asyncio.TaskGroup() as requests:
        async for record in consumer.messages():
            await free.acquire()
            requests.create_task(forward_one(record))
