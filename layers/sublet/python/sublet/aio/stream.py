"""A stream in hand, on an event loop."""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from sublet.account import Account
from sublet.aio.consumer import Consumer
from sublet.consumer.stream import Stream as PlainStream
from sublet.protocol.records import UserRecord
from sublet.protocol.stream_info import PutRecord, StreamInfo


class Stream:
    """As `sublet.Stream`; what asks AWS does so in a thread."""

    def __init__(self, account: Account, name: str) -> None:
        self._account = account
        self._plain = PlainStream(account, name)

    @property
    def name(self) -> str:
        return self._plain.name

    async def info(self) -> StreamInfo:
        """See sublet.Stream.info."""
        return await to_thread(self._plain.info)

    def consumer(self, name: str, **options: Any) -> Consumer:
        """See sublet.Stream.consumer."""
        return Consumer(name, self.name, account=self._account, **options)

    async def create_consumer(self, name: str, **definition: Any) -> Consumer:
        """See sublet.Stream.create_consumer."""
        await to_thread(self._plain.create_consumer, name, **definition)
        return self.consumer(name, **definition)

    async def update_consumer(self, name: str, **definition: Any) -> Consumer:
        """See sublet.Stream.update_consumer."""
        await to_thread(self._plain.update_consumer, name, **definition)
        return self.consumer(name, **definition)

    async def create_or_update_consumer(self, name: str, **definition: Any) -> Consumer:
        """See sublet.Stream.create_or_update_consumer."""
        await to_thread(self._plain.create_or_update_consumer, name, **definition)
        return self.consumer(name, **definition)

    async def delete_consumer(self, name: str) -> None:
        """See sublet.Stream.delete_consumer."""
        await to_thread(self._plain.delete_consumer, name)

    async def consumers(self) -> list[str]:
        """See sublet.Stream.consumers."""
        return await to_thread(self._plain.consumers)

    async def get(self, shard_id: str, sequence_number: str) -> list[UserRecord]:
        """See sublet.Stream.get."""
        return await to_thread(self._plain.get, shard_id, sequence_number)

    async def put(
        self, partition_key: str, data: bytes, *, explicit_hash_key: str | None = None
    ) -> PutRecord:
        """See sublet.Stream.put."""
        return await to_thread(self._plain.put, partition_key, data, explicit_hash_key=explicit_hash_key)
