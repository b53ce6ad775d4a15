"""The Streams port over boto3: which streams an application of several reads, and each of them.

ListStreams describes every stream of the account and region, a hundred or more on a page. The whole account may call it
5 times a second. Tags come from the Resource Groups Tagging API, because Kinesis needs a call for each stream's tags.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from sublet.aws import clients
from sublet.aws.kinesis.errors import named_stream_errors
from sublet.aws.kinesis.stream import KinesisStream
from sublet.decisions.streams.chosen_streams import FoundStreams, Tag, choose_streams, of_one_stream, settings_for
from sublet.errors import CallFailed, SettingsError, StreamNotFound
from sublet.ports import Stream
from sublet.protocol.stream_identity import StreamArn, StreamIdentity
from sublet.protocol.stream_key import StreamKey, identities_of
from sublet.reading.several_streams import StreamOfSeveral
from sublet.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

ALL = "the account's streams"
STREAM_RESOURCES = "kinesis:stream"


class AwsStreams:
    """The Streams port. Thread-safe. All its streams share two clients. `tagging` makes a third, if streams are chosen
    by tag.
    """

    def __init__(
        self,
        client: KinesisClient,
        poll_client: KinesisClient,
        settings: Settings,
        tagging: Callable[[], Any] = clients.tagging_client,
    ) -> None:
        assert settings.streams is not None, "of an application of several streams"
        self._client: Any = client
        self._poll_client = poll_client
        self._settings = settings
        self._choice = settings.streams
        self._tagging = tagging
        self._region = client.meta.region_name
        self._partition = client.meta.partition
        self._lock = threading.Lock()
        """Guards `_made`."""
        self._made: dict[StreamKey, Stream] = {}
        check_regions(settings, self._region)

    def find(self, known: Collection[StreamKey] = ()) -> FoundStreams:
        are_stated = all(each.is_kcls for each in self._choice.selectors)  # then there is nothing to ask
        listed = [] if are_stated else [*self._listed(known), *self._elsewhere(known)]
        return choose_streams(self._choice, listed, {tag: self._tagged(tag) for tag in self._choice.tags})

    def of(self, stream: StreamKey) -> Stream:
        with self._lock:
            if stream not in self._made:
                self._made[stream] = StreamOfSeveral(stream, self.alone(stream))
            return self._made[stream]

    def alone(self, stream: StreamKey) -> KinesisStream:
        """One of the streams, with its shards by their own ids. Each call makes a new object and sends no request."""
        settings = settings_for(stream, self.arn(stream), self._settings)
        return KinesisStream(self._client, self._poll_client, settings)

    def arn(self, stream: StreamKey) -> str:
        return f"arn:{self._partition}:kinesis:{self._region}:{stream.account}:stream/{stream.stream}"

    def _listed(self, known: Collection[StreamKey] = ()) -> Iterator[StreamIdentity]:
        """The account's streams. Some emulators reply without StreamSummaries, with names alone; then each stream that
        may be chosen is described.
        """
        for page in self._pages():
            described = {summary["StreamName"]: summary for summary in page.get("StreamSummaries", ())}
            for name in page["StreamNames"]:
                if name in described:
                    yield StreamIdentity(described[name]["StreamARN"], described[name]["StreamCreationTimestamp"])
                elif any(each.matches_name(name) or each.tag or each.is_arn for each in self._choice.selectors):
                    yield from self._described(name, known=[each for each in known if each.stream == name])

    def _pages(self) -> Iterator[dict[str, Any]]:
        arguments: dict[str, Any] = {"Limit": 1000}
        while True:
            with named_stream_errors(ALL):
                page = self._client.list_streams(**arguments)
            yield page
            if not page["HasMoreStreams"] or not page["StreamNames"]:
                return
            arguments["ExclusiveStartStreamName"] = page["StreamNames"][-1]

    def _described(
        self, name: str, arn: str | None = None, known: Collection[StreamKey] = ()
    ) -> Iterator[StreamIdentity]:
        """Yields its identity; nothing if there is no such stream. If Kinesis does not say, what was known of it
        before.
        """
        stream = KinesisStream(self._client, self._poll_client, of_one_stream(self._settings, name, arn))
        try:
            yield stream.describe().identity
        except StreamNotFound:
            return
        except CallFailed:
            if not (before := identities_of(known, self.arn)):
                raise
            yield from before

    def _elsewhere(self, known: Collection[StreamKey]) -> Iterator[StreamIdentity]:
        """The streams of other accounts, which only an ARN can name. Describes each."""
        own: str | None = None
        for selector in self._choice.selectors:
            if selector.is_arn:
                own = own or self._own_account()
                named = StreamArn.parse(selector.what)
                if named.account != own:
                    here = [each for each in known if (each.account, each.stream) == (named.account, named.stream)]
                    yield from self._described(named.stream, selector.what, here)

    def _own_account(self) -> str:
        """The account's id, from the ARN of any of its streams. Empty if it has none: then every ARN names another
        account.
        """
        for identity in self._listed():
            return StreamArn.parse(identity.arn).account
        return ""

    def _tagged(self, tag: Tag) -> frozenset[str]:
        name, value = tag
        client = self._tagging()
        arguments: dict[str, Any] = {
            "ResourceTypeFilters": [STREAM_RESOURCES],
            "TagFilters": [{"Key": name, "Values": [value]}],
        }
        found: set[str] = set()
        while True:
            with named_stream_errors(f"with tag {name}"):
                page = client.get_resources(**arguments)
            found.update(each["ResourceARN"] for each in page["ResourceTagMappingList"])
            if not page.get("PaginationToken"):
                return frozenset(found)
            arguments["PaginationToken"] = page["PaginationToken"]


def check_regions(settings: Settings, region: str) -> None:
    """Raises SettingsError for a stream or a consumer whose ARN names a region other than the one that we call."""
    for selector in () if settings.streams is None else settings.streams.selectors:
        if selector.is_arn and StreamArn.parse(selector.what).region != region:
            raise SettingsError("streams", selector.what, f"streams of one region, which is {region} here")
    if settings.stream_arn is not None and StreamArn.parse(settings.stream_arn).region != region:
        raise SettingsError(
            "stream_arn",
            settings.stream_arn,
            f"a stream of the region that is called, which is {region} here",
        )
    consumer = settings.fan_out_consumer or ""
    if ":" in consumer and consumer.split(":")[3] != region:
        raise SettingsError(
            "fan_out_consumer", consumer, f"a consumer of the region that is called, which is {region} here"
        )
