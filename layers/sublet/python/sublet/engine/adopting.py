"""Knowing the stream: every look at an application's leases begins with whether they are of the stream that is read."""

from __future__ import annotations

from collections.abc import Sequence

from sublet.decisions.stream_adoption import Evidence, Suspect, other_stream, other_streams_lease, suspects
from sublet.errors import StreamAccessDenied
from sublet.ports import Ports
from sublet.protocol.lease import LeaseScan
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity


def check_stream(
    ports: Ports, application: str, known: StreamIdentity | None, scan: LeaseScan, shards: Sequence[Shard]
) -> None:
    """Raises StreamNotAdopted. The first look keeps the stream, unless the leases that are there already speak against it.

    A role that may not ask which stream it is (kinesis:DescribeStreamSummary) goes on without knowing.
    """
    try:
        found = ports.stream.identity()
    except StreamAccessDenied as denied:
        ports.log.warning("not known whether the leases are of this stream", problem=str(denied))
        return
    if known is None:
        for suspect in suspects(scan.leases, shards):
            if _is_foreign(suspect, ports):
                raise other_streams_lease(application, suspect, found)
        if ports.sightings.adopt(found, None):
            ports.log.info("the application's leases are of this stream from now on", stream=str(found))
            return
        known = ports.sightings.load().stream  # another tick's, of this moment
    if known is not None and not known.is_same_as(found):
        raise other_stream(application, known, found)


def adopt_stream(ports: Ports) -> None:
    """On an operator's word: from now on the leases are of the stream that is read, whatever they were of before."""
    found, known = ports.stream.identity(), ports.sightings.load().stream
    if ports.sightings.adopt(found, known):
        ports.log.warning(
            "stream adopted: the leases are taken for this one's", stream=str(found), instead_of=str(known)
        )


def _is_foreign(suspect: Suspect, ports: Ports) -> bool:
    return suspect.why is not Evidence.NOT_LISTED or not ports.stream.has_shard(suspect.lease.shard_id)
