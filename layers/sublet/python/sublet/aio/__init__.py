"""The pull API for asyncio: the names of `sublet`, with `await`.

    async with Consumer("orders-audit", "orders") as consumer:
        async for record in consumer.messages():
            await record.ack()

The engine runs in threads. A record is taken on the loop, in one step without an await, so a task that is cancelled never loses a
record.
"""

from sublet.aio.consume import Consuming
from sublet.aio.consumer import Consumer
from sublet.aio.producer import Producer
from sublet.aio.record import Record
from sublet.aio.streams import Context, Stream, connect
from sublet.aio.subscription import Records

__all__ = ["Consumer", "Consuming", "Context", "Producer", "Record", "Records", "Stream", "connect"]
