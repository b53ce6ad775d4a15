"""Which streams of an application of several an operator means, and which shard. Pure.

A command acts on the stream that is named, or on all if none is. It never just takes the first; in doubt it asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sublet.errors import ShardNotFound, StreamNotFound
from sublet.protocol.lease import LeaseScan
from sublet.protocol.stream_key import StreamKey, in_stream, own_id, stream_key_of
from sublet.settings import StreamChoice, StreamSelector

NAMED_AT_MOST = 5


def streams_of(scan: LeaseScan) -> tuple[StreamKey, ...]:
    """The streams of an application's leases; empty if it reads one stream. If a stream was created again, only the
    newer one is included, since no worker can read the older one.
    """
    names = [lease.lease_key for lease in scan.leases] + [row.lease_key for row in scan.malformed]
    found = {key for name in names if (key := stream_key_of(name)) is not None}
    newest = {(key.account, key.stream): key for key in sorted(found)}
    return tuple(sorted(newest.values(), key=lambda key: (key.stream, key.account)))


def streams_meant(streams: Collection[StreamKey], named: str | None, application: str) -> tuple[StreamKey, ...]:
    """Returns the streams of this name, or all. Raises StreamNotFound."""
    meant = tuple(key for key in streams if named in (None, key.stream))
    if not meant:
        there = _some(sorted({key.stream for key in streams}))
        raise StreamNotFound(f"application {application} has no leases of stream {named}; it reads {there}")
    return meant


def choice_of(streams: Iterable[StreamKey]) -> StreamChoice:
    """Exactly these streams, taken on trust: Kinesis is not asked which streams there are."""
    return StreamChoice(tuple(StreamSelector(str(key)) for key in streams))


def shard_named(text: str, streams: Sequence[StreamKey]) -> str:
    """The full name of the shard that an operator names, by its own id if one stream is meant. Raises ShardNotFound.

    streams  the streams that are meant; empty in an application of one stream, where a shard's id is its name
    """
    if not streams:
        return text
    stated = stream_key_of(text)
    if stated is None and len(streams) == 1:
        return in_stream(streams[0], text)
    if stated is None:
        names = _some([in_stream(key, text) for key in streams])
        raise ShardNotFound(
            f"shard {text} is ambiguous: the application reads {len(streams)} streams, and shard ids repeat from "
            f"stream to stream: give the full name, as `sublet status` shows it, such as {names}"
        )
    if stated not in streams:
        there = _some([str(key) for key in streams])
        raise ShardNotFound(f"shard {own_id(text)} belongs to stream {stated}, which is not among {there}")
    return text


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return ", ".join(names[:NAMED_AT_MOST]) + more
