"""Which of the existing streams an application of several streams reads, and what is remembered about them.

A stream's key includes its creation time, so a stream that was deleted and created again is another stream, with leases
of its own. No lease can be mistaken for another stream's, and none has to be adopted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from msgspec import Struct

from sublet.protocol.stream_identity import StreamIdentity
from sublet.protocol.stream_info import NOT_DESCRIBED, Placement
from sublet.protocol.stream_key import StreamKey
from sublet.settings import Reading, Settings, StartPosition, StreamChoice, StreamSelector
from sublet.settings.stream_filters import criteria_of

Tag = tuple[str, str]


class ChosenStream(Struct, frozen=True):
    """`start`: where its shards begin, if that differs from the setting start_position."""

    stream: StreamKey
    start: StartPosition | None = None


class FoundStreams(Struct, frozen=True):
    """`missing`: the parts of the choice that name one stream which does not exist."""

    streams: tuple[ChosenStream, ...]
    missing: tuple[str, ...] = ()


class KnownStream(Struct, frozen=True):
    """What the application's lease managers remember about a stream.

    named_at   when one of them last found it by its setting `streams`
    gone_at    when Kinesis said both to ListShards and to DescribeStreamSummary that there is no such stream
    placement  its last description
    """

    named_at: datetime
    gone_at: datetime | None = None
    placement: Placement = NOT_DESCRIBED


NONE_KNOWN: Mapping[StreamKey, KnownStream] = MappingProxyType({})


def choose_streams(
    choice: StreamChoice, listed: Iterable[StreamIdentity], tagged: Mapping[Tag, frozenset[str]]
) -> FoundStreams:
    """Each stream once, in the order of the choice's parts. The first part that names a stream decides its start.

    listed  the account's streams, and those of other accounts that the choice names by ARN
    tagged  the ARNs of the streams with each tag of the choice
    """
    streams = sorted(listed, key=lambda each: each.arn)
    chosen: dict[StreamKey, ChosenStream] = {}
    missing: list[str] = []
    for selector in choice.selectors:
        found = list(_found_by(selector, streams, tagged))
        for stream in found:
            chosen.setdefault(stream, ChosenStream(stream, selector.start))
        if not found and selector.is_exact:
            missing.append(selector.what)
    return FoundStreams(tuple(chosen.values()), tuple(missing))


def _found_by(
    selector: StreamSelector, listed: Iterable[StreamIdentity], tagged: Mapping[Tag, frozenset[str]]
) -> Iterable[StreamKey]:
    if selector.is_kcls:
        stated = StreamKey.parse(selector.what)
        return () if stated is None else (stated,)
    if selector.is_arn:
        return (StreamKey.of(each) for each in listed if each.arn == selector.what)
    if selector.tag is not None:
        arns = tagged.get(selector.tag, frozenset())
        return (StreamKey.of(each) for each in listed if each.arn in arns)
    return (key for key in map(StreamKey.of, listed) if selector.matches_name(key.stream))


def start_of(stream: StreamKey, settings: Settings) -> StartPosition:
    """Returns the start position of the stream's shards. The streams' tags are not known here, so a part by tag is
    taken to name every stream.
    """
    for selector in () if settings.streams is None else settings.streams.selectors:
        if selector.names(stream.account, stream.stream, stream.epoch) or selector.tag is not None:
            return selector.start or settings.start_position
    return settings.start_position


def settings_for(stream: StreamKey, arn: str, settings: Settings) -> Settings:
    """The settings by which one of the streams is read, as those of an application that polls this stream alone."""
    criteria = settings.filter_criteria
    return replace(
        of_one_stream(settings, stream.stream, arn),
        start_position=start_of(stream, settings),
        filter_criteria=criteria and criteria_of(criteria, stream.account, stream.stream, stream.epoch),
    )


def of_one_stream(settings: Settings, stream: str, arn: str | None = None) -> Settings:
    """Returns the settings without the parts that only several streams need: the streams' own filters, and fan-out
    consumers that are found by name.
    """
    return replace(
        settings,
        streams=None,
        stream=stream,
        stream_arn=arn,
        filter_criteria=None,
        reading=Reading.POLLING,
        fan_out_consumer=None,
        register_fan_out=False,
    )


NAMED_AGAIN_AFTER = 4
"""A stream that is still there is noted again after this fraction (a quarter) of former_streams_wait."""


def to_note(
    streams: Iterable[ChosenStream],
    known: Mapping[StreamKey, KnownStream],
    now: datetime,
    former_streams_wait: timedelta,
) -> Mapping[StreamKey, KnownStream]:
    """The notes to write: about streams that are new or back, and about streams whose note is getting old."""
    again_after = former_streams_wait / NAMED_AGAIN_AFTER
    noted = {}
    for each in streams:
        before = known.get(each.stream)
        if before is None:
            noted[each.stream] = KnownStream(now)
        elif abs(now - before.named_at) >= again_after:
            noted[each.stream] = KnownStream(now, before.gone_at, before.placement)
    return noted


def has_left(known: KnownStream | None, now: datetime, former_streams_wait: timedelta) -> bool:
    """Whether no lease manager names the stream any more. False for an unknown stream, which another program may
    read.
    """
    return known is not None and now - known.named_at >= former_streams_wait
