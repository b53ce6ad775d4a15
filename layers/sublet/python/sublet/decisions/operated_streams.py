"""Which streams of an application of several an operator means, and which shard. Pure.

No command acts on the first stream only: it acts on the streams that are meant, which are all unless one is named, or it asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sublet.errors import ShardNotFound, StreamNotFound
from sublet.protocol.lease import LeaseScan
from sublet.protocol.stream_key import StreamKey, in_stream, own_id, stream_key_of
from sublet.settings import StreamChoice, StreamSelector

NAMED_AT_MOST = 5


def streams_of(scan: LeaseScan) -> tuple[StreamKey, ...]:
    """The streams of an application's leases; empty if it reads one stream. Of a stream that was created again, the newer one:
    nobody can read the other.
    """
    names = [lease.lease_key for lease in scan.leases] + [row.lease_key for row in scan.malformed]
    found = {key for name in names if (key := stream_key_of(name)) is not None}
    newest = {(key.account, key.stream): key for key in sorted(found)}
    return tuple(sorted(newest.values(), key=lambda key: (key.stream, key.account)))


def streams_meant(
    streams: Collection[StreamKey], named: str | None, application: str
) -> tuple[StreamKey, ...]:
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

    streams  those that are meant; empty in an application of one stream, where a shard's id is its name
    """
    if not streams:
        return text
    stated = stream_key_of(text)
    if stated is None and len(streams) == 1:
        return in_stream(streams[0], text)
    if stated is None:
        names = _some([in_stream(key, text) for key in streams])
        raise ShardNotFound(
            f"which stream's shard {text}? The application reads {len(streams)}, and shard ids repeat from stream to stream: "
            f"give the full name, as `sublet status` shows it, such as {names}"
        )
    if stated not in streams:
        there = _some([str(key) for key in streams])
        raise ShardNotFound(f"shard {own_id(text)} is of stream {stated}, which is not among {there}")
    return text


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return ", ".join(names[:NAMED_AT_MOST]) + more
