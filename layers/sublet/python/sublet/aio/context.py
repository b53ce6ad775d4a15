"""Where a program that pulls on an event loop begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from sublet.account import Account
from sublet.aio.consumer import Consumer
from sublet.aio.stream import Stream
from sublet.aio.threads import in_thread
from sublet.consumer.context import Context as PlainContext
from sublet.consumer.context import connect as plain_connect
from sublet.decisions.stream_changes import StreamOptions
from sublet.protocol.stream_info import AccountInfo

if TYPE_CHECKING:
    from boto3.session import Session

    from sublet.consumer.keywords import PulledKeywords


class Context:
    """As `sublet.Context`; what asks AWS does so in a thread."""

    def __init__(self, account: Account) -> None:
        self._plain = PlainContext(account)

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


def connect(
    session: Session | None = None, region: str | None = None, endpoint: str | None = None
) -> Context:
    """See sublet.connect."""
    return Context(plain_connect(session, region, endpoint).account)
