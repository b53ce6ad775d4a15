"""Checks that the leases belong to the stream that is read. The first look stores which one; an operator may change
that.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sublet.decisions.manager.describe_again import DescriptionDoubt, doubt_of, is_known
from sublet.decisions.manager.stream_adoption import (
    ForeignLeaseEvidence,
    SuspectLease,
    has_strange_shards,
    other_stream,
    other_streams_lease,
    suspects,
)
from sublet.errors import StreamAccessDenied
from sublet.ports import Ports, Remembered
from sublet.protocol.lease import LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_info import Placement
from sublet.reading.shared_description import shared_placement
from sublet.settings import Settings


def check_adoption(
    ports: Ports,
    settings: Settings,
    remembered: Remembered,
    scan: LeaseScan,
    shards: Sequence[Shard],
    now: datetime,
) -> Placement:
    """Returns what is known about how the stream places records. Raises StreamNotAdopted. The first look stores the
    stream as the leases' own, unless existing leases contradict it.

    If the role may not ask which stream it is (kinesis:DescribeStreamSummary), the tick goes on without knowing. `now`:
    by the lease table's clock.
    """
    found = suspects(scan.leases, shards)
    has_suspects = bool(found) or has_strange_shards(scan.leases, shards)
    doubt = doubt_of(remembered.placement, settings.stream, settings.stream_arn, has_suspects=has_suspects)
    try:
        if doubt is DescriptionDoubt.NONE:
            placement = shared_placement(ports.stream.describe, ports.sightings, ports.tasks.signal(), remembered, now)
            return _checked(ports, settings, remembered, placement, found)
        placement = remembered.placement
        if not is_known(placement, now, doubt):
            placement = placement.with_description(ports.stream.describe())
        placement = _checked(ports, settings, remembered, placement, found)
    except StreamAccessDenied as denied:
        ports.log.warning("unknown whether the leases belong to this stream", problem=str(denied))
        return remembered.placement
    if placement is not remembered.placement:
        ports.sightings.keep_placement(placement, now)
    return placement


def _checked(
    ports: Ports,
    settings: Settings,
    remembered: Remembered,
    placement: Placement,
    suspected: Sequence[SuspectLease],
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
    """An operator has ordered it: from now on the leases belong to the stream that is read, whichever stream they
    belonged to.
    """
    found, known = ports.stream.describe().identity, ports.sightings.load().stream
    if ports.sightings.adopt(found, known):
        ports.log.warning(
            "stream adopted: its leases are assumed to be this stream's", stream=str(found), instead_of=str(known)
        )


def is_foreign(suspect: SuspectLease, ports: Ports) -> bool:
    """Whether the lease belongs to another stream. Asks for the shard itself if it is not listed, since a listing may
    lag.
    """
    return suspect.why is not ForeignLeaseEvidence.NOT_LISTED or not ports.stream.has_shard(suspect.lease.shard_id)
