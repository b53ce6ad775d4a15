"""A look's leases and shards, by stream: shards are synced and leases cleaned up within one stream.

An application of one stream is one part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_key import StreamKey, stream_key_of
from sublet.settings import StartPosition

T = TypeVar("T")


class ListedStream(Struct, frozen=True):
    """One of an application's streams, as a tick has seen it.

    shards         as last listed; if the stream has no leases, the shards that are open at its start position
    is_listed_now  whether this tick listed them, after it had scanned the leases. An older listing proves neither that
                   a shard has no lease, nor that a lease has no shard
    """

    stream: StreamKey
    shards: Sequence[Shard]
    start: StartPosition
    is_listed_now: bool = True


class StreamPart(Struct, frozen=True):
    """A stream's leases and shards. `malformed`: names of the shards whose rows cannot be read."""

    leases: tuple[Lease, ...]
    malformed: frozenset[str]
    shards: Sequence[Shard]
    start: StartPosition
    is_listed_now: bool = True


def parts_of(
    scan: LeaseScan, shards: Sequence[Shard], streams: Sequence[ListedStream] | None, start: StartPosition
) -> tuple[StreamPart, ...]:
    """`streams`: None in an application of one stream, whose shards start at `start`."""
    malformed = frozenset(row.lease_key for row in scan.malformed)
    if streams is None:
        return (StreamPart(scan.leases, malformed, shards, start),)
    leases = by_stream((lease.lease_key, lease) for lease in scan.leases)
    broken = by_stream((lease_key, lease_key) for lease_key in malformed)
    return tuple(
        StreamPart(
            tuple(leases.get(each.stream, ())),
            frozenset(broken.get(each.stream, ())),
            each.shards,
            each.start,
            each.is_listed_now,
        )
        for each in streams
    )


def by_stream(named: Iterable[tuple[str, T]]) -> Mapping[StreamKey, list[T]]:
    """Group things by stream. Each comes with the name of its shard, or with its lease's key."""
    found: dict[StreamKey, list[T]] = {}
    for name, thing in named:
        stream = stream_key_of(name)
        if stream is not None:
            found.setdefault(stream, []).append(thing)
    return found


def with_leases_of(scan: LeaseScan, streams: Collection[StreamKey]) -> tuple[LeaseScan, tuple[Lease, ...]]:
    """The scan with only the leases of these streams, and the leases of all other streams: those that have left or are
    gone, or that only another program of the application names.
    """
    here = [lease for lease in scan.leases if stream_key_of(lease.lease_key) in streams]
    elsewhere = tuple(lease for lease in scan.leases if stream_key_of(lease.lease_key) not in streams)
    malformed = tuple(row for row in scan.malformed if stream_key_of(row.lease_key) in streams)
    return replace(scan, leases=tuple(here), malformed=malformed), elsewhere
