"""Whether an application's leases belong to the stream that it reads.

A lease table does not tell streams apart: shard ids repeat from stream to stream. Against another stream's listing all
leases look orphaned and are deleted; on a stream that was deleted and created again, an old checkpoint may hide every
record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from msgspec import Struct

from sublet.errors import StreamNotAdopted
from sublet.protocol.lease import Lease
from sublet.protocol.shard import Shard
from sublet.protocol.stream_identity import StreamIdentity


class ForeignLeaseEvidence(StrEnum):
    """What makes a lease look like another stream's."""

    NOT_LISTED = "not_listed"
    """Its shard is not listed. Only a suspicion: ask the stream for the shard itself."""
    BEFORE_ITS_SHARD = "before_its_shard"
    """Its checkpoint is below its shard's first sequence number: Kinesis' numbers rise with time."""
    REFUSED = "refused"
    """Kinesis does not accept its checkpoint for its shard."""


class SuspectLease(Struct, frozen=True):
    lease: Lease
    why: ForeignLeaseEvidence


def suspects(leases: Iterable[Lease], shards: Sequence[Shard]) -> tuple[SuspectLease, ...]:
    """Leases that may belong to another stream, in a table that does not record its stream yet: KCL's does not.

    `shards` is the full listing. An ended lease proves nothing: Kinesis forgets a closed shard before KCL deletes its
    lease.
    """
    starts = {shard.shard_id: int(shard.starting_sequence_number) for shard in shards}
    found = []
    for lease in leases:
        if lease.is_ended:
            continue
        if lease.shard_id not in starts:
            found.append(SuspectLease(lease, ForeignLeaseEvidence.NOT_LISTED))
        elif lease.checkpoint.is_sequence_number and int(lease.checkpoint.sequence_number) < starts[lease.shard_id]:
            found.append(SuspectLease(lease, ForeignLeaseEvidence.BEFORE_ITS_SHARD))
    return tuple(found)


def has_strange_shards(leases: Collection[Lease], shards: Iterable[Shard]) -> bool:
    """Whether an open shard has neither a lease nor a parent with one, though other shards have: a stream that was
    created again begins with such shards. The same stream may have them too, if its parents' leases are deleted or not
    created yet.
    """
    leased = {lease.shard_id for lease in leases}
    return bool(leased) and any(
        shard.is_open and shard.shard_id not in leased and leased.isdisjoint(shard.parent_shard_ids) for shard in shards
    )


def other_stream(application: str, known: StreamIdentity, found: StreamIdentity) -> StreamNotAdopted:
    return StreamNotAdopted(
        f"the leases of application {application} belong to stream {known}; this is {found}. {_WHAT_TO_DO}"
    )


def other_streams_lease(application: str, suspect: SuspectLease, found: StreamIdentity) -> StreamNotAdopted:
    lease = suspect.lease
    because = {
        ForeignLeaseEvidence.NOT_LISTED: "the stream has no such shard",
        ForeignLeaseEvidence.BEFORE_ITS_SHARD: f"its checkpoint {lease.checkpoint} is older than that shard",
        ForeignLeaseEvidence.REFUSED: f"the stream does not accept its checkpoint {lease.checkpoint}",
    }[suspect.why]
    return StreamNotAdopted(
        f"lease {lease.lease_key} of application {application} does not belong to stream {found}: {because}. "
        f"{_WHAT_TO_DO}"
    )


_WHAT_TO_DO = (
    "Check the settings application and stream. For a stream that was deleted and created again, use a new "
    "application. To continue with these leases on this stream, confirm it once: `sublet run --adopt`, or invoke the "
    "lease manager with "
    '{"prompt": "adopt"}'
)
