"""Gives a JetStream consumer and a sublet consumer the same few calls, and records what each returned, acknowledged and
ended with, as events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

import nats
from nats.js.api import AckPolicy, ConsumerConfig
from sublet import LeaseTableError
from sublet.aio import Context
from sublet.testing.memory import MemoryAccount

from infra.local.embedded import HOST

NANOSECONDS = 10**9
DELETED = "consumer deleted"


class Fetched(NamedTuple):
    """`ended`: at its count, at its expiry, or with a fault."""

    records: list[Any]
    ended: str


class Pulled(Protocol):
    """A record has `data`, and `ack`, `nak(delay)`, `in_progress` and `term`, awaited."""

    async def put(self, key: str, *data: str) -> None: ...

    async def fetch(self, count: int | None = None, expires: float = 1, max_bytes: int | None = None) -> Fetched: ...

    async def delete(self) -> None: ...


class OnJetStream:
    """By pull requests as ADR-37 has them: nats.py's own `fetch` asks the server once without waiting, and may end with
    less.
    """

    def __init__(self, client: Any, stream: str) -> None:
        self._client = client
        self._stream = stream

    async def put(self, key: str, *data: str) -> None:
        for one in data:
            await self._client.jetstream().publish(f"{self._stream}.{key}", one.encode())

    async def fetch(self, count: int | None = None, expires: float = 1, max_bytes: int | None = None) -> Fetched:
        inbox = self._client.new_inbox()
        replies = await self._client.subscribe(inbox)
        request = {
            "batch": count or 1_000_000,
            "expires": int(expires * NANOSECONDS),
            "max_bytes": max_bytes or 0,
        }
        to = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.audit"
        await self._client.publish(to, json.dumps(request).encode(), reply=inbox)
        records: list[Any] = []
        while count is None or len(records) < count:
            reply = await replies.next_msg(timeout=expires + 10)
            if (reply.headers or {}).get("Status") is None:
                records.append(reply)
            else:
                ended = (reply.headers or {}).get("Description", "").lower()
                return Fetched(records, DELETED if DELETED in ended else _ended(ended))
        return Fetched(records, "count")

    async def delete(self) -> None:
        await self._client.jetstream().delete_consumer(self._stream, "audit")


def _ended(description: str) -> str:
    return "bytes" if "maxbytes" in description or "batch completed" in description else "expiry"


class OnSublet:
    """Over memory, with the engine's real threads and the machine's clock. A quiet shard is polled often: what is put
    between two polls would come too late for a fetch of a second.
    """

    def __init__(self, stream: Any, consumer: Any) -> None:
        self._stream = stream
        self._consumer = consumer

    async def put(self, key: str, *data: str) -> None:
        for one in data:
            await self._stream.put(key, one.encode())

    async def fetch(self, count: int | None = None, expires: float = 1, max_bytes: int | None = None) -> Fetched:
        records: list[Any] = []
        since = asyncio.get_running_loop().time()
        try:
            async for record in self._consumer.fetch(count, max_bytes, expires=expires):
                records.append(record)  # noqa: PERF401 - what came before a fault counts too
        except LeaseTableError:
            return Fetched(records, DELETED)
        is_early = asyncio.get_running_loop().time() - since < expires
        return Fetched(records, "count" if len(records) == count else "bytes" if is_early else "expiry")

    async def delete(self) -> None:
        await self._stream.delete_consumer("audit")


@asynccontextmanager
async def on_jetstream(port: int, ack_wait: float, max_ack_pending: int) -> AsyncIterator[Pulled]:
    client = await nats.connect(f"nats://{HOST}:{port}")
    try:
        jetstream = client.jetstream()
        await jetstream.add_stream(name="orders", subjects=["orders.*"])
        config = ConsumerConfig(
            "audit", ack_policy=AckPolicy.EXPLICIT, ack_wait=ack_wait, max_ack_pending=max_ack_pending
        )
        await jetstream.add_consumer("orders", config)
        yield OnJetStream(client, "orders")
        await jetstream.delete_stream("orders")
    finally:
        await client.close()


@asynccontextmanager
async def on_sublet(ack_wait: float, max_ack_pending: int) -> AsyncIterator[Pulled]:
    stream = await Context(MemoryAccount()).create_stream("orders", shards=1)
    consumer = await stream.create_consumer(
        "audit",
        ack_wait=timedelta(seconds=ack_wait),
        max_ack_pending=max_ack_pending,
        on_failure="arn:aws:sqs:us-east-1:000000000000:set-aside",
        failover_time=timedelta(seconds=3),
        heartbeat_interval=timedelta(seconds=1),
        idle_poll_interval=timedelta(milliseconds=200),
    )
    async with consumer:
        yield OnSublet(stream, consumer)
