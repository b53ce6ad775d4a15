"""`sublet.aio.connect()`: an account's streams and their consumers, on an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from sublet.aio.consumer import Consumer
from sublet.aio.event_loop import in_thread
from sublet.decisions.streams.stream_changes import StreamOptions
from sublet.ports.account import Account
from sublet.protocol.records import UserRecord
from sublet.protocol.stream_info import AccountInfo, PutRecord, StreamInfo
from sublet.pull import streams as plain

if TYPE_CHECKING:
    from boto3.session import Session

    from sublet.pull.arguments import PulledKeywords


class Context:
    """Does what `sublet.Context` does. Methods that call AWS do so in a thread."""

    def __init__(self, account: Account) -> None:
        self._plain = plain.Context(account)

    async def streams(self) -> list[str]:
        """See sublet.Context.streams."""
        return await in_thread(self._plain.streams)

    async def stream(self, stream: str) -> Stream:
        """See sublet.Context.stream."""
        return self._of((await in_thread(self._plain.stream, stream)).name)

    async def create_stream(self, stream: str, **options: Unpack[StreamOptions]) -> Stream:
        """See sublet.Context.create_stream."""
        return self._of((await in_thread(self._plain.create_stream, stream, **options)).name)

    async def update_stream(self, stream: str, **options: Unpack[StreamOptions]) -> Stream:
        """See sublet.Context.update_stream."""
        return self._of((await in_thread(self._plain.update_stream, stream, **options)).name)

    async def delete_stream(self, stream: str) -> None:
        """See sublet.Context.delete_stream."""
        await in_thread(self._plain.delete_stream, stream)

    async def account_info(self) -> AccountInfo:
        """See sublet.Context.account_info."""
        return await in_thread(self._plain.account_info)

    def consumer(self, stream: str, name: str, **options: Unpack[PulledKeywords]) -> Consumer:
        """See sublet.Context.consumer."""
        return Consumer(name, stream, account=self._plain.account, **options)

    def _of(self, stream: str) -> Stream:
        return Stream(self._plain.account, stream)


def connect(session: Session | None = None, region: str | None = None, endpoint: str | None = None) -> Context:
    """See sublet.connect."""
    return Context(plain.connect(session, region, endpoint).account)


class Stream:
    """Does what `sublet.Stream` does. Methods that call AWS do so in a thread."""

    def __init__(self, account: Account, name: str) -> None:
        self._account = account
        self._plain = plain.Stream(account, name)

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

    async def put(self, partition_key: str | None, data: bytes, *, explicit_hash_key: str | None = None) -> PutRecord:
        """See sublet.Stream.put."""
        return await in_thread(self._plain.put, partition_key, data, explicit_hash_key=explicit_hash_key)
