"""The pull API for asyncio: the names of `sublet`, with `await`.

    async with Consumer("orders-audit", "orders") as consumer:
        async for record in consumer.messages():
            await record.ack()

The engine goes on in threads; a record is taken on the loop, in one step without an await, so that cancellation anywhere leaves
nothing taken that its caller does not have.
"""

from sublet.aio.consumer import Consumer
from sublet.aio.consuming import Consuming
from sublet.aio.context import Context, connect
from sublet.aio.record import Record
from sublet.aio.records import Records
from sublet.aio.stream import Stream

__all__ = ["Consumer", "Consuming", "Context", "Record", "Records", "Stream", "connect"]
