"""A class that many users write: batches of records, done when `process_batch` returns."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from sublet.aio import Consumer, Record


class BatchConsumer(Protocol):
    """If `process_batch` raises, so does `run`, and the batch comes again on the next run."""

    @abstractmethod
    async def process_batch(self, batch: list[Record]) -> None: ...

    async def run(self, consumer: Consumer) -> None:
        async with consumer:
            while not consumer.stopped:
                batch = [record async for record in consumer.fetch(100, expires=5)]
                await self.process_batch(batch)
                for record in batch:
                    await record.ack()
