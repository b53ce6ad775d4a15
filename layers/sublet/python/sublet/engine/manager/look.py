"""Looks at an application's leases: for a tick, to see whether they belong to this stream, and for leases to resume."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain

from msgspec.structs import replace

from sublet.decisions.choose_leases import Choice, ClaimReason
from sublet.decisions.control import paused
from sublet.decisions.describing import Doubt, doubt_of, is_known
from sublet.decisions.liveness import ahead_by
from sublet.decisions.stream_adoption import (
    Evidence,
    Suspect,
    has_strange_shards,
    other_stream,
    other_streams_lease,
    suspects,
)
from sublet.decisions.stream_parts import by_stream, with_leases_of
from sublet.decisions.tick_plan import Look
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.announcing import look_at_reports
from sublet.engine.manager.stream_watch import StreamWatch
from sublet.errors import StreamAccessDenied, WorkerIdInUse
from sublet.ports import Ports, Remembered, Signal
from sublet.protocol.lease import Lease, LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import Placement
from sublet.settings import Settings
from sublet.shared_description import shared_placement


def look(ports: Ports, settings: Settings, watch: ControlWatch) -> Look:
    """Reads leases before shards: a shard that appears in between has no lease yet, which is correct. Otherwise its lease would
    look like an orphan.

    Raises StreamNotAdopted: against another stream's shards every lease looks like an orphan.
    """
    scan = ports.table.scan()
    ahead = ahead_by(ports.clock.now(), scan.at)
    is_empty = not scan.leases and not scan.malformed
    shards = ports.stream.list_shards(at=settings.start_position if is_empty else None)
    remembered = ports.sightings.load()
    now = ports.clock.now() - ahead
    placement = check_stream(ports, settings, remembered, scan, shards, now)
    return _look(scan, shards, remembered, placement, ahead, ports, settings, watch)


def look_at_several(ports: Ports, settings: Settings, watch: ControlWatch, streams: StreamWatch) -> Look:
    """The look of an application of several streams. No stream has to be adopted: each lease's key names its stream."""
    scan = ports.table.scan()
    ahead = ahead_by(ports.clock.now(), scan.at)
    remembered = ports.sightings.load()
    leased = frozenset(by_stream((lease.lease_key, lease) for lease in scan.leases))
    now = ports.clock.now() - ahead
    listed = streams.look(leased, remembered.streams, now)
    here, elsewhere = with_leases_of(scan, {each.stream for each in listed})
    auto_seen = [known.placement.auto_seen_at for known in remembered.streams.values()]
    placement = Placement(auto_seen_at=max(filter(None, auto_seen), default=None))
    shards = tuple(chain.from_iterable(each.shards for each in listed))
    found = _look(scan, shards, remembered, placement, ahead, ports, settings, watch)
    return replace(found, scan=here, streams=listed, elsewhere=elsewhere, known_streams=remembered.streams)


def _look(
    scan: LeaseScan,
    shards: Sequence[Shard],
    remembered: Remembered,
    placement: Placement,
    ahead: timedelta,
    ports: Ports,
    settings: Settings,
    watch: ControlWatch,
) -> Look:
    """`ahead`: how far this clock is ahead of the lease table's."""
    reported = look_at_reports(scan, ports, settings)
    return Look(
        scan=scan,
        shards=shards,
        sightings=remembered.sightings,
        at=ports.clock.now() - ahead,
        dispatched=remembered.dispatched,
        unread=remembered.unread,
        round=remembered.round,
        announced=remembered.announced,
        reports=reported.reports,
        client_version=reported.client_version,
        placement=placement,
        control=watch.look(),
    )


def check_stream(
    ports: Ports,
    settings: Settings,
    remembered: Remembered,
    scan: LeaseScan,
    shards: Sequence[Shard],
    now: datetime,
) -> Placement:
    """Returns what is known about how the stream places records. Raises StreamNotAdopted. The first look stores the stream as
    the leases' own, unless existing leases contradict it.

    If the role may not ask which stream it is (kinesis:DescribeStreamSummary), the tick goes on without knowing. `now`: by the
    lease table's clock.
    """
    found = suspects(scan.leases, shards)
    has_suspects = bool(found) or has_strange_shards(scan.leases, shards)
    doubt = doubt_of(remembered.placement, settings.stream, settings.stream_arn, has_suspects=has_suspects)
    try:
        if doubt is Doubt.NONE:
            placement = shared_placement(
                ports.stream.describe, ports.sightings, ports.tasks.signal(), remembered, now
            )
            return _checked(ports, settings, remembered, placement, found)
        placement = remembered.placement
        if not is_known(placement, now, doubt):
            placement = placement.with_description(ports.stream.describe())
        placement = _checked(ports, settings, remembered, placement, found)
    except StreamAccessDenied as denied:
        ports.log.warning("not known whether the leases belong to this stream", problem=str(denied))
        return remembered.placement
    if placement is not remembered.placement:
        ports.sightings.keep_placement(placement, now)
    return placement


def _checked(
    ports: Ports,
    settings: Settings,
    remembered: Remembered,
    placement: Placement,
    suspected: Sequence[Suspect],
) -> Placement:
    assert placement.last is not None
    known, found = remembered.stream, placement.last.identity
    if known is None:
        for suspect in suspected:
            if is_foreign(suspect, ports):
                raise other_streams_lease(settings.application, suspect, found)
        if ports.sightings.adopt(found, None):
            ports.log.info("the application's leases belong to this stream from now on", stream=str(found))
            return placement
        known = ports.sightings.load().stream  # another tick has just stored it
    if known is not None and not known.is_same_as(found):
        raise other_stream(settings.application, known, found)
    return placement


def adopt_stream(ports: Ports) -> None:
    """An operator has ordered it: from now on the leases belong to the stream that is read, whichever stream they belonged to."""
    found, known = ports.stream.describe().identity, ports.sightings.load().stream
    if ports.sightings.adopt(found, known):
        ports.log.warning(
            "stream adopted: the leases are taken for this one's", stream=str(found), instead_of=str(known)
        )


def is_foreign(suspect: Suspect, ports: Ports) -> bool:
    """Whether the lease belongs to another stream. Asks for the shard itself if it is not listed, since a listing may lag."""
    return suspect.why is not Evidence.NOT_LISTED or not ports.stream.has_shard(suspect.lease.shard_id)


LATE = timedelta(seconds=1)
"""A heartbeat that is this late still shows that its owner lives."""


def resume(ports: Ports, settings: Settings, stop: Signal, watch: ControlWatch) -> tuple[Choice, ...]:
    """Claims on the leases that an earlier run under this process's own worker id left behind, except for paused ones. Writes
    nothing.

    Only this process can tell such a lease from a live one before failover_time is over: it knows that it has not acquired it. If
    the lease's counter stands still for a heartbeat's time, its owner is gone. If it moves, another process uses the same id, and
    the two would take each other's leases for their own. Empty if there is nothing to resume, or `stop` is set.

    Raises WorkerIdInUse, StreamNotAdopted, and what LeaseTable and Stream raise.
    """
    worker_id = settings.worker_id
    if worker_id is None:
        return ()
    if ports.streams is None:
        seen = look(ports, settings, watch)
        stopped, leases = paused(seen.control, seen.scan.leases, seen.at), seen.scan.leases
    else:
        leases = ports.table.scan().leases
        stopped = watch.pauses(leases)
    theirs = [lease.lease_key for lease in leases if _is_held_by(lease, worker_id)]
    keys = [lease_key for lease_key in theirs if lease_key not in stopped]
    before = _rows_of(keys, worker_id, ports)
    if not before or stop.wait(settings.heartbeat_interval + LATE):
        return ()
    after = _rows_of(list(before), worker_id, ports)
    moved = sorted(key for key, lease in after.items() if lease.fence != before[key].fence)
    if moved:
        raise WorkerIdInUse(
            f"worker id {worker_id} is in use: lease {moved[0]} of it is being heartbeaten, though not by this process; "
            "stop the other process, or give this one a worker_id of its own (by default each start has)"
        )
    return tuple(Choice(lease, worker_id, ClaimReason.EXPIRED) for lease in after.values())


def _rows_of(keys: list[str], worker_id: str, ports: Ports) -> dict[str, Lease]:
    """Reads the rows now: a scan may be seconds old, and two scans could make a lease seem to move."""
    rows = {key: ports.table.get(key) for key in keys}
    return {key: row for key, row in rows.items() if isinstance(row, Lease) and _is_held_by(row, worker_id)}


def _is_held_by(lease: Lease, worker_id: str) -> bool:
    return lease.lease_owner == worker_id and lease.checkpoint_owner is None and not lease.is_ended
