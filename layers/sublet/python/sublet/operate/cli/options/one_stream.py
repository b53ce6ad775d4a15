"""The option --stream of commands that act on rows and ask no stream: only that stream's, if the application reads
several.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Collection, Sequence

from sublet.decisions.streams.by_stream import with_leases_of
from sublet.decisions.streams.operated_streams import shard_named, streams_meant, streams_of
from sublet.errors import StreamNotFound
from sublet.protocol.lease import LeaseScan
from sublet.protocol.stream_identity import StreamIdentity, stream_settings
from sublet.protocol.stream_key import StreamKey


def add_one_stream(parser: ArgumentParser) -> None:
    """Adds the option as `one_stream`: `settings_of` would take `stream` for the setting, beside which there are no
    others.
    """
    parser.add_argument(
        "--stream",
        dest="one_stream",
        metavar="TEXT",
        help="only this stream, by name or ARN, if the application reads several",
    )


def one_stream(
    named: str | None, scan: LeaseScan, application: str, known: StreamIdentity | None = None
) -> Collection[StreamKey] | None:
    """Returns the streams of that name; None if none is named, or the application reads only one. Raises StreamNotFound
    if it does not read this one.

    known  the one stream that it reads, if that is stored
    """
    if named is None:
        return None
    name = stream_settings(named)["stream"]
    if several := streams_of(scan):
        return streams_meant(several, name, application)
    if known is not None and named not in (known.arn, known.arn.rpartition("/")[2]):
        raise StreamNotFound(f"application {application} does not read stream {named}; it reads {known.arn}")
    return None


def of_one_stream(
    named: str | None, scan: LeaseScan, application: str, known: StreamIdentity | None = None
) -> LeaseScan:
    """Returns the rows of that stream, or all: see `one_stream`."""
    streams = one_stream(named, scan, application, known)
    return scan if streams is None else with_leases_of(scan, streams)[0]


def shards_of(
    named: str | None, shards: Sequence[str], scan: LeaseScan, application: str, known: StreamIdentity | None
) -> Sequence[str]:
    """Returns the shards that an operator means: the named ones, or else all leased shards of the named stream. Empty:
    all of the application, which reads one stream or is meant as a whole. Raises ShardNotFound too.
    """
    streams = one_stream(named, scan, application, known)
    if streams is None:
        return shards
    if shards:
        return [shard_named(shard, tuple(streams)) for shard in shards]
    found = [lease.shard_id for lease in with_leases_of(scan, streams)[0].leases]
    if not found:  # an empty answer would mean all
        raise StreamNotFound(f"application {application} has no readable lease of stream {named}")
    return found
