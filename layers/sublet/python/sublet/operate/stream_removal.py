"""Removes the leases of a stream that an application of several does not read any more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sublet.decisions.plurals import counted
from sublet.decisions.streams.chosen_streams import KnownStream
from sublet.decisions.streams.stream_status import StreamStanding, StreamStatus, stream_standings, why_not_removed
from sublet.errors import RemovalRefused, StreamError, StreamNotFound
from sublet.ports import Applied, LeaseTable, SightingStore, Stream
from sublet.protocol.lease_writes import delete
from sublet.settings import Settings


def standings(
    table: LeaseTable, store: SightingStore, settings: Settings, now: Callable[[], datetime]
) -> tuple[StreamStanding, ...]:
    scan, remembered = table.scan(), store.load()
    at = scan.at or now()
    return stream_standings(scan.leases, remembered.streams, remembered.sightings, at, settings)


def chosen(found: tuple[StreamStanding, ...], name: str) -> StreamStanding:
    """Finds a stream by its name, or by its key if several have the name. Raises RemovalRefused."""
    meant = [each for each in found if name in (each.stream.stream, str(each.stream))]
    if not meant:
        raise RemovalRefused(
            f"the application has no leases of a stream {name}; `sublet streams` lists those that it has"
        )
    if len(meant) > 1:
        keys = ", ".join(str(each.stream) for each in meant)
        raise RemovalRefused(f"there are several streams {name}: {keys}; give one of these names in full")
    return meant[0]


def remove(
    standing: StreamStanding,
    table: LeaseTable,
    store: SightingStore,
    stream: Stream,
    settings: Settings,
    now: datetime,
) -> int:
    """Returns how many leases were deleted. A lease that changes meanwhile stays. Raises RemovalRefused."""
    asks = standing.status in (StreamStatus.GONE, StreamStatus.READ)
    is_described = not asks or _is_described(stream)
    why = why_not_removed(standing, settings, is_described=is_described)
    if standing.status is StreamStatus.UNKNOWN:
        store.keep_streams({standing.stream: KnownStream(now)})
    if why is not None:
        raise RemovalRefused(why)
    deleted = sum(isinstance(table.apply(delete(lease)), Applied) for lease in standing.leases)
    if deleted < len(standing.leases):
        left = counted(len(standing.leases) - deleted, "has", "have")
        raise RemovalRefused(
            f"{counted(deleted, 'lease was', 'leases were')} removed; {left} changed meanwhile: look again"
        )
    store.forget_stream(standing.stream)
    return deleted


def _is_described(stream: Stream) -> bool:
    """Whether Kinesis describes the stream; also True if it does not say."""
    try:
        stream.describe()
    except StreamNotFound:
        return False
    except StreamError:
        return True
    return True
