"""A stream in hand, on an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from sublet.account import Account
from sublet.aio.consumer import Consumer
from sublet.aio.threads import in_thread
from sublet.consumer.stream import Stream as PlainStream
from sublet.protocol.records import UserRecord
from sublet.protocol.stream_info import PutRecord, StreamInfo

if TYPE_CHECKING:
    from sublet.consumer.keywords import PulledKeywords


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
        return await in_thread(self._plain.info)

    def consumer(self, name: str, **options: Unpack[PulledKeywords]) -> Consumer:
        """See sublet.Stream.consumer."""
        return Consumer(name, self.name, account=self._account, **options)

    async def create_consumer(self, name: str, **definition: Unpack[PulledKeywords]) -> Consumer:
        """See sublet.Stream.create_consumer."""
        await in_thread(self._plain.create_consumer, name, **definition)
        return self.consumer(name, **definition)

    async def update_consumer(self, name: str, **definition: Unpack[PulledKeywords]) -> Consumer:
        """See sublet.Stream.update_consumer."""
        await in_thread(self._plain.update_consumer, name, **definition)
        return self.consumer(name, **definition)

    async def create_or_update_consumer(self, name: str, **definition: Unpack[PulledKeywords]) -> Consumer:
        """See sublet.Stream.create_or_update_consumer."""
        await in_thread(self._plain.create_or_update_consumer, name, **definition)
        return self.consumer(name, **definition)

    async def delete_consumer(self, name: str) -> None:
        """See sublet.Stream.delete_consumer."""
        await in_thread(self._plain.delete_consumer, name)

    async def consumers(self) -> list[str]:
        """See sublet.Stream.consumers."""
        return await in_thread(self._plain.consumers)

    async def get(self, shard_id: str, sequence_number: str) -> list[UserRecord]:
        """See sublet.Stream.get."""
        return await in_thread(self._plain.get, shard_id, sequence_number)

    async def put(
        self, partition_key: str | None, data: bytes, *, explicit_hash_key: str | None = None
    ) -> PutRecord:
        """See sublet.Stream.put."""
        return await in_thread(self._plain.put, partition_key, data, explicit_hash_key=explicit_hash_key)
