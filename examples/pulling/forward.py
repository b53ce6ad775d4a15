"""Posts each record to a URL, twenty requests at once, with aiohttp; a record is acknowledged when its request is
answered.

Records finish in the order of the answers; if each key's order matters: `consumer.consume(post, auto_ack=True,
partition_by_key=20)`.
"""

from __future__ import annotations

import asyncio

from aiohttp import ClientError, ClientSession
from sublet.aio import Consumer, Record

AT_ONCE = 20


async def forward(consumer: Consumer, url: str) -> None:
    """Runs until it is stopped, and then awaits the current requests. If it is cancelled instead, unanswered records
    come again."""

    async def post(record: Record) -> None:
        try:
            async with session.post(url, data=record.data) as answer:
                answer.raise_for_status()
        except ClientError:
            await record.nak(delay=5)
        else:
            await record.ack()
        finally:
            free.release()

    free = asyncio.Semaphore(AT_ONCE)
    async with ClientSession() as session, consumer, asyncio.TaskGroup() as requests:
        async for record in consumer.messages():
            await free.acquire()
            requests.create_task(post(record))


if __name__ == "__main__":
    asyncio.run(forward(Consumer("orders-forward", "orders", until_signalled=True), "http://127.0.0.1:8080/orders"))
