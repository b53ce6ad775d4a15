"""A tick's look at an application's leases, shards and sightings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import chain

from msgspec.structs import replace

from sublet.decisions.manager.liveness import ahead_by
from sublet.decisions.manager.tick_plan import TickLook
from sublet.decisions.streams.by_stream import by_stream, with_leases_of
from sublet.engine.control_watch import ControlWatch
from sublet.engine.manager.adoption import check_adoption
from sublet.engine.manager.several_streams import StreamWatch
from sublet.engine.manager.worker_reports import look_at_reports
from sublet.ports import Ports, Remembered
from sublet.protocol.lease import LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import Placement
from sublet.settings import Settings


def look(ports: Ports, settings: Settings, watch: ControlWatch) -> TickLook:
    """Reads leases before shards: a shard that appears in between has no lease yet, which is correct. Otherwise its
    lease would look like an orphan.

    Raises StreamNotAdopted: against another stream's shards every lease looks like an orphan.
    """
    scan = ports.table.scan()
    ahead = ahead_by(ports.clock.now(), scan.at)
    is_empty = not scan.leases and not scan.malformed
    shards = ports.stream.list_shards(at=settings.start_position if is_empty else None)
    remembered = ports.sightings.load()
    now = ports.clock.now() - ahead
    placement = check_adoption(ports, settings, remembered, scan, shards, now)
    return _look(scan, shards, remembered, placement, ahead, ports, settings, watch)


def look_at_several(ports: Ports, settings: Settings, watch: ControlWatch, streams: StreamWatch) -> TickLook:
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
) -> TickLook:
    """`ahead`: how far this clock is ahead of the lease table's."""
    reported = look_at_reports(scan, ports, settings)
    return TickLook(
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
