"""Where a program that pulls begins: an account's streams, and their consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from sublet.account import Account
from sublet.consumer.consumer import Consumer
from sublet.consumer.stream import Stream

if TYPE_CHECKING:  # what `import sublet` does without
    from boto3.session import Session

    from sublet.consumer.keywords import ConsumerKeywords
    from sublet.decisions.stream_changes import StreamOptions
    from sublet.protocol.stream_info import AccountInfo


class Context:
    """Streams and consumers of one account and region: over AWS `sublet.connect()`, over memory `Context(MemoryAccount())`.

    What changes a stream returns when the stream is as it is wanted, and can be used.
    """

    def __init__(self, account: Account) -> None:
        self.account = account

    def streams(self) -> list[str]:
        """The names of all, in order."""
        return list(self.account.streams())

    def stream(self, stream: str) -> Stream:
        """By its name, or its ARN. Raises StreamNotFound."""
        self.account.info(stream)
        return Stream(self.account, stream)

    def create_stream(self, stream: str, **options: Unpack[StreamOptions]) -> Stream:
        """On demand, unless it is told how many shards, or `mode`. Raises StreamExists."""
        from sublet.consumer.changing import create_stream
        from sublet.decisions.stream_changes import Wanted

        create_stream(self.account, stream, Wanted(**options))
        return Stream(self.account, stream)

    def update_stream(self, stream: str, **options: Unpack[StreamOptions]) -> Stream:
        """What is not given stays. More than twice the shards, or less than half as many, take several steps."""
        from sublet.consumer.changing import update_stream
        from sublet.decisions.stream_changes import Wanted

        update_stream(self.account, stream, Wanted(**options))
        return Stream(self.account, stream)

    def delete_stream(self, stream: str) -> None:
        """With all that is in it. Its consumers' tables stay: a stream of this name that is made anew is not taken for it."""
        from sublet.consumer.changing import delete_stream

        delete_stream(self.account, stream)

    def account_info(self) -> AccountInfo:
        """Limits and use."""
        return self.account.limits()

    def consumer(self, stream: str, name: str, **options: Unpack[ConsumerKeywords]) -> Consumer:
        """Without looking for the stream first; the options are those of `sublet.Consumer`."""
        return Consumer(name, stream, account=self.account, **options)


def connect(
    session: Session | None = None, region: str | None = None, endpoint: str | None = None
) -> Context:
    """Over AWS: as this machine is set up, but for what is given. Nothing is asked yet.

    session   boto3's, whose credentials and region count
    endpoint  a URL, such as an embedded AWS', for Kinesis and DynamoDB
    """
    from sublet.aws.account import AwsAccount
    from sublet.aws.clients import Connection

    return Context(AwsAccount(Connection(region, endpoint, session)))
