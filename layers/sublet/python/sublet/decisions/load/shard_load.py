"""A shard's load: how fast it is read and how much of its limits is used, from the lease table's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct

from sublet.decisions.load.worst_shards import REPORTED_LATELY
from sublet.decisions.status.shard_status import ShardStatus
from sublet.protocol.lease import Lease
from sublet.protocol.shard import SHARD_BYTES, SHARD_RECORDS

KCLS_KB = 1024
"""Bytes in a KB of `throughputKBps` (KCL: LeaseStatsRecorder.BYTES_PER_KB)."""


class ReadingRate(Struct, frozen=True):
    """`records_per_second`: None if it is not known; KCL counts bytes only."""

    bytes_per_second: float
    records_per_second: float | None = None


def reading_rate(lease: Lease, now: datetime, *, is_owner_gone: bool) -> ReadingRate | None:
    """Returns None if the shard is read to its end, no worker reads it, or its row does not say how fast it is read."""
    if lease.is_ended or is_owner_gone:
        return None
    report = lease.lag_report
    if report is not None and report.bytes_per_second is not None and now - report.at < REPORTED_LATELY:
        return ReadingRate(report.bytes_per_second, report.records_per_second)
    if lease.throughput_kbps is None or lease.actual_owner is None:
        return None
    return ReadingRate(lease.throughput_kbps * KCLS_KB)


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
