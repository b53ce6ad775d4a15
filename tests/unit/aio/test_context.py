"""A context on an event loop: each of its operations, over memory."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from sublet import SettingsInConflict
from sublet.aio import Context
from sublet.errors import LeaseTableNotFound, StreamNotFound
from sublet.testing.memory import MemoryAccount

MINUTE = timedelta(minutes=1)


def test_streams_and_consumers() -> None:
    async def main() -> None:
        context = Context(MemoryAccount())
        orders = await context.create_stream("orders", shards=1)
        assert await context.streams() == ["orders"]
        assert (await (await context.update_stream("orders", shards=2)).info()).open_shards == 2
        assert (await context.account_info()).open_shards == 2
        put = await orders.put("key", b"first")
        assert [one.data for one in await orders.get(put.shard_id, put.sequence_number)] == [b"first"]

        async with await orders.create_consumer("audit", ack_wait=MINUTE) as consumer:
            record = await consumer.next()
            assert record is not None
            assert await record.ack()
        with pytest.raises(SettingsInConflict):
            await context.consumer("orders", "audit", ack_wait=2 * MINUTE).next()
        await orders.update_consumer("audit", ack_wait=2 * MINUTE)
        await orders.create_or_update_consumer("view")
        assert await orders.consumers() == ["audit", "view"]
        await orders.delete_consumer("view")
        await consumer.delete()
        with pytest.raises(LeaseTableNotFound):
            await consumer.update()
        await context.delete_stream("orders")
        with pytest.raises(StreamNotFound):
            await context.stream("orders")

    asyncio.run(asyncio.wait_for(main(), 30))
