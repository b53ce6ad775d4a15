"""The class that many write for themselves: batches of records, done when `process_batch` returns."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from sublet.aio import Consumer, Record


class BatchConsumer(Protocol):
    """Where `process_batch` raises, `run` does, and the batch comes again to whoever runs next."""

    @abstractmethod
    async def process_batch(self, batch: list[Record]) -> None: ...

    async def run(self, consumer: Consumer) -> None:
        async with consumer:
            while not consumer.stopped:
                batch = [record async for record in consumer.fetch(100, expires=5)]
                await self.process_batch(batch)
                for record in batch:
                    await record.ack()
