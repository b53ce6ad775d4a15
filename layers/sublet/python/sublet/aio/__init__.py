"""The pull API for asyncio: the names of `sublet`, with `await`.

    async with Consumer("orders-audit", "orders") as consumer:
        async for record in consumer.messages():
            await record.ack()

The engine runs in threads. The loop takes a record in one step, without an await, so a cancelled task never loses a
record.
"""

from typing import TYPE_CHECKING

from sublet.aio.consume import Consuming
from sublet.aio.consumer import Consumer
from sublet.aio.record import Record
from sublet.aio.streams import Context, Stream, connect
from sublet.aio.subscription import Records

if TYPE_CHECKING:
    from sublet.aio.producer import Producer
else:

    def __getattr__(name: str) -> object:
        """Loads the producer at its first use: a consumer starts without it (PEP 562)."""
        if name != "Producer":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from sublet.aio.producer import Producer  # noqa: PLC0415 - would add to every start

        globals()[name] = Producer
        return Producer


__all__ = ["Consumer", "Consuming", "Context", "Producer", "Record", "Records", "Stream", "connect"]
