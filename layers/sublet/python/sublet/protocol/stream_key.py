"""The names of streams and shards in an application of several streams, as a multi-stream KCL writes them.

There a shard is named by its stream and its own id, `account:stream:creation epoch:shardId`, because shard ids repeat
from stream to stream. That is also the key of its lease. In an application of one stream both are the shard's id alone.

The first three parts are KCL's StreamIdentifier.serialize(). Its epoch is the stream's creation time in whole seconds,
so that a stream which was deleted and created again has other leases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from sublet.protocol.shard import ChildShard, Shard
from sublet.protocol.stream_identity import StreamArn, StreamIdentity

SEPARATOR = ":"
"""The separator. Neither a stream's name nor a shard's id contains one."""

_KEY = re.compile(r"(\d{12}):([A-Za-z0-9_.-]{1,128}):(\d{1,18})")

FIRST_EPOCH, LAST_EPOCH = 1_300_000_000, 4_000_000_000
"""An epoch within these bounds (2011 to 2096) is a creation time. Others are not: a KCL fleet may number its streams as
it likes.
"""


class StreamKey(Struct, frozen=True, order=True):
    """`epoch`: in seconds. KCL takes any number that it is given, so a fleet may use others."""

    account: str
    stream: str
    epoch: int

    @classmethod
    def parse(cls, text: str) -> StreamKey | None:
        """Parses a stream key. Returns None for any other text."""
        found = _KEY.fullmatch(text)
        return None if found is None else cls(found[1], found[2], int(found[3]))

    @classmethod
    def of(cls, identity: StreamIdentity) -> StreamKey:
        arn = StreamArn.parse(identity.arn)
        return cls(arn.account, arn.stream, int(identity.created_at.timestamp()))

    @property
    def is_dated(self) -> bool:
        """Whether the epoch is the stream's creation time."""
        return FIRST_EPOCH <= self.epoch <= LAST_EPOCH

    @property
    def created_at(self) -> datetime | None:
        """When the stream was created; None if the epoch does not tell."""
        return datetime.fromtimestamp(self.epoch, UTC) if self.is_dated else None

    def __str__(self) -> str:
        return f"{self.account}{SEPARATOR}{self.stream}{SEPARATOR}{self.epoch}"


def identities_of(streams: Iterable[StreamKey], arn: Callable[[StreamKey], str]) -> list[StreamIdentity]:
    """The streams as Kinesis described them, to the second; without those whose epoch does not tell when they were
    created.
    """
    return [StreamIdentity(arn(each), at) for each in streams if (at := each.created_at) is not None]


def stream_key_of(shard: str) -> StreamKey | None:
    """The stream of a lease key or of a shard's name. None in an application of one stream."""
    stream, separator, _ = shard.rpartition(SEPARATOR)
    return StreamKey.parse(stream) if separator else None


def is_of_several(lease_key: str) -> bool:
    """Whether this is the key of a lease in an application of several streams."""
    return stream_key_of(lease_key) is not None


def own_id(shard: str) -> str:
    """A shard's own id, as Kinesis knows it, from its name in the application."""
    return shard.rpartition(SEPARATOR)[2]


def beside(shard: str, neighbour: str) -> str:
    """The name of the shard with this own id in the stream of a lease key or of another shard's name."""
    stream, separator, _ = neighbour.rpartition(SEPARATOR)
    return stream + separator + own_id(shard)


def in_stream(stream: StreamKey, shard_id: str) -> str:
    """The name of one of the stream's shards."""
    return f"{stream}{SEPARATOR}{shard_id}"


def shard_in_stream(stream: StreamKey, shard: Shard) -> Shard:
    """Renames the shard as an application of several streams knows it."""
    parent, adjacent = shard.parent_shard_id, shard.adjacent_parent_shard_id
    return Shard(
        in_stream(stream, shard.shard_id),
        shard.hash_key_range,
        parent and in_stream(stream, parent),
        adjacent and in_stream(stream, adjacent),
        shard.starting_sequence_number,
        shard.is_open,
    )


def shard_alone(shard: Shard) -> Shard:
    """Gives the shard its own id, as Kinesis knows it. The inverse of `shard_in_stream`."""
    parent, adjacent = shard.parent_shard_id, shard.adjacent_parent_shard_id
    return Shard(
        own_id(shard.shard_id),
        shard.hash_key_range,
        parent and own_id(parent),
        adjacent and own_id(adjacent),
        shard.starting_sequence_number,
        shard.is_open,
    )


def child_in_stream(stream: StreamKey, child: ChildShard) -> ChildShard:
    """Renames the child as an application of several streams knows it."""
    parents = frozenset(in_stream(stream, parent) for parent in child.parent_shard_ids)
    return replace(child, shard_id=in_stream(stream, child.shard_id), parent_shard_ids=parents)
