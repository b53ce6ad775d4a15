"""How fast a shard is read, from its row: sublet's own report, or else the throughput column of KCL 3.x.

Both stay in the row when their writer dies or releases the lease. So they count only while a worker still writes them.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from sublet.decisions.load.worst_shards import REPORTED_LATELY
from sublet.protocol.lease import Lease

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
