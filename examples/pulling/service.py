"""A web service that consumes a stream while it serves requests, with FastAPI's lifespan.

Once: python -c 'import sublet; sublet.Consumer("orders-view", "orders").create()'
Then: uvicorn --factory service:create

At least once: a record is done when `keep` has returned. On SIGTERM uvicorn first answers its requests; then buffered
records are handled, checkpointed, and every lease is released, so that another instance goes on at once. Give the
container more time to stop than a record takes (Kubernetes' terminationGracePeriodSeconds, ECS' stopTimeout).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from sublet.aio import Consumer, Consuming, Record


def create() -> FastAPI:
    return app_of(Consumer("orders-view", "orders"))


def app_of(consumer: Consumer) -> FastAPI:
    """The latest record of each key, at `/orders/<key>`."""
    latest: dict[str | None, str] = {}
    consuming: Consuming | None = None

    async def keep(record: Record) -> None:
        latest[record.partition_key] = record.data.decode()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        nonlocal consuming
        async with consumer:
            consuming = await consumer.consume(keep, auto_ack=True)
            try:
                yield
            finally:
                consuming.drain()
                await consuming.wait()  # raises what ended it, such as a stream that was deleted

    app = FastAPI(lifespan=lifespan)

    @app.get("/ready")
    async def ready() -> str:
        """For a readiness probe, and a liveness probe: a consume that has ended does not begin again by itself."""
        if consuming is None or consuming.closed:
            raise HTTPException(503, "the stream is not consumed")
        return "ready"

    @app.get("/orders/{key}")
    async def order(key: str) -> str:
        if key not in latest:
            raise HTTPException(404)
        return latest[key]

    return app
