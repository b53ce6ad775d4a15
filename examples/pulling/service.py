"""A web service that consumes a stream while it serves requests, with FastAPI's lifespan.

uvicorn --factory service:create
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from sublet.aio import Consumer, Record


def create() -> FastAPI:
    return app_of(Consumer("orders-view", "orders"))


def app_of(consumer: Consumer) -> FastAPI:
    """The latest record of each key, at `/orders/<key>`. On shutdown, buffered records are handled and checkpointed."""
    latest: dict[str | None, str] = {}

    async def keep(record: Record) -> None:
        latest[record.partition_key] = record.data.decode()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        consuming = await consumer.consume(keep, auto_ack=True)
        try:
            yield
        finally:
            consuming.drain()
            await consuming.wait()

    app = FastAPI(lifespan=lifespan)

    @app.get("/orders/{key}")
    async def order(key: str) -> str:
        if key not in latest:
            raise HTTPException(404)
        return latest[key]

    return app
