"""A web service that consumes a stream beside its requests, for as long as it lives: the `lifespan` of FastAPI or Starlette.

app = FastAPI(lifespan=lambda app: lifespan(Consumer("orders-view", "orders"), seen))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager

from sublet.aio import Consumer, Record


@asynccontextmanager
async def lifespan(consumer: Consumer, seen: MutableMapping[str, bytes]) -> AsyncIterator[None]:
    """The latest record of each key is in `seen`. At the end what is buffered is handled and checkpointed."""

    async def keep(record: Record) -> None:
        seen[record.partition_key] = record.data

    consuming = await consumer.consume(keep, auto_ack=True)
    try:
        yield
    finally:
        consuming.drain()
        await consuming.wait()
