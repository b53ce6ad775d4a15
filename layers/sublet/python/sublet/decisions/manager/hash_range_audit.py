"""Whether every partition key has a lease that delivers it: the leases' hash key ranges must be complete.

This is KCL's audit (PeriodicShardSyncManager). A lost child lease shows as a hole here long before records are missed.
"""

from __future__ import annotations

from collections.abc import Iterable

from sublet.protocol.lease import Lease
from sublet.protocol.shard import FULL_RANGE, HashKeyRange, Shard


def holes(leases: Iterable[Lease], shards: Iterable[Shard] = ()) -> tuple[HashKeyRange, ...]:
    """The hash keys that no unfinished lease covers, in ascending order.

    Overlaps are normal: a parent and its children have leases at the same time. A row without a hash key range (written
    by a KCL before 2.3) is looked up among `shards`; if it is not listed there either, it covers nothing.
    """
    listed = {shard.shard_id: shard.hash_key_range for shard in shards}
    ranges = (lease.hash_key_range or listed.get(lease.shard_id) for lease in leases if not lease.is_ended)
    return gaps(r for r in ranges if r is not None)


def gaps(ranges: Iterable[HashKeyRange]) -> tuple[HashKeyRange, ...]:
    """The parts of 0 to 2^128 - 1 that none of the ranges covers, in ascending order."""
    missing: list[HashKeyRange] = []
    expected = FULL_RANGE.starting
    for starting, ending in sorted(ranges):
        if starting > expected:
            missing.append(HashKeyRange(expected, starting - 1))
        expected = max(expected, ending + 1)
    if expected <= FULL_RANGE.ending:
        missing.append(HashKeyRange(expected, FULL_RANGE.ending))
    return tuple(missing)
