"""How much of a shard's quota is used, from the lease table's rows: sublet's lag reports, or KCL 3's throughput
column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sublet.decisions.status.shard_status import ShardStatus
from sublet.protocol.shard import SHARD_BYTES, SHARD_RECORDS

HOT_ON_AVERAGE = 0.6
"""A shard whose average takes at least this share of its quota is hot: its worst seconds take more."""


def share_of_quota(bytes_per_second: float, records_per_second: float) -> float:
    return max(bytes_per_second / SHARD_BYTES, records_per_second / SHARD_RECORDS)


def read_shares(shards: Iterable[ShardStatus]) -> Mapping[str, float]:
    """Shares by shard id, averaged, of how fast each shard is read. That is more than is written while its reader
    catches up. Leaves out shards whose rows do not say it, and shards that no worker reads.
    """
    return {
        shard.shard_id: share_of_quota(shard.kbps * 1024, shard.records_per_second or 0)
        for shard in shards
        if shard.kbps is not None
    }
