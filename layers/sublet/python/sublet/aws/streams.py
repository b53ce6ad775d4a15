"""The Streams port over boto3: which streams an application of several reads, and each of them.

ListStreams describes every stream of the account and region in pages of a hundred or more. It allows 5 calls a second, to the
whole account. Tags are asked of the Resource Groups Tagging API: Kinesis tells a stream's tags in a call for each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sublet.aws import clients
from sublet.aws.clients import MACHINE, Connection
from sublet.aws.kinesis import KinesisStream
from sublet.aws.kinesis_errors import named_stream_errors
from sublet.decisions.chosen_streams import FoundStreams, Tag, choose_streams
from sublet.errors import SettingsError, StreamNotFound
from sublet.ports import Stream
from sublet.protocol.stream_identity import StreamArn, StreamIdentity
from sublet.protocol.stream_key import StreamKey
from sublet.settings import Settings
from sublet.several_streams import StreamOfSeveral

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

ALL = "the account's streams"
STREAM_RESOURCES = "kinesis:stream"


class AwsStreams:
    """The Streams port. Thread-safe. All its streams share two clients."""

    def __init__(
        self,
        client: KinesisClient,
        poll_client: KinesisClient,
        settings: Settings,
        connection: Connection = MACHINE,
    ) -> None:
        assert settings.streams is not None, "of an application of several streams"
        self._client: Any = client
        self._poll_client = poll_client
        self._settings = settings
        self._choice = settings.streams
        self._connection = connection
        self._region = client.meta.region_name
        self._partition = client.meta.partition
        self._lock = threading.Lock()
        """Guards `_made`."""
        self._made: dict[StreamKey, Stream] = {}
        self._check_regions()

    def find(self) -> FoundStreams:
        listed = [*self._listed(), *self._elsewhere()]
        return choose_streams(self._choice, listed, {tag: self._tagged(tag) for tag in self._choice.tags})

    def of(self, stream: StreamKey) -> Stream:
        with self._lock:
            if stream not in self._made:
                settings = replace(
                    self._settings, streams=None, stream=stream.stream, stream_arn=self.arn(stream)
                )
                real = KinesisStream(self._client, self._poll_client, settings)
                self._made[stream] = StreamOfSeveral(stream, real)
            return self._made[stream]

    def arn(self, stream: StreamKey) -> str:
        return f"arn:{self._partition}:kinesis:{self._region}:{stream.account}:stream/{stream.stream}"

    def _listed(self) -> Iterator[StreamIdentity]:
        """Every stream of the account, each once: an emulator may repeat some."""
        seen: set[str] = set()
        arguments: dict[str, Any] = {"Limit": 1000}
        while True:
            with named_stream_errors(ALL):
                page = self._client.list_streams(**arguments)
            for summary in page.get("StreamSummaries", ()):
                if summary["StreamARN"] not in seen:
                    seen.add(summary["StreamARN"])
                    yield StreamIdentity(summary["StreamARN"], summary["StreamCreationTimestamp"])
            if not page["HasMoreStreams"] or not page["StreamNames"]:
                return
            arguments["ExclusiveStartStreamName"] = page["StreamNames"][-1]

    def _elsewhere(self) -> Iterator[StreamIdentity]:
        """Streams of other accounts, which only their ARN names: a description of each."""
        own: str | None = None
        for selector in self._choice.selectors:
            if not selector.is_arn:
                continue
            own = own or self._own_account()
            if StreamArn.parse(selector.what).account != own:
                settings = replace(
                    self._settings,
                    streams=None, stream=StreamArn.parse(selector.what).stream, stream_arn=selector.what,
                )  # fmt: skip
                try:
                    yield KinesisStream(self._client, self._poll_client, settings).describe().identity
                except StreamNotFound:
                    continue

    def _own_account(self) -> str:
        """From any stream of ours; empty if there is none, and then every ARN is of another account."""
        for identity in self._listed():
            return StreamArn.parse(identity.arn).account
        return ""

    def _tagged(self, tag: Tag) -> frozenset[str]:
        name, value = tag
        client = clients.tagging_client(
            self._connection.region, self._connection.endpoint_url, self._connection.session
        )
        arguments: dict[str, Any] = {
            "ResourceTypeFilters": [STREAM_RESOURCES], "TagFilters": [{"Key": name, "Values": [value]}],
        }  # fmt: skip
        found: set[str] = set()
        while True:
            with named_stream_errors(f"with tag {name}"):
                page = client.get_resources(**arguments)
            found.update(each["ResourceARN"] for each in page["ResourceTagMappingList"])
            if not page.get("PaginationToken"):
                return frozenset(found)
            arguments["PaginationToken"] = page["PaginationToken"]

    def _check_regions(self) -> None:
        for selector in self._choice.selectors:
            if selector.is_arn and StreamArn.parse(selector.what).region != self._region:
                raise SettingsError(
                    "streams", selector.what, f"streams of one region, which is {self._region} here"
                )
