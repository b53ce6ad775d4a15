"""What share of a shard's quota is used, by the rows of the lease table: sublet's lag reports, or KCL 3's throughput column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sublet.protocol.lease import Lease
from sublet.protocol.shard import SHARD_BYTES, SHARD_RECORDS


def share_of_quota(bytes_per_second: float, records_per_second: float) -> float:
    return max(bytes_per_second / SHARD_BYTES, records_per_second / SHARD_RECORDS)


def read_shares(leases: Iterable[Lease]) -> Mapping[str, float]:
    """By shard id: an average of how fast it is read, which is more than is written while its reader catches up. Shards whose
    rows do not say are missing. KCL's column counts bytes only, in units of 1,000.
    """
    shares = {}
    for lease in leases:
        report = lease.lag_report
        if lease.is_ended:
            continue
        if report is not None and report.bytes_per_second is not None:
            shares[lease.shard_id] = share_of_quota(report.bytes_per_second, report.records_per_second or 0)
        elif lease.throughput_kbps is not None:
            shares[lease.shard_id] = share_of_quota(lease.throughput_kbps * 1000, 0)
    return shares
