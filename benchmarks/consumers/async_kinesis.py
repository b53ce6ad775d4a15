"""async-kinesis, with its checkpoints in memory. It reads a shard once a second by default."""

from __future__ import annotations

import asyncio
import os

from kinesis import Consumer
from kinesis.aggregators import KPLAggregator, SimpleAggregator
from kinesis.processors import Processor

from benchmarks.consumers.tally import POLL_INTERVAL_MILLIS, POLL_LIMIT, Order, Tally


class Bytes:
    """Leaves bytes as they are. The library's own serializers make text and JSON."""

    def serialize(self, data: bytes) -> tuple[bytes, int]:
        return data, len(data)

    def deserialize(self, data: bytes) -> bytes:
        return data


class Plain(Processor, SimpleAggregator, Bytes):
    """Composed as async-kinesis prescribes."""


class Aggregated(Processor, KPLAggregator, Bytes):
    """The same, for KPL aggregates."""


async def main(order: Order) -> None:
    tally = Tally(order.expected)
    async with Consumer(
        order.stream,
        endpoint_url=os.environ["AWS_ENDPOINT_URL_KINESIS"],
        region_name=os.environ["AWS_REGION"],
        record_limit=POLL_LIMIT,
        shard_fetch_rate=1_000 // POLL_INTERVAL_MILLIS,
        processor=Aggregated() if order.stream == "aggregated" else Plain(),
    ) as consumer:
        async for _ in consumer:
            tally.add_one()


if __name__ == "__main__":
    asyncio.run(main(Order.from_command_line()))
