"""Whether an application's leases are of the stream that it reads.

To a lease table every stream is alike: shard ids repeat from stream to stream. On another stream's listing all leases look
orphaned and are deleted; in one that was created anew, a checkpoint of the old one may hide every record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from sublet.errors import StreamNotAdopted
from sublet.protocol.lease import Lease
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity


class Evidence(StrEnum):
    """What makes a lease look like another stream's."""

    NOT_LISTED = "not_listed"
    """Its shard is not. A suspicion only: ask the stream for the shard itself."""
    BEFORE_ITS_SHARD = "before_its_shard"
    """It is checkpointed at a sequence number below its shard's first: Kinesis' numbers rise with time."""


class Suspect(Struct, frozen=True):
    lease: Lease
    why: Evidence


def suspects(leases: Iterable[Lease], shards: Sequence[Shard]) -> tuple[Suspect, ...]:
    """Leases that may be another stream's, in a table that has not said yet whose they are: KCL's does not.

    `shards` is the full listing. An ended lease tells nothing: Kinesis forgets a closed shard before KCL its lease.
    """
    starts = {shard.shard_id: int(shard.starting_sequence_number) for shard in shards}
    found = []
    for lease in leases:
        if lease.is_ended:
            continue
        if lease.shard_id not in starts:
            found.append(Suspect(lease, Evidence.NOT_LISTED))
        elif (
            lease.checkpoint.is_sequence_number
            and int(lease.checkpoint.sequence_number) < starts[lease.shard_id]
        ):
            found.append(Suspect(lease, Evidence.BEFORE_ITS_SHARD))
    return tuple(found)


def has_strange_shards(leases: Collection[Lease], shards: Iterable[Shard]) -> bool:
    """Whether an open shard has neither a lease nor a parent with one, though others have: a stream that was created again begins
    with such shards. One of the same stream may have them too, when its parents' leases are gone, or are not there yet.
    """
    leased = {lease.shard_id for lease in leases}
    return bool(leased) and any(
        shard.is_open and shard.shard_id not in leased and leased.isdisjoint(shard.parent_shard_ids)
        for shard in shards
    )


def other_stream(application: str, known: StreamIdentity, found: StreamIdentity) -> StreamNotAdopted:
    return StreamNotAdopted(
        f"the leases of application {application} are of stream {known}; this is {found}. {_WHAT_TO_DO}"
    )


def other_streams_lease(application: str, suspect: Suspect, found: StreamIdentity) -> StreamNotAdopted:
    lease = suspect.lease
    because = (
        "the stream has no such shard"
        if suspect.why is Evidence.NOT_LISTED
        else f"its checkpoint {lease.checkpoint} is from before that shard began"
    )
    return StreamNotAdopted(
        f"lease {lease.lease_key} of application {application} is not of stream {found}: {because}. {_WHAT_TO_DO}"
    )


_WHAT_TO_DO = (
    "Check the settings application and stream. For a stream that was created anew, begin with a new application. If these "
    "leases are to go on on this stream, say so once: `sublet run --adopt`, or invoke the lease manager with "
    '{"prompt": "adopt"}'
)
