"""The state of each stream of an application of several, and whether its leases may be removed.

A lease is the only record of what was handled. So leases are removed only when an operator asks for it, and only if no
program reads the stream: no lease manager has named it for `former_streams_wait`, or Kinesis itself says that it is
gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from sublet.decisions.manager.liveness import Sighting, is_expired
from sublet.decisions.streams.by_stream import by_stream
from sublet.decisions.streams.chosen_streams import KnownStream, has_left
from sublet.protocol.lease import Lease
from sublet.protocol.stream_key import StreamKey
from sublet.settings import Settings
from sublet.settings.text import duration_text


class StreamStatus(StrEnum):
    READ = "READ"
    """A lease manager has named it lately."""
    LEFT = "LEFT"
    """No lease manager has named it for former_streams_wait. Its leases wait."""
    GONE = "GONE"
    """Kinesis neither lists its shards nor describes it, or there is a newer stream of its name. Its leases wait."""
    UNKNOWN = "UNKNOWN"
    """It has leases, and no lease manager of sublet has ever named it: a KCL fleet may read it."""


class StreamStanding(Struct, frozen=True):
    """The state of one stream.

    leases    its leases, whether ended or not
    owners    live workers that hold some of them
    named_at  when a lease manager last named it
    """

    stream: StreamKey
    status: StreamStatus
    leases: tuple[Lease, ...]
    owners: tuple[str, ...]
    named_at: datetime | None


def gone_streams(known: Mapping[StreamKey, KnownStream]) -> frozenset[StreamKey]:
    """The streams that are deleted: Kinesis said so, or a lease manager has found a newer one of the same name."""
    newest: dict[tuple[str, str], StreamKey] = {}
    for stream in sorted(known, key=lambda each: each.epoch):
        newest[stream.account, stream.stream] = stream
    return frozenset(
        stream
        for stream, remembered in known.items()
        if remembered.gone_at is not None or (stream.is_dated and newest[stream.account, stream.stream] != stream)
    )


def stream_standings(
    leases: Iterable[Lease],
    known: Mapping[StreamKey, KnownStream],
    sightings: Mapping[str, Sighting],
    now: datetime,
    settings: Settings,
) -> tuple[StreamStanding, ...]:
    """The state of each stream that has a lease or is known, sorted by name."""
    held = by_stream((lease.lease_key, lease) for lease in leases)
    gone = gone_streams(known)
    return tuple(
        _standing(stream, tuple(held.get(stream, ())), known.get(stream), sightings, now, settings, stream in gone)
        for stream in sorted(held.keys() | known.keys(), key=lambda each: (each.stream, each.account, each.epoch))
    )


def _standing(
    stream: StreamKey,
    leases: tuple[Lease, ...],
    known: KnownStream | None,
    sightings: Mapping[str, Sighting],
    now: datetime,
    settings: Settings,
    is_gone: bool,
) -> StreamStanding:
    owners = {
        lease.actual_owner
        for lease in leases
        if lease.actual_owner is not None
        and not lease.is_ended
        and not is_expired(lease, sightings, now, settings.failover_time)
    }
    if known is None:
        status = StreamStatus.UNKNOWN
    elif is_gone:
        status = StreamStatus.GONE
    else:
        status = StreamStatus.LEFT if has_left(known, now, settings.former_streams_wait) else StreamStatus.READ
    return StreamStanding(stream, status, leases, tuple(sorted(owners)), None if known is None else known.named_at)


def why_not_removed(standing: StreamStanding, settings: Settings, *, is_described: bool) -> str | None:
    """Why its leases must stay, and what to do; None if they may be removed. `is_described`: Kinesis describes the
    stream now, or gives no answer.
    """
    name, wait = standing.stream.stream, duration_text(settings.former_streams_wait)
    if standing.owners:
        return f"{standing.owners[0]} reads stream {name}: stop that worker first"
    match standing.status:
        case StreamStatus.LEFT:
            return None
        case StreamStatus.GONE | StreamStatus.READ if not is_described:
            return None
        case StreamStatus.GONE:
            return f"Kinesis describes stream {name}, or does not say whether it is there: nothing was removed"
        case StreamStatus.READ:
            return (
                f"a lease manager named stream {name} at {standing.named_at:%Y-%m-%dT%H:%M:%SZ}: take it out of the "
                f"setting streams, and wait until {wait} have passed since"
            )
        case StreamStatus.UNKNOWN:
            return (
                f"no lease manager of sublet has named stream {name}, so another program may read it. It is noted "
                f"now: if none has named it when {wait} have passed, it can be removed"
            )
